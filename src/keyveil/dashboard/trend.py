"""A series as its page draws it: every wave's numbers by key, dated steps, and what changed since a wave.

Numbers are rounded to what a page can show, and null where there are none; a change and its interval are made
of the numbers before that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from keyveil.errors import TallyError
from keyveil.estimate.estimates import Floats
from keyveil.estimate.series import surely_changed
from keyveil.numerics import two_sided_z
from keyveil.trends import SeriesFound, SeriesRelease

# Digits behind the point: a frequency to a hundred-thousandth of a percent, far below what any series knows.
_DIGITS = 7
_ENDINGS = ("", "_low", "_high")

Numbers = list[list[float]]


class DatedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A key's level changed after wave `after`; its likeliest, first and last wave before the step."""

    key: int
    """Its place among the keys that were sent."""
    after: int
    earliest: int
    latest: int
    size: float
    low: float
    high: float


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """Each key's change from one wave to another, newer minus older, of frequencies.

    A smoothed change errs no more than both smoothed numbers, however they vary together. A raw one is the
    difference of two waves alone.
    """

    start: int
    end: int
    smoothed: list[float]
    smoothed_low: list[float]
    smoothed_high: list[float]
    raw: list[float]
    raw_low: list[float]
    raw_high: list[float]
    is_sure: list[bool]
    """Whether the key surely did not stay at one level since: at the stated rate of false alarms, which is of
    all keys and of all waves that may be compared."""
    n_sure: int
    """How many of all keys did not, those that are not sent among them."""


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of a series; null is no number."""

    metadata: dict[str, Any]
    n_keys: int
    """How many keys there are; `keys` may be some of them."""
    places: list[int]
    """Where the keys that were sent stand among all."""
    keys: list[str]
    names: list[str]
    """What they are called, for people."""
    value_range: tuple[float, float]
    numbers: list[int]
    """The waves of all columns: those that have begun."""
    columns: dict[str, Numbers]
    """By key, then by wave: raw and smoothed frequencies and means, with the ends of their intervals."""
    steps: list[DatedStep]
    since: Changes | None
    """Since the wave that was asked for; null where there are no two waves to compare."""
    previous: Changes | None
    """Since the last wave before that somebody answered."""


def make_trend(release: SeriesRelease, *, since: int = 0, most: int = 0, key: str = "") -> Trend:
    """The page's numbers, with changes since a wave: the first that was heard if 0.

    Of all keys, of the `most` changed, or of one.
    """
    found = release.found
    heard, names = found.heard, found.campaign.domain.names
    compared = None if len(heard) < 2 else _changes(found, _start(found, since))
    previous = None if len(heard) < 2 else _changes(found, heard[-2])
    if key:
        places = np.flatnonzero([name == key for name in names])
    else:
        places = np.arange(len(names)) if compared is None or not most else _order(compared)[:most]
    steps = [step for step in found.steps if step.key in places]
    at = {place: sent for sent, place in enumerate(places.tolist())}
    number = [wave.number for wave in found.waves]
    return Trend(
        # Steps are sent apart, with the keys by place.
        metadata={name: said for name, said in release.metadata.items() if name != "steps"},
        n_keys=len(names),
        places=places.tolist(),
        keys=[names[place] for place in places],
        names=[found.campaign.display_names[place] for place in places],
        value_range=found.campaign.domain.reach,
        numbers=number,
        columns=_columns(found, places),
        steps=[
            DatedStep(
                key=at[step.key],
                after=number[step.after],
                earliest=number[step.earliest],
                latest=number[step.latest],
                size=step.size,
                low=step.low,
                high=step.high,
            )
            for step in steps
        ],
        since=compared and _of(compared, places),
        previous=previous and _of(previous, places),
    )


def _start(found: SeriesFound, since: int) -> int:
    """The place of the wave that is compared with the last one."""
    *before, _ = found.heard
    if not since:
        return before[0]
    for at in before:
        if found.waves[at].number == since:
            return at
    numbers = ", ".join(str(found.waves[at].number) for at in before)
    raise TallyError(f"expected a wave that somebody answered before the last one ({numbers}), got {since}")


def _changes(found: SeriesFound, start: int) -> Changes:
    end, z = found.heard[-1], two_sided_z()
    level, seen = found.level, found.seen
    middle = level.estimate[end] - level.estimate[start]
    reach = z * (level.standard_error[end] + level.standard_error[start])
    gap = seen.estimate[end] - seen.estimate[start]
    raw = z * np.hypot(seen.standard_error[end], seen.standard_error[start])
    below, above = seen.hidden[start], seen.hidden[end]
    asked = found.asked[[start, end]].all(axis=0)
    sure = surely_changed(found.seen) > start
    smoothed = (middle, middle - reach - below, middle + reach + above)
    return Changes(
        start=found.waves[start].number,
        end=found.waves[end].number,
        **_named("smoothed", [np.where(asked, each, np.nan) for each in smoothed]),
        **_named("raw", (gap, gap - raw - below, gap + raw + above)),
        is_sure=sure.tolist(),
        n_sure=int(sure.sum()),
    )


def _named(name: str, ends: Sequence[Floats]) -> dict[str, list[float]]:
    return {f"{name}{ending}": _rounded(each) for ending, each in zip(_ENDINGS, ends, strict=True)}


def _order(changes: Changes) -> NDArray[np.int64]:
    """Keys by their change: the sure ones first, the largest before; then what is least like chance."""
    ends = (changes.smoothed, changes.smoothed_low, changes.smoothed_high)
    size, low, high = (np.array(each) for each in ends)
    sure = np.array(changes.is_sure)
    with np.errstate(invalid="ignore", divide="ignore"):
        weight = np.where(sure, np.abs(size), np.abs(size) / (high - low))
    return np.lexsort((-np.nan_to_num(weight), ~sure))


def _of(changes: Changes, places: NDArray[np.int64]) -> Changes:
    """Of these keys alone."""
    fields = msgspec.structs.asdict(changes)
    some = {
        name: [each[place] for place in places] for name, each in fields.items() if isinstance(each, list)
    }
    return msgspec.structs.replace(changes, **some)


def _columns(found: SeriesFound, places: NDArray[np.int64]) -> dict[str, Numbers]:
    columns = {}
    for name, raw in found.raw.items():
        for kind, ends in (("", raw), ("_smoothed", found.smoothed[name])):
            for ending, numbers in zip(_ENDINGS, ends, strict=True):
                by_key = np.where(found.asked, numbers, np.nan)[:, places].T
                columns[f"{name}{kind}{ending}"] = [_rounded(row) for row in by_key]
    return columns


def _rounded(numbers: Floats) -> list[float]:
    """What is not finite becomes null on the wire."""
    rounded: list[float] = np.round(numbers, _DIGITS).tolist()
    return rounded
