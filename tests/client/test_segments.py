"""What a device says of itself in the clear: fixed with its vote, of one length, and told to the person."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keyveil import Campaign
from keyveil.client import Reporter
from keyveil.errors import DescriptionError
from keyveil.report import Envelope
from keyveil.segments import Segments

TOLD = Segments.from_fields({"told": "clear", "platform": ["android", "ios"], "country": ["de"]})


def asking(**more: Any) -> Campaign:
    said: dict[str, Any] = {
        "name": "apps",
        "epsilon": 1.0,
        "keys": ("maps", "mail"),
        "value_range": (0, 60),
        "pairs_per_user": 2,
        "mechanism": "kvue",
        "segments": TOLD,
    }
    return Campaign(**{**said, **more})


def labels_of(campaign: Campaign, report: bytes) -> tuple[int, ...]:
    return campaign.only_round().read(Envelope.from_bytes(report).payload)[1]


@pytest.mark.parametrize(
    ("said", "labels"),
    [
        (None, (0, 0)),
        ({}, (0, 0)),
        ({"platform": "ios"}, (0, 2)),
        ({"country": "de", "platform": "android", "colour": "red"}, (1, 1)),
        ({"country": None, "platform": "Windows"}, (0, 0)),
    ],
)
def test_a_report_carries_the_labels_that_the_campaign_names(
    said: dict[str, str | None] | None, labels: tuple[int, ...]
) -> None:
    campaign = asking()
    report = Reporter(campaign, segments=said).report({"maps": 3.0})
    assert labels_of(campaign, report) == labels
    assert len(report) == campaign.only_round().report_bytes


def test_labels_belong_to_the_vote(tmp_path: Path) -> None:
    campaign, path = asking(), tmp_path / "device.db"
    first = Reporter(campaign, ledger=path, segments={"platform": "ios"}).report({"maps": 3.0})
    later = Reporter(campaign, ledger=path, segments={"platform": "android"})
    assert later.report({"mail": 9.0}) == first
    assert "The report says in the clear, without noise: country other, platform ios." in later.explain({})


def test_the_person_is_told_before_anything_is_sent(tmp_path: Path) -> None:
    device = Reporter(asking(), ledger=tmp_path / "device.db", segments={"country": "de"})
    said = device.explain({"maps": 3.0})
    assert "Sent: nothing yet." in said
    assert (
        "A report says in the clear, without noise: country de, platform other. This is not private" in said
    )


@pytest.mark.parametrize("segments", [None, Segments(told="private", attributes=TOLD.attributes[:1])])
def test_where_nothing_is_told_in_the_clear_no_byte_of_it_is_sent(segments: Segments | None) -> None:
    campaign = asking(segments=segments)
    report = Reporter(campaign, segments={"platform": "ios"}).report({"maps": 3.0})
    assert len(report) == len(Reporter(campaign).report({}))
    assert labels_of(campaign, report) == ()


@pytest.mark.parametrize("said", ["ios", ["platform"], {"platform": 7}, {7: "ios"}])
def test_what_maps_no_names_to_texts_is_a_programming_mistake(said: Any) -> None:
    with pytest.raises(TypeError, match="segments must map names"):
        Reporter(asking(), segments=said)


def test_a_round_with_other_labels_is_not_answered() -> None:
    campaign, plain = asking(), asking(segments=None)
    described = campaign.device_config()
    assert Campaign.from_description(described) == (campaign, campaign.only_round())
    for spoilt in (
        {**described, "labels": [1, 3]},
        {**described, "labels": [1]},
        {**plain.device_config(), "campaign": campaign.canonical_json},
    ):
        with pytest.raises(DescriptionError, match=r"\$\.labels"):
            Campaign.from_description(spoilt)
    with pytest.raises(DescriptionError, match=r"\$\.labels"):
        Campaign.from_description({**described, "campaign": plain.canonical_json})
