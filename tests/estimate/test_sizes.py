"""Sizes and truncation: the table and its inverse, laws learnt from a group, how far the model holds."""

import math

import numpy as np
import pytest

from keyveil.estimate.shrink import Evidence
from keyveil.estimate.sizes import SizeLaw, Truncation, class_ends, class_middles, size_classes
from keyveil.mechanisms import EncodedOracle, PopularSize, Response, SizeClass, Wave, build
from keyveil.protocols.auto import TUNINGS
from keyveil.simulate import Population, draw_tally, insecure_generator
from keyveil.testing import Z

LAWS = {
    "ten": SizeLaw.exactly(10),
    "some hold nothing": SizeLaw(sizes=np.array([0.0, 1, 5, 40]), shares=np.array([0.3, 0.3, 0.3, 0.1])),
    "even": SizeLaw(sizes=np.arange(1.0, 31), shares=np.full(30, 1 / 30)),
}


def of_sizes(sizes, keys=60):
    """Users of these sizes, each with the first keys."""
    owners = np.repeat(np.arange(sizes.size), sizes)
    codes = np.concatenate([np.arange(size) for size in sizes])
    return Population.from_pairs(
        owners, codes, np.zeros(owners.size), n_users=sizes.size, names=[str(k) for k in range(keys)]
    )


# --- classes and the table ---


@pytest.mark.parametrize("largest", [1, 2, 5, 6, 7, 9, 30, 300, 5000])
def test_classes_begin_at_nothing_ascend_and_end_in_time(largest):
    starts = size_classes(largest)
    assert starts[0] == 0
    assert list(starts) == sorted(set(starts))
    assert largest / 1.4 <= starts[-1] <= largest
    ends = class_ends(starts)
    middles = class_middles(starts)
    assert np.all(ends >= starts)
    assert np.all((np.array(starts) <= middles) & (middles <= ends))
    assert ends[:-1].tolist() == [start - 1 for start in starts[1:]]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("l", [1, 3, 12])
@pytest.mark.parametrize("strength", [0.0, 0.5, 1.0, 1.5])
def test_share_and_frequency_undo_each_other_and_ascend(law, l, strength):
    cut = Truncation(law=LAWS[law], l=l, strength=strength)
    most = 0.99 * float(LAWS[law].shares[LAWS[law].sizes > 0].sum())
    frequency = np.concatenate([[-0.3, 0.0], np.geomspace(1e-7, most, 60)])
    share = cut.share(frequency)
    assert cut.frequency(share) == pytest.approx(frequency, rel=1e-6, abs=1e-12)
    assert np.all(np.diff(share) > 0)
    assert np.all(share[1:] <= frequency[1:] * (1 + 1e-12))
    assert share[1] == 0
    if strength == 0:
        assert share == pytest.approx(frequency)


def test_rare_keys_lose_what_pairs_lose_and_longer_records_more():
    law = LAWS["even"]
    for l in (1, 5, 20):
        rare = Truncation(law=law, l=l).share(np.array([1e-6]))[0] / 1e-6
        assert rare == pytest.approx(law.kept(l) / law.mean, rel=1e-3)
    shares = [Truncation(law=law, l=l).share(np.array([0.2]))[0] for l in (1, 2, 5, 10, 30)]
    assert np.all(np.diff(shares) > 0)
    assert shares[-1] == pytest.approx(0.2)


def test_truncation_is_idle_where_l_covers_all_and_then_changes_nothing():
    for law in LAWS.values():
        longest = int(law.sizes.max())
        assert Truncation(law=law, l=longest).is_idle
        assert not Truncation(law=law, l=longest - 1).is_idle
        frequency = np.linspace(-0.1, 0.6, 9)
        assert Truncation(law=law, l=longest).share(frequency) == pytest.approx(frequency)
        assert Truncation(law=law, l=longest).left_out(frequency) == pytest.approx(np.zeros(9), abs=1e-12)
    unused = SizeLaw(sizes=np.array([1.0, 9]), shares=np.array([1.0, 0.0]))
    assert Truncation(law=unused, l=1).is_idle


def test_a_law_of_known_sizes_counts_them():
    law = SizeLaw.of(np.array([0, 2, 2, 5]))
    assert law.sizes.tolist() == [0, 2, 5]
    assert law.shares.tolist() == [0.25, 0.5, 0.25]
    assert law.mean == 2.25
    assert law.kept(3) == 1.75


# --- learnt laws ---


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [1, 4])
def test_few_classes_are_told_within_their_errors_and_another_law_is_not(epsilon):
    n, true = 40_000, np.array([0.1, 0.4, 0.3, 0.15, 0.05])
    sizes = insecure_generator(1).choice(5, size=n, p=true)
    m = EncodedOracle(
        encoder=SizeClass(n_keys=60, starts=(0, 1, 2, 3, 4)), oracle=Response.for_epsilon(epsilon, 5)
    )
    law = SizeLaw.from_answers(m.encoder, m.oracle, draw_tally(m, of_sizes(sizes), insecure_generator(2)))
    shares = np.bincount(sizes) / n
    a, b = float(m.a), float(m.b)
    slack = Z * math.sqrt((b + (a - b) * 0.4) / n) / (a - b)
    assert law.shares.sum() == pytest.approx(1)
    assert np.all(law.shares >= 0)
    assert np.abs(law.shares - shares).max() < slack
    assert np.abs(law.shares - np.roll(shares, 1)).max() > slack
    # The last class stands for 4 and more, so its middle is above 4.
    assert abs(law.mean - shares @ law.sizes) < law.mean_error


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [1, 4])
def test_a_wave_tells_the_mean_size_within_its_error_and_twice_the_sizes_are_another_law(epsilon):
    starts, n = size_classes(40), 20_000
    sizes = np.clip(np.round(insecure_generator(3).lognormal(2.2, 0.5, n)), 1, 40).astype(int)
    m = EncodedOracle(
        encoder=SizeClass(n_keys=60, starts=starts), oracle=Wave.for_epsilon(epsilon, len(starts))
    )
    law, double = (
        SizeLaw.from_answers(m.encoder, m.oracle, draw_tally(m, of_sizes(some), insecure_generator(4)))
        for some in (sizes, np.minimum(2 * sizes, 60))
    )
    place = np.searchsorted(np.array(starts), sizes, side="right") - 1
    true = float(law.sizes[place].mean())
    assert abs(law.mean - true) < Z / 2 * law.mean_error
    assert abs(double.mean - true) > Z / 2 * law.mean_error
    assert law.mean_error < true / 4


# --- how much of the model's truncation is real ---


def crowd(follows_model, users=60_000, keys=300):
    """Light and heavy users; popular keys are popular with everybody, or only as a model says."""
    rng = insecure_generator(7)
    weight = 1 / np.arange(1, keys + 1.0)
    heavy = rng.random(users) < 0.3
    size = np.where(heavy, 40.0, 3.0)
    held = -np.expm1(-size[:, None] * (weight / weight.sum()))
    if not follows_model:
        held[:, :20] = held[:, :20].mean(axis=0)
    owners, codes = np.nonzero(rng.random(held.shape) < held)
    return Population.from_pairs(
        owners, codes, np.zeros(owners.size), n_users=users, names=[str(k) for k in range(keys)]
    )


def evidence(frequency, cut):
    """As a million reports would tell it without noise."""
    return Evidence(
        frequency=frequency,
        signed=np.zeros_like(frequency),
        asked=np.full_like(frequency, 1e6),
        moments=build("bucket", 4, n_keys=frequency.size, pairs_per_user=cut.l).moments,
        truncation=cut,
    )


@pytest.mark.statistical
def test_strength_is_near_one_where_the_model_holds_and_small_where_everybody_holds_the_popular_keys():
    learnt, real = {}, {}
    for follows in (True, False):
        people, l, popular = crowd(follows), 5, np.arange(20)
        cut = Truncation(law=SizeLaw.of(people.sizes), l=l)
        kept = np.minimum(1.0, l / np.maximum(people.sizes, 1))
        owners = np.repeat(np.arange(people.n_users), people.sizes)
        truncated = np.bincount(people.codes, weights=kept[owners]) / people.n_users
        whole = people.frequency()[popular]
        encoder = PopularSize(
            n_keys=300,
            popular=tuple(popular.tolist()),
            most=math.ceil(TUNINGS[1].most_popular * whole.sum()),
            starts=(1, 6, 9, 14, 26),
        )
        m = EncodedOracle(encoder=encoder, oracle=Response.for_epsilon(4, encoder.n_symbols))
        seen = evidence(truncated, cut)
        tally = draw_tally(m, people, insecure_generator(5))
        learnt[follows] = cut.checked(encoder, m.oracle, tally, seen.frequency).strength
        modelled = cut.share(whole).sum() / whole.sum()
        real[follows] = math.log(truncated[popular].sum() / whole.sum()) / math.log(modelled)
    # Classes of sizes are coarse: a tenth is what they leave unknown.
    for follows, strength in learnt.items():
        assert strength == pytest.approx(real[follows], abs=0.1)
    assert learnt[True] == pytest.approx(1, abs=0.1)
    assert learnt[False] < 0.75


def test_strength_is_the_guess_where_nothing_is_heard_or_nothing_is_cut():
    encoder = PopularSize(n_keys=3, popular=(0,), most=1, starts=(1, 3))
    m = EncodedOracle(encoder=encoder, oracle=Response.for_epsilon(1, encoder.n_symbols))
    nobody = Population.from_pairs(
        np.zeros(0, dtype=int), np.zeros(0, dtype=int), np.zeros(0), n_users=50, names=list("abc")
    )
    for law in (SizeLaw.exactly(2), SizeLaw.exactly(9)):
        seen = evidence(np.full(3, 0.1), Truncation(law=law, l=2))
        tally = draw_tally(m, nobody, insecure_generator(1))
        assert 0.4 < seen.truncation.checked(encoder, m.oracle, tally, seen.frequency).strength < 1.2
