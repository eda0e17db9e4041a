"""A device that is told a round: the same kernel from its integers, and nothing else from anything else."""

import copy
import json
import random

import pytest

from keyveil import Campaign
from keyveil.audit.exact import enumerate_loss, enumeration_size
from keyveil.client import Asked, fetch_round
from keyveil.client.transport import Answer
from keyveil.domain import Record
from keyveil.errors import CampaignError, KeyveilError, MechanismError
from keyveil.mechanisms import REGISTRY, build, describe, described, make_report
from keyveil.numerics import InsecureSeededEntropy

KEYS = tuple(f"key-{code}" for code in range(6))
RECORDS = [Record.of({}), Record.of({0: 1.0}), Record.of({1: -0.5, 3: 0.25, 5: 1.0})]


def made(name):
    return build(name, 1, n_keys=len(KEYS), pairs_per_user=2, **REGISTRY[name].small_options)


def campaign(mechanism="auto", **changes):
    fields = {"name": "apps", "epsilon": 1.0, "keys": KEYS, "value_range": (0, 60), "pairs_per_user": 2}
    return Campaign(**fields | {"mechanism": mechanism} | changes)


@pytest.mark.parametrize("name", REGISTRY)
def test_a_mechanism_told_as_integers_makes_the_same_reports(name):
    mechanism = made(name)
    told = described(json.loads(json.dumps(describe(mechanism))))
    assert (told.loss, told.n_words, told.layout) == (mechanism.loss, mechanism.n_words, mechanism.layout)
    entropy = InsecureSeededEntropy(1)
    for record in RECORDS * 20:
        words = entropy(mechanism.n_words)
        ours, theirs = (
            make_report(each, record, words, tag=bytes(16), round=2, report_id=bytes(16))
            for each in (mechanism, told)
        )
        assert ours == theirs


def stages():
    yield from ((campaign(users=5000), stage) for stage in campaign(users=5000).protocol().stages())
    for name in ("auto", "privkvm", "privkvm-plus", "privkvm-star", "ks-grr"):
        asking = campaign(name)
        yield from ((asking, stage) for stage in asking.protocol().stages())


def test_every_round_of_every_protocol_can_be_told():
    for asking, stage in stages():
        config = json.loads(json.dumps(asking.device_config(stage)))
        config["group"] = [str(end) for end in stage.group]
        asked = Asked.told(asking, config)
        assert (asked.number, asked.keys, asked.group) == (stage.number, stage.keys, stage.group)
        assert asked.mechanism.loss == stage.mechanism.loss
        for record in RECORDS:
            assert asked.narrow(record) == stage.narrow(record)


def places(value, path=()):
    """Every place in nested lists and dictionaries."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in inner:
        yield from places(part, (*path, name))


WRONG = [None, True, -1, 0, 1.5, "x", "-1", "9" * 21, 10**30, [], {}, [[]], "²", "1", 1, 2, 3]


def changed(whole, path, wrong):
    said = copy.deepcopy(whole)
    holder = said
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = wrong
    return said


@pytest.mark.parametrize("name", REGISTRY)
def test_a_description_that_was_tampered_with_is_refused_or_costs_what_it_says(name):
    rng = random.Random(name)
    whole = describe(build(name, 1, n_keys=2, pairs_per_user=1, **REGISTRY[name].small_options))
    refused = accepted = 0
    for path in places(whole):
        near = [str(rng.getrandbits(64)), str(rng.getrandbits(62)), rng.randrange(4)]
        for wrong in (*WRONG, *near):
            try:
                mechanism = described(changed(whole, path, wrong) if path else wrong)
            except KeyveilError:
                refused += 1
                continue
            accepted += 1
            if mechanism.n_words < 100 and enumeration_size(mechanism) <= 3000:
                for record in RECORDS[:2]:
                    chances = [mechanism.probability(answer, record) for answer in mechanism.answers()]
                    assert min(chances) >= 0
                    assert sum(chances) == 1
                assert enumerate_loss(mechanism).ratio <= mechanism.loss
    assert refused > accepted > 0


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"round": 0}, CampaignError),
        ({"round": True}, CampaignError),
        ({"round": 1 << 16}, CampaignError),
        ({"keys": []}, CampaignError),
        ({"keys": [0, 0]}, CampaignError),
        ({"keys": [6]}, CampaignError),
        ({"keys": [0, 1]}, MechanismError),
        ({"group": ["1", "0"]}, CampaignError),
        ({"group": ["0", "1/0"]}, CampaignError),
        ({"group": 7}, CampaignError),
        ({"mechanism": None}, MechanismError),
        ({"mechanism": {"shape": "wave"}}, MechanismError),
        ({"campaign": "{}"}, CampaignError),
    ],
)
def test_a_round_that_makes_no_sense_is_refused(changes, error):
    asking = campaign("pckv-ue")
    with pytest.raises(error):
        Asked.told(asking, asking.device_config() | changes)
    with pytest.raises(CampaignError):
        Asked.told(asking, None)


def test_a_device_fetches_the_open_round():
    asking = campaign("privkvm")
    first = asking.protocol().start(asking.id)
    url = f"https://collect.example/v1/campaigns/{asking.id}"

    def view(config):
        body = json.dumps({"campaign": asking.canonical_json, "device_config": config}).encode()
        return lambda *_: Answer(status=200, body=body)

    fetched, asked = fetch_round(url, exchange=view(asking.device_config(first)))
    assert (fetched, asked.number, asked.mechanism.loss) == (asking, 1, first.mechanism.loss)
    assert fetch_round(url, exchange=view(None)) == (asking, None)
    for wrong in (campaign("privkvm", name="other").device_config(first), {}):
        with pytest.raises(CampaignError):
            fetch_round(url, exchange=view(wrong))


def test_the_only_round_of_a_campaign_needs_no_telling():
    asking = campaign("pckv-ue")
    url = f"https://collect.example/v1/campaigns/{asking.id}"
    body = json.dumps({"campaign": asking.canonical_json}).encode()
    asked = fetch_round(url, exchange=lambda *_: Answer(status=200, body=body))[1]
    assert asked == Asked(number=1, mechanism=asking.build())
