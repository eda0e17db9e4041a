"""Keys that nobody listed: what is there is found, what is not is rarely found, and numbers are honest."""

import dataclasses
import math
from itertools import pairwise

import numpy as np
import pytest

from keyveil.audit import enumerate_loss
from keyveil.domain import Record
from keyveil.domain.learning import learn_code
from keyveil.domain.texts import THE_REST, TextCode
from keyveil.errors import DescriptionError, DomainError, ProtocolError
from keyveil.mechanisms import PrefixBucket
from keyveil.numerics import exp_below, parse_epsilon
from keyveil.plan.searching import Search
from keyveil.protocols import Dithered, Outcome, unknown
from keyveil.protocols.base import total_loss
from keyveil.protocols.unknown import OpenKeys
from keyveil.rounds import Round
from keyveil.simulate import Population, insecure_generator
from keyveil.simulate.unknown import search
from keyveil.testing import Z

LETTERS = ["abcdefgh" * 40, *(letter for letter in "abcdefgh" * 60)]
CODE = learn_code(LETTERS, longest=24, tables=1)
WORDS = ["abba", "cafe", "dead", "face", "fee", "head", "beef", "had"]


def protocol_of(**more):
    return OpenKeys(**{"epsilon": 4, "code": CODE, "pairs_per_user": 2, "users": 20_000, **more})


def people(frequencies, n=20_000, words=WORDS, seed=1):
    """Everybody holds each word with its frequency, independently; values are uniform."""
    rng = insecure_generator(seed)
    held = rng.random((n, len(frequencies))) < frequencies
    users, codes = np.nonzero(held)
    values = rng.uniform(-1, 1, users.size)
    return Population.from_pairs(users, codes, values, n_users=n, names=words[: len(frequencies)])


def test_what_is_common_is_found_by_name_with_its_numbers():
    protocol, population = protocol_of(), people([0.5, 0.3, 0.2])
    outcome = search(protocol, protocol, population, insecure_generator(2))
    found = outcome.found
    assert set(found.keys) >= {"abba", "cafe", "dead", THE_REST}
    assert found.keys[-1] == THE_REST
    truth = dict(zip(population.names, population.frequency(), strict=True))
    for place, name in enumerate(found.keys[:-1]):
        if name in truth:
            assert abs(outcome.raw.frequency[place] - truth[name]) < Z * outcome.raw.frequency_se[place]
            assert found.false_share[place] < 1e-6
    assert math.isnan(found.false_share[-1])
    assert found.detectable < 0.2


def test_the_same_reports_give_the_same_rounds_whoever_goes_on():
    protocol, population = protocol_of(), people([0.5, 0.3])
    outcomes = [search(protocol_of(), protocol, population, insecure_generator(3)) for _ in range(2)]
    assert outcomes[0].found.keys == outcomes[1].found.keys
    assert np.array_equal(outcomes[0].raw.frequency, outcomes[1].raw.frequency)


@pytest.mark.parametrize("wrong", [False, True])
def test_where_nothing_is_to_find_nothing_is_found_in_19_of_20_campaigns(wrong, monkeypatch):
    """200 campaigns of people who hold nothing; a twin that tests at a half is told apart."""
    if wrong:
        monkeypatch.setattr(unknown, "FALSE_SHARE", 0.5)
    code = dataclasses.replace(CODE, longest=14)
    protocol = protocol_of(code=code, users=2000, epsilon=2)
    nobody = people([0.0], n=2000)
    runs = 200
    bad = sum(
        len(search(protocol, protocol, nobody, insecure_generator(4, run)).found.keys) > 1
        for run in range(runs)
    )
    assert (bad <= 0.05 * runs + Z * math.sqrt(0.05 * 0.95 * runs)) != wrong


def test_blocked_and_rare_keys_are_not_published():
    population = people([0.5, 0.4, 0.1])
    for more, missing in (({"block": ("abba",)}, "abba"), ({"minimum": 0.2}, "dead")):
        protocol = protocol_of(**more)
        found = search(protocol, protocol, population, insecure_generator(5)).found
        assert missing not in found.keys
        assert "cafe" in found.keys


def test_a_key_that_is_longer_than_the_bits_is_found_as_its_beginning():
    protocol = protocol_of()
    population = people([0.5, 0.4], words=["abba", "deadbeefdeadbeefdead"])
    found = search(protocol, protocol, population, insecure_generator(6)).found
    cut = next(name for name in found.keys if name.startswith("dead"))
    assert cut.endswith(THE_REST)
    assert "deadbeefdeadbeefdead".startswith(cut[:-1])


def test_levels_that_could_find_nothing_new_are_skipped_and_their_users_measure():
    code = dataclasses.replace(CODE, longest=60)
    protocol = protocol_of(code=code)
    outcome = search(protocol, protocol, people([0.5, 0.4]), insecure_generator(7))
    assert outcome.rounds < len(protocol.stages())
    assert outcome.raw.n_reports > 1.5 * 20_000 * protocol.stages()[-1].size


def test_nobody_is_asked_twice_and_the_loss_is_epsilon():
    protocol = protocol_of(code=dataclasses.replace(CODE, longest=60))
    stages = protocol.stages()
    ends = [0, *(stage.group[1] for stage in stages)]
    assert [stage.group for stage in stages] == list(pairwise(ends))
    assert ends[-1] == 1
    assert total_loss(stages) <= exp_below(parse_epsilon(4))


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2"])
def test_the_loss_of_a_level_is_within_epsilon_by_enumeration(epsilon):
    """All records of a tiny alphabet, all answers; prefixes of one bit and of all."""
    for bits, step in ((1, 1), (2, 1), (2, 2)):
        mechanism = PrefixBucket.for_epsilon(
            epsilon, n_keys=4, pairs_per_user=2, bits=bits, step=step, buckets=4, cells=8
        )
        assert enumerate_loss(mechanism).ratio <= exp_below(parse_epsilon(epsilon))


def test_a_round_is_described_by_names_and_read_again():
    protocol = protocol_of()
    for stage in protocol.stages():
        again = Round.from_fields(stage.fields(), n_keys=protocol.n_keys, are_open=True)
        assert again == stage
    measure = protocol.stages()[-1].fields()
    assert measure["keys"][-1] == THE_REST
    for wrong in ([], [""], ["a", "a"], [3], ["a" * 513]):
        with pytest.raises(DescriptionError):
            Round.from_fields({**measure, "keys": wrong}, n_keys=protocol.n_keys, are_open=True)
    with pytest.raises(DescriptionError):
        Round.from_fields({**measure, "keys": None}, n_keys=protocol.n_keys, are_open=True)
    with pytest.raises(DescriptionError):
        Round.from_fields(protocol.stages()[0].fields(), n_keys=1 << 24)
    with pytest.raises(DomainError):
        dataclasses.replace(protocol.stages()[-1], keys=(1, 2))


def test_spreads_and_shapes_are_of_the_keys_that_are_published():
    protocol = protocol_of(block=("cafe",))
    dithered = Dithered(protocol=protocol, dither=16)
    outcome = search(dithered, protocol, people([0.5, 0.4, 0.3]), insecure_generator(8))
    assert isinstance(outcome, Outcome)
    assert len(outcome.spread.frequency) == len(outcome.found.keys) == len(outcome.raw.frequency)


def test_what_the_plan_says_will_be_found_is_found():
    """Keys of the frequency that is found with nine chances in ten: 40 campaigns, z = 5."""
    plan = Search.of(epsilon=4, longest=24, pairs_per_user=2, users=5000)
    frequency, runs, hits = plan.detectable(), 40, 0
    protocol = protocol_of(users=5000)
    for run in range(runs):
        population = people([frequency], n=5000, seed=run)
        hits += "abba" in search(protocol, protocol, population, insecure_generator(9, run)).found.keys
    assert hits >= 0.9 * runs - Z * math.sqrt(0.09 * runs)
    assert plan.chance(frequency / 3) < 0.1


def test_what_is_no_search_is_refused():
    for wrong in ({"users": 0}, {"minimum": 1.0}, {"minimum": -0.1}):
        with pytest.raises(ProtocolError):
            protocol_of(**wrong)
    with pytest.raises(DomainError):
        TextCode(longest=1)


def test_a_record_is_asked_for_prefixes_and_for_names():
    protocol = protocol_of()
    level, measure = protocol.stages()[0], protocol.stages()[-1]
    assert level.narrow(Record.of({})).pairs == ()
    assert measure.narrow(Record.of({})).pairs == ()
