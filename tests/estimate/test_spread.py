"""What reports say of how values are spread: without bias, in intervals that hold, and plausibly."""

from dataclasses import replace

import numpy as np
import pytest

from keyveil import Campaign
from keyveil.domain import DITHER_BINS
from keyveil.errors import CampaignError, DomainError, TallyError
from keyveil.estimate import (
    Spread,
    dithered_spread,
    flat_levels,
    marked,
    quantile_interval,
    shapes,
    windowed_spread,
)
from keyveil.mechanisms import build
from keyveil.release import release_found
from keyveil.simulate import Population, draw_tally, insecure_generator
from keyveil.spreads import ValueSpread

N, RUNS, LEVELS = 20_000, 60, 8
QUANTILES = (0.1, 0.5, 0.9)
# The confidence of five standard errors either side.
FIVE_ERRORS = 1 - 5.7e-7


def people(seed=1):
    """Three keys, each held by its own part: values with two humps, an atom at 0, and spread evenly."""
    rng = insecure_generator(seed)
    codes = rng.choice(3, N, p=(0.5, 0.3, 0.2))
    humps = np.where(rng.random(N) < 0.4, rng.normal(0.2, 0.05, N), rng.normal(0.75, 0.07, N))
    atom = np.where(rng.random(N) < 0.45, 0.0, rng.normal(0.5, 0.12, N))
    values = np.choose(codes, [humps, atom, rng.random(N)]).clip(0, 1)
    names = ["humps", "atom", "even"]
    return Population.from_pairs(np.arange(N), codes, 2 * values - 1, n_users=N, names=names)


PEOPLE = people()


def held_by(code):
    return (PEOPLE.values[PEOPLE.codes == code] + 1) / 2


def above(values, levels=LEVELS):
    """The part of values above each level, on average over its bin."""
    return np.clip(values[:, None] * levels - np.arange(levels), 0, 1).mean(axis=0)


def tell(mechanism, seed, dither=LEVELS):
    tally = draw_tally(mechanism, PEOPLE, insecure_generator(7, seed), dither=dither)
    return dithered_spread(mechanism, tally)


@pytest.fixture(scope="module")
def told():
    mechanism = build("bucket", 4, n_keys=3)
    return [tell(mechanism, seed) for seed in range(RUNS)]


def test_levels_are_unbiased_and_vary_as_they_say(told):
    found = np.array([(each.frequency[:, None] + each.signed) / 2 for each in told])
    truth = np.stack([above(held_by(code)) * held_by(code).size / N for code in range(3)])
    error = found.std(axis=0, ddof=1) / RUNS**0.5
    assert np.all(np.abs(found.mean(axis=0) - truth) < 5 * error)
    # The wrong twin: levels half a bin higher.
    higher = np.stack([above(held_by(code) - 0.5 / LEVELS) * held_by(code).size / N for code in range(3)])
    assert np.any(np.abs(found.mean(axis=0) - higher) > 5 * error)
    said = np.mean([each.linear(np.eye(LEVELS)).held_variance for each in told], axis=0)
    # A variance from 60 draws is known to 18 %; people do not change from draw to draw, so less is seen.
    assert np.all(found.var(axis=0, ddof=1) < 1.9 * said)
    assert found.var(axis=0, ddof=1).mean() > 0.8 * said.mean()


def test_the_mean_of_levels_and_of_marks_is_the_mean(told):
    one = told[0]
    values = one.linear(np.full((1, LEVELS), 1 / LEVELS)).share()[:, 0]
    marks = one.marks().share()
    assert marks.sum(axis=1) == pytest.approx(np.ones(3))
    assert marks @ np.linspace(0, 1, LEVELS + 1) == pytest.approx(values)


@pytest.mark.parametrize("name", ["bucket", "kvue"])
def test_intervals_hold_and_shorter_ones_do_not(name):
    mechanism = build(name, 4, n_keys=3)
    quantiles, bands, variances, short = [], [], [], []
    for seed in range(RUNS):
        spread = tell(mechanism, 1000 + seed)
        centre = shapes(spread)
        for q in QUANTILES:
            truth = np.array([np.quantile(held_by(code), q, method="inverted_cdf") for code in range(3)])
            low, high = quantile_interval(spread, q, centre=centre)
            quantiles.append((low <= truth) & (truth <= high))
            low, high = quantile_interval(spread, q, 0.5, centre=centre)
            short.append((low <= truth) & (truth <= high))
        levels = np.pad(
            np.stack([above(held_by(code)) for code in range(3)]),
            ((0, 0), (1, 1)),
            constant_values=((0, 0), (1, 0)),
        )
        low, high = spread.band()
        bands.append(((low <= -np.diff(levels)) & (-np.diff(levels) <= high)).all(axis=1))
        _, low, high = spread.values_variance()
        truth = np.array([held_by(code).var() for code in range(3)])
        variances.append((low <= truth) & (truth <= high))
    # Five standard errors below 95 %: 0.91 of 540 quantiles, 0.87 of 180 bands and variances.
    assert np.mean(quantiles) > 0.91
    assert np.mean(bands) > 0.87
    assert np.mean(variances) > 0.87
    assert np.mean(short) < 0.91


def test_an_atom_at_the_end_is_found_at_the_end(told):
    low, high = quantile_interval(told[0].of(np.array([1])), 0.3)
    assert low[0] == 0
    assert high[0] < 0.1


def test_more_levels_than_noise_allows_make_long_intervals_not_wrong_ones():
    mechanism = build("bucket", 0.5, n_keys=3)
    low, high = quantile_interval(tell(mechanism, 3, dither=64), 0.5, FIVE_ERRORS)
    assert np.all(high - low > 0.1)
    assert np.all(low < [np.median(held_by(code)) for code in range(3)])
    assert np.all(high > [np.median(held_by(code)) for code in range(3)])


def test_a_flat_shape_is_not_excluded_more_often_than_promised_and_others_are(told):
    flat = np.mean([each.flat_chance()[2] < 0.05 for each in told])
    assert flat < 0.05 + 5 * (0.05 * 0.95 / RUNS) ** 0.5
    assert np.mean([each.flat_chance()[1] < 0.05 for each in told]) > 0.95


def test_shapes_fall_lie_within_0_and_1_and_are_nearer_than_the_levels_themselves(told):
    truth = np.stack([above(held_by(code)) for code in range(3)])
    own, kept = [], []
    for each in told:
        found = shapes(each)
        assert np.all(np.diff(found, axis=1) <= 1e-12)
        assert np.all((found >= 0) & (found <= 1))
        own.append(np.abs((1 + each.signed / each.frequency[:, None]) / 2 - truth).mean())
        kept.append(np.abs(found - truth).mean())
    assert np.mean(kept) < 0.9 * np.mean(own)


def test_where_nothing_was_heard_shapes_are_those_of_all_and_intervals_are_everything():
    mechanism = build("kvue", 4, n_keys=3)
    whole = tell(mechanism, 1)
    wide = whole.among((2, 0, 1), 5)
    assert wide.is_known.tolist() == [True, True, True, False, False]
    assert np.array_equal(wide.signed[:3], whole.signed[[1, 2, 0]])
    low, high = quantile_interval(wide, 0.5)
    assert (low[3:].tolist(), high[3:].tolist()) == ([0, 0], [1, 1])
    assert [end[4].tolist() for end in wide.band()] == [[0] * 9, [1] * 9]
    assert [float(end[4]) for end in wide.values_variance()[1:]] == [0, 0.25]
    assert wide.flat_chance()[4] == 1
    assert np.array_equal(shapes(wide)[3], shapes(wide)[4])
    nothing = tell(mechanism, 1).of(np.zeros(0, dtype=np.int64)).among((), 2)
    assert np.array_equal(shapes(nothing), np.tile(flat_levels(LEVELS), (2, 1)))


def test_a_tally_that_is_not_kept_apart_tells_no_spread():
    mechanism = build("kvue", 4, n_keys=3)
    with pytest.raises(TallyError, match="kept apart"):
        dithered_spread(mechanism, draw_tally(mechanism, PEOPLE, insecure_generator(1)))


def test_a_square_wave_tells_the_same():
    mechanism = build("ue-sw:extremal", 4, n_keys=3, bins=16)
    covered = []
    for seed in range(20):
        tally = draw_tally(mechanism, PEOPLE, insecure_generator(9, seed))
        spread = windowed_spread(mechanism, tally, LEVELS)
        low, high = quantile_interval(spread, 0.5, centre=shapes(spread))
        truth = np.array([np.median(held_by(code)) for code in range(3)])
        covered.append((low - 1 / 32 <= truth) & (truth <= high + 1 / 32))
    assert np.mean(covered) > 0.8


def campaign(**changes):
    fields = {
        "name": "c",
        "epsilon": 4,
        "keys": ["a", "b", "c"],
        "value_range": (10, 30),
        "pairs_per_user": 1,
    }
    return Campaign(**{**fields, "mechanism": "bucket", "unit": "min", **changes})


def test_a_release_tells_quantiles_and_distributions_in_its_unit():
    asked = campaign()
    stands = asked.first_round()
    tally = draw_tally(
        stands.mechanism, PEOPLE, insecure_generator(4), question=stands.question, dither=stands.dither
    )
    assert stands.dither == DITHER_BINS
    release = asked.estimate(tally, quantiles=(0.1, 0.5, 0.9))
    row = release.rows()[0]
    for name in ("q10", "median", "q90", "variance"):
        assert row[f"{name}_low"] <= row[name] <= row[f"{name}_high"]
    assert 10 <= row["q10"] < row["median"] < row["q90"] <= 30
    assert row["median"] == pytest.approx(10 + 20 * np.median(held_by(0)), abs=1)
    assert row["variance"] == pytest.approx(400 * held_by(0).var(), rel=0.2)
    assert [each["shape"] for each in release.rows()] == ["known", "known", "unknown"]
    assert release.quantile("a", 0.5) == pytest.approx((row["median"], row["median_low"], row["median_high"]))
    assert len(row["bins"]) == len(row["bins_low"]) == len(release.metadata["bins"]) == DITHER_BINS + 1
    assert release.metadata["bins_post"] == ["shapes"]
    own = release.distribution("b")
    assert (own.name, own.unit, own.is_known) == ("b", "min", True)
    assert np.all((own.low <= own.shares + 0.2) & (own.shares - 0.2 <= own.high))
    assert "shape unknown" in release.distribution("c")._repr_html_()
    assert len(own.plot().axes) == 1
    assert "bin_0" not in release.to_csv()
    assert release.to_csv(bins=True).splitlines()[0].endswith("bin_high_16")
    for wrong in (0, 1, -0.5):
        with pytest.raises(DomainError, match="between 0 and 1"):
            release.quantile("a", wrong)
    with pytest.raises(DomainError, match="no key"):
        release.distribution("z")


def test_holders_who_may_not_have_been_heard_may_have_any_values():
    asked = campaign()
    stands = asked.first_round()
    tally = draw_tally(
        stands.mechanism, PEOPLE, insecure_generator(4), question=stands.question, dither=stands.dither
    )
    outcome = asked.protocol().next([(stands, tally)])
    whole = ValueSpread.of(outcome.spread, outcome.distribution, outcome.raw, (10, 30))
    cut = replace(whole, unheard=np.full(3, 0.3))
    for one, other in ((whole.quantile(0.5), cut.quantile(0.5)), (whole.variance(), cut.variance())):
        assert np.all(other.low <= one.low)
        assert np.all(other.high >= one.high)
        assert np.any(other.high > one.high)
    assert np.all(cut.bands()[1] >= 0.3)
    # Whoever holds the lowest 30 % may be any: the median is then between the 29th and the 71st percentile.
    assert cut.quantile(0.5).low[0] < whole.quantile(0.32).high[0]
    # What was stored before there were spreads stays a release.
    before = replace(outcome, spread=None)
    old = release_found(asked, before, epsilon_exact=4.0)
    assert "median" not in old.columns
    assert old.quantile("a", 0.5)[1:] == (10, 30)


def test_marks_hold_all_values_once():
    one = marked(np.array([[0.75, 0.25], [1.0, 1.0]]))
    assert one.shares.tolist() == [[0.25, 0.5, 0.25], [0.0, 0.0, 1.0]]
    assert one.quantile(0.5).tolist() == [0.0, 0.75]


def test_a_spread_says_how_many_levels_it_has(told):
    assert isinstance(told[0], Spread)
    assert told[0].levels == LEVELS


@pytest.mark.parametrize("mechanism", ["bucket", "kvue"])
def test_values_beyond_the_range_are_counted_apart_and_means_allow_for_them(mechanism):
    rng = insecure_generator(3)
    values = rng.uniform(10, 30, N)
    values[: N // 10], values[N // 10 : N // 4] = -500, 1e9
    asked = campaign(keys=["a"], mechanism=mechanism, beyond=True)
    units = [asked.domain.to_unit(value) for value in values]
    assert asked.domain.reach == pytest.approx((10 - 20 / 14, 30 + 20 / 14))
    people_beyond = Population.from_pairs(
        np.arange(N), np.zeros(N, dtype=np.int64), np.array(units), n_users=N, names=["a"]
    )
    stands = asked.first_round()
    tally = draw_tally(stands.mechanism, people_beyond, rng, question=stands.question, dither=stands.dither)
    release = asked.estimate(tally)
    row = release.rows()[0]
    assert row["below_low"] < 0.10 < row["below_high"]
    assert row["above_low"] < 0.15 < row["above_high"]
    assert (row["below"], row["above"]) == pytest.approx((0.10, 0.15), abs=0.05)
    assert release.metadata["beyond"] == [10, 30]
    assert release.metadata["bins"][1:16:14] == pytest.approx([10, 30])
    mean = np.mean([asked.domain.from_unit(unit) for unit in units])
    assert row["mean_low"] < mean < row["mean_high"]
    # Moved to the ends of the range nothing is seen of them.
    plain = campaign(keys=["a"], mechanism=mechanism)
    assert "below" not in plain.estimate(plain.tally([])).columns


def test_values_beyond_need_bins_of_their_own():
    for dither in (1, 2):
        with pytest.raises(CampaignError, match=r"there must be 4, got \d, at \$.beyond"):
            campaign(beyond=True, dither=dither)
    text = campaign(beyond=True).canonical_json
    assert '"beyond":true' in text
    assert Campaign.from_text(text) == campaign(beyond=True)
    assert "beyond" not in campaign().canonical_json
    with pytest.raises(CampaignError, match="beyond must be true or false"):
        campaign(beyond=1)
