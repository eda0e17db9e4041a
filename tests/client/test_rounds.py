"""A device that is told a round: the same kernel from its name, and nothing else from anything else."""

import copy
import json
import random
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from keyveil import Campaign
from keyveil.audit.exact import enumerate_loss, enumeration_size
from keyveil.client import Reporter, fetch_round
from keyveil.client.answer import HttpAnswer
from keyveil.domain import Record
from keyveil.errors import DescriptionError, KeyveilError
from keyveil.mechanisms import REGISTRY, build
from keyveil.mechanisms.named import calibrated
from keyveil.methods import METHODS
from keyveil.numerics import InsecureSeededEntropy
from keyveil.rounds import make_report

KEYS = tuple(f"key-{code}" for code in range(6))
RECORDS = [Record.of({}), Record.of({0: 1.0}), Record.of({1: -0.5, 3: 0.25, 5: 1.0})]


def made(name):
    return build(name, 1, n_keys=len(KEYS), pairs_per_user=2, **REGISTRY[name].small_options)


def campaign(mechanism="auto", **changes):
    fields = {"name": "apps", "epsilon": 1.0, "keys": KEYS, "value_range": (0, 60), "pairs_per_user": 2}
    return Campaign(**fields | {"mechanism": mechanism} | changes)


@pytest.mark.parametrize("name", REGISTRY)
def test_a_mechanism_told_by_name_makes_the_same_reports(name):
    mechanism = made(name)
    told = calibrated(json.loads(json.dumps(mechanism.parameters.to_json())), len(KEYS))
    assert told == mechanism
    entropy = InsecureSeededEntropy(1)
    for record in RECORDS * 20:
        words = entropy(mechanism.n_words)
        ours, theirs = (
            make_report(each, record, words, tag=bytes(16), round=2, report_id=bytes(16))
            for each in (mechanism, told)
        )
        assert ours == theirs


def stages():
    for asking in (
        campaign(users=5000),
        *map(campaign, ("auto", "privkvm", "privkvm-plus", "privkvm-star", "ks-grr")),
    ):
        yield from ((asking, replace(stage, campaign=asking.id)) for stage in asking.protocol().stages())


def test_every_round_of_every_protocol_can_be_told():
    for asking, stage in stages():
        description = json.loads(json.dumps(asking.device_config(stage)))
        told = asking.read_round(description)
        assert (told, told.pin) == (stage, stage.pin)
        assert Campaign.from_description(description) == (asking, stage)
        for record in RECORDS:
            assert told.narrow(record) == stage.narrow(record)


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
    whole = build(name, 1, n_keys=2, **REGISTRY[name].small_options).parameters.to_json()
    refused = accepted = 0
    for path in places(whole):
        near = [str(rng.getrandbits(64)), f"{rng.randrange(1, 9)}/7", rng.randrange(4)]
        for wrong in (*WRONG, *near):
            try:
                mechanism = calibrated(changed(whole, path, wrong) if path else wrong, 2)
            except DescriptionError:
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
    ("changes", "code"),
    [
        ({"number": 0}, "bad-description"),
        ({"number": True}, "bad-description"),
        ({"number": 1 << 16}, "bad-description"),
        ({"number": 1.0}, "bad-description"),
        ({"keys": []}, "bad-description"),
        ({"keys": [0, 0]}, "bad-description"),
        ({"keys": [6]}, "bad-description"),
        ({"keys": [True, 0]}, "bad-description"),
        ({"keys": [0, "1"]}, "bad-description"),
        ({"keys": {"0": 1}}, "bad-description"),
        ({"group": ["1", "0"]}, "bad-description"),
        ({"group": ["0", "1/0"]}, "bad-description"),
        ({"group": ["0", "2/2"]}, "bad-description"),
        ({"group": [0, 1]}, "bad-description"),
        ({"group": 7}, "bad-description"),
        ({"purpose": "\u00e9"}, "bad-description"),
        ({"protocol": "auto"}, "bad-description"),
        ({"mechanism": None}, "bad-description"),
        ({"mechanism": {"shape": "wave"}}, "bad-description"),
        ({"mechanism": {"id": "kvue/2", "epsilon": "1"}}, "unknown-mechanism"),
        ({"mechanism": {"id": "kvue", "epsilon": "1", "keep": "9"}}, "bad-description"),
        ({"mechanism": {"id": "kvue"}}, "bad-description"),
        ({"extra": 1}, "bad-description"),
        ({"format": "keyveil-round/4"}, "unknown-version"),
    ],
)
def test_a_round_that_makes_no_sense_is_refused(changes, code):
    asking = campaign("pckv-ue")
    for read in (asking.read_round, Campaign.from_description, Reporter.open):
        with pytest.raises(DescriptionError) as refusal:
            read(asking.device_config() | changes)
        assert refusal.value.code == code


@pytest.mark.parametrize(
    "field", ["campaign", "format", "group", "keys", "mechanism", "number", "protocol", "purpose"]
)
def test_a_description_that_lacks_a_field_is_refused(field):
    whole = campaign("pckv-ue").device_config()
    del whole[field]
    with pytest.raises(DescriptionError) as refusal:
        Reporter.open(whole)
    assert refusal.value.code == "bad-description"


def test_what_is_no_description_is_refused():
    for wrong in (None, [], "x", 7, {}, {"campaign": campaign("pckv-ue").canonical_json}):
        with pytest.raises(DescriptionError) as refusal:
            Reporter.open(wrong)
        assert refusal.value.code == "bad-description"


def test_a_description_of_another_campaign_is_told_from_one_that_makes_no_sense():
    asking, other = campaign("pckv-ue"), campaign("pckv-ue", name="other")
    for wrong in (other.device_config(), other.only_round(), asking.device_config() | {"campaign": "{}"}):
        with pytest.raises(DescriptionError) as refusal:
            Reporter(asking).report({}, wrong)
        assert refusal.value.code == "other-campaign"
    with pytest.raises(DescriptionError) as refusal:
        Reporter.open(asking.device_config() | {"campaign": "{}"})
    assert refusal.value.code == "bad-description"


def test_nobody_far_away_names_a_file_for_a_device_to_read(tmp_path):
    (tmp_path / "keys.txt").write_text("a\nb\n")
    fields = json.loads(campaign("pckv-ue").canonical_json)
    del fields["keys"]
    text = json.dumps(
        fields | {"keys_file": str(tmp_path / "keys.txt")}, sort_keys=True, separators=(",", ":")
    )
    with pytest.raises(DescriptionError, match="unknown field"):
        Reporter.open(campaign("pckv-ue").device_config() | {"campaign": text})


def test_a_device_answers_a_known_round_of_a_campaign_whose_method_it_does_not_know():
    asking = campaign("pckv-ue")
    text = asking.canonical_json.replace('"mechanism":"pckv-ue"', '"mechanism":"next-year"')
    device = Reporter.open(asking.device_config() | {"campaign": text})
    assert len(device.report({"key-1": 3.0})) == asking.only_round().report_bytes
    with pytest.raises(KeyveilError):
        campaign("next-year")


def test_a_device_fetches_the_open_round():
    asking = campaign("privkvm")
    first = asking.first_round()
    url = f"https://collect.example/v1/campaigns/{asking.id}"

    def view(description, **more):
        body = json.dumps({"campaign": asking.canonical_json, "round": description, **more}).encode()
        return lambda *_: HttpAnswer(status=200, body=body)

    assert fetch_round(url, exchange=view(asking.device_config(first))) == (asking, first, False)
    assert fetch_round(url, exchange=view(None, ids="issued")) == (asking, None, True)
    other = campaign("privkvm", name="other")
    for wrong in (other.device_config(other.first_round()), {}, [], 7):
        with pytest.raises(DescriptionError):
            fetch_round(url, exchange=view(wrong))
    for status, code in ((401, "token-refused"), (403, "token-refused"), (503, "waiting"), (302, "waiting")):
        with pytest.raises(KeyveilError) as refusal:
            fetch_round(url, exchange=lambda *_, status=status: HttpAnswer(status=status))
        assert refusal.value.code == code


RELAYED = {"relay": "required", "batch": 1000}


def part(asking, high, **changes):
    stage = asking.protocol().start(asking.id)
    return replace(stage, group=(Fraction(0), high), **changes)


@pytest.mark.parametrize(
    ("mechanism", "least"),
    [
        ("kvue", Fraction(1)),
        ("pckv-ue:naive", Fraction(1)),
        ("ks-grr", Fraction(1, 10)),
        ("auto", Fraction(1, 100)),
    ],
)
def test_where_a_relay_carries_reports_a_round_for_few_is_refused(tmp_path, mechanism, least):
    asking = campaign(mechanism, **RELAYED)
    few = part(asking, least - Fraction(1, 10**6))
    assert asking.read_round(asking.device_config(part(asking, least))).group[1] == least
    with Reporter(asking, ledger=tmp_path / "l.db") as device:
        device.enable()
        for description in (asking.device_config(few), few):
            assert device.submit({"key-1": 3.0}, description).code.value == "small-group"
        assert device.status().epsilon_campaign == 0
    with pytest.raises(DescriptionError, match="expected a round for at least") as refused:
        asking.read_round(asking.device_config(few))
    assert refused.value.code == "small-group"


def test_where_none_does_a_round_may_ask_anybody():
    asking = campaign("kvue")
    few = part(asking, Fraction(1, 10**6))
    assert asking.read_round(asking.device_config(few)) == few


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.has_several_rounds])
def test_no_method_asks_a_smaller_part_than_is_said_of_it(name):
    asked = [stage.group for users in (100, 10**5, 10**8) for stage in widest(name, users).stages()]
    assert min(high - low for low, high in asked) >= METHODS[name].least_part


def widest(name, users):
    return campaign(name, **({"users": users} if METHODS[name].needs_users else {})).protocol()


def test_both_languages_know_the_same_parts():
    script = (Path(__file__).parents[2] / "sdk/js/src/descriptions/campaign.js").read_text(encoding="utf-8")
    table = script.partition("const ONE_IN = new Map([")[2].partition("]);")[0]
    told = {name: int(part) for name, part in re.findall(r'\["([a-z-]+)", (\d+)\]', table)}
    assert told == {
        name: method.least_part.denominator for name, method in METHODS.items() if method.least_part < 1
    }
    assert all(method.least_part.numerator == 1 for method in METHODS.values())
