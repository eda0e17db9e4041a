"""auto: one answer a user, whatever the crowd; unbiased numbers kept; assumptions held against the data."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest

from keyveil.audit import certify_protocol
from keyveil.errors import ProtocolError
from keyveil.estimate import estimate
from keyveil.mechanisms import build
from keyveil.numerics import exp_below, parse_epsilon
from keyveil.protocols import EVERYBODY, Outcome, Round, build_protocol, total_loss
from keyveil.protocols.auto import TRUNCATED
from keyveil.protocols.auto.answers import Answers
from keyveil.simulate import Population, draw_tally, insecure_generator, synthetic
from keyveil.testing import Z


def dense(users, keys):
    rng = insecure_generator(1)
    owners, codes = np.nonzero(rng.random((users, keys)) < np.linspace(0.5, 0.9, keys))
    values = rng.uniform(-1, 1, owners.size)
    return Population.from_pairs(owners, codes, values, n_users=users, names=[str(k) for k in range(keys)])


def empty_handed(users, keys):
    nothing = np.zeros(0, dtype=np.int64)
    return Population.from_pairs(
        nothing, nothing, np.zeros(0), n_users=users, names=[str(k) for k in range(keys)]
    )


# Who there is, and what is declared about them.
CROWDS = {
    "one pair": (synthetic(users=5000, keys=40, seed=1), 1),
    "several": (synthetic(users=5000, keys=60, pairs_per_user=6, seed=2), 6),
    "long records": (synthetic(users=5000, keys=600, pairs_per_user=40, seed=2), 36),
    "dense": (dense(5000, 12), 10),
    "one key": (synthetic(users=2000, keys=1, seed=1), 1),
    "one key, more declared": (synthetic(users=2000, keys=1, seed=1), 5),
    "ten users": (synthetic(users=10, keys=30, pairs_per_user=3, seed=1), 3),
    "ten users of one pair": (synthetic(users=10, keys=30, seed=1), 1),
    "nobody holds anything": (empty_handed(3000, 20), 4),
}


def protocol_for(crowd, epsilon=1, **options):
    people, declared = CROWDS[crowd]
    return build_protocol(
        "auto", epsilon, n_keys=people.n_keys, pairs_per_user=declared, users=people.n_users, **options
    )


def answer(step, people, places, rng):
    low, high = (float(end) for end in step.group)
    asked = people.take(np.flatnonzero((low <= places) & (places < high)))
    asked = asked if step.keys is None else asked.restrict(np.array(step.keys))
    return draw_tally(step.mechanism, asked, rng, question=step.question, dither=step.dither)


def drive(protocol, people, seed=1, silent=()):
    """All rounds with their tallies, and the outcome; nobody answers rounds whose purpose is `silent`."""
    rng = insecure_generator(seed)
    places, nobody = rng.random(people.n_users), people.take(np.arange(0))
    step, rounds = protocol.start("c"), []
    while isinstance(step, Round):
        who, where = (nobody, places[:0]) if step.purpose in silent else (people, places)
        rounds.append((step, answer(step, who, where, rng)))
        step = protocol.next(rounds)
    return rounds, step


def assert_sane(outcome, n_keys):
    published = outcome.published
    # Where frequencies alone are wanted nobody may have told a value: then there is no mean.
    means = np.nan_to_num(published.mean) if np.isnan(outcome.raw.mean).all() else published.mean
    for values, low in ((published.frequency, 0), (published.frequency_top, 0), (means, -1)):
        assert values.size == n_keys
        assert np.isfinite(values).all()
        assert values.min() >= low
        assert values.max() <= 1 + 1e-9
    assert np.abs(means).max() <= 1
    assert outcome.raw.steps in ((), ("untruncate",))
    assert published.steps == (*outcome.raw.steps, "shrink")
    assert (TRUNCATED in outcome.notes) == ("untruncate" in published.steps)
    assert unbiased(outcome).steps == ()


def unbiased(outcome):
    """The estimates before the size model had them."""
    return outcome.raw.unbiased or outcome.raw


def asked_of_crowds():
    """Every crowd at every epsilon in every number of rounds; of the slow ones the gate has each once."""
    for crowd, rounds, (place, epsilon) in product(CROWDS, (0, 1, 2), enumerate(("0.1", "1", "8"))):
        slow = crowd == "long records" and rounds != place
        yield pytest.param(crowd, rounds, epsilon, marks=[pytest.mark.nightly] if slow else [])


@pytest.mark.parametrize(("crowd", "rounds", "epsilon"), list(asked_of_crowds()))
def test_every_crowd_gets_an_answer_and_nobody_answers_twice(crowd, rounds, epsilon):
    people = CROWDS[crowd][0]
    protocol = protocol_for(crowd, epsilon, rounds=rounds)
    # Of ten users the first rounds may meet none; whoever is left must be somebody.
    played, outcome = drive(protocol, people, seed=3)
    assert isinstance(outcome, Outcome)
    assert_sane(outcome, people.n_keys)
    assert outcome.rounds == len(played)
    steps = [step for step, _ in played]
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    assert ("measure" in {step.purpose for step in steps}) == ("discover" in {step.purpose for step in steps})
    for group in (sorted(step.group for step in steps), sorted(stage.group for stage in protocol.stages())):
        assert all(one[1] <= other[0] for one, other in pairwise(group))
        assert group[0][0] >= 0
        assert group[-1][1] <= 1
    E = exp_below(parse_epsilon(epsilon))
    assert total_loss(steps) <= E
    assert total_loss(protocol.stages()) <= E


@pytest.mark.parametrize("want", ["both", "frequency", "mean"])
def test_every_wish_is_certified_and_repeats_itself(want):
    for crowd in ("several", "dense", "long records"):
        protocol = protocol_for(crowd, 2, want=want)
        assert certify_protocol(protocol).epsilon <= 2
        (_, one), (_, two) = (drive(protocol, CROWDS[crowd][0], seed=5) for _ in range(2))
        assert np.array_equal(one.published.frequency, two.published.frequency)
        assert np.array_equal(one.published.mean, two.published.mean, equal_nan=True)
        assert_sane(one, CROWDS[crowd][0].n_keys)


def test_groups_that_overlap_would_be_certified_for_what_they_lose():
    stages = protocol_for("dense", 1).stages()
    last, check = stages[-2:]
    assert check.purpose == "check"
    assert total_loss([last, check]) <= exp_below(Fraction(1))
    everywhere = [replace(stage, group=EVERYBODY) for stage in (last, check)]
    assert total_loss(everywhere) > exp_below(Fraction(1))


# --- groups that nobody answers ---


@pytest.mark.parametrize(
    "silent", [("sizes",), ("values",), ("check",), ("overlap",), ("sizes", "values", "overlap", "check")]
)
@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("crowd", ["one pair", "several"])
def test_small_groups_without_reports_are_done_without(crowd, rounds, silent):
    played, outcome = drive(protocol_for(crowd, rounds=rounds), CROWDS[crowd][0], silent=silent)
    assert_sane(outcome, CROWDS[crowd][0].n_keys)
    asked = {step.purpose for step, _ in played}
    assert ("nobody told a size" in " ".join(outcome.notes)) == ("sizes" in silent and "sizes" in asked)
    if "values" in silent:
        assert outcome.anchor is None


@pytest.mark.parametrize(("rounds", "silent"), [(1, "collect"), (2, "discover"), (2, "measure")])
def test_large_groups_without_reports_are_refused(rounds, silent):
    with pytest.raises(ProtocolError, match=rf"\({silent}\) has no reports"):
        drive(protocol_for("several", rounds=rounds), CROWDS["several"][0], silent=(silent,))


# --- rounds that auto never opened ---


@pytest.mark.parametrize("purpose", ["sizes", "collect", "discover", "overlap", "measure", "check"])
def test_a_round_that_asks_what_auto_does_not_ask_there_is_refused(purpose):
    crowd = "long records" if purpose in ("discover", "overlap", "measure") else "several"
    protocol = protocol_for(crowd, rounds=2 if crowd == "long records" else 1)
    played, _ = drive(protocol, CROWDS[crowd][0])
    place = next(number for number, (step, _) in enumerate(played) if step.purpose == purpose)
    step, tally = played[place]
    other = build("pckv-ue", 1, n_keys=step.mechanism.n_keys)
    played[place] = replace(step, mechanism=other), tally
    with pytest.raises(ProtocolError, match=rf"\({purpose}\) asks by PckvUe, as no round of auto for that"):
        protocol.next(played[: place + 1])


def test_candidates_without_keys_are_refused():
    protocol = protocol_for("long records", rounds=2)
    played, _ = drive(protocol, CROWDS["long records"][0])
    place = next(number for number, (step, _) in enumerate(played) if step.purpose == "overlap")
    played[place] = replace(played[place][0], keys=None), played[place][1]
    with pytest.raises(ProtocolError, match=r"\(overlap\) asks by"):
        protocol.next(played[: place + 1])


def test_a_round_that_must_have_been_opened_is_missed():
    with pytest.raises(ProtocolError, match='expected a round of purpose "collect"'):
        Answers([]).required("collect")


# --- what is published, and what it was made of ---


def truncated(people, l):
    """The share of users whose record, cut to l pairs, holds each key."""
    kept = np.minimum(1.0, l / np.maximum(people.sizes, 1))
    owners = np.repeat(np.arange(people.n_users), people.sizes)
    return np.bincount(people.codes, weights=kept[owners], minlength=people.n_keys) / people.n_users


@pytest.mark.statistical
@pytest.mark.parametrize("crowd", ["one pair", "several", "dense"])
@pytest.mark.parametrize("epsilon", [1, 4])
def test_raw_numbers_are_the_unbiased_ones_and_no_step_touches_them(crowd, epsilon):
    people = CROWDS[crowd][0]
    played, outcome = drive(protocol_for(crowd, epsilon, rounds=1), people, seed=7)
    step, tally = next((step, tally) for step, tally in played if step.purpose == "collect")
    own = estimate(step.mechanism, tally)
    assert np.array_equal(unbiased(outcome).frequency, own.frequency)
    assert np.array_equal(unbiased(outcome).signed, own.signed)
    assert np.array_equal(unbiased(outcome).frequency_se, own.frequency_se)
    assert np.array_equal(outcome.published.frequency_se, outcome.raw.frequency_se)
    assert not np.array_equal(outcome.published.frequency, own.frequency)
    l = people.n_keys if step.mechanism.moments.drawn else step.mechanism.pairs_per_user
    share = truncated(people, l)
    # The group is a sample of all users.
    sampled = share * (1 - share) / tally.n_reports * (1 - tally.n_reports / people.n_users)
    off = np.abs(own.frequency - share) / np.sqrt(own.frequency_se**2 + sampled)
    assert off.max() < Z
    if epsilon == 4:
        assert (np.abs(own.frequency - np.roll(share, 1)) / np.sqrt(own.frequency_se**2 + sampled)).max() > Z


@pytest.mark.statistical
def test_with_two_rounds_candidates_are_measured_and_the_rest_discovered():
    people, _ = CROWDS["long records"]
    played, outcome = drive(replace(protocol_for("long records", 4), rounds=2), people, seed=8)
    by = {step.purpose: (step, tally) for step, tally in played}
    assert list(by) == [
        name for name in ("sizes", "values", "discover", "overlap", "measure", "check") if name in by
    ]
    keys = np.array(by["measure"][0].keys)
    measured = estimate(by["measure"][0].mechanism, by["measure"][1])
    discovered = estimate(by["discover"][0].mechanism, by["discover"][1])
    rest = np.setdiff1d(np.arange(people.n_keys), keys)
    assert np.array_equal(unbiased(outcome).frequency[keys], measured.frequency)
    assert np.array_equal(unbiased(outcome).frequency[rest], discovered.frequency[rest])
    assert np.isnan(unbiased(outcome).mean[rest]).all()
    assert np.isinf(unbiased(outcome).mean_se[rest]).all()
    assert unbiased(outcome).n_reports == by["measure"][1].n_reports + by["discover"][1].n_reports
    share = truncated(people.restrict(keys), by["measure"][0].mechanism.pairs_per_user)
    assert np.abs((measured.frequency - share) / measured.frequency_se).max() < Z + 1
    top = np.argsort(-people.frequency())[:20]
    assert np.isin(top, keys).all()


@pytest.mark.statistical
def test_publishing_gains_on_the_raw_numbers():
    people = synthetic(users=30_000, keys=200, pairs_per_user=6, seed=3)
    protocol = build_protocol("auto", 1, n_keys=200, pairs_per_user=6, users=30_000)
    truth, ours, raw = people.frequency(), [], []
    for seed in range(4):
        _, outcome = drive(protocol, people, seed=seed)
        ours.append(np.mean((outcome.published.frequency - truth) ** 2))
        raw.append(np.mean((outcome.raw.frequency - truth) ** 2))
    assert np.mean(ours) < 0.5 * np.mean(raw)


# --- assumptions that the data contradict ---


def notes(people, declared, epsilon=2, **options):
    protocol = build_protocol(
        "auto", epsilon, n_keys=people.n_keys, pairs_per_user=declared, users=people.n_users, **options
    )
    return " ".join(note for note in drive(protocol, people, seed=2)[1].notes if note != TRUNCATED)


def test_sizes_far_from_what_was_declared_are_noted():
    people = synthetic(users=60_000, keys=200, pairs_per_user=8, seed=1)
    assert notes(people, 7) == notes(people, 9) == ""
    assert "pairs_per_user is 2, but more than one user in ten holds about twice as many" in notes(people, 2)
    assert "pairs_per_user is 20, but nine users in ten hold at most half of that" in notes(people, 20)


@pytest.mark.parametrize("pairs", [1, 30])
def test_a_skew_far_from_what_was_assumed_is_noted(pairs):
    """One round for single pairs, two for long records."""
    even, steep = (
        synthetic(users=60_000, keys=200, pairs_per_user=pairs, skew=skew, seed=1) for skew in (0.0, 1.5)
    )
    for people, true, other in ((even, 0.0, 1.5), (steep, 1.5, 0.0)):
        declared = people.typical_size()
        assert notes(people, declared, skew=true, top=20) == ""
        assert f"with a skew of {other:g} the key of a typical pair would" in notes(
            people, declared, 4, skew=other, top=20
        )


def test_a_few_noisy_reports_contradict_nothing():
    for seed in range(12):
        people = synthetic(users=400, keys=100, pairs_per_user=4, seed=seed)
        assert notes(people, 4, "0.5") == ""
        assert notes(synthetic(users=400, keys=100, seed=seed), 1, "0.5") == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"users": 0}, "users and top must be at least 1, got 0 and 50"),
        ({"top": 0}, "users and top must be at least 1"),
        ({"want": "all"}, 'want must be one of frequency, mean, distribution, both, got "all"'),
        ({"rounds": 3}, "rounds must be 0"),
    ],
)
def test_wishes_that_make_no_protocol_are_refused(options, message):
    with pytest.raises(ProtocolError, match=message):
        build_protocol("auto", 1, n_keys=5, **options)
