"""The best of all bounds, and what it allows."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from keyveil.errors import BudgetError
from keyveil.mechanisms import Mechanism
from keyveil.numerics import epsilon_above
from keyveil.shuffle.blanket import blanket_delta, blanket_of, by_blanket
from keyveil.shuffle.clones import by_clones, clones_delta, closed_form
from keyveil.shuffle.smallest import DELTA, PRECISION

# Local epsilons are looked for in steps of this part of one.
STEPS = 64


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
    local, blanket = epsilon_above(mechanism.loss), blanket_of(mechanism)
    return Shuffled(
        users=users,
        delta=delta,
        local=local,
        closed_form=closed_form(local, users, delta),
        by_clones=by_clones(local, users, delta),
        by_blanket=None if blanket is None else by_blanket(blanket, users, delta),
    )


def keeps(mechanism: Mechanism, users: int, central: float, delta: float) -> bool:
    """Whether the best bound is at most `central`; asked at one epsilon, a little below, so surely then."""
    local, blanket = epsilon_above(mechanism.loss), blanket_of(mechanism)
    if local <= central:
        return True
    at = central / (1 + 4 * PRECISION)
    return clones_delta(local, users, at) <= delta or (
        blanket is not None and blanket_delta(blanket, users, at) <= delta
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
    3.96875
    """
    if not central > 0:
        raise BudgetError(f"the central epsilon must be positive, got {central:g}")

    def holds(steps: int) -> bool:
        return keeps(build(steps / STEPS), users, central, delta)

    fits, fails = 0, math.floor(Fraction(at_most) * STEPS) + 1
    while fails - fits > 1:
        middle = (fits + fails) // 2
        fits, fails = (middle, fails) if holds(middle) else (fits, middle)
    return fits / STEPS if fits else None


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
