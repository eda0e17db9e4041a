"""What a central promise leaves each group of people to tell: the largest local epsilon that keeps it.

A group that is asked by itself has batches of its own, as much smaller as it is, and nobody hides among those
who were asked something else. So a small group tells less, at an epsilon of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple, TypeVar

from keyveil.campaign import share_of_batch
from keyveil.mechanisms import Mechanism
from keyveil.shuffle.best import STEPS, hiding, keeps

Made = TypeVar("Made", bound=Mechanism)
# An instance at an epsilon.
Make = Callable[[Fraction], Made]


class Promise(NamedTuple):
    """At most `central` at `delta`, where `honest` of every batch is, and everybody answers once.

    >>> from keyveil.mechanisms import build
    >>> promise = Promise(central=1.0, delta=1e-8, batch=100_000, honest=0.5)
    >>> promise.hidden(Fraction(3, 100))
    1500
    >>> allowed = promise.allowance(Fraction(1), Fraction(8))
    >>> round(float(allowed(lambda epsilon: build("bucket", epsilon, n_keys=50)).loss))
    1986
    """

    central: float
    delta: float
    batch: int
    honest: float

    def hidden(self, share: Fraction) -> int:
        """Among how many honest reports one of a group with this share of the users hides."""
        return hiding(share_of_batch(self.batch, share), self.honest)

    def allowance(self, share: Fraction, at_most: Fraction) -> Allowance:
        """What may be asked of a group with this share of the users, at no more than an epsilon."""
        return Allowance(self, share, at_most)


class Allowance:
    """Makes instances at the largest epsilon that keeps a promise.

    That is `at_most` itself, or a multiple of 1/64, or the central epsilon, which a report keeps by itself.
    """

    def __init__(self, promise: Promise, share: Fraction, at_most: Fraction) -> None:
        self._promise, self._at_most = promise, at_most
        self._hidden = promise.hidden(share)
        # Where one shape of a mechanism ends the next one often does, too.
        self._guess = 0

    def __call__(self, make: Make[Made]) -> Made:
        """The instance."""
        least = min(self._at_most, Fraction(str(self._promise.central)))
        if self._hidden < 2:
            return make(least)
        if self._keeps(made := make(self._at_most)):
            return made
        low, high = math.floor(least * STEPS), math.ceil(self._at_most * STEPS)
        if low < self._guess < high - 1:
            low, high = self._around(make, low, high)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._keeps(make(Fraction(middle, STEPS))) else (low, middle)
        self._guess = low
        return make(max(least, Fraction(low, STEPS)))

    def _around(self, make: Make[Made], low: int, high: int) -> tuple[int, int]:
        """Narrower ends, by the guess and its neighbour."""
        if not self._keeps(make(Fraction(self._guess, STEPS))):
            return low, self._guess
        if not self._keeps(make(Fraction(self._guess + 1, STEPS))):
            return self._guess, self._guess + 1
        return self._guess + 1, high

    def _keeps(self, mechanism: Mechanism) -> bool:
        return keeps(mechanism, self._hidden, self._promise.central, self._promise.delta)
