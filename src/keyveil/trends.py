"""What a series found: a row for each wave and key, as the wave said it and as all waves together say it.

Two numbers stand side by side. The raw one is the wave's own release: unbiased, with an interval of that wave
alone. The smoothed one is what every wave says of it, by `estimate.series.smooth`; its interval is shorter
where little changes. Waves that nobody answered have a smoothed number alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.campaign import Campaign
from keyveil.errors import CampaignError
from keyveil.estimate import READABLE
from keyveil.estimate.estimates import Floats
from keyveil.estimate.series import FALSE_ALARMS, Observations, Smoothed, Step, smooth, steps
from keyveil.numerics import CONFIDENCE
from keyveil.release import Release
from keyveil.series import DAY, Series
from keyveil.tables import Table

# Days repeat after a week, if at all.
_WEEK = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class HeardWave:
    """A wave that is over or open, and what came of it: None where nobody was asked, or nobody answered."""

    campaign: Campaign
    """The wave as it was asked, or as it would have been."""
    release: Release | None
    note: str = ""
    """Why there is no release."""

    @property
    def number(self) -> int:
        """Which wave of its series it is."""
        return _series_of(self.campaign).wave or 0


Ends = tuple[Floats, Floats, Floats]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SeriesFound:
    """Arrays of waves by keys, NaN where there is no number; keys are those of the last wave."""

    waves: Sequence[HeardWave]
    seen: Observations
    """The frequencies that are smoothed and tested for steps: unbiased, and never cut to a range."""
    level: Smoothed
    """The smoothed frequencies, not cut either."""
    raw: dict[str, Ends]
    """Each wave's own "frequency" and "mean" with the ends of its interval, as its release has them."""
    smoothed: dict[str, Ends]
    """What all waves say of each, in the value's own units."""
    steps: tuple[Step, ...]
    asked: NDArray[np.bool_]
    """Which waves ask for which keys: some may have come later."""

    @property
    def campaign(self) -> Campaign:
        """The last wave."""
        return self.waves[-1].campaign

    @property
    def heard(self) -> list[int]:
        """The places of the waves that somebody answered."""
        return [at for at, wave in enumerate(self.waves) if wave.release is not None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SeriesRelease(Table):
    """One row a wave and key, in the value's own units, and the metadata that makes it believable."""

    columns: dict[str, Any]
    metadata: dict[str, Any]
    found: SeriesFound
    """What rows and metadata were made of."""


def find_series(waves: Sequence[HeardWave]) -> SeriesFound:
    """What waves found, in order; at least one must have been heard."""
    last = waves[-1].campaign
    codes, n_keys = _codes(waves), len(last.domain.names)
    heard = next(wave.release for wave in waves if wave.release is not None)
    frequencies = _observed(Observations.of_frequencies, waves, codes, n_keys)
    means = _observed(Observations.of_means, waves, codes, n_keys)
    period = _WEEK if _series_of(last).every == DAY else None
    level, mean = smooth(frequencies, period=period), smooth(means, period=period)
    is_readable = READABLE in heard.metadata["post"]
    return SeriesFound(
        waves=waves,
        seen=frequencies,
        level=level,
        raw={name: _raw(waves, codes, n_keys, name) for name in ("frequency", "mean")},
        smoothed={
            "frequency": _ends(level, scale=1.0, middle=0.0, inside=(0.0, 1.0) if is_readable else None),
            "mean": _ends(
                mean,
                scale=heard.scale,
                middle=heard.middle,
                inside=last.domain.reach if is_readable else None,
            ),
        },
        steps=steps(frequencies),
        asked=np.array([np.isin(np.arange(n_keys), own) for own in codes]),
    )


def release_series(waves: Sequence[HeardWave]) -> SeriesRelease:
    """The release of a series from those of its waves, in order; at least one must have been heard.

    >>> from keyveil import Campaign
    >>> weekly = Campaign(name="apps", epsilon=1.0, keys=("maps", "mail"), value_range=(0, 60),
    ...     pairs_per_user=1, mechanism="kvue", series=Series(every="week", waves=9, start="2026-11-23"))
    >>> first, second = weekly.wave(1), weekly.wave(2)
    >>> device = first.only_round()
    >>> reports = [device.report(first.domain.encode({"maps": 30.0}), bytes([n]) * 16) for n in range(200)]
    >>> found = release_series([
    ...     HeardWave(campaign=first, release=first.estimate(first.tally(reports))),
    ...     HeardWave(campaign=second, release=None, note="nobody was asked")])
    >>> [(row["wave"], row["key"], row["reports"]) for row in found.rows()]
    [(1, 'maps', 200), (1, 'mail', 200), (2, 'maps', 0), (2, 'mail', 0)]
    >>> found.metadata["notes"], found.rows()[2]["frequency"]
    (['wave 2: nobody was asked'], None)
    """
    found, last = find_series(waves), waves[-1].campaign
    series, whole = _series_of(last), last.whole_series
    keys, shown = last.domain.names, last.display_names
    heard = next(wave.release for wave in waves if wave.release is not None)
    columns: dict[str, list[Any]] = {}
    for at, (wave, own) in enumerate(zip(waves, _codes(waves), strict=True)):
        _extend(columns, "wave", [wave.number] * own.size)
        _extend(columns, "begins", [series.begins(wave.number).date().isoformat()] * own.size)
        _extend(columns, "key", [keys[code] for code in own])
        if last.names is not None:
            _extend(columns, "name", [shown[code] for code in own])
        count = 0 if wave.release is None else wave.release.metadata["users"]
        _extend(columns, "reports", [count] * own.size)
        for name in found.raw:
            for kind, ends in (("", found.raw[name]), ("_smoothed", found.smoothed[name])):
                for ending, numbers in zip(("", "_low", "_high"), ends, strict=True):
                    _extend(columns, f"{name}{kind}{ending}", numbers[at, own])
    return SeriesRelease(
        columns=columns,
        metadata={
            "series": whole.id,
            "name": whole.name,
            **({} if whole.unit is None else {"unit": whole.unit}),
            "mechanism": whole.mechanism,
            "every": series.every,
            "start": series.start,
            "waves": series.waves,
            "answers": series.answers,
            "epsilon": whole.epsilon,
            "epsilon_exact": max(
                wave.release.metadata["epsilon_exact"] for wave in waves if wave.release is not None
            ),
            "epsilon_series": whole.promised,
            "confidence": CONFIDENCE,
            "post": heard.metadata["post"],
            "smoothing": list(found.level.steps),
            "false_alarms": FALSE_ALARMS,
            "steps": [
                {
                    "key": keys[step.key],
                    "after": waves[step.after].number,
                    "earliest": waves[step.earliest].number,
                    "latest": waves[step.latest].number,
                    "size": step.size,
                    "low": step.low,
                    "high": step.high,
                }
                for step in found.steps
            ],
            "notes": [f"wave {wave.number}: {wave.note}" for wave in waves if wave.note],
        },
        found=found,
    )


def _series_of(wave: Campaign) -> Series:
    if wave.series is None:
        raise CampaignError("expected a wave of a series, got a campaign that is asked once")
    return wave.series


def _codes(waves: Sequence[HeardWave]) -> list[NDArray[np.int64]]:
    """Where each wave's keys are in the last wave: keys may have come later."""
    place = {key: code for code, key in enumerate(waves[-1].campaign.domain.names)}
    return [np.array([place[key] for key in wave.campaign.domain.names]) for wave in waves]


def _observed(read: Any, waves: Sequence[HeardWave], codes: Sequence[Any], n_keys: int) -> Observations:
    """Every wave's estimates, each where its key is in the last wave."""
    estimate = np.full((len(waves), n_keys), np.nan)
    error, hidden = np.full_like(estimate, np.inf), np.zeros_like(estimate)
    for at, (wave, own) in enumerate(zip(waves, codes, strict=True)):
        if wave.release is not None and wave.release.raw is not None:
            seen = read([wave.release.raw], n_keys=own.size)
            for all_waves, this in (
                (estimate, seen.estimate),
                (error, seen.standard_error),
                (hidden, seen.hidden),
            ):
                all_waves[at, own] = this[0]
    return Observations.of_arrays(estimate, error, hidden)


def _ends(found: Smoothed, *, scale: float, middle: float, inside: tuple[float, float] | None) -> Ends:
    """Smoothed numbers and their intervals in the value's own units, within its range if that is asked."""
    ends = (middle + scale * each for each in (found.estimate, *found.interval()))
    shown, low, high = (each if inside is None else np.clip(each, *inside) for each in ends)
    return shown, low, high


def _raw(waves: Sequence[HeardWave], codes: Sequence[Any], n_keys: int, name: str) -> Ends:
    """A number of every wave's release with its interval, each where its key is in the last wave."""
    ends = np.full((3, len(waves), n_keys), np.nan)
    for at, (wave, own) in enumerate(zip(waves, codes, strict=True)):
        if wave.release is not None:
            ends[:, at, own] = [wave.release.columns[f"{name}{ending}"] for ending in ("", "_low", "_high")]
    return ends[0], ends[1], ends[2]


def _extend(columns: dict[str, list[Any]], name: str, cells: Sequence[Any] | Floats) -> None:
    columns.setdefault(name, []).extend(cells)
