"""A series: one question asked in waves, of which a device answers a few.

What is protected is a person over the whole series. A device answers in `answers` of its `waves`, which
follow from its own secret: a rotating panel. Its loss is then at most `answers` times the epsilon of a wave,
whatever a collector does and however long it goes on, and is known before the first wave.

A wave is a campaign of its own, whose text says the series and the wave. What the waves have in common is the
series' text, whose hash is the series' id; keys may come later, and each wave says how many it began with. A
collector can therefore not ask two questions as one wave: a device answers one campaign a wave, ever.

Waves begin at midnight UTC, a calendar's day, week or month after one another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, date, datetime, time, timedelta
from fractions import Fraction
from typing import Any, Self

from keyveil.errors import CampaignError

DAY, WEEK, MONTH = "day", "week", "month"
PERIODS = (DAY, WEEK, MONTH)
MOST_WAVES = 1000
# A month has no later day in every year.
_LAST_DAY, _MONTHS, _LAST_YEAR = 28, 12, 9998
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_DAYS = {DAY: 1, WEEK: 7}


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """How often a question is asked, how long, and in how many waves a device answers.

    >>> weekly = Series(every="week", waves=52, answers=2, start="2026-11-23")
    >>> weekly.begins(2).isoformat(), weekly.number_at(weekly.begins(2)), weekly.panel(Fraction(1, 2))
    ('2026-11-30T00:00:00+00:00', 2, (1, 27))
    """

    every: str
    """How long a wave is: "day", "week" or "month"."""
    waves: int
    answers: int = 1
    """In how many waves a device answers."""
    start: str = ""
    """The day on which the first wave begins, such as 2026-11-23; empty until the series is created."""
    wave: int | None = None
    """Which wave this is; None for the series as a whole."""
    first_keys: int | None = None
    """How many of a wave's keys the series began with, where others came later."""

    def __post_init__(self) -> None:
        if self.every not in PERIODS:
            raise CampaignError(
                f"every must be one of {', '.join(PERIODS)}, got {str(self.every)[:40]!r}, at $.series.every"
            )
        self._expect_whole("waves", 2, MOST_WAVES)
        self._expect_whole("answers", 1, self.waves)
        if not isinstance(self.start, str) or (self.start and self._day() is None):
            raise CampaignError(
                f"start must be a date such as 2026-11-23, got {str(self.start)[:40]!r}, at $.series.start"
            )
        if self.start and self._is_too_late():
            raise CampaignError(
                f"a series by month starts on a day up to the {_LAST_DAY}th, and each ends before "
                f"{_LAST_YEAR}, got {self.start}, at $.series.start"
            )
        if self.wave is not None:
            self._expect_whole("wave", 1, self.waves)
            if not self.start:
                raise CampaignError("a wave needs the day on which its series starts, at $.series.start")
        if self.first_keys is not None:
            self._expect_whole("first_keys", 1, 1 << 31)
            if self.wave is None:
                raise CampaignError("only a wave has keys that came later, at $.series.first_keys")

    @classmethod
    def from_fields(cls, said: object) -> Self:
        """The series that a campaign's table describes; unknown and missing fields are refused."""
        if not isinstance(said, Mapping):
            raise CampaignError(f"series must be a table of fields, got {type(said).__name__}, at $.series")
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(map(str, said)) - known):
            raise CampaignError(f'unknown field "{unknown[0][:40]}", at $.series.{unknown[0][:40]}')
        for needed in ("every", "waves"):
            if needed not in said:
                raise CampaignError(f'field "{needed}" is missing, at $.series.{needed}')
        return cls(**said)

    def to_fields(self) -> dict[str, Any]:
        """What a campaign's text says of it; what is not known yet is left out."""
        said = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in said.items() if value not in (None, "")}

    def begins(self, wave: int) -> datetime:
        """The moment from which a wave is asked; the one after the last is the end of the series."""
        if not self.start:
            raise CampaignError("a series without a start has no calendar yet, at $.series.start")
        return _begin(self.every, date.fromisoformat(self.start), wave)

    def ends(self, wave: int) -> datetime:
        """The moment from which it is not."""
        return self.begins(wave + 1)

    @property
    def ending(self) -> datetime | None:
        """When nothing more is asked: of this wave, or of the whole series; None while there is no start."""
        return self.ends(self.wave or self.waves) if self.start else None

    def number_at(self, moment: datetime) -> int:
        """The wave of a moment; 0 before the first, one more than there are after the last.

        >>> monthly = Series(every="month", waves=3, start="2026-01-28")
        >>> [monthly.number_at(datetime(2026, month, 28, tzinfo=UTC)) for month in (1, 2, 3, 4)]
        [1, 2, 3, 4]
        """
        low, high = 0, self.waves + 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.begins(middle) <= moment else (low, middle - 1)
        return low

    def panel(self, place: Fraction) -> tuple[int, ...]:
        """The waves that a device at this place in [0, 1) answers: evenly spread, from its own first one."""
        first = int(place * self.waves)
        return tuple(
            sorted(
                1 + (first + turn * self.waves // self.answers) % self.waves for turn in range(self.answers)
            )
        )

    @property
    def share(self) -> Fraction:
        """The share of all devices that a wave asks."""
        return Fraction(self.answers, self.waves)

    def whole(self) -> Series:
        """The series, whichever wave this is."""
        return replace(self, wave=None, first_keys=None)

    def _expect_whole(self, name: str, least: int, most: int) -> None:
        number = getattr(self, name)
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            raise CampaignError(
                f"{name} must be a whole number from {least} to {most}, got {str(number)[:40]}, "
                f"at $.series.{name}"
            )

    def _day(self) -> date | None:
        try:
            return date.fromisoformat(self.start) if _DATE.fullmatch(self.start) else None
        except ValueError:
            return None

    def _is_too_late(self) -> bool:
        day = date.fromisoformat(self.start)
        if self.every == MONTH and day.day > _LAST_DAY:
            return True
        try:
            return _begin(self.every, day, self.waves + 1).year > _LAST_YEAR
        except (ValueError, OverflowError):
            return True


def _begin(every: str, start: date, wave: int) -> datetime:
    """The first moment of a wave."""
    if every == MONTH:
        months = start.month - 1 + wave - 1
        day = start.replace(year=start.year + months // _MONTHS, month=1 + months % _MONTHS)
    else:
        day = start + timedelta(days=_DAYS[every] * (wave - 1))
    return datetime.combine(day, time(), UTC)
