"""A series: its calendar, its panel, its waves as campaigns with one series' id."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

from keyveil import Campaign
from keyveil.errors import CampaignError, DescriptionError
from keyveil.series import MOST_WAVES, PERIODS, Series

WEEKLY: dict[str, Any] = {"every": "week", "waves": 9, "answers": 2, "start": "2026-11-23"}


def campaign(**changes: Any) -> Campaign:
    said: dict[str, Any] = {
        "name": "apps",
        "epsilon": 1.0,
        "keys": ("maps", "mail"),
        "value_range": (0, 60),
        "pairs_per_user": 2,
        "mechanism": "kvue",
        "series": WEEKLY,
    }
    return Campaign.from_fields(said | changes)


@pytest.mark.parametrize("every", PERIODS)
@pytest.mark.parametrize("start", ["2026-01-28", "2027-12-31", "2028-02-29"])
def test_waves_follow_each_other_without_a_gap(every: str, start: str) -> None:
    if every == "month" and start != "2026-01-28":
        with pytest.raises(CampaignError, match="28th"):
            Series(every=every, waves=40, start=start)
        return
    series = Series(every=every, waves=40, start=start)
    assert series.begins(1) == datetime.fromisoformat(start).replace(tzinfo=UTC)
    for wave in range(1, 41):
        first, end = series.begins(wave), series.ends(wave)
        assert series.number_at(first) == series.number_at(end - timedelta(microseconds=1)) == wave
        assert series.number_at(end) == wave + 1
    assert series.number_at(series.begins(1) - timedelta(seconds=1)) == 0
    assert series.number_at(series.ends(40) + timedelta(days=1000)) == 41


@pytest.mark.parametrize(("waves", "answers"), [(2, 1), (2, 2), (7, 3), (52, 5), (12, 12), (1000, 7)])
def test_every_wave_asks_the_same_share(waves: int, answers: int) -> None:
    """Exactly: over all first waves, which are alike, each wave is asked `answers` times."""
    series = Series(every="day", waves=waves, answers=answers)
    panels = [series.panel(Fraction(2 * first + 1, 2 * waves)) for first in range(waves)]
    assert all(len(set(panel)) == answers and set(panel) <= set(range(1, waves + 1)) for panel in panels)
    assert Counter(wave for panel in panels for wave in panel) == dict.fromkeys(range(1, waves + 1), answers)
    for panel in panels:
        gaps = [after - before for before, after in pairwise((*panel, panel[0] + waves))]
        assert max(gaps) - min(gaps) <= 1


def test_the_ends_of_places_are_in_panels() -> None:
    series = Series(every="day", waves=7, answers=1)
    assert series.panel(Fraction(0)) == (1,)
    assert series.panel(1 - Fraction(1, 1 << 256)) == (7,)


def test_a_wave_tells_its_series_and_no_other() -> None:
    whole = campaign(names=("Maps", "Mail"))
    waves = [whole.wave(number) for number in range(1, 10)] + [whole.wave(3, ["chat"])]
    assert {wave.whole_series.id for wave in waves} == {whole.id}
    assert len({wave.id for wave in waves}) == 10
    for changed in ({"epsilon": 2.0}, {"keys": ("mail", "maps")}, {"series": WEEKLY | {"answers": 3}}):
        assert campaign(**{"names": ("Maps", "Mail")} | changed).wave(3).whole_series.id != whole.id


def test_what_a_device_reads_is_what_was_written() -> None:
    for wave in (campaign().wave(3), campaign(names=("Maps", "Mail"), other=True).wave(9, ["chat", "feed"])):
        read = Campaign.from_text(wave.canonical_json)
        assert read == wave
        assert read.whole_series.id == wave.whole_series.id
        described = Campaign.from_description(wave.device_config())
        assert described == (wave, wave.only_round())


def test_a_wave_ends_with_its_calendar_or_before() -> None:
    assert campaign().wave(2).expiry == datetime(2026, 12, 7, tzinfo=UTC)
    assert campaign().expiry == datetime(2027, 1, 25, tzinfo=UTC)
    assert campaign(expires="2026-12-01").wave(2).expiry == datetime(2026, 12, 2, tzinfo=UTC)
    assert campaign(series={"every": "week", "waves": 9}).expiry is None


def test_what_is_promised_is_the_whole() -> None:
    assert (campaign().promised, campaign().wave(1).promised) == (2.0, 2.0)
    assert campaign(series=None).promised == 1.0


def test_a_wave_is_planned_for_those_whom_it_asks() -> None:
    series, alone = (
        campaign(mechanism="auto", users=90_000),
        campaign(mechanism="auto", users=20_000, series=None),
    )
    assert series.wave(1).first_round().mechanism == alone.first_round().mechanism


@pytest.mark.parametrize(
    ("said", "where"),
    [
        ([], "at $.series"),
        ({"every": "hour", "waves": 3}, "$.series.every"),
        ({"every": "week"}, "$.series.waves"),
        ({"waves": 3}, "$.series.every"),
        ({"every": "week", "waves": 1}, "$.series.waves"),
        ({"every": "week", "waves": 3.0}, "$.series.waves"),
        ({"every": "week", "waves": True}, "$.series.waves"),
        ({"every": "week", "waves": MOST_WAVES + 1}, "$.series.waves"),
        ({"every": "week", "waves": 3, "answers": 0}, "$.series.answers"),
        ({"every": "week", "waves": 3, "answers": 4}, "$.series.answers"),
        ({"every": "week", "waves": 3, "start": "soon"}, "$.series.start"),
        ({"every": "week", "waves": 3, "start": "2026-02-30"}, "$.series.start"),
        ({"every": "week", "waves": 3, "start": 20261123}, "$.series.start"),
        ({"every": "week", "waves": 3, "start": "9998-12-30"}, "$.series.start"),
        ({"every": "month", "waves": 3, "start": "2026-01-31"}, "$.series.start"),
        ({"every": "week", "waves": 3, "wave": 1}, "$.series.start"),
        ({"every": "week", "waves": 3, "start": "2026-11-23", "wave": 4}, "$.series.wave"),
        ({"every": "week", "waves": 3, "start": "2026-11-23", "first_keys": 1}, "$.series.first_keys"),
        (
            {"every": "week", "waves": 3, "start": "2026-11-23", "wave": 1, "first_keys": 2},
            "$.series.first_keys",
        ),
        ({"every": "week", "waves": 3, "colour": "red"}, "$.series.colour"),
    ],
)
def test_what_makes_no_series_is_refused(said: Any, where: str) -> None:
    with pytest.raises(CampaignError) as refused:
        campaign(series=said)
    assert where in str(refused.value)


def test_a_text_that_says_it_otherwise_is_refused() -> None:
    text = campaign().wave(3).canonical_json
    for changed in (
        text.replace('"answers":2,', ""),
        text.replace('"wave":3', '"wave":3.0'),
        text.replace('"answers":2,"every":"week"', '"every":"week","answers":2'),
        text.replace('"wave":3', '"wave":{"a":{}}'),
    ):
        assert changed != text
        with pytest.raises(DescriptionError):
            Campaign.from_text(changed)
