"""What cutting records does, and records with nothing but some keys, against people counted one by one."""

import numpy as np
import pytest

from keyveil.errors import DomainError
from keyveil.estimate.sizes import SizeLaw
from keyveil.plan import Crowd, alternatives, even_sizes, tailed_sizes
from keyveil.plan.band import banded
from keyveil.plan.strata import Strata
from keyveil.simulate import insecure_generator
from keyveil.simulate.foresight import counted_crowd
from keyveil.simulate.zoo import make


def strata_of(people):
    return Strata.count(people.sizes, people.codes, people.values, n_keys=people.n_keys)


@pytest.mark.parametrize("name", ["head-heavy", "by-length", "dense", "dominant"])
def test_strata_are_the_people_they_were_counted_from(name):
    people = make(name, users=3000, seed=2)
    strata = strata_of(people)
    assert strata.shares.sum() == pytest.approx(1)
    assert strata.law.mean == pytest.approx(people.sizes.mean())
    assert strata.frequency == pytest.approx(people.frequency())
    held = strata.frequency > 0
    assert strata.mean[held] == pytest.approx(people.mean()[held])


@pytest.mark.parametrize("name", ["head-heavy", "niche", "by-length"])
def test_a_cut_leaves_what_it_leaves_of_people(name):
    """Where keys, sizes and values hang together no law of sizes alone can say it."""
    people, l = make(name, users=4000, seed=3), 4
    chance = np.repeat(np.minimum(1, l / np.maximum(people.sizes, 1)), people.sizes)
    kept = strata_of(people).kept(l)
    left = np.bincount(people.codes, chance, people.n_keys) / people.n_users
    signed = np.bincount(people.codes, chance * people.values, people.n_keys) / people.n_users
    assert kept.share == pytest.approx(left, rel=0.03, abs=2e-4)
    assert kept.signed == pytest.approx(signed, rel=0.03, abs=3e-4)
    lonely = Crowd(users=4000, n_keys=people.n_keys, law=SizeLaw.of(people.sizes))
    assert np.abs(lonely.strata.kept(l).share - np.sort(left)[::-1]).max() > 0.01


@pytest.mark.parametrize("name", ["long", "clusters", "dense"])
def test_records_with_nothing_but_some_keys(name):
    people = make(name, users=4000, seed=4)
    keys = np.sort(insecure_generator(1).permutation(people.n_keys)[: people.n_keys // 3])
    told, true = strata_of(people).only(keys), people.restrict(keys)
    assert told.shares.sum() == pytest.approx(1)
    assert told.frequency == pytest.approx(true.frequency(), rel=1e-6, abs=1e-12)
    assert told.law.mean == pytest.approx(true.sizes.mean(), rel=0.02)
    reached = np.cumsum(told.shares)[np.searchsorted(told.sizes, np.median(true.sizes), side="right") - 1]
    assert reached == pytest.approx((true.sizes <= np.median(true.sizes)).mean(), abs=0.12)


def test_sizes_are_even_or_have_a_tail():
    assert even_sizes(3).sizes.tolist() == [1, 2, 3]
    assert even_sizes(60).mean == pytest.approx(30.5)
    law = tailed_sizes(10, 1.2, 1000)
    assert law.shares[law.sizes <= 10].sum() == pytest.approx(0.9, abs=0.03)
    assert law.sizes.max() > 40
    assert tailed_sizes(10, 1.2, 25).sizes.max() <= 25
    assert tailed_sizes(10, 0.0, 100).sizes == pytest.approx([10])


def test_a_crowd_carries_what_was_counted():
    people = make("niche", users=3000, seed=5)
    crowd = counted_crowd(people)
    assert crowd.frequency == pytest.approx(np.sort(people.frequency())[::-1])
    assert crowd.usual_size == pytest.approx(people.typical_size(), rel=0.12)
    assert crowd.keys(7).frequency == pytest.approx(crowd.frequency[:7])
    with pytest.raises(DomainError, match="expected data of 7 keys, got 400"):
        Crowd(users=10, n_keys=7, law=crowd.law, counted=crowd.counted)


def test_many_keys_are_all_there_though_ranks_are_few():
    crowd = Crowd(users=10, n_keys=30_000, law=even_sizes(3))
    assert crowd.ranks.size <= 2000
    every = crowd.keys(30_000)
    assert every.frequency.size == 30_000
    assert every.frequency.sum() == pytest.approx(2, rel=0.01)
    assert every.mean.mean() == pytest.approx(0, abs=0.02)


def test_tastes_growth_and_means_are_in_the_strata():
    crowd = Crowd(users=10, n_keys=50, law=even_sizes(12))
    by_name = {"taste": 0.6, "growth": 0.3}
    for name, dial in by_name.items():
        other = Crowd(users=10, n_keys=50, law=even_sizes(12), **{name: dial})
        assert other.strata.held.sum() == pytest.approx(crowd.strata.held.sum(), rel=1e-3)
    heavy = Crowd(users=10, n_keys=50, law=even_sizes(12), taste=0.6)
    lost = 1 - heavy.strata.kept(2).share[0] / heavy.frequency[0]
    assert lost > 1 - crowd.strata.kept(2).share[0] / crowd.frequency[0], "long records hold what all hold"
    grown = Crowd(users=10, n_keys=50, law=even_sizes(12), growth=0.3)
    assert (grown.strata.kept(2).mean < grown.strata.mean).all()


def test_a_band_holds_the_guess_and_all_who_may_come_instead():
    from keyveil.plan import candidates

    crowd = Crowd(users=10_000, n_keys=60, law=even_sizes(6))
    (first, *_) = candidates(1.0, crowd, want="mean", at=None)
    told, others = first.predict(crowd), [first.predict(each) for each in alternatives(crowd)]
    wide = banded(told, others)
    for each in (told, *others):
        assert wide.frequency_low <= each.frequency_rmse <= wide.frequency_high
        assert wide.mean_low <= each.mean_rmse <= wide.mean_high
    assert wide.frequency_high > 1.2 * told.frequency_rmse
    assert len(alternatives(counted_crowd(make("tiny", seed=1)))) == 2
