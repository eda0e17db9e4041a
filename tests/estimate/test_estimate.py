import math

import numpy as np
import pytest

from keyveil.errors import MechanismError, TallyError
from keyveil.estimate import clip, estimate, step
from keyveil.mechanisms import build
from keyveil.simulate import Population, draw_tally, insecure_generator, synthetic
from keyveil.tally import Tally
from keyveil.testing import Z

SIGNED = ("privkv", "kvue", "pckv-ue", "pckv-grr", "ks-ue")

# spec: mechanism, epsilon, d, l, Var[f] at n = 2e5, f = 0.3 with the sampling term the papers miss
SAMPLING_TERM = [
    ("pckv-ue", 5, 20, 3, 9.98e-6, 6.98e-6),
    ("pckv-grr", 3, 20, 10, 2.47e-5, 1.12e-5),
    ("ks-ue", 5, 20, 10, 5.56e-5, 4.21e-5),
]


@pytest.mark.parametrize(("name", "epsilon", "d", "l", "exact", "printed"), SAMPLING_TERM)
def test_the_variance_has_the_sampling_term(name, epsilon, d, l, exact, printed):
    mechanism = build(name, epsilon, n_keys=d, pairs_per_user=l)
    variance = mechanism.variance(0.3, 200_000, 200_000)
    assert variance == pytest.approx(exact, rel=5e-3)
    assert variance - 0.3 * (l - 1) / 200_000 == pytest.approx(printed, rel=5e-3)


def test_ks_ue_variance_at_one_pair_is_the_closed_form():
    E, f, n = math.e, 0.2, 1000
    mechanism = build("ks-ue", 1, n_keys=5)
    assert mechanism.variance(f, n, n) == pytest.approx(
        8 * E / ((E - 1) ** 2 * n) + (E - 3) * f / ((E - 1) * n)
    )


def test_kvue_noise_is_two_d_e_over_e_minus_one_squared():
    E, d, n = math.e, 100, 10**6
    mechanism = build("kvue", 1, n_keys=d)
    assert mechanism.variance(0.0, n / d, n) == pytest.approx(2 * d * E / ((E - 1) ** 2 * n))


@pytest.mark.statistical
@pytest.mark.parametrize("name", SIGNED)
def test_means_and_their_standard_errors_hold_over_repeats(name):
    """One popular key, many repeats: bias within z standard errors, spread as claimed; a twin fails."""
    rng = insecure_generator(11)
    users, repeats = 20_000, 300
    population = one_key(users, rng)
    mechanism = build(name, 2, n_keys=3, pairs_per_user=2)
    runs = [estimate(mechanism, draw_tally(mechanism, population, rng)) for _ in range(repeats)]
    means = np.array([run.mean[0] for run in runs])
    claimed = float(np.mean([run.mean_se[0] for run in runs]))
    truth = population.mean()[0]
    assert abs(means.mean() - truth) < Z * claimed / math.sqrt(repeats)
    # The spread of a sample standard deviation is about sigma / sqrt(2 repeats); the claim is an
    # upper bound by the values' own variance, a few per cent here.
    assert 0.9 - Z / math.sqrt(2 * repeats) < means.std() / claimed < 1 + Z / math.sqrt(2 * repeats)
    twin = build(name, 2.2, n_keys=3, pairs_per_user=2)
    wrong = [estimate(twin, draw_tally(mechanism, population, rng)).mean[0] for _ in range(repeats)]
    assert abs(np.mean(wrong) - truth) > Z * claimed / math.sqrt(repeats)


def one_key(users: int, rng: np.random.Generator) -> Population:
    """Three users in four hold key 0 with values around 0.6; nobody holds the rest."""
    owners = np.flatnonzero(rng.random(users) < 0.75)
    values = np.clip(rng.normal(0.6, 0.2, owners.size), -1, 1)
    return Population.from_pairs(
        owners, np.zeros(owners.size, dtype=np.int64), values, n_users=users, names=["a", "b", "c"]
    )


@pytest.mark.statistical
@pytest.mark.parametrize("name", SIGNED)
def test_frequency_intervals_cover(name):
    population = synthetic(users=5000, keys=20, pairs_per_user=2, seed=5)
    mechanism, truth = build(name, 1, n_keys=20, pairs_per_user=2), population.frequency()
    rng, repeats = insecure_generator(12), 300
    covered = 0.0
    for _ in range(repeats):
        low, high = estimate(mechanism, draw_tally(mechanism, population, rng)).frequency_interval()
        covered += float(np.mean((low <= truth) & (truth <= high)))
    # Keys of one run are nearly independent; one in twenty is missed.
    error = math.sqrt(0.95 * 0.05 / (20 * repeats))
    assert abs(covered / repeats - 0.95) < Z * error


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["bucket", "pckv-ue"])
def test_of_intervals_of_means_that_say_something_95_in_100_hold(name):
    """S6: each by itself, those shorter than the range held in .5 to .88 of cases: chance had chosen them."""
    people = synthetic(users=4000, keys=60, pairs_per_user=1, skew=1.2, seed=6)
    mechanism, truth, rng, repeats = build(name, 1, n_keys=60), people.mean(), insecure_generator(9), 300
    told = {"together": [0, 0], "alone": [0, 0]}
    for _ in range(repeats):
        raw = estimate(mechanism, draw_tally(mechanism, people, rng))
        for way, (low, high) in (("together", raw.mean_interval()), ("alone", raw.mean_interval_alone())):
            says = (low > -1) | (high < 1)
            told[way][0] += int(says.sum())
            told[way][1] += int((says & (low <= truth) & (truth <= high)).sum())
    shares = {way: held / said for way, (said, held) in told.items()}
    slack = Z * math.sqrt(0.95 * 0.05 / told["together"][0])
    assert shares["together"] > 0.95 - slack
    assert shares["alone"] < 0.95 - slack


def test_means_are_told_at_95_where_all_of_them_are_told():
    mechanism = build("pckv-ue", 4, n_keys=2)
    tally = Tally.of(question="q", n_reports=9000, plus=[3000, 4000], minus=[1000, 900], asked=[9000, 9000])
    raw = estimate(mechanism, tally)
    assert np.array_equal(raw.mean_interval(), raw.mean_interval_alone())
    nobody = estimate(
        mechanism, Tally.of(question="q", n_reports=9000, plus=[0, 0], minus=[0, 0], asked=[9000] * 2)
    )
    assert [end.tolist() for end in nobody.mean_interval()] == [[-1, -1], [1, 1]]


def test_a_key_nobody_was_asked_about_is_unknown_not_zero():
    mechanism = build("kvue", 1, n_keys=3)
    tally = Tally.of(question="q", n_reports=2, plus=[1, 0, 0], minus=[0, 0, 0], asked=[1, 1, 0])
    raw = estimate(mechanism, tally)
    assert raw.frequency[2] == 0
    assert raw.frequency_se[2] == np.inf
    assert np.isnan(raw.mean[2])
    assert (raw.mean_interval()[0][2], raw.mean_interval()[1][2]) == (-1, 1)
    assert clip(raw).frequency[2] == clip(raw).mean[2] == 0


def test_no_report_at_all_estimates_nothing_and_says_so():
    mechanism = build("pckv-ue", 1, n_keys=2)
    raw = estimate(mechanism, Tally.of(question="q", n_reports=0, plus=[0, 0], minus=[0, 0], asked=[0, 0]))
    assert np.isinf(raw.frequency_se).all()
    assert np.isnan(raw.mean).all()


def test_clipping_leaves_plausible_numbers_alone_and_is_idempotent():
    mechanism = build("pckv-ue", 4, n_keys=2)
    tally = Tally.of(question="q", n_reports=1000, plus=[300, 5], minus=[60, 2], asked=[1000, 1000])
    raw = estimate(mechanism, tally)
    clipped = clip(raw)
    assert clipped.frequency[0] == raw.frequency[0]
    assert clipped.mean[0] == pytest.approx(raw.mean[0])
    assert clipped.steps == ("clip",)
    assert raw.steps == ()
    assert raw.frequency[1] < 0
    assert clipped.frequency[1] == 1 / 1000
    assert np.array_equal(clip(clipped).frequency, clipped.frequency)


def test_clipped_means_stay_in_range_for_any_tally():
    mechanism = build("ks-ue", 0.5, n_keys=200)
    rng = insecure_generator(3)
    plus, minus = rng.integers(0, 50, 200), rng.integers(0, 50, 200)
    clipped = clip(
        estimate(mechanism, Tally.of(question="q", n_reports=100, plus=plus, minus=minus, asked=[100] * 200))
    )
    assert np.abs(clipped.mean).max() <= 1
    assert clipped.frequency.min() >= 0.01
    assert clipped.frequency.max() <= 1


def test_a_tally_of_another_size_is_refused():
    with pytest.raises(TallyError, match="expected a tally of 3 keys, got 1"):
        estimate(
            build("ks-ue", 1, n_keys=3), Tally.of(question="q", n_reports=1, plus=[1], minus=[0], asked=[1])
        )


def test_unknown_steps_get_the_nearest_name():
    with pytest.raises(MechanismError, match='"clipp"; did you mean "clip"'):
        step("clipp")
