"""What a campaign says of its segments, and what it refuses to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from keyveil.campaign import Campaign
from keyveil.errors import CampaignError, DescriptionError
from keyveil.segments import Segments
from keyveil.series import Series

FIELDS: dict[str, Any] = {
    "name": "apps",
    "epsilon": 1.0,
    "keys": ("maps", "mail"),
    "value_range": (0, 60),
    "pairs_per_user": 2,
    "mechanism": "kvue",
}
TOLD = {"told": "clear", "platform": ["android", "ios", "web"], "country": ["de", "fr"]}


def test_a_file_says_attributes_and_their_values(tmp_path: Path) -> None:
    text = (
        'name = "apps"\nepsilon = 1\nkeys = ["maps", "mail"]\nvalue_range = [0, 60]\npairs_per_user = 2\n'
        'mechanism = "kvue"\n[segments]\ntold = "clear"\nplatform = ["android", "ios", "web"]\n'
        'country = ["de", "fr"]\n'
    )
    path = tmp_path / "campaign.toml"
    path.write_text(text, encoding="utf-8")
    campaign = Campaign.load(path)
    assert campaign.segments == Segments.from_fields(TOLD)
    assert campaign == Campaign(**FIELDS, segments=Segments.from_fields(TOLD))


def test_a_campaign_s_text_holds_them_and_an_old_one_s_says_nothing() -> None:
    plain, apart = Campaign(**FIELDS), Campaign(**FIELDS, segments=Segments.from_fields(TOLD))
    assert "segments" not in plain.canonical_json
    assert json.loads(apart.canonical_json)["segments"] == TOLD
    assert Campaign.from_text(apart.canonical_json) == apart
    assert apart.id != plain.id


def test_the_order_in_which_attributes_are_said_changes_nothing() -> None:
    turned = Segments.from_fields(dict(reversed(TOLD.items())))
    assert turned == Segments.from_fields(TOLD)
    assert turned.names == ("country", "platform")


def test_every_wave_of_a_series_carries_them() -> None:
    series = Series(every="week", waves=4, start="2026-11-23")
    whole = Campaign(**FIELDS, series=series, segments=Segments.from_fields(TOLD))
    wave = whole.wave(2, added=["chat"])
    assert wave.segments == whole.segments
    assert wave.whole_series == whole


def test_the_largest_are_read_again() -> None:
    many = {f"attribute_{place}": [f"[{value}]{{" for value in range(64)] for place in range(4)}
    campaign = Campaign(**FIELDS, segments=Segments.from_fields({"told": "clear", **many}))
    assert Campaign.from_text(campaign.canonical_json) == campaign


@pytest.mark.parametrize(
    ("said", "where"),
    [
        ("clear", "$.segments"),
        ({"platform": ["ios"]}, "$.segments.told"),
        ({"told": "loudly", "platform": ["ios"]}, "$.segments.told"),
        ({"told": ["clear"], "platform": ["ios"]}, "$.segments.told"),
        ({"told": "clear"}, "$.segments"),
        ({"told": "clear", **{letter: ["x"] for letter in "abcde"}}, "$.segments"),
        ({"told": "clear", "Platform": ["ios"]}, "$.segments"),
        ({"told": "clear", "a" * 41: ["ios"]}, "$.segments"),
        ({"told": "clear", "platform": "ios"}, "$.segments.platform"),
        ({"told": "clear", "platform": []}, "$.segments.platform"),
        ({"told": "clear", "platform": [str(n) for n in range(65)]}, "$.segments.platform"),
        ({"told": "clear", "platform": ["ios", 7]}, "$.segments.platform[1]"),
        ({"told": "clear", "platform": [""]}, "$.segments.platform[0]"),
        ({"told": "clear", "platform": ["x" * 81]}, "$.segments.platform[0]"),
        ({"told": "clear", "platform": ["\ud800"]}, "$.segments.platform[0]"),
        ({"told": "clear", "platform": ["ios", "other"]}, "$.segments.platform[1]"),
        ({"told": "clear", "platform": ["ios", "ios"]}, "$.segments.platform[1]"),
    ],
)
def test_what_is_no_table_of_segments_is_refused_where_it_is(said: object, where: str) -> None:
    with pytest.raises(CampaignError) as refusal:
        Segments.from_fields(said)
    assert f"at {where}" in str(refusal.value)


def test_a_text_that_says_attributes_in_another_order_is_not_canonical() -> None:
    campaign = Campaign(**FIELDS, segments=Segments.from_fields(TOLD))
    said = json.loads(campaign.canonical_json)
    said["segments"]["told"] = said["segments"].pop("told")
    turned = json.dumps({**said, "segments": dict(reversed(said["segments"].items()))})
    with pytest.raises(DescriptionError):
        Campaign.from_text(turned)


def test_an_unknown_attribute_has_no_values() -> None:
    with pytest.raises(CampaignError, match="country, platform"):
        Segments.from_fields(TOLD).values("version")


def test_a_central_promise_beside_clear_labels_is_refused_and_beside_private_ones_is_not() -> None:
    relayed = {"relay": "required", "batch": 1000, "central_epsilon": 0.5, "delta": 1e-8}
    clear = Segments.from_fields(TOLD)
    with pytest.raises(CampaignError, match=r"at \$\.central_epsilon"):
        Campaign(**FIELDS, **relayed, segments=clear)
    assert Campaign(**FIELDS, relay="required", batch=1000, segments=clear).batch == 1000
    private = Segments(told="private", attributes=clear.attributes[:1])
    assert Campaign(**FIELDS, **relayed, segments=private).segments == private
