"""Shrinking: close to the best that the true spread allows, and sane where there is nothing to learn."""

import dataclasses
from statistics import NormalDist

import numpy as np
import pytest

from keyveil.errors import MechanismError
from keyveil.estimate import clip, estimate
from keyveil.estimate.post import shrink as step
from keyveil.estimate.shrink import (
    NO_ANCHOR,
    Anchor,
    Earlier,
    Evidence,
    Prior,
    Total,
    _reached,
    _within_range,
    shrink,
)
from keyveil.estimate.sizes import SizeLaw, Truncation
from keyveil.mechanisms import build
from keyveil.simulate import draw_tally, insecure_generator, synthetic
from keyveil.tally import Tally

WHOLE = Truncation(law=SizeLaw.exactly(1), l=1)
KEYS = 600


def told(frequency, mean, users, rng, *, epsilon=1, rho=0, cut=WHOLE):
    """Gaussian estimates of these keys with the law of bucket reports."""
    moments = build("bucket", epsilon, n_keys=frequency.size, pairs_per_user=cut.l, rho=rho).moments
    share = cut.share(frequency)
    spread = moments.covariance(share, mean, float(users))
    first, second = rng.standard_normal((2, frequency.size))
    seen = share + np.sqrt(spread.frequency) * first
    signed = np.zeros_like(seen)
    if np.isfinite(moments.signed_noise):
        slope = spread.crossed / np.sqrt(spread.frequency)
        signed = share * mean + slope * first + np.sqrt(spread.signed - slope**2) * second
    asked = np.full(frequency.size, float(users))
    return Evidence(frequency=seen, signed=signed, asked=asked, moments=moments, truncation=cut)


def crowd(rng, keys=KEYS):
    """Most keys rare, some popular; means around 0.4."""
    frequency = np.where(rng.random(keys) < 0.15, 0.02 * rng.lognormal(0, 0.7, keys), 0.0005)
    return frequency, np.clip(rng.normal(0.4, 0.15, keys), -1, 1)


def bayes(seen):
    """The posterior mean under the spread that `crowd` draws from."""
    draws = insecure_generator(99).lognormal(0, 0.7, 4000) * 0.02
    grid = np.concatenate([[0.0005], draws])
    weights = np.concatenate([[0.85], np.full(4000, 0.15 / 4000)])
    law = seen.law(grid)
    belief = np.exp(law - law.max(axis=1, keepdims=True)) * weights
    return belief @ grid / belief.sum(axis=1)


def risk(guess, truth):
    return float(np.mean((guess - truth) ** 2))


@pytest.mark.statistical
def test_frequencies_come_close_to_the_best_rule_and_far_below_cutting():
    rng, found = insecure_generator(1), []
    for _ in range(8):
        frequency, mean = crowd(rng)
        # Without signs, which would say something about frequencies too.
        seen = told(frequency, mean, 60_000, rng, rho=1)
        shrunk = shrink(seen)
        best, cut = bayes(seen), np.clip(seen.frequency, 0, 1)
        found.append([risk(guess, frequency) for guess in (shrunk.frequency, best, cut)])
    ours, best, cut = np.mean(found, axis=0)
    assert 0.97 * best < ours < 1.15 * best
    assert ours < 0.6 * cut
    # With a spread that is not the keys' own the same rule is not close any more.
    grid = np.linspace(0, 0.2, 100)
    wrong = shrink(seen, prior=Prior(grid=grid, weights=np.full(100, 0.01)))
    assert risk(wrong.frequency, frequency) > 1.15 * found[-1][1]


@pytest.mark.statistical
def test_the_rule_for_the_top_is_better_there_and_worse_elsewhere():
    rng, found = insecure_generator(2), []
    for _ in range(8):
        frequency, mean = crowd(rng)
        shrunk = shrink(told(frequency, mean, 10_000, rng), top=20)
        top = np.argsort(-frequency)[:20]
        found.append(
            [
                risk(guess[keys], frequency[keys])
                for keys in (top, slice(None))
                for guess in (shrunk.frequency_top, shrunk.frequency)
            ]
        )
    of_top, plain, of_top_all, plain_all = np.mean(found, axis=0)
    assert of_top < 0.9 * plain
    assert plain_all < of_top_all


@pytest.mark.statistical
def test_means_gain_from_what_they_share_and_from_an_anchor():
    rng, found = insecure_generator(3), []
    for _ in range(6):
        frequency, mean = crowd(rng)
        seen = told(frequency, mean, 60_000, rng)
        anchored = shrink(seen, anchor=Anchor(0.4, 0.03))
        alone, misled = shrink(seen), shrink(seen, anchor=Anchor(-0.4, 0.03))
        ratio = np.clip(seen.signed / np.maximum(seen.frequency, 1e-3), -1, 1)
        found.append([risk(guess, mean) for guess in (anchored.mean, alone.mean, misled.mean, ratio)])
        assert abs(anchored.centre - 0.4) < 3 * 0.03
    anchored, alone, misled, ratio = np.mean(found, axis=0)
    assert anchored < 1.2 * 0.15**2
    assert anchored < ratio / 5
    assert anchored <= alone * 1.1
    assert misled > 2 * anchored


def test_a_sharp_anchor_is_kept_where_the_keys_say_nothing():
    rng = insecure_generator(4)
    seen = told(np.full(50, 0.001), np.full(50, -0.9), 500, rng)
    shrunk = shrink(seen, anchor=Anchor(0.3, 0.01))
    assert abs(shrunk.centre - 0.3) < 0.03
    assert shrunk.mean == pytest.approx(np.full(50, 0.3), abs=0.1)


@pytest.mark.parametrize("total", [0.5, 1.0, 2.5])
def test_the_total_is_kept(total):
    rng = insecure_generator(5)
    seen = told(*crowd(rng), 30_000, rng)
    prior = shrink(seen, total=Total(total, 1e-9)).prior
    assert KEYS * prior.weights @ prior.grid == pytest.approx(total, rel=1e-6)
    assert prior.weights.sum() == pytest.approx(1)
    assert prior.weights.min() >= 0
    # A total that is hardly known leaves the estimates' own.
    loose = shrink(seen, total=Total(total, 1e6)).prior
    own = shrink(seen).prior
    assert loose.weights == pytest.approx(own.weights, abs=1e-4)


@pytest.mark.statistical
def test_two_rounds_say_more_than_either():
    rng, found = insecure_generator(6), []
    for _ in range(8):
        frequency, mean = crowd(rng)
        first = told(frequency, mean, 30_000, rng, rho=1)
        second = told(frequency, mean, 30_000, rng)
        before, alone = shrink(first), shrink(second)
        both = shrink(second, earlier=Earlier(first, before.prior, np.arange(KEYS)))
        found.append([risk(each.frequency, frequency) for each in (both, before, alone)])
        assert np.abs(both.mean).max() <= 1
    both, before, alone = np.mean(found, axis=0)
    assert both < 0.9 * min(before, alone)


@pytest.mark.statistical
def test_the_rest_are_judged_by_the_spread_that_both_rounds_found():
    rng, found = insecure_generator(12), []
    for _ in range(8):
        frequency, mean = crowd(rng)
        first = told(frequency, mean, 3_000, rng, rho=1)
        before = shrink(first, top=20)
        again = np.sort(np.argsort(-before.in_top)[: KEYS // 4])
        second = told(frequency, mean, 30_000, rng).only(again)
        both = shrink(second, top=20, earlier=Earlier(first, before.prior, again))
        top = np.argsort(-frequency)[:20]
        missed = top[~np.isin(top, again)]
        assert np.all(both.mean[np.setdiff1d(np.arange(KEYS), again)] == both.centre)
        found.append([risk(each.frequency_top[missed], frequency[missed]) for each in (both, before)])
    both_risk, before_risk = np.nanmean(found, axis=0)
    assert both_risk < before_risk


@pytest.mark.statistical
def test_truncated_shares_are_brought_back_and_taking_them_for_frequencies_is_worse():
    rng = insecure_generator(7)
    cut = Truncation(law=SizeLaw(sizes=np.array([2.0, 20.0]), shares=np.array([0.5, 0.5])), l=4)
    frequency = 0.3 / np.arange(1, 201.0)
    seen = told(frequency, np.zeros(200), 10**7, rng, cut=cut)
    back = shrink(seen)
    ignored = shrink(dataclasses.replace(seen, truncation=Truncation(law=SizeLaw.exactly(1), l=1)))
    assert risk(back.frequency[:20], frequency[:20]) < 0.3 * risk(ignored.frequency[:20], frequency[:20])


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [5, 8, 12])
@pytest.mark.parametrize("keys", [5, 60])
def test_hardly_any_noise_is_hardly_any_shrinking(epsilon, keys):
    rng = insecure_generator(8)
    frequency = np.arange(1, keys + 1.0) ** -1.0 / 4
    seen = told(frequency, np.full(keys, 0.9), 10**6, rng, epsilon=epsilon)
    shrunk = shrink(seen)
    assert risk(shrunk.frequency, frequency) < 1.3 * risk(seen.frequency, frequency)
    assert risk(shrunk.mean, 0.9) < 1.3 * risk(seen.signed / seen.frequency, 0.9)


# --- where there is nothing to learn ---


def assert_sane(shrunk):
    for values, low in (
        (shrunk.frequency, 0),
        (shrunk.frequency_top, 0),
        (shrunk.mean, -1),
        (shrunk.in_top, 0),
    ):
        assert np.isfinite(values).all()
        assert values.min() >= low
        assert values.max() <= 1 + 1e-9
    assert np.abs(shrunk.mean).max() <= 1


@pytest.mark.parametrize("epsilon", [0.1, 1, 8])
@pytest.mark.parametrize("users", [1, 10, 10_000])
@pytest.mark.parametrize("frequency", [[0.0], [1.0], [0.0] * 40, [0.1] * 40, [1.0] + [0.0] * 30, [0.9] * 5])
@pytest.mark.parametrize("rho", [0, 1])
def test_odd_crowds_give_numbers_in_range(epsilon, users, frequency, rho):
    f = np.array(frequency)
    for mean in (0.0, 1.0):
        seen = told(f, np.full(f.size, mean), users, insecure_generator(9), epsilon=epsilon, rho=rho)
        for anchor in (NO_ANCHOR, Anchor(1.0, 0.01)):
            assert_sane(shrink(seen, total=Total(float(f.sum()), 1e-9), anchor=anchor, top=3))


def test_no_reports_at_all():
    for d in (1, 7):
        m = build("bucket", 1, n_keys=d)
        nothing = Tally.of(question="q", n_reports=0, plus=[0] * d, minus=[0] * d, asked=[0] * d)
        assert_sane(shrink(Evidence.of(estimate(m, nothing), WHOLE)))


def test_a_round_that_contradicts_the_one_before_is_no_division_by_zero():
    rng = insecure_generator(10)
    one = told(np.full(5, 0.9), np.zeros(5), 10**7, rng, epsilon=6)
    other = told(np.full(5, 0.01), np.zeros(5), 10**7, rng, epsilon=6)
    assert_sane(shrink(other, earlier=Earlier(one, shrink(one).prior, np.arange(5))))


def test_equal_keys_stay_equal_and_nothing_depends_on_chance_or_order():
    rng = insecure_generator(11)
    seen = told(*crowd(rng), 30_000, rng)
    one, two = shrink(seen), shrink(seen)
    assert np.array_equal(one.frequency, two.frequency)
    assert np.array_equal(one.mean, two.mean)
    turned = shrink(seen.only(np.arange(KEYS)[::-1]))
    assert turned.frequency[::-1] == pytest.approx(one.frequency, abs=1e-9)
    same = dataclasses.replace(seen, frequency=np.full(KEYS, 0.01), signed=np.full(KEYS, 0.004))
    assert np.ptp(shrink(same).frequency) == 0


def test_the_spread_keeps_its_mass_on_another_grid():
    grid = np.linspace(0, 0.5, 60)
    prior = Prior(grid=grid, weights=np.exp(-grid * 9) / np.exp(-grid * 9).sum())
    other = prior.on(np.linspace(0, 0.5, 200))
    assert other.sum() == pytest.approx(1)
    assert other[0] == prior.weights[0]
    assert other @ np.linspace(0, 0.5, 200) == pytest.approx(prior.weights @ grid, rel=0.05)
    assert prior.threshold(1, 60) > prior.threshold(20, 60) > 0
    assert prior.threshold(10**6, 60) == grid[1]


def test_normal_parts_agree_with_the_standard_library():
    z = np.linspace(-6, 6, 101)
    assert _reached(z) == pytest.approx([NormalDist().cdf(each) for each in z], abs=1e-7)
    draws = insecure_generator(12).normal(0.7, 0.5, 400_000)
    kept = draws[np.abs(draws) <= 1]
    inside, mean = _within_range(np.array([0.7]), np.array([0.5]))
    assert inside[0] == pytest.approx(kept.size / draws.size, abs=5 * 0.5 / 400_000**0.5)
    assert mean[0] == pytest.approx(kept.mean(), abs=5 * 0.5 / 400_000**0.5)
    assert np.abs(_within_range(np.array([9.0, -9.0]), np.array([0.1, 0.1]))[1]).max() <= 1


# --- the named step ---


@pytest.mark.statistical
def test_the_named_step_leaves_errors_alone_and_beats_clip():
    people = synthetic(users=20_000, keys=300, seed=3)
    m = build("bucket", 1, n_keys=300)
    raw = estimate(m, draw_tally(m, people, insecure_generator(1)))
    before = raw.frequency.copy()
    shaped = step(raw)
    assert shaped.steps == ("shrink",)
    assert shaped.frequency_top is not None
    assert np.array_equal(raw.frequency, before)
    assert np.array_equal(shaped.frequency_se, raw.frequency_se)
    assert risk(shaped.frequency, people.frequency()) < 0.5 * risk(clip(raw).frequency, people.frequency())


def test_estimates_without_signs_are_refused():
    m = build("bucket", 1, n_keys=2)
    raw = estimate(m, Tally.of(question="q", n_reports=1, plus=[1, 0], minus=[0, 0], asked=[1, 1]))
    with pytest.raises(MechanismError, match="shrink needs signed reports"):
        step(dataclasses.replace(raw, moments=None))
