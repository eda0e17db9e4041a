"""From cut records back to whole ones: numbers, errors, what liars can do; and whether intervals hold."""

import numpy as np
import pytest

from keyveil.estimate import estimate, lever
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


def test_means_and_their_intervals_stay_what_they_are():
    raw = raw_of()
    whole = untruncate(raw, HALVES)
    assert np.array_equal(whole.mean, raw.mean)
    assert np.array_equal(whole.mean_interval(), raw.mean_interval())


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
