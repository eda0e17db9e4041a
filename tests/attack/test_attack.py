"""Attacks against their bounds: nothing passes a bound, and the strongest attacks reach it."""

import math

import numpy as np
import pytest

from keyveil.attack import (
    Counted,
    Orders,
    averaging,
    poisoning,
    random_message,
    random_pair,
    reconstruction,
    replay,
    say,
)
from keyveil.attack.poisoning import QUESTION, average_gain, hostile_reports, read
from keyveil.attack.reconstruction import likelihoods
from keyveil.domain import Record
from keyveil.errors import MechanismError, TallyError
from keyveil.estimate import estimate, lever, step
from keyveil.mechanisms import REGISTRY, BroadcastIndex, build
from keyveil.numerics import InsecureSeededEntropy
from keyveil.simulate import draw_tally, insecure_generator, synthetic
from keyveil.simulate.answers import draw_answers
from keyveil.tally.trace import encode_many


def made(name, n_keys=20, epsilon=1, l=1):
    if name == "privkv-broadcast":
        levels = tuple((k % 7 + 1) * 2**61 for k in range(n_keys))
        return BroadcastIndex.for_budgets(epsilon, epsilon, levels=levels)
    bins = {"bins": 4} if "bins" in REGISTRY[name].options else {}
    return build(name, epsilon, n_keys=n_keys, pairs_per_user=l, **bins)


def crowd(mechanism, users, seed=0):
    people = synthetic(users=users, keys=mechanism.n_keys, pairs_per_user=2, seed=seed)
    return Counted.of(mechanism, draw_answers(mechanism, people, insecure_generator(seed, 1)))


# --- poisoning ---


def luck(mechanism, lies):
    """How far from an average over ids one collection lies: hashes leave little to luck, indices more."""
    is_index = lever(mechanism).asked < 1
    return 5 * math.sqrt(mechanism.n_keys / lies) if is_index else 0.1


@pytest.mark.parametrize("l", [1, 2])
@pytest.mark.parametrize("name", REGISTRY)
def test_maximal_gain_reaches_the_bound_and_nothing_passes_it(name, l):
    mechanism = made(name, l=l)
    for share in (0.01, 0.05):
        tried = list(poisoning(mechanism, crowd(mechanism, 20_000), share, (0,), insecure_generator(1)))
        for each in tried:
            # A drawn index leaves a key more or fewer honest reports than its share.
            slack = 1.1 if lever(mechanism).asked < 1 else 1 + 1e-9
            if each.name == "maximal gain, ids given":
                slack = 1 + luck(mechanism, share * 20_000)
            assert each.success <= slack * each.bound + 1e-9, each
        gains = [each for each in tried if each.name.startswith("maximal gain")]
        assert gains
        for each in gains:
            close = luck(mechanism, share * 20_000) if each.name.endswith("ids given") else 0.1
            assert each.success == pytest.approx(each.bound, rel=close)
        for each in tried:
            if each.unit == "mean":
                assert each.success == pytest.approx(each.bound, rel=0.1, abs=0.05), each


@pytest.mark.statistical
@pytest.mark.parametrize(("name", "most"), [("kvue", 0.02), ("privkv", 0.03), ("levels", 0.02)])
def test_where_ids_are_issued_a_liar_in_a_hundred_moves_little_and_reaches_the_bound(name, most, capsys):
    """Epsilon 1, 100 keys, a million devices; liars drawn a hundred times beside the same honest crowd."""
    chosen, users, liars = build(name, 1, n_keys=100), 1_000_000, 10_000
    people = synthetic(users=users - liars, keys=100, seed=0)
    honest = draw_tally(chosen, people, insecure_generator(0, 3), question=QUESTION)
    bound, reached, error = average_gain(
        chosen.with_issued_ids(), honest, liars, 60, insecure_generator(0, 4), runs=100
    )
    with capsys.disabled():
        print(f"\n{name}: bound {bound:.4f}, reached {reached:.4f} +- {error:.4f}")
    assert bound <= most
    assert 5 * error < 0.1 * bound
    assert abs(reached - bound) < 0.1 * bound
    # Liars who choose their index, the wrong twin, move it fifty times as far.
    assert average_gain(chosen, honest, liars, 60, insecure_generator(0, 5), runs=2).reached > 40 * bound


@pytest.mark.nightly
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", REGISTRY)
@pytest.mark.parametrize("share", [0.01, 0.05])
def test_whole_collections_move_as_far_as_was_printed_before_them(name, share):
    """The bound from the true frequency alone, against 20 collections with and without hostile devices."""
    mechanism, users, runs, target = made(name, n_keys=100), 100_000, 20, 60
    pull, lies = lever(mechanism), round(share * users)
    said = max(pull.says, key=pull.of_report)
    people = synthetic(users=users - lies, keys=100, seed=0)
    told = people.frequency()[[target]]
    bound = float(pull.shift(told, np.zeros(1), share).frequency_up[0])
    moved, missed = [], []
    for seed in range(runs):
        rng = insecure_generator(seed, 2)
        honest = Counted.of(mechanism, draw_answers(mechanism, people, rng)).tally
        orders = Orders(targets=(target,), said=said, reports=lies)
        both = honest + Counted.of(mechanism, say(mechanism, orders, rng)).tally
        clean, after = (read(mechanism, tally)[0][target] for tally in (honest, both))
        moved.append((after - clean) / bound)
        missed.append((after - told[0]) / bound)
    spread = np.std(missed, ddof=1) / math.sqrt(runs)
    print(
        f"{name} at {share:.0%}: bound {bound:.4f}, moved {np.mean(moved):.3f} of it, "
        f"from the truth {np.mean(missed):.3f} +- {spread:.3f}"
    )
    assert 0.9 <= np.mean(moved) <= 1.1
    assert abs(np.mean(missed) - 1) <= 5 * spread + 0.02


@pytest.mark.parametrize("name", REGISTRY)
def test_hostile_answers_are_answers(name):
    """They decode; a collector takes them."""
    mechanism, rng = made(name), insecure_generator(3)
    pull = lever(mechanism)
    drawn = [random_message(mechanism, 50, rng), random_pair(mechanism, 50, rng)]
    for said in pull.says:
        drawn += [say(mechanism, Orders(targets=(2, 5), said=said, reports=9), rng)]
        drawn += [say(mechanism, Orders(targets=(2,), said=said, reports=9, hidden=True), rng)]
    for answers in drawn:
        for payload in encode_many(mechanism.layout, answers):
            assert mechanism.layout.encode(mechanism.layout.decode(payload)) == payload


def test_many_targets_are_hit_at_once_where_a_report_has_room():
    targets = (1, 4, 9)
    gains = {}
    for name in ("pckv-ue", "pckv-grr", "bucket"):
        mechanism = made(name)
        tried = poisoning(mechanism, crowd(mechanism, 4000), 0.05, targets, insecure_generator(1))
        gains[name] = [each.success / each.bound for each in tried if each.name == "maximal gain"]
    assert gains["pckv-ue"] == pytest.approx([1, 1, 1])
    assert sum(gains["pckv-grr"]) < 1.01
    assert sum(gains["bucket"]) > 2, "a hash that suits all three is tried for and found"


def test_who_cannot_choose_the_hash_gains_half():
    mechanism = made("bucket")
    tried = {
        each.name: each.success
        for each in poisoning(mechanism, crowd(mechanism, 20_000), 0.05, (3,), insecure_generator(1))
    }
    assert tried["maximal gain, ids given"] < 0.6 * tried["maximal gain"]


def test_a_hostile_share_is_a_share_of_all_devices():
    assert hostile_reports(99_000, 0.01) == 1000
    assert hostile_reports(10, 0.001) == 1
    with pytest.raises(TallyError, match="without reports"):
        hostile_reports(0, 0.01)
    with pytest.raises(MechanismError, match="hostile share"):
        hostile_reports(10, 1.5)


@pytest.mark.parametrize("targets", [(), (20,), (-1,)])
def test_aims_that_are_none_are_refused(targets):
    mechanism = made("kvue")
    with pytest.raises(MechanismError, match="target"):
        next(poisoning(mechanism, crowd(mechanism, 100), 0.01, targets, insecure_generator(1)))


# --- recovery ---


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["kvue", "privkv", "levels"])
def test_recovery_takes_a_crowded_key_back(name):
    mechanism, target = made(name, epsilon=2), 7
    honest = crowd(mechanism, 50_000)
    pull = lever(mechanism)
    for said in pull.says:
        lies = Counted.of(
            mechanism,
            say(mechanism, Orders(targets=(target,), said=said, reports=2500), insecure_generator(1)),
        )
        clean, raw = estimate(mechanism, honest.tally), estimate(mechanism, honest.tally + lies.tally)
        recovered = step("recover")(raw)
        left, before = (abs(each.frequency - clean.frequency)[target] for each in (recovered, raw))
        assert left < 0.25 * before, said
        assert recovered.steps == ("recover",)
        others = np.arange(20) != target
        assert np.array_equal(recovered.frequency[others], raw.frequency[others])


@pytest.mark.statistical
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["kvue", "pckv-grr"])
def test_recovery_takes_nothing_where_keys_outnumber_reports(name):
    """Most of 100,000 keys are asked about, or named, never or once; some, by chance, six times."""
    mechanism = made(name, n_keys=100_000)
    raw = estimate(mechanism, crowd(mechanism, 60_000).tally)
    recovered = step("recover")(raw)
    assert np.array_equal(recovered.frequency, raw.frequency)


@pytest.mark.statistical
def test_recovery_lifts_what_silence_pushed_down():
    mechanism, target = made("pckv-ue", n_keys=100), 7
    honest = crowd(mechanism, 40_000)
    orders = Orders(targets=(target,), said=lever(mechanism).says[1], reports=1200)
    lies = Counted.of(mechanism, say(mechanism, orders, insecure_generator(1)))
    clean, raw = estimate(mechanism, honest.tally), estimate(mechanism, honest.tally + lies.tally)
    recovered = step("recover")(raw)
    others = np.arange(100) != target
    sunk, left = (np.mean((each.frequency - clean.frequency)[others]) for each in (raw, recovered))
    assert sunk < -0.05
    assert abs(left) < 0.15 * abs(sunk)
    assert recovered.frequency[target] > raw.frequency[target], "the target keeps what it gained, and says so"


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["pckv-ue", "pckv-grr", "ks-ue", "bucket", "kvue", "levels"])
def test_recovery_leaves_honest_numbers_alone(name):
    mechanism = made(name)
    raw = estimate(mechanism, crowd(mechanism, 20_000).tally)
    assert np.array_equal(step("recover")(raw).frequency, raw.frequency)


def test_recovery_needs_signed_reports():
    raw = estimate(made("bucket"), crowd(made("bucket"), 100).tally)
    with pytest.raises(MechanismError, match="recover needs"):
        step("recover")(type(raw)(**{name: getattr(raw, name) for name in raw.__slots__} | {"lever": None}))


# --- averaging, reconstruction, replay ---


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["kvue", "pckv-ue", "bucket", "pckv-grr"])
def test_fresh_noise_averages_out_and_a_remembered_answer_does_not(name):
    tried = list(averaging(made(name, n_keys=2), days=(1, 60), trials=300))
    for each in tried:
        error = math.sqrt(each.bound * (1 - each.bound) / 300) + 1e-9
        assert each.success <= each.bound + 5 * error
    (_, once), (many, still) = tried[:2], tried[2:]
    assert many.success > 0.9
    assert still.success == once.success < 0.8


@pytest.mark.statistical
@pytest.mark.parametrize("name", [name for name in REGISTRY if name != "privkv-broadcast"])
@pytest.mark.parametrize("l", [1, 2])
def test_no_guess_is_right_more_often_than_the_bound(name, l):
    found = reconstruction(made(name, n_keys=4, epsilon=2, l=l), candidates=6, trials=300)
    error = math.sqrt(found.bound * (1 - found.bound) / 300)
    assert found.success <= found.bound + 5 * error


@pytest.mark.statistical
def test_the_best_mechanism_for_an_attacker_reaches_the_bound():
    """Randomized response over exactly the candidates; a worse guess stays below by what it must."""
    mechanism = build("grr", 2, n_keys=3)
    records = [Record.of({code: 1.0}) for code in range(3)] + [Record.of({})]
    right = np.zeros(2)
    rng, trials = insecure_generator(4), 4000
    entropy = InsecureSeededEntropy(4)
    for _ in range(trials):
        truth = int(rng.integers(4))
        likely = likelihoods(mechanism, mechanism.perturb(records[truth], entropy(2)), records)
        right += [likely.argmax() == truth, likely.argmin() == truth]
    bound = math.e**2 / (math.e**2 + 3)
    error = math.sqrt(bound * (1 - bound) / trials)
    assert abs(right[0] / trials - bound) < 5 * error
    assert abs(right[1] / trials - bound) > 5 * error


@pytest.mark.parametrize(("name", "counted"), [("pckv-ue", True), ("bucket", False), ("olh", False)])
def test_a_replayed_payload_is_refused_where_the_id_gives_the_hash(name, counted):
    mechanism = made(name, n_keys=64)
    people = synthetic(users=20_000, keys=64)
    answers = draw_answers(mechanism, people, insecure_generator(6))
    again, renamed = replay(mechanism, Counted.of(mechanism, answers), answers[0], 0.01, tag=bytes(16))
    assert again.success == again.bound == 1
    if counted:
        assert renamed.unit == "frequency"
        assert 0.9 * renamed.bound <= renamed.success <= renamed.bound + 1e-9
        assert renamed.alarm, "two hundred equal reports are seen"
    else:
        assert renamed.success <= 1
