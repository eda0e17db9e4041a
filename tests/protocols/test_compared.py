"""From version 5 on: sizes as fine as budgets tell them, and one round or two by what they promise."""

import json
import sys
from fractions import Fraction
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from keyveil.estimate.sizes import SIZE_MODEL, SizeLaw, Truncation, class_means
from keyveil.mechanisms import Bucket, PopularSize, Response
from keyveil.protocols import Promise, build_protocol
from keyveil.protocols.auto import NEWEST, TUNINGS, Auto, compare, discover
from keyveil.protocols.auto.choose import choose
from keyveil.protocols.auto.opening import Opening
from keyveil.protocols.auto.tuning import PROMISED
from keyveil.simulate import insecure_generator, play
from keyveil.simulate.zoo import make
from keyveil.tally import Tally

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def vectors():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")
        yield import_module("auto_versions")
        sys.modules.pop("auto_versions")


@pytest.mark.parametrize("version", sorted(TUNINGS))
def test_a_version_asks_and_finds_what_it_always_did(vectors, version):
    known = json.loads(vectors.PATH.read_text(encoding="utf-8"))
    for name, people, epsilon in vectors.crowds():
        found, recorded = vectors.course(people, epsilon, version), known[name][f"auto/{version}"]
        assert found["rounds"] == recorded["rounds"]
        for what in ("frequency", "mean", "unbiased", "length"):
            np.testing.assert_allclose(found[what], recorded[what], rtol=1e-6, atol=1e-12)


# --- sizes ---


@pytest.mark.parametrize("ratio", [0.5, 0.8, 0.95])
def test_the_mean_of_a_class_is_that_of_sizes_that_fall_evenly(ratio):
    sizes = np.arange(1, 200)
    shares = ratio ** sizes.astype(float)
    shares /= shares.sum()
    starts = (0, 1, 2, 3, 4, 6, 9, 14)
    ends = np.array([*(start - 1 for start in starts[1:]), 199.0])
    inside = [(start <= sizes) & (sizes <= end) for start, end in zip(starts, ends, strict=True)]
    told = np.array([shares[here].sum() for here in inside])
    found = class_means(starts, ends, told, 50.0)
    for place in range(5, len(starts) - 1):
        true = (shares * sizes)[inside[place]].sum() / told[place]
        # Far nearer than the geometric middle wherever that is off by more than a tenth.
        middle = np.sqrt(starts[place] * ends[place])
        assert abs(found[place] - true) < max(0.35 * abs(middle - true), 0.06 * true)


def test_an_empty_class_moves_nothing_and_a_class_of_one_size_is_that_size():
    means = class_means((0, 1, 2, 8), np.array([0.0, 1.0, 7.0, 11.0]), np.array([0.5, 0.5, 0.0, 0.0]), 3.0)
    assert means[:2].tolist() == [0.0, 1.0]
    assert 2 <= means[2] <= 7
    assert 8 <= means[3] <= 11


@pytest.mark.parametrize(("epsilon", "classes"), [(1, 9), (2, 9), (3, 9), (4, 11), (6, 11)])
def test_larger_budgets_tell_more_sizes_apart(epsilon, classes):
    started = Auto(epsilon=Fraction(epsilon), n_keys=100, users=10**5, pairs_per_user=4).start("c")
    before = Auto(epsilon=Fraction(epsilon), n_keys=100, users=10**5, pairs_per_user=4, version=3).start("c")
    starts = started.mechanism.encoder.starts
    assert len(starts) == classes
    if epsilon < 4:
        assert starts == before.mechanism.encoder.starts
    else:
        assert starts[:9] == tuple(range(9))


def test_noise_where_nobody_is_says_nothing_of_a_cut():
    asked = PopularSize(n_keys=9, popular=(0,), most=1, starts=(1, 3, 20))
    oracle = Response.for_epsilon(4, 4)
    law = SizeLaw(sizes=np.array([1.0, 2.0, 4.0]), shares=np.array([0.6, 0.3, 0.1]))
    cut, n = Truncation(law=law, l=2), 1000
    a, b = float(oracle.a), float(oracle.b)

    def believed(far, model):
        heard = np.array([0.5 - far, 0.45, 0.05, far])
        tally = Tally.of(question="q", n_reports=n, support=np.round(n * (b + (a - b) * heard)).astype(int))
        return cut.checked(asked, oracle, tally, np.full(9, 0.1), model).strength

    own = TUNINGS[NEWEST].size_model
    assert believed(0.02, own) == pytest.approx(believed(0.0, own), abs=0.02)
    assert believed(0.02, SIZE_MODEL) > believed(0.0, SIZE_MODEL) + 0.1


# --- one round or two ---


LONG = SizeLaw(sizes=np.array([5.0, 15, 40, 120]), shares=np.array([0.3, 0.4, 0.2, 0.1]))


def rounds_of(users, version=NEWEST):
    known = {"n_keys": 1000, "pairs_per_user": 60, "skew": 0.8}
    auto = Auto(epsilon=Fraction(4), users=users, version=version, **known)
    opening = Opening("c", 3, Fraction(8, 100))
    choice = choose(auto, LONG, 1000, 1 - opening.low)
    return 2 if discover.pays(auto, opening, choice, LONG) else 1


def test_two_rounds_are_taken_where_they_promise_less():
    assert [rounds_of(users) for users in (20_000, 200_000)] == [1, 2]
    assert [rounds_of(users, version=3) for users in (20_000, 200_000)] == [2, 2]


def test_a_candidate_that_is_not_found_has_no_second_answer():
    auto, low = Auto(epsilon=Fraction(4), n_keys=1000, users=200_000, pairs_per_user=60), Fraction(8, 100)
    choice = choose(auto, LONG, 1000, 1 - low)
    said = [
        compare.two_rounds(
            auto, low, LONG, Bucket.for_epsilon(Fraction(epsilon), n_keys=1000, pairs_per_user=49, rho=1)
        )
        for epsilon in (4, 2, 1)
    ]
    # The first round tells less, and who is measured is found by it.
    assert said == sorted(said)
    assert said[-1] > compare.one_round(auto, low, LONG, choice)


def test_one_round_is_better_where_it_is_taken():
    people = make("long", users=2000, keys=800, length=25.0, seed=11)
    truth = people.frequency()

    def error(version):
        protocol = build_protocol(
            "auto",
            4,
            n_keys=800,
            pairs_per_user=people.typical_size(),
            users=2000,
            version=f"auto/{version}",
        )
        found = [play(protocol, people, insecure_generator(3, run)).published.frequency for run in range(3)]
        return np.mean([(each - truth) ** 2 for each in found])

    assert error(5) < 0.9 * error(3)


# --- where something is promised ---


def test_no_group_is_smaller_than_devices_answer():
    for users in (10**5, 10**7):
        for version in (NEWEST, PROMISED):
            promise = Promise(1.0, 1e-8, 4 * users // 5, 0.5) if version == PROMISED else None
            for pairs in (1, 3, 30):
                protocol = build_protocol(
                    "auto", 4, n_keys=700, pairs_per_user=pairs, users=users, promise=promise
                )
                assert protocol.version == version
                assert min(stage.size for stage in protocol.stages()) >= 0.01
