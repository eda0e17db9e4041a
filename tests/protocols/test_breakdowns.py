"""Breakdowns: a segment's numbers are those of its own reports, and their intervals hold."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from segmented import crowd_of, random_campaign

from keyveil import Campaign
from keyveil.breakdowns import Breakdowns, break_down
from keyveil.errors import CampaignError
from keyveil.methods import METHODS
from keyveil.protocols import Outcome, Protocol, Round
from keyveil.report import HEADER_BYTES
from keyveil.segments import Segments
from keyveil.simulate import Population, draw_tally, insecure_generator, synthetic
from keyveil.tally import Tally

THREE = Segments(told="clear", attributes=(("platform", ("android", "ios")),))


def asking(**more: Any) -> Campaign:
    said: dict[str, Any] = {
        "name": "apps",
        "epsilon": 4.0,
        "keys": [f"key-{k}" for k in range(12)],
        "value_range": (0, 60),
        "pairs_per_user": 2,
        "mechanism": "bucket",
        "segments": THREE,
    }
    return Campaign(**{**said, **more})


@pytest.mark.parametrize("seed", range(0, 40, 3))
def test_a_segment_is_estimated_from_its_own_reports_alone(seed: int) -> None:
    """Exactly as if nobody else had been asked, by whatever method."""
    campaign = random_campaign(seed)
    crowd = crowd_of(campaign, 300, seed)
    found = campaign.breakdowns(campaign.tally(crowd.reports), quantiles=(0.5,))
    assert campaign.segments is not None
    plain, end = replace(campaign, segments=None), HEADER_BYTES + campaign.build().layout.n_bytes
    asked = campaign.first_round()
    for attribute, (name, values) in enumerate(campaign.segments.attributes):
        assert sum(found.users[name].values()) == 300
        for label, value in enumerate(("other", *values)):
            own = crowd.of(attribute, label)
            assert found.users[name][value] == len(own)
            if not own:
                assert (name, value) not in found.releases
                continue
            tally = campaign.tally([report[:end] for report in own], replace(asked, labels=()))
            alone = plain.estimate(replace(tally, question=plain.first_round().question))
            assert found.release(name, value).rows() == alone.rows()


def test_without_quantiles_frequencies_and_means_are_the_same_numbers() -> None:
    campaign = asking()
    tally = campaign.tally(crowd_of(campaign, 500, 1).reports)
    short, long = campaign.breakdowns(tally), campaign.breakdowns(tally, quantiles=(0.25, 0.5))
    assert "median" not in short.columns
    assert {"q25", "median"} <= set(long.columns)
    assert [{name: row[name] for name in short.columns} for row in long.rows()] == short.rows()


def test_the_table_is_long_and_in_the_order_of_the_file() -> None:
    campaign = asking(segments=Segments(told="clear", attributes=(("platform", ("web", "=cmd()")),)))
    found = campaign.breakdowns(campaign.tally(crowd_of(campaign, 90, 1).reports))
    assert found.columns[:3] == ["attribute", "segment", "key"]
    assert [value for _, value in found.releases] == ["web", "=cmd()", "other"]
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert [row["segment"] for row in rows[::12]] == ["web", "'=cmd()", "other"]
    said = json.loads(found.to_json())
    assert len(said["rows"]) == len(rows) == 36
    assert said["metadata"]["users"] == found.users
    assert said["metadata"]["notes"] == ["labels are in the clear: they are not private"]
    assert found.to_arrow().column_names == found.columns
    assert list(found.estimates("platform")) == ["web", "=cmd()", "other"]


def test_a_release_says_that_labels_are_not_private() -> None:
    campaign = asking()
    notes = campaign.estimate(campaign.tally(crowd_of(campaign, 90, 1).reports)).metadata["notes"]
    assert notes == ["every report says platform in the clear: these are not private"]


def test_without_segments_there_is_no_breakdown() -> None:
    campaign = asking(segments=None)
    with pytest.raises(CampaignError, match=r"at \$\.segments"):
        campaign.breakdowns(campaign.tally([]))


def test_private_segments_of_which_nobody_was_heard_have_no_numbers() -> None:
    campaign = asking(segments=replace(THREE, told="private"))
    found = campaign.breakdowns(campaign.tally([]))
    assert all(row["frequency"] is None or row["frequency_high"] == 1.0 for row in found.rows())


def test_what_there_are_no_numbers_of_is_said() -> None:
    campaign = asking()
    found = campaign.breakdowns(campaign.tally([]))
    assert (found.releases, found.users) == ({}, {"platform": {"android": 0, "ios": 0, "other": 0}})
    with pytest.raises(CampaignError, match="no numbers of platform = 'ios'"):
        found.release("platform", "ios")
    with pytest.raises(CampaignError, match="expected an attribute among platform"):
        campaign.breakdowns(campaign.tally([]), by=["country"])


@pytest.mark.parametrize(
    "name", sorted(name for name, method in METHODS.items() if method.of_everybody is None)
)
def test_methods_that_build_on_everybody_s_means_are_refused(name: str) -> None:
    with pytest.raises(CampaignError, match=r"at \$\.segments"):
        asking(mechanism=name, pairs_per_user=1)


# --- intervals ---


def played(campaign: Campaign, people: list[Population], seed: int) -> list[tuple[Round, Tally]]:
    """The rounds of a campaign, asked of the people of each label."""
    protocol: Protocol = campaign.protocol()
    rng = insecure_generator(seed)
    places = [rng.random(each.n_users) for each in people]
    step: Round | Outcome = protocol.start(campaign.id)
    history: list[tuple[Round, Tally]] = []
    while isinstance(step, Round):
        low, high = map(float, step.group)
        parts = {}
        for label, (held, where) in enumerate(zip(people, places, strict=True)):
            asked = held.take(np.flatnonzero((low <= where) & (where < high)))
            asked = asked if step.keys is None else asked.restrict(np.array(step.keys))
            parts[0, label] = draw_tally(
                step.mechanism, asked, rng, question=step.question, dither=step.dither
            )
        whole = sum(list(parts.values())[1:], start=parts[0, 0])
        history.append((step, whole.with_segments(parts)))
        step = protocol.next(history)
    return history


def covered(found: Breakdowns, people: list[Population]) -> float:
    """The share of all cells whose interval of the frequency has the truth of their segment."""
    hits = []
    for (_, value), release in found.releases.items():
        truth = people[("other", "android", "ios").index(value)].frequency()
        low, high = release.columns["frequency_low"], release.columns["frequency_high"]
        hits.append((low <= truth) & (truth <= high))
    return float(np.mean(hits))


def turned(people: Population) -> Population:
    """The same people with the rarest key for the most frequent, and so on."""
    return replace(people, codes=people.n_keys - 1 - people.codes)


@pytest.mark.parametrize(
    ("mechanism", "more"),
    [
        ("bucket", {}),
        ("pckv-ue", {}),
        ("auto", {"users": 60_000}),
        ("auto", {"users": 60_000, "want": "frequency"}),
        ("ks-grr", {}),
    ],
)
def test_intervals_of_segments_hold_and_those_of_another_segment_do_not(
    mechanism: str, more: dict[str, Any]
) -> None:
    campaign = asking(mechanism=mechanism, epsilon=4.0, **more)
    common = [synthetic(users=20_000, keys=12, pairs_per_user=2, seed=seed) for seed in (1, 2, 3)]

    people = [common[0], _sorted(turned(common[1])), common[2]]
    runs = [break_down(campaign, played(campaign, people, seed)) for seed in range(8)]
    assert all(set(found.users["platform"].values()) == {20_000} for found in runs) or mechanism != "bucket"
    right = np.mean([covered(found, people) for found in runs])
    wrong = np.mean([covered(found, [people[1], people[2], people[0]]) for found in runs])
    assert right > 0.9, right
    assert wrong < 0.5, wrong


def _sorted(people: Population) -> Population:
    users = np.repeat(np.arange(people.n_users), people.sizes)
    order = np.lexsort((people.codes, users))
    return replace(people, codes=people.codes[order], values=people.values[order])
