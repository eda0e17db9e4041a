"""What a series will show before it is asked: the smallest change that is seen, and how many answers to give.

A device answers in `answers` of `waves` waves, each time at epsilon / answers: that is what the whole
series may give away. A wave then hears devices * answers / waves of them.

One answer with all of epsilon beats several. With V(e) the noise of one report at e, a wave's variance is

    waves / (devices answers) * (V(epsilon / answers) + f (1 - f)),

and at small epsilon V falls with its square: as many times as there are more answers, V grows by the square
of that. The draw's part f (1 - f) alone shrinks with more answers; so at a large epsilon, where noise is no
more than the draw, several can win. `best_answers` compares.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import NormalDist

from keyveil.errors import PlanError
from keyveil.estimate.intervals import POWER
from keyveil.estimate.series import FALSE_ALARMS, alarm_level
from keyveil.estimate.sizes import SizeLaw
from keyveil.plan.crowd import Crowd
from keyveil.plan.predict import candidates

MOST_ANSWERS, MOST_WAVES, LARGEST_EPSILON = 12, 400, 12.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPlan:
    """A series of one question, one pair a device or more.

    >>> plan = SeriesPlan(devices=100_000, n_keys=50, epsilon=2.0, waves=26)
    >>> round(plan.standard_error(0.2), 4), round(plan.smoothed_error(0.2), 4)
    (0.0167, 0.0033)
    >>> [round(plan.smallest_change(f), 3) for f in (0.2, 0.05, 0.01)]
    [0.035, 0.031, 0.029]
    """

    devices: int
    n_keys: int
    epsilon: float
    """What the whole series costs a person at most."""
    waves: int
    answers: int = 1
    law: SizeLaw = field(default_factory=lambda: SizeLaw.exactly(1))
    false_alarms: float = FALSE_ALARMS

    def __post_init__(self) -> None:
        if self.waves < 2 or not 1 <= self.answers <= self.waves:
            raise PlanError(
                f"a series has two waves or more, and a device answers in one of them or more, got "
                f"{self.answers} of {self.waves}"
            )

    @property
    def users_a_wave(self) -> int:
        """How many devices one wave hears."""
        return max(1, self.devices * self.answers // self.waves)

    @property
    def epsilon_of_answer(self) -> float:
        """What one answer may give away."""
        return self.epsilon / self.answers

    def standard_error(self, frequency: float) -> float:
        """Of one wave, at this frequency: the noise of the best mechanism, and the draw of who answers.

        Both are those that `Observations.of_frequencies` counts.
        """
        crowd = Crowd(users=self.users_a_wave, n_keys=self.n_keys, law=self.law)
        best = candidates(self.epsilon_of_answer, crowd, want="frequency", at=None)[0]
        noise = float(best.moments.covariance(frequency, 0.0, best.asked(self.users_a_wave)).frequency)
        drawn = 0.0 if best.moments.drawn else frequency * (1 - frequency) / self.users_a_wave
        return math.sqrt(noise + drawn)

    def smoothed_error(self, frequency: float) -> float:
        """Of a level that stays, once smoothed: a little more, for nobody knows that it stays."""
        return self.standard_error(frequency) / math.sqrt(self.waves)

    def smallest_change(self, frequency: float, shorter_side: int | None = None) -> float:
        """The step that `steps` tells with a chance of 90 %, at the rate of false alarms over keys and waves.

        In the middle of the series; or where it leaves so many waves on its shorter side.
        """
        side = self.waves // 2 if shorter_side is None else shorter_side
        if not 1 <= side < self.waves:
            raise PlanError(f"a step leaves 1 to {self.waves - 1} waves on a side, got {side}")
        z = alarm_level(self.n_keys, self.waves - 1, self.false_alarms) + NormalDist().inv_cdf(POWER)
        return z * self.standard_error(frequency) * math.sqrt(1 / side + 1 / (self.waves - side))


def best_answers(plan: SeriesPlan, frequency: float, most: int = MOST_ANSWERS) -> SeriesPlan:
    """The plan with as many answers as see the smallest change; where two see as much, the fewer.

    >>> best_answers(SeriesPlan(devices=100_000, n_keys=50, epsilon=2.0, waves=26), 0.2).answers
    1
    """
    return min(_answering(plan, most), key=lambda each: each.smallest_change(frequency))


def answers_table(plan: SeriesPlan, frequency: float, most: int = 4) -> dict[int, float]:
    """The smallest change seen, by answers a device, at the same total epsilon.

    >>> plan = SeriesPlan(devices=100_000, n_keys=50, epsilon=2.0, waves=26)
    >>> {answers: round(change, 3) for answers, change in answers_table(plan, 0.2).items()}
    {1: 0.035, 2: 0.049, 3: 0.059, 4: 0.069}
    """
    return {each.answers: each.smallest_change(frequency) for each in _answering(plan, most)}


def most_waves(plan: SeriesPlan, frequency: float, change: float, within: int = 4) -> SeriesPlan:
    """The plan with as many waves as see a change that has `within` waves before or behind it, or fewer.

    In the middle of a series a change is seen nearly as well whatever the number of waves: finer ones are
    more. What finer ones cost is a change near either end, such as the latest one.

    >>> most_waves(SeriesPlan(devices=100_000, n_keys=50, epsilon=2.0, waves=26), 0.2, 0.05).waves
    27
    """

    def sees(waves: int) -> bool:
        return replace(plan, waves=waves).smallest_change(frequency, min(within, waves // 2)) <= change

    fewest = max(2, plan.answers)
    if not sees(fewest):
        seen = replace(plan, waves=fewest).smallest_change(frequency, 1)
        raise PlanError(
            f"even {fewest} waves see no change below {seen:.2g}, wanted {change:g}; raise epsilon"
        )
    return replace(plan, waves=_last(sees, fewest, MOST_WAVES))


def least_epsilon(plan: SeriesPlan, frequency: float, change: float) -> SeriesPlan:
    """The plan at the least epsilon of the series, in hundredths, that sees a change.

    >>> least_epsilon(SeriesPlan(devices=100_000, n_keys=50, epsilon=1.0, waves=26), 0.2, 0.05).epsilon
    1.39
    """

    def misses(hundredths: int) -> bool:
        return replace(plan, epsilon=hundredths / 100).smallest_change(frequency) > change

    largest = round(100 * LARGEST_EPSILON)
    if misses(largest):
        seen = replace(plan, epsilon=LARGEST_EPSILON).smallest_change(frequency)
        raise PlanError(
            f"no epsilon up to {LARGEST_EPSILON:g} sees a change of {change:g} in {plan.waves} waves: the "
            f"least is {seen:.2g}; it takes more devices or fewer waves"
        )
    return replace(plan, epsilon=(_last(misses, 1, largest) + 1) / 100 if misses(1) else 0.01)


def _answering(plan: SeriesPlan, most: int) -> list[SeriesPlan]:
    return [replace(plan, answers=answers) for answers in range(1, min(most, plan.waves) + 1)]


def _last(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The last number that holds, where all until it do and `low` does."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low
