"""Plans of series: changes that are promised are seen, and one answer beats several."""

from dataclasses import replace

import numpy as np
import pytest

from keyveil.errors import PlanError
from keyveil.estimate.series import Observations, steps
from keyveil.plan.series import SeriesPlan, answers_table, best_answers, least_epsilon, most_waves
from keyveil.simulate import insecure_generator

PLAN = SeriesPlan(devices=100_000, n_keys=50, epsilon=2.0, waves=26)


@pytest.mark.statistical
@pytest.mark.parametrize("side", [4, 13])
def test_nine_in_ten_steps_of_the_smallest_change_are_told(side):
    rng, runs = insecure_generator(24, side), 1000
    error, change = PLAN.standard_error(0.1), PLAN.smallest_change(0.1, side)

    def seen(size):
        level = np.where(np.arange(26)[:, None] < side, 0.1, 0.1 + size) * np.ones(runs)
        value = level + error * rng.standard_normal(level.shape)
        every = Observations.of_arrays(value, np.full(value.shape, error))
        parts = [every.only(np.arange(50) + first) for first in range(0, runs, 50)]
        return sum(len({step.key for step in steps(part)}) for part in parts) / runs

    tolerance = 5 * np.sqrt(0.9 * 0.1 / runs)
    # A step is told where the clearest split is clear, so a little more often than at the true one alone.
    assert 0.9 - tolerance < seen(change) < 0.93 + tolerance
    assert seen(0.85 * change) < 0.9 - tolerance


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_one_answer_with_all_of_epsilon_beats_several(epsilon):
    changes = list(answers_table(replace(PLAN, epsilon=epsilon), 0.05).values())
    assert changes == sorted(changes)
    assert best_answers(replace(PLAN, epsilon=epsilon), 0.05).answers == 1


def test_what_is_solved_for_is_just_enough():
    epsilon = least_epsilon(PLAN, 0.2, 0.05).epsilon
    assert replace(PLAN, epsilon=epsilon).smallest_change(0.2) <= 0.05
    assert replace(PLAN, epsilon=epsilon - 0.01).smallest_change(0.2) > 0.05
    waves = most_waves(PLAN, 0.2, 0.05).waves
    assert replace(PLAN, waves=waves).smallest_change(0.2, 4) <= 0.05
    assert replace(PLAN, waves=waves + 1).smallest_change(0.2, 4) > 0.05


def test_what_cannot_be_seen_is_said():
    with pytest.raises(PlanError, match="no epsilon up to 12"):
        least_epsilon(replace(PLAN, devices=500), 0.5, 0.01)
    with pytest.raises(PlanError, match="even 2 waves"):
        most_waves(replace(PLAN, devices=500), 0.2, 0.01)
    with pytest.raises(PlanError, match="27 of 26"):
        replace(PLAN, answers=27)
    with pytest.raises(PlanError, match="got 26"):
        PLAN.smallest_change(0.2, 26)
