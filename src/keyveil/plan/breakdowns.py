"""What a breakdown will show before it is asked: what segments cost, and the smallest lift that is seen.

With S segments of n / S users each, V(l) the noise of one report of l pairs by `bucket`, and F = f (1 - f)
what the draw of people adds, the variance is

    no segments         (V(l) + F) / n
    clear, a segment    S (V(l) + F) / n               fewer users, the same noise
    private, a segment  S (S V(l + 1) + F) / n         everybody's noise, divided by a share of 1 / S
    private, the whole  (S V(l + 1) + F) / n           a sum of S cells

so a private segment has sqrt(S) times the noise of a clear one, and the whole pays as much. A pair of keys
has two of l**2 codes at most; the error of the keys' own shares is left out, and a lift is seen where f_ab
lies further from f_a f_b than chance brings any of all pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from keyveil.domain import MOST_PAIRED_KEYS
from keyveil.errors import PlanError
from keyveil.estimate.breakdowns import FALSE_ALARMS
from keyveil.estimate.intervals import POWER
from keyveil.mechanisms import Bucket, Moments


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakdownPlan:
    """A question about keys that is broken down, with frequencies wanted best.

    >>> plan = BreakdownPlan(users=100_000, n_keys=50, epsilon=2.0, pairs_per_user=4)
    >>> [round(error, 4) for error in (plan.whole(0.1), plan.clear(0.1, 4), plan.private(0.1, 4))]
    [0.0065, 0.0129, 0.0263]
    """

    users: int
    n_keys: int
    epsilon: float
    pairs_per_user: int = 1
    false_alarms: float = FALSE_ALARMS

    def whole(self, frequency: float) -> float:
        """The standard error where there are no segments."""
        return math.sqrt(self._noise(self._moments(self.n_keys, self.pairs_per_user), frequency, 1.0))

    def clear(self, frequency: float, segments: int) -> float:
        """Of a segment whose label is in the clear."""
        return self.whole(frequency) * math.sqrt(segments)

    def private(self, frequency: float, segments: int) -> float:
        """Of a segment whose label is hidden in the answer."""
        moments = self._by_segment(segments)
        return segments * math.sqrt(self._noise(moments, frequency / segments, 1.0))

    def private_whole(self, frequency: float, segments: int) -> float:
        """Of all users where labels are hidden: the sum of the segments."""
        moments = self._by_segment(segments)
        noise = self._noise(moments, frequency / segments, 0.0) * segments
        return math.sqrt(noise + frequency * (1 - frequency) / self.users)

    def smallest_difference(self, error: float, segments: int) -> float:
        """The difference from the whole that is seen with a chance of 90 %, given a segment's error."""
        z = self._z(self.n_keys * segments)
        return z * error * math.sqrt(1 - 1 / segments)

    def smallest_lift(self, first: float, second: float, *, means: bool = False) -> float:
        """The lift above 1 that is surely seen, with a chance of 90 %, of two keys as frequent as this.

        All pairs of the keys are looked at together. `means` says whether those of pairs are wanted.

        >>> plan = BreakdownPlan(users=300_000, n_keys=30, epsilon=4.0, pairs_per_user=4)
        >>> round(plan.smallest_lift(0.2, 0.2), 2), round(plan.smallest_lift(0.2, 0.2, means=True), 2)
        (1.27, 1.32)
        """
        if not 2 <= self.n_keys <= MOST_PAIRED_KEYS:
            raise PlanError(f"pairs are asked about of 2 to {MOST_PAIRED_KEYS} keys, got {self.n_keys}")
        moments, chance = self._of_pairs(means), first * second
        error = math.sqrt(self._noise(moments, chance, 1.0, looks=2))
        return 1 + self._z(self.n_keys * (self.n_keys - 1) // 2) * error / chance

    def _z(self, statements: int) -> float:
        alarm = -NormalDist().inv_cdf(self.false_alarms / (2 * statements))
        return alarm + NormalDist().inv_cdf(POWER)

    def _moments(self, n_keys: int, length: int, rho: float = 1.0) -> Moments:
        made = Bucket.for_epsilon(self.epsilon, n_keys=n_keys, pairs_per_user=min(length, n_keys), rho=rho)
        return made.moments

    def _by_segment(self, segments: int) -> Moments:
        if segments < 2:
            raise PlanError(f"a breakdown has two segments or more, got {segments}")
        return self._moments(segments * (self.n_keys + 1), self.pairs_per_user + 1)

    def _of_pairs(self, means: bool) -> Moments:
        # Keys, and every two of them with the value of either, are the square of the record.
        return self._moments(self.n_keys**2, self.pairs_per_user**2, 0.0 if means else 1.0)

    def _noise(self, moments: Moments, frequency: float, drawn: float, looks: int = 1) -> float:
        own = float(moments.covariance(frequency, 0.0, self.users).frequency) / looks
        # What two looks at one share have in common.
        common = moments.together * frequency / self.users * (1 - 1 / looks)
        return own - common + drawn * frequency * (1 - frequency) / self.users
