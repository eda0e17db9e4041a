"""Any mechanism of local epsilon0: with chance e**-epsilon0 another user's report is a clone of this one's.

The two laws to be distinguished are

    (A + D, C - A + 1 - D)  and  (A + 1 - D, C - A + D),
    C ~ Bin(n - 1, e**-epsilon0),  A ~ Bin(C, 1/2),  D ~ Bernoulli(E / (E + 1)),

and their hockey-stick divergence is summed exactly, C by C.

[FMT] Feldman, McMillan, Talwar: Hiding Among the Clones, FOCS 2021; the closed form is the one of their
published code, a little above Theorem 3.1 (0.538 against 0.535 at n = 10**5, epsilon0 = 4, delta = 10**-6).
"""

from __future__ import annotations

import math

import numpy as np

from keyveil.shuffle.smallest import CUT, DELTA, check, smallest


def closed_form(local: float, users: int, delta: float = DELTA) -> float | None:
    """The published closed form; None where the local epsilon is too large for it.

    >>> round(closed_form(4, 100_000, 1e-6), 3), closed_form(9, 100_000, 1e-6)
    (0.538, None)
    """
    check(local, users, delta)
    if local > math.log(users / (16 * math.log(4 / delta))):
        return None
    E = math.exp(local)
    reach = 8 * math.sqrt(E * math.log(4 / delta) / users) + 8 * E / users
    return math.log1p((1 - 1 / E) / (1 + 1 / (E * (1 + reach))) * reach)


def by_clones(local: float, users: int, delta: float = DELTA) -> float:
    """The smallest epsilon, to four digits, at which the clones' divergence is at most delta.

    >>> round(by_clones(4, 100_000), 2)
    0.17
    """
    check(local, users, delta)
    return smallest(lambda epsilon: clones_delta(local, users, epsilon), local, delta)


def clones_delta(local: float, users: int, epsilon: float) -> float:
    """The divergence at `epsilon` of what n - 1 possible clones leave to tell apart; an upper bound."""
    from scipy.stats import binom

    p = 1 / (1 + math.exp(-local))
    low, high = binom.ppf((CUT, 1 - CUT), users - 1, math.exp(-local))
    clones = np.arange(max(low, 0), min(high, users - 1) + 1)
    weight = binom.pmf(clones, users - 1, math.exp(-local))
    grown = math.exp(epsilon)
    odds_left, kept = p - grown * (1 - p), grown * p - (1 - p)
    if odds_left <= 0:
        return 2 * CUT
    # The first law is ahead where a / (c + 1 - a) > kept / odds_left.
    ahead = np.floor((clones + 1) * kept / (kept + odds_left)) + 1
    with_own, without = binom.sf(ahead - 2, clones, 0.5), binom.sf(ahead - 1, clones, 0.5)
    first, second = p * with_own + (1 - p) * without, (1 - p) * with_own + p * without
    return float(weight @ np.maximum(first - grown * second, 0.0)) + 2 * CUT
