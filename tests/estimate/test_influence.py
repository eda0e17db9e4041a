"""The printed bound: no report, of all there are, pulls a key further than its lever says."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from keyveil.errors import MechanismError
from keyveil.estimate import estimate, lever
from keyveil.estimate.influence import Statement
from keyveil.mechanisms import REGISTRY, EncodedOracle, Response, SizeClass, build
from keyveil.protocols import build_protocol
from keyveil.tally import Tally, count

SIGNED = ("privkv", "kvue", "pckv-ue", "pckv-grr", "ks-ue", "bucket", "levels")
EVERY = [name for name in REGISTRY if name != "privkv-broadcast"]


def small(name, **options):
    return build(name, 1, n_keys=3, **{**REGISTRY[name].small_options, **options})


def said_of(mechanism, answer, code):
    """What one answer says of a key, by the mechanism's own ticks."""
    heard, sign, asked = 0.0, 0.0, "bins" not in dir(mechanism)
    for name, place in mechanism.ticks(answer):
        if place[0] != code:
            continue
        if name == "asked":
            asked = True
        elif name == "bins":
            heard += 1
            if name == "bins" and hasattr(mechanism, "debias"):
                sign += 2 * place[1] / (mechanism.bins - 1) - 1
        elif name in ("plus", "minus"):
            heard, sign = heard + 1, sign + (1 if name == "plus" else -1)
        elif name in ("held", "support"):
            heard += 1
    return Statement(heard, sign) if asked or heard else None


def answers_of(mechanism):
    return itertools.islice(mechanism.answers(), 20_000)


@pytest.mark.parametrize("name", EVERY)
def test_every_answer_lies_within_what_a_lever_says(name):
    mechanism = small(name)
    pull, met = lever(mechanism), set()
    for answer in answers_of(mechanism):
        said = said_of(mechanism, answer, 1)
        if said is None:
            continue
        if pull.signed is None:
            said = Statement(said.heard, 0)
        met.add(said)
    for heard, sign in met:
        ends = [pull.of_report(each) for each in pull.says]
        assert min(ends) - 1e-9 <= pull.of_report(Statement(heard, sign)) <= max(ends) + 1e-9
        assert abs(sign) <= max(abs(each.sign) for each in pull.says)
    assert {each for each in pull.says if pull.signed is not None} <= met or pull.signed is None


@pytest.mark.parametrize("name", [name for name in SIGNED if name not in ("privkv", "kvue", "levels")])
@pytest.mark.parametrize("share", [0.01, 0.05, 0.3])
def test_no_tally_with_hostile_reports_moves_further(name, share):
    """All answers of a small mechanism, as all hostile reports, on top of a tally of honest ones."""
    # Of sixteen hashes some give both signs of a key one bucket, whichever key it is.
    mechanism = small(name, **({"cohorts": 16} if name == "bucket" else {}))
    honest, hostile = 10_000, round(10_000 * share / (1 - share))
    rng = np.random.default_rng(5)
    payload = mechanism.layout.encode
    answers = list(answers_of(mechanism))
    picked = [answers[i] for i in rng.integers(0, len(answers), 200)]
    plain = scaled(count(mechanism, [payload(a) for a in picked], question="q"), honest // 200)
    clean = estimate(mechanism, plain)
    bound = clean.lever.shift(clean.frequency, np.clip(clean.mean, -1, 1), hostile / (honest + hostile))
    most = np.zeros((2, 3))
    for answer in answers:
        lies = scaled(count(mechanism, [payload(answer)], question="q"), hostile)
        moved = estimate(mechanism, plain + lies).frequency - clean.frequency
        most = np.maximum(most, [moved, -moved])
        assert (moved <= bound.frequency_up + 1e-9).all()
        assert (-moved <= bound.frequency_down + 1e-9).all()
    assert np.allclose(most, [bound.frequency_up, bound.frequency_down], rtol=1e-6), "and it is reached"


def scaled(tally, times):
    cells = {name: counts * times for name, counts in tally.cells.items()}
    return Tally.of(question=tally.question, n_reports=tally.n_reports * times, **cells)


@pytest.mark.parametrize("name", SIGNED)
def test_means_move_no_further_either(name):
    mechanism = small(name)
    rng = np.random.default_rng(6)
    pull, f, m = lever(mechanism), rng.uniform(0.02, 0.9, 200), rng.uniform(-1, 1, 200)
    for share in (0.002, 0.02, 0.2):
        part, bound = pull.focus(share), pull.shift(f, m, share)
        low, high = m, m
        for said in pull.says:
            frequency = (1 - part) * f + part * pull.of_report(said)
            signed = (1 - part) * f * m + part * said.sign * pull.signed
            mean = np.where(frequency > 0, np.clip(signed / np.where(frequency > 0, frequency, 1), -1, 1), m)
            low, high = np.minimum(low, mean), np.maximum(high, mean)
        assert (bound.mean_up >= high - m - 1e-9).all()
        assert (bound.mean_down >= m - low - 1e-9).all()


def test_an_index_that_is_the_devices_choice_draws_all_of_them_to_one_key():
    pull = lever(build("kvue", 1, n_keys=100))
    # 1,000 hostile reports of 100,000 meet 990 honest ones at the key.
    assert pull.focus(0.01) == pytest.approx(1000 / 1990)
    assert lever(build("pckv-ue", 1, n_keys=100)).focus(0.01) == 0.01


def test_a_group_is_joined_by_all_of_them():
    half = lever(build("pckv-grr", 1, n_keys=10)).within(0.5)
    assert half.focus(0.01) == pytest.approx(0.01 / (0.01 + 0.99 / 2))


def test_who_may_choose_the_hash_counts_twice():
    mechanism = build("bucket", 1, n_keys=10)
    chosen, given = lever(mechanism), lever(mechanism.with_issued_ids())
    loudest = [max(each.says, key=each.of_report).heard for each in (chosen, given)]
    assert loudest == [2, pytest.approx(1 + 1 / mechanism.buckets)]
    tied = lever(build("bucket", 1, n_keys=10, rho=1))
    assert {said.heard for said in tied.says} == {0, 2}
    assert tied.signed is None


def test_releases_print_the_bound_beside_every_interval(tmp_path):
    for name in ("pckv-ue", "bucket", "oue", "ue-sw", "oue-harmony", "privkv", "levels"):
        protocol = build_protocol(name, 1, n_keys=4)
        first = protocol.start("c")
        empty = count(first.mechanism, [], question=first.question)
        raw = protocol.next([(first, empty)]).raw
        assert raw.lever is not None, name
        assert np.isfinite(raw.lever.shift(raw.frequency, raw.mean, 0.01).frequency).all()


def test_what_speaks_of_no_key_has_no_lever():
    sizes = EncodedOracle(encoder=SizeClass(n_keys=3, starts=(0, 1)), oracle=Response.for_epsilon(1, 2))
    with pytest.raises(MechanismError, match="no single key"):
        lever(sizes)
    with pytest.raises(MechanismError, match="no poisoning is defined"):
        lever(object())


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, float("nan")])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(MechanismError, match="hostile share"):
        lever(build("kvue", 1, n_keys=3)).focus(share)


def test_a_wrong_lever_is_found_out():
    """The slightly wrong twin: the weight of sampling one of l pairs forgotten."""
    mechanism = build("pckv-ue", 1, n_keys=3, pairs_per_user=2)
    right = lever(mechanism)
    wrong = replace(right, weight=right.weight / 2, floor=right.floor / 2)
    plain = Tally.of(question="q", n_reports=1000, plus=[300] * 3, minus=[200] * 3, asked=[1000] * 3)
    lies = Tally.of(question="q", n_reports=100, plus=[100, 0, 0], minus=[0] * 3, asked=[100] * 3)
    clean = estimate(mechanism, plain)
    moved = (estimate(mechanism, plain + lies).frequency - clean.frequency)[0]
    assert moved == pytest.approx(right.shift(clean.frequency, clean.mean, 100 / 1100).frequency_up[0])
    assert moved > 1.5 * wrong.shift(clean.frequency, clean.mean, 100 / 1100).frequency_up[0]
