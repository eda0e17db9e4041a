"""Series: the exact posterior by linear algebra, steps that were, false alarms, and what a cut hides."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from keyveil.errors import TallyError
from keyveil.estimate import Estimates, estimate
from keyveil.estimate.series import (
    Grid,
    Observations,
    alarm_level,
    changed_since,
    find_season,
    levels,
    smooth,
    steps,
)
from keyveil.mechanisms import build
from keyveil.simulate import draw_tally, insecure_generator, synthetic

SEED = 24


def heard(level, error, rng):
    """Normal estimates of these levels."""
    error = np.broadcast_to(error, np.shape(level))
    return Observations.of_arrays(level + error * rng.standard_normal(np.shape(level)), error)


def dense(seen, cuts, drift, reach):
    """Log-evidence, mean and variance of one key's levels, cut after these waves: by linear algebra alone."""
    value, error = seen.estimate[:, 0], seen.standard_error[:, 0]
    known = np.isfinite(value)
    unit = np.sqrt(known.sum() / (1 / error**2).sum())
    weight = np.where(known, 1 / error**2, 0)
    middle = (weight[known] * value[known]).sum() / weight.sum()
    prior = np.zeros((value.size, value.size))
    for start, end in itertools.pairwise([0, *(cut + 1 for cut in cuts), value.size]):
        own = np.arange(end - start)
        walk = np.minimum(own[:, None], own) * drift**2 * unit * max(middle, unit)
        prior[start:end, start:end] = (reach * unit) ** 2 + walk
    total = prior[np.ix_(known, known)] + np.diag(error[known] ** 2)
    off = value[known] - middle
    gain = np.linalg.solve(total, prior[known]).T
    law = -(off @ np.linalg.solve(total, off) + np.linalg.slogdet(2 * np.pi * total)[1]) / 2
    return law, middle + gain @ off, np.diag(prior) - np.einsum("ij,ji->i", gain, prior[known])


@pytest.mark.parametrize("drift", [0.0, 0.4])
@pytest.mark.parametrize("silent", [(), (0, 3)])
def test_levels_are_the_posterior_over_every_way_to_cut_the_waves(drift, silent):
    rng, waves, chance, reach = insecure_generator(SEED, len(silent)), 6, 0.3, 4.0
    error = rng.uniform(0.5, 1.5, (waves, 1))
    value = np.array([[9.0], [8.0], [10.0], [13.0], [12.0], [9.5]])
    value[list(silent)] = np.nan
    seen = Observations.of_arrays(value, error)
    # One motion only: then nothing is learnt over keys.
    found = levels(seen, Grid(drifts=(drift,), chances=(chance,), reaches=(reach,), prior_still=1e-9))
    unjumped = found.motions[0, 0]
    laws, means, variances = [], [], []
    for cuts in itertools.chain.from_iterable(
        itertools.combinations(range(waves - 1), count) for count in range(waves)
    ):
        law, mean, variance = dense(seen, cuts, drift, reach)
        prior = len(cuts) * np.log(chance) + (waves - 1 - len(cuts)) * np.log(1 - chance)
        laws.append(law + prior)
        means.append(mean)
        variances.append(variance)
    share = np.exp(laws - np.max(laws))
    share = (1 - unjumped) * share / share.sum()
    share[0] += unjumped
    expected = share @ np.array(means)
    spread = share @ (np.array(variances) + np.array(means) ** 2) - expected**2
    # Segments below 1e-4 are left out.
    np.testing.assert_allclose(found.estimate[:, 0], expected, atol=2e-3)
    np.testing.assert_allclose(found.variance[:, 0], spread, rtol=1e-2)


def test_one_motion_alone_is_the_kalman_smoother():
    rng = insecure_generator(SEED, 1)
    seen = heard(np.full((30, 1), 5.0), rng.uniform(0.5, 2, (30, 1)), rng)
    found = levels(seen, Grid(drifts=(0.2,), chances=(1e-12,), reaches=(5.0,)))
    _, mean, variance = dense(seen, (), 0.2, 5.0)
    np.testing.assert_allclose(found.estimate[:, 0], mean, rtol=1e-8)
    np.testing.assert_allclose(found.variance[:, 0], variance, rtol=1e-8)


def test_a_level_that_stays_is_nearly_the_mean_of_all_waves():
    rng = insecure_generator(SEED, 2)
    seen = heard(np.full((26, 200), 0.1), 0.02, rng)
    error = np.mean((smooth(seen).estimate - 0.1) ** 2) / 0.02**2
    # The best there is is 1 / 26, with a relative standard error of (2 / 200)**.5 = .1.
    assert error < 1.5 / 26


def test_a_jump_is_not_smeared():
    level = np.repeat([0.1, 0.3], 13)[:, None]
    found = smooth(heard(level, 0.02, insecure_generator(SEED, 3)))
    assert np.abs(found.estimate - level).max() < 5 * 0.02 / np.sqrt(13)
    smeared = np.convolve(level[:, 0], np.full(5, 0.2), mode="valid")
    assert np.abs(smeared - level[2:-2, 0]).max() > 5 * 0.02 / np.sqrt(13)


@pytest.mark.statistical
@pytest.mark.parametrize("drift", [0.0, 0.005])
def test_smoothed_intervals_hold_the_levels(drift):
    rng, keys = insecure_generator(SEED, 4, int(1e4 * drift)), 600
    level = 0.1 + drift * rng.standard_normal((26, keys)).cumsum(axis=0)
    seen = heard(level, 0.01, rng)

    def covered(found):
        low, high = found.interval()
        return ((low <= level) & (level <= high)).mean(axis=0)

    found = smooth(seen)
    held = covered(found)
    # Keys are independent, waves of a key are not. Two points are for what is learnt of how keys move.
    assert abs(held.mean() - 0.95) < 0.02 + 5 * held.std() / np.sqrt(keys)
    narrow = covered(replace(found, standard_error=0.7 * found.standard_error))
    assert abs(narrow.mean() - 0.95) > 0.02 + 5 * narrow.std() / np.sqrt(keys)


def test_waves_and_keys_that_were_not_heard():
    value = np.full((8, 3), 0.2)
    value[:5, 1], value[:, 2], value[3] = np.nan, np.nan, np.nan
    seen = Observations.of_arrays(value, np.full((8, 3), 0.05))
    found = smooth(seen)
    assert np.isfinite(found.estimate[:, :2]).all()
    assert np.isnan(found.estimate[:, 2]).all()
    # A key that came late is known less well before it came.
    assert found.standard_error[0, 1] > found.standard_error[7, 1]
    assert found.standard_error[3, 0] > found.standard_error[2, 0] * 0.99
    assert steps(seen) == ()


def test_what_a_cut_may_hide_is_carried_and_never_smoothed():
    hidden = np.linspace(0, 0.3, 10)[:, None]
    seen = Observations.of_arrays(np.full((10, 1), 0.2), np.full((10, 1), 0.05), hidden)
    found = smooth(seen)
    low, high = found.interval()
    np.testing.assert_allclose(high - found.estimate, found.estimate - low + hidden)
    np.testing.assert_allclose(seen.interval()[1], seen.estimate + 1.959964 * 0.05 + hidden, rtol=1e-6)


def told(people, users):
    mechanism = build("bucket", 6, n_keys=4, pairs_per_user=1, cohorts=64, rho=1)
    return estimate(mechanism, draw_tally(mechanism, people, insecure_generator(SEED, users)))


def test_the_draw_of_who_answers_is_counted():
    people = synthetic(users=500, keys=4, seed=3)
    found: Estimates = told(people, 500)
    share = np.clip(found.frequency, 0, 1)
    seen = Observations.of_frequencies([found, None], n_keys=4)
    expected = found.frequency_se**2 + share * (1 - share) / 500
    np.testing.assert_allclose(seen.standard_error[0] ** 2, expected)
    assert np.isinf(seen.standard_error[1]).all()
    everybody = Observations.of_frequencies([found], n_keys=4, crowd=500)
    np.testing.assert_allclose(everybody.standard_error[0], found.frequency_se)


@pytest.mark.statistical
@pytest.mark.parametrize("uneven", [0.0, 1.0])
def test_series_that_stay_raise_alarms_at_most_at_the_stated_rate(uneven):
    rng, series, keys, waves = insecure_generator(SEED, 5, int(uneven)), 1000, 5, 20
    error = np.exp(uneven * rng.standard_normal((waves, 1))) * np.ones((waves, series * keys))
    seen = heard(np.zeros((waves, series * keys)), error, rng)
    parts = [seen.only(np.arange(keys) + keys * each) for each in range(series)]
    tolerance = 5 * np.sqrt(0.05 * 0.95 / series)
    assert np.mean([bool(steps(each)) for each in parts]) < 0.05 + tolerance
    # A twin that corrects for keys and forgets that there are many splits.
    forgetful = 0.05 * (waves - 1)
    assert np.mean([bool(steps(each, forgetful)) for each in parts]) > 0.05 + tolerance
    # Whatever changed since a later wave changed since the first.
    assert np.mean([bool(changed_since(each, 0)) for each in parts]) < 0.05 + tolerance


@pytest.mark.statistical
def test_a_step_is_dated_within_its_set_and_its_size_within_its_interval():
    rng, keys, waves, after = insecure_generator(SEED, 6), 400, 26, 11
    level = np.where(np.arange(waves)[:, None] > after, 0.25, 0.2) * np.ones(keys)
    found = steps(heard(level, 0.017, rng))
    assert len({step.key for step in found}) > 0.95 * keys
    assert all(step.earliest <= step.after <= step.latest for step in found)
    held = [step.earliest <= after <= step.latest for step in found]
    # All sets together hold with 95 %: with one miss in twenty runs, two are not to be met.
    assert sum(held) >= len(held) - 1
    sized = np.mean([step.low <= 0.05 <= step.high for step in found])
    assert sized > 0.95 - 5 * np.sqrt(0.05 * 0.95 / len(found))
    assert np.mean([step.size for step in found]) == pytest.approx(0.05, abs=0.002)


def test_two_steps_of_one_key_are_told_apart():
    level = np.repeat([0.1, 0.3, 0.2], 10)[:, None]
    found = steps(heard(level, 0.01, insecure_generator(SEED, 7)))
    assert [step.after for step in found] == [9, 19]
    assert [round(step.size, 1) for step in found] == [0.2, -0.1]


def test_changed_since_knows_when_the_last_step_was():
    level = np.repeat([0.1, 0.3], 10)[:, None] * np.ones(3)
    level[:, 1] = 0.2
    seen = heard(level, 0.01, insecure_generator(SEED, 8))
    assert [change.key for change in changed_since(seen, 0)] == [0, 2]
    assert [change.key for change in changed_since(seen, 9)] == [0, 2]
    assert changed_since(seen, 10) == ()
    assert changed_since(seen.between(0, 9), 0) == ()


def test_one_wave_between_two_levels_is_no_date_of_its_own():
    """Three waves of which the middle one is unheard: the step may be before it or after it."""
    seen = Observations.of_arrays([[0.0]] * 5 + [[np.nan]] + [[1.0]] * 5, [[0.05]] * 11)
    (step,) = steps(seen)
    assert (step.earliest, step.latest) == (4, 5)


@pytest.mark.statistical
def test_a_season_is_told_where_there_is_one_and_hardly_elsewhere():
    rng, keys, waves = insecure_generator(SEED, 9), 20, 56
    weekend = np.isin(np.arange(waves) % 7, (5, 6))[:, None]
    still = [find_season(heard(np.full((waves, keys), 0.1), 0.01, rng), 7) for _ in range(200)]
    assert np.mean([each is not None for each in still]) < 0.05 + 5 * np.sqrt(0.05 * 0.95 / 200)
    walks = 0.004 * rng.standard_normal((200, waves, keys)).cumsum(axis=1)
    told = [find_season(heard(0.1 + walk, 0.01, rng), 7) is not None for walk in walks]
    assert np.mean(told) < 0.05 + 5 * np.sqrt(0.05 * 0.95 / 200)
    level = np.where(weekend, 0.13, 0.1) * np.ones(keys)
    found = smooth(heard(level, 0.01, rng), period=7)
    assert found.steps == ("season", "smooth")
    assert np.mean((found.estimate - level) ** 2) < 0.35 * 0.01**2


def test_errors_say_what_was_expected():
    with pytest.raises(TallyError, match="waves by keys"):
        Observations(estimate=np.ones(3), standard_error=np.ones(3), hidden=np.ones(3))
    with pytest.raises(TallyError, match="above 0"):
        Observations.of_arrays([[1.0]], [[0.0]])
    with pytest.raises(TallyError, match="a standard error an estimate"):
        Observations.of_arrays([[1.0]], [[1.0, 2.0]])
    with pytest.raises(TallyError, match="from 0 to 1"):
        changed_since(Observations.of_arrays([[1.0]] * 3, [[1.0]] * 3), 2)
    with pytest.raises(TallyError, match="between 0 and 1"):
        alarm_level(1, 1, 2.0)
