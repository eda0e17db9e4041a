"""Plans where a relay hides reports: the local epsilon follows from what is promised centrally.

Every candidate is asked at the largest local epsilon that its own kernel allows, beside what it would say at
the central epsilon without a relay.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

from keyveil.campaign import HONEST, REQUIRED
from keyveil.errors import BudgetError, PlanError
from keyveil.mechanisms import Bucket
from keyveil.shuffle import Allowance, Promise, keeps

# A plan asks nobody at more than this, nor takes longer batches to be possible.
LARGEST_LOCAL, MOST_HIDDEN = 12.0, 10**9
# Of those who are expected, the part that a batch waits for.
WHO_COME = Fraction(4, 5)


class Central(NamedTuple):
    """What is promised: an epsilon at a delta, in batches of so many, of which a share is honest.

    >>> central = Central(epsilon=1.0, delta=1e-8)
    >>> central.promise(100_000).hidden(Fraction(1)), central.users_for(6.5)
    (40000, 41240)
    """

    epsilon: float
    delta: float
    batch: int | None = None
    """Four fifths of the users where nothing is said: not all of them answer, and a batch that is never full
    is thrown away."""
    honest: float = HONEST

    def checked(self) -> Central:
        """Itself, if it can be promised at all."""
        if not 0 < self.epsilon <= LARGEST_LOCAL:
            raise BudgetError(
                f"the central epsilon must be above 0 and up to {LARGEST_LOCAL:g}, got {self.epsilon:g}"
            )
        if not 0 < self.delta < 1:
            raise BudgetError(f"delta must lie between 0 and 1, got {self.delta:g}")
        if self.batch is not None and self.batch < 2:
            raise BudgetError(f"a batch holds at least 2 reports, got {self.batch}")
        if not 0 < self.honest <= 1:
            raise BudgetError(f"the honest share must be above 0 and up to 1, got {self.honest:g}")
        return self

    def promise(self, users: int) -> Promise:
        """The same in numbers, for so many users."""
        batch = math.floor(users * WHO_COME) if self.batch is None else self.batch
        return Promise(self.epsilon, self.delta, max(2, batch), self.honest)

    def allowance(self, users: int, at_most: float | None = None) -> Allowance:
        """What everybody may be asked; refuses batches that are never full."""
        if self.batch is not None and self.batch > users:
            raise PlanError(f"{users:,} users never fill a batch of {self.batch:,}; lower the batch")
        return self.promise(users).allowance(Fraction(1), Fraction(str(at_most or LARGEST_LOCAL)))

    def users_for(self, epsilon: float) -> int:
        """The fewest users of whom a batch is among whom `bucket` may be asked at a local epsilon."""
        mechanism = Bucket.for_epsilon(epsilon, n_keys=1)
        low, high = 1, MOST_HIDDEN
        if not keeps(mechanism, high, self.epsilon, self.delta):
            raise PlanError(f"no batch hides answers of epsilon {epsilon:g} down to {self.epsilon:g}")
        while high - low > max(1, high // 2000):
            middle = math.isqrt(low * high) if high > 2 * low else (low + high) // 2
            kept = middle > 1 and keeps(mechanism, middle, self.epsilon, self.delta)
            low, high = (low, middle) if kept else (max(middle, low + 1), high)
        return math.ceil(high / Fraction(str(self.honest)) / WHO_COME)

    def fewest_users(self, error_with: Callable[[int], float], error: float, most: int) -> int:
        """The fewest users, to a hundredth, who reach an error at what hides among them."""
        low = high = min(1000, most)
        while error_with(high) > error:
            if high >= most:
                raise PlanError(f"not even {most:,} users reach an error of {error:g} with such batches")
            low, high = high, min(4 * high, most)
        low = 1 if low == high else low
        while high - low > max(1, high // 100):
            middle = max(low + 1, round(math.sqrt(low * high)))
            low, high = (middle, high) if error_with(middle) > error else (low, middle)
        return high

    def to_campaign(self, users: int) -> dict[str, Any]:
        """What a campaign says of it."""
        promise = self.promise(users)
        return {
            "relay": REQUIRED,
            "batch": promise.batch,
            "central_epsilon": promise.central,
            "delta": promise.delta,
            "honest": promise.honest,
        }

    def to_fields(self, users: int, local: float) -> dict[str, Any]:
        """For JSON."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "batch": self.promise(users).batch,
            "honest": self.honest,
            "local_epsilon": local,
        }
