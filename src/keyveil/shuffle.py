"""What remains of epsilon when reports lose their sender: amplification by shuffling.

Where somebody trusted strips names, addresses and order from n reports before the collector sees them,
a report hides among the others. What the collector then learns of one user is bounded by a central
(epsilon, delta), far below the local epsilon of the report. Three bounds, each safe, in ascending
knowledge of the mechanism:

    closed_form   any mechanism of local epsilon0; one line, needs epsilon0 <= ln(n / (16 ln(4/delta)))
    by_clones     any mechanism of local epsilon0; with chance e**-epsilon0 each other user's report is as
                  good as a clone of this one's. The two laws to be distinguished are
                      (A + D, C - A + 1 - D)  and  (A + 1 - D, C - A + D),
                      C ~ Bin(n - 1, e**-epsilon0),  A ~ Bin(C, 1/2),  D ~ Bernoulli(E / (E + 1)),
                  and their hockey-stick divergence is summed exactly, C by C
    by_blanket    `bucket` of one pair a user: a report is, with chance gamma = g low, a uniform bucket that
                  says nothing. With L the advantage (P(y) - e**epsilon P'(y)) / (1/g) of a uniform bucket y,
                      delta = E[(L_1 + ... + L_M)+] / (gamma n),    M ~ Bin(n, gamma).
                  L takes four values; they are split between the two nearest points of a grid so that their
                  mean stays, which only spreads them and so only raises delta. One FFT gives the sum's law.

Nothing here is promised by this software alone: it collects reports with their connections, and whoever
runs the collector sees both. A hash's cohort must travel inside the shuffled report (it does), and a
user who reports twice is not protected by these numbers once but twice.

[FMT] Feldman, McMillan, Talwar: Hiding Among the Clones, FOCS 2021; the closed form is the one of their
published code, a little above Theorem 3.1 (0.538 against 0.535 at n = 10**5, epsilon0 = 4, delta = 10**-6).
[Blanket] Balle, Bell, Gascon, Nissim: The Privacy Blanket of the Shuffle Model, CRYPTO 2019, Lemma 5.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.errors import BudgetError
from keyveil.mechanisms import Bucket, Mechanism
from keyveil.numerics import epsilon_above

Floats = NDArray[np.float64]

DELTA = 1e-6

# Chance that is given away outside the ranges that are summed; it is added to delta.
_CUT = 1e-15
# Local epsilons are looked for in steps of this part of one.
_STEPS = 64
# The search ends when epsilon is known to this part of itself; the upper end is returned.
_PRECISION = 1e-5


class Shuffled(NamedTuple):
    """Central epsilons at one delta; None where a bound says nothing."""

    users: int
    delta: float
    local: float
    closed_form: float | None
    by_clones: float
    by_blanket: float | None

    @property
    def best(self) -> float:
        """The smallest of them."""
        known = (self.closed_form, self.by_clones, self.by_blanket, self.local)
        return min(bound for bound in known if bound is not None)


def shuffled(mechanism: Mechanism, users: int, delta: float = DELTA) -> Shuffled:
    """Every bound that holds for a mechanism whose reports are shuffled among `users`.

    >>> from keyveil.mechanisms import build
    >>> round(shuffled(build("bucket", 1, n_keys=100), 100_000).best, 4)
    0.0084
    """
    local = epsilon_above(mechanism.loss)
    # A single pair is what the advantage is computed for.
    blanket = None
    if isinstance(mechanism, Bucket) and mechanism.pairs_per_user == 1 and mechanism.tie == 0:
        blanket = by_blanket(mechanism, users, delta)
    return Shuffled(
        users=users,
        delta=delta,
        local=local,
        closed_form=closed_form(local, users, delta),
        by_clones=by_clones(local, users, delta),
        by_blanket=blanket,
    )


def largest_local(
    build: Callable[[float], Mechanism],
    users: int,
    central: float,
    delta: float = DELTA,
    at_most: float = 10,
) -> float | None:
    """The largest multiple of 1/64 up to `at_most` at which what remains is at most `central`; often none.

    By halving: a larger epsilon is taken to leave more. What is returned was checked itself, whatever
    the bounds do in between.

    >>> from keyveil.mechanisms import build
    >>> largest_local(lambda epsilon: build("kvue", epsilon, n_keys=9), 10_000, 0.5, 1e-8)
    3.328125
    """
    if not central > 0:
        raise BudgetError(f"the central epsilon must be positive, got {central:g}")

    def holds(steps: int) -> bool:
        return shuffled(build(steps / _STEPS), users, delta).best <= central

    fits, fails = 0, math.floor(Fraction(at_most) * _STEPS) + 1
    while fails - fits > 1:
        middle = (fits + fails) // 2
        fits, fails = (middle, fails) if holds(middle) else (fits, middle)
    return fits / _STEPS if fits else None


def hiding(batch: int, honest: float) -> int:
    """How many honest reports a batch holds, the one that hides among them: floor(batch * honest).

    The share is the decimal number that it is written as: 0.29 of 100 is 29, though the nearest float
    lies below it. The one that hides is counted as one of the honest, never beside them, so the bounds
    count one fewer other.

    >>> hiding(100, 0.29), hiding(105_508, 0.5)
    (29, 52754)
    """
    if batch < 0 or not 0 <= honest <= 1:
        raise BudgetError(f"expected a batch and a share between 0 and 1, got {batch} and {honest:g}")
    return math.floor(batch * Fraction(str(honest)))


def closed_form(local: float, users: int, delta: float = DELTA) -> float | None:
    """The published closed form; None where the local epsilon is too large for it.

    >>> round(closed_form(4, 100_000), 3), closed_form(9, 100_000)
    (0.538, None)
    """
    _check(local, users, delta)
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
    _check(local, users, delta)
    return _smallest(lambda epsilon: clones_delta(local, users, epsilon), local, delta)


def clones_delta(local: float, users: int, epsilon: float) -> float:
    """The divergence at `epsilon` of what n - 1 possible clones leave to tell apart; an upper bound."""
    from scipy.stats import binom

    p = 1 / (1 + math.exp(-local))
    low, high = binom.ppf((_CUT, 1 - _CUT), users - 1, math.exp(-local))
    clones = np.arange(max(low, 0), min(high, users - 1) + 1)
    weight = binom.pmf(clones, users - 1, math.exp(-local))
    grown = math.exp(epsilon)
    odds_left, kept = p - grown * (1 - p), grown * p - (1 - p)
    if odds_left <= 0:
        return 2 * _CUT
    # The first law is ahead where a / (c + 1 - a) > kept / odds_left.
    ahead = np.floor((clones + 1) * kept / (kept + odds_left)) + 1
    with_own, without = binom.sf(ahead - 2, clones, 0.5), binom.sf(ahead - 1, clones, 0.5)
    first, second = p * with_own + (1 - p) * without, (1 - p) * with_own + p * without
    return float(weight @ np.maximum(first - grown * second, 0.0)) + 2 * _CUT


def by_blanket(mechanism: Bucket, users: int, delta: float = DELTA) -> float:
    """The smallest epsilon, to four digits, that the blanket of `bucket` gives; for one pair a user."""
    local = epsilon_above(mechanism.loss)
    _check(local, users, delta)
    # The clones hold for every mechanism, so there is no need to look above them.
    at_most = by_clones(local, users, delta)
    return _smallest(lambda epsilon: blanket_delta(mechanism, users, epsilon), at_most, delta)


def blanket_delta(mechanism: Bucket, users: int, epsilon: float) -> float:
    """E[(sum of M advantages)+] / (gamma n) on a grid; an upper bound."""
    from scipy.fft import irfft, next_fast_len, rfft

    values, chances = advantages(mechanism, epsilon)
    gamma = mechanism.buckets * _least(mechanism)
    one_spread = math.sqrt(float(chances @ values**2))
    spread = one_spread * math.sqrt(gamma * users)
    reach = max(9 * spread, 40 * float(np.abs(values).max()))
    # Splitting adds step**2 / 4 to a variance at most: a part in ten thousand.
    step = max(0.02 * one_spread, spread / 100_000)
    # Nothing is lost by a grid that holds the mean and nine deviations either side of it and of 0.
    mean = float(chances @ values) * gamma * users
    size = next_fast_len(int((2 * reach + 2 * abs(mean)) / step) + 1)
    one = np.zeros(size)
    for value, chance in zip(values, chances, strict=True):
        below, part = divmod(value / step, 1.0)
        one[int(below) % size] += chance * (1 - part)
        one[int(below + 1) % size] += chance * part
    many = irfft((1 - gamma + gamma * rfft(one)) ** users, size)
    place = np.arange(size)
    total = np.where(place < size // 2, place, place - size) * step
    return float(np.maximum(total, 0.0) @ np.maximum(many, 0.0)) / (gamma * users) + _CUT


def _least(mechanism: Bucket) -> float:
    """The least chance that any row of one pair gives a bucket."""
    own, g = mechanism.own(1), mechanism.buckets
    return (mechanism.words - own) // (g - 1) / mechanism.words


def advantages(mechanism: Bucket, epsilon: float) -> tuple[Floats, Floats]:
    """What a uniform bucket speaks for one pair and against another, and with which chances.

    Both pairs' buckets are drawn by the hash, so they are one with chance 1/g (ideal hashing; 65,536
    cohorts miss that by a part in a hundred at most).
    """
    g, own = mechanism.buckets, mechanism.own(1) / mechanism.words
    other, grown = (1 - own) / (g - 1), math.exp(epsilon)
    values = g * np.array([own * (1 - grown), own - grown * other, other - grown * own, other * (1 - grown)])
    both, one = 1 / g**2, (1 - 1 / g) / g
    return values, np.array([both, one, one, 1 - both - 2 * one])


def _smallest(delta_at: Callable[[float], float], local: float, delta: float) -> float:
    """The epsilon below which `delta_at` exceeds delta, from above."""
    from scipy.optimize import brentq

    def excess(epsilon: float) -> float:
        return math.log(delta_at(epsilon) / delta)

    low = local * 1e-6
    if excess(low) <= 0:
        return low
    if excess(local) > 0:
        return local
    return min(local, (1 + 2 * _PRECISION) * float(brentq(excess, low, local, rtol=_PRECISION)))


def _check(local: float, users: int, delta: float) -> None:
    if not 0 < local < math.inf:
        raise BudgetError(f"the local epsilon must be positive and finite, got {local:g}")
    if users < 2:
        raise BudgetError(f"nobody hides among {users} reports; expected two users or more")
    if not 0 < delta < 1:
        raise BudgetError(f"delta must lie between 0 and 1, got {delta:g}")
