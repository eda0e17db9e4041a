"""What a campaign may say of a relay, and what it may not promise."""

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from keyveil import Campaign
from keyveil.errors import CampaignError

PROMISE = {"relay": "required", "batch": 1000, "central_epsilon": 1.0, "delta": 1e-8}


def made(**fields: Any) -> Campaign:
    usual: dict[str, Any] = {
        "name": "apps",
        "epsilon": 4.0,
        "keys": ["maps", "mail"],
        "value_range": [0, 60],
        "pairs_per_user": 1,
        "mechanism": "bucket",
    }
    return Campaign.from_fields({**usual, **fields})


def test_a_campaign_without_a_relay_says_nothing_of_one() -> None:
    said = json.loads(made().canonical_json)
    assert not {"relay", "batch", "central_epsilon", "delta", "honest"} & set(said)
    assert not made().is_relayed


def test_what_is_promised_is_written_down_and_read_again() -> None:
    campaign = made(**PROMISE)
    said = json.loads(campaign.canonical_json)
    assert {name: said[name] for name in PROMISE} == PROMISE
    assert said["honest"] == 0.5
    assert Campaign.from_text(campaign.canonical_json) == campaign
    assert campaign.is_relayed


def test_a_relay_without_a_promise_is_a_relay() -> None:
    assert made(relay="allowed", batch=10).honest is None


def test_a_group_s_batch_is_its_share_of_the_campaign_s() -> None:
    campaign = made(relay="allowed", batch=1000)
    first = campaign.first_round()
    parts = [
        (Fraction(0), Fraction(3, 100)),
        (Fraction(3, 100), Fraction(1)),
        (Fraction(0), Fraction(1, 999)),
    ]
    assert campaign.batch_of(first) == 1000
    assert [campaign.batch_of(replace(first, group=part)) for part in parts] == [30, 970, 2]


@pytest.mark.parametrize(
    ("fields", "at"),
    [
        ({"relay": "sometimes", "batch": 10}, "$.relay"),
        ({"relay": "required"}, "$.batch"),
        ({"batch": 10}, "$.batch"),
        ({"relay": "required", "batch": 1}, "$.batch"),
        ({"relay": "required", "batch": True}, "$.batch"),
        ({"relay": "required", "batch": 10, "ids": "issued"}, "$.ids"),
        ({**PROMISE, "relay": "allowed"}, "$.relay"),
        ({**PROMISE, "delta": None}, "$.central_epsilon"),
        ({"relay": "required", "batch": 10, "honest": 0.5}, "$.central_epsilon"),
        ({**PROMISE, "central_epsilon": 4.5}, "$.central_epsilon"),
        ({**PROMISE, "central_epsilon": 0}, "$.central_epsilon"),
        ({**PROMISE, "central_epsilon": "1"}, "$.central_epsilon"),
        ({**PROMISE, "delta": 1}, "$.delta"),
        ({**PROMISE, "honest": 0}, "$.honest"),
        ({**PROMISE, "honest": 1.5}, "$.honest"),
    ],
)
def test_what_no_relay_could_keep_is_refused(fields: dict[str, Any], at: str) -> None:
    with pytest.raises(CampaignError, match=at.replace("$", r"\$")):
        made(**fields)
