"""From cut records back to whole ones: numbers, errors, what liars can do; and whether intervals hold."""

import numpy as np
import pytest

from keyveil.estimate import estimate, lever, rank_ranges
from keyveil.estimate.sizes import UNMODELLED, SizeLaw, Truncation
from keyveil.estimate.whole import Truncations, untruncate
from keyveil.mechanisms import build
from keyveil.protocols import build_protocol
from keyveil.simulate import insecure_generator, play
from keyveil.simulate.datasets import movie_like
from keyveil.tally import Tally

HALVES = Truncation(law=SizeLaw.exactly(20), l=10)
TENTHS = Truncation(law=SizeLaw.exactly(20), l=2)
BUCKET = build("bucket", 2, n_keys=3, pairs_per_user=2)


def raw_of(plus=(3000, 2000, 1200), minus=(2000, 1000, 1100), n=9000):
    return estimate(BUCKET, Tally.of(question="q", n_reports=n, plus=plus, minus=minus, asked=[n] * 3))


def test_errors_grow_with_the_numbers_and_by_what_the_model_misses():
    raw = raw_of()
    whole = untruncate(raw, HALVES)
    assert whole.frequency == pytest.approx(2 * raw.frequency, rel=1e-6)
    missed = UNMODELLED * (whole.frequency - raw.frequency).clip(min=0)
    assert whole.frequency_se == pytest.approx(np.hypot(2 * raw.frequency_se, missed), rel=1e-6)
    assert whole.signed / whole.frequency == pytest.approx(raw.mean, rel=1e-9)


def test_means_stay_what_they_are_and_their_intervals_allow_for_any_values_that_were_not_heard():
    raw = raw_of()
    whole = untruncate(raw, HALVES)
    assert np.array_equal(whole.mean, raw.mean)
    (low, high), (least, most) = raw.mean_interval(), whole.mean_interval()
    # Every record of 20 is cut to 10, so that half of all users may have hidden the key.
    heard = raw.frequency_interval()[0]
    part = 0.5 / (heard + 0.5)
    assert least == pytest.approx((1 - part) * low - part)
    assert most == pytest.approx((1 - part) * high + part)


TASTES = {
    "nobody's": lambda size: np.where(size > 4, 0.0, 0.4),
    "everybody's": lambda size: np.full(size.shape, 0.4),
    "of the few who hold much": lambda size: np.where(size > 8, 1.0, 0.0),
    "of those who hold little, and of all who hold much": lambda size: np.where(size > 8, 1.0, 0.2),
}


@pytest.mark.parametrize("taste", TASTES)
@pytest.mark.parametrize("l", [1, 2, 4, 16])
def test_no_taste_hides_more_of_a_key_than_is_allowed_for(taste, l):
    """Exactly: a key that is held as people like, heard through a cut, lies in [F, F + most(F)]."""
    law = SizeLaw(sizes=np.array([0.0, 1, 3, 9, 30]), shares=np.array([0.1, 0.4, 0.3, 0.15, 0.05]))
    cut = Truncation(law=law, l=l)
    held = TASTES[taste](law.sizes) * (law.sizes > 0)
    kept = np.minimum(1.0, l / np.maximum(law.sizes, 1))
    share, frequency = float(law.shares @ (held * kept)), float(law.shares @ held)
    bound = cut.unheard()
    most = float(bound.most(np.array([share]))[0])
    assert share <= frequency <= share + most + 1e-12
    assert (frequency - share) / frequency <= bound.part(np.array([share]))[0] + 1e-12
    if taste == "of the few who hold much" and l < 9:
        # It is reached, so nothing smaller would hold.
        assert frequency == pytest.approx(share + most)


def test_the_bound_rises_is_concave_and_ends_where_all_long_records_are_cut():
    law = SizeLaw(sizes=np.array([1.0, 4, 10]), shares=np.array([0.5, 0.3, 0.2]))
    share = np.linspace(0, 1, 101)
    most = Truncation(law=law, l=2).unheard().most(share)
    assert np.all(np.diff(most) >= 0)
    assert np.all(np.diff(most, 2) <= 1e-12)
    assert most[-1] == pytest.approx(0.3 / 2 + 0.2 * 0.8)
    assert not Truncation(law=law, l=10).unheard().most(share).any()


def test_ranks_wait_until_what_may_be_hidden_cannot_change_them():
    law = SizeLaw(sizes=np.array([1.0, 20.0]), shares=np.array([0.9, 0.1]))
    raw = estimate(
        build("bucket", 4, n_keys=3, pairs_per_user=2),
        Tally.of(
            question="q",
            n_reports=10**6,
            plus=[100_000, 50_000, 40_000],
            minus=[20_000] * 3,
            asked=[10**6] * 3,
        ),
    )
    whole = untruncate(raw, Truncation(law=law, l=2))
    first, second, third = raw.frequency
    assert second - third < 0.09 < first - second, "up to 9 % may be hidden"
    sure, unsure = (rank_ranges(each, each.moments) for each in (raw, whole))
    assert sure.worst.tolist() == [1, 2, 3]
    assert (unsure.best.tolist(), unsure.worst.tolist()) == ([1, 2, 2], [1, 3, 3])


def test_a_key_that_nobody_was_asked_about_stays_unknown():
    raw = estimate(
        build("privkv", 1, n_keys=2),
        Tally.of(question="q", n_reports=50, plus=[20, 0], minus=[10, 0], asked=[50, 0]),
    )
    whole = untruncate(raw, HALVES)
    assert (whole.frequency[1], whole.frequency_se[1]) == (0, np.inf)
    assert np.isfinite(whole.frequency_se[0])


def test_each_key_goes_the_way_of_its_own_round():
    both = Truncations(here=np.array([True, False, True]), first=HALVES, second=TENTHS)
    whole = untruncate(raw_of(), both)
    one, other = (untruncate(raw_of(), cut) for cut in (HALVES, TENTHS))
    assert np.array_equal(whole.frequency_se, np.where(both.here, one.frequency_se, other.frequency_se))
    assert both.share(whole.frequency) == pytest.approx(raw_of().frequency, rel=1e-6)


def test_liars_move_the_brought_back_number_from_end_to_end():
    whole, share = untruncate(raw_of(), TENTHS), 0.01
    moved = whole.lever.shift(whole.frequency, whole.mean, share)
    pull, told = lever(BUCKET), raw_of().frequency
    for said in pull.says:
        lied = TENTHS.frequency((1 - share) * told + share * pull.of_report(said))
        assert (lied <= whole.frequency + moved.frequency_up + 1e-9).all()
        assert (lied >= whole.frequency - moved.frequency_down - 1e-9).all()
    assert (moved.frequency > 5 * pull.shift(told, whole.mean, share).frequency).all()


def test_intervals_of_auto_hold_for_users_with_long_records():
    people = movie_like(users=30_000, keys=3000)
    frequency = people.frequency()
    top = np.argsort(-frequency)[:50]
    protocol = build_protocol(
        "auto", 4, n_keys=3000, pairs_per_user=people.typical_size(), users=people.n_users
    )
    covered = {"whole": [], "cut": []}
    for seed in range(4):
        raw = play(protocol, people, insecure_generator(3, seed)).raw
        for name, each in (("whole", raw), ("cut", raw.unbiased)):
            low, high = each.frequency_interval()
            covered[name].append(((low <= frequency) & (frequency <= high))[top].mean())
    assert np.mean(covered["whole"]) > 0.9
    # What noise alone would allow, about cut records, misses most of them.
    assert np.mean(covered["cut"]) < 0.5
