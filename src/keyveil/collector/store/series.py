"""Series and their waves, as they are kept: rows, and what can be asked and changed of them.

A series is a text and terms, like a campaign, and has no rounds of its own: its waves do. A wave has a row
once its turn came, with the campaign that was opened for it or the reason why there is none. That
`(series, number)` is unique keeps two collectors from opening a wave twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesRow:
    """A series as it was created; what its waves are is right from `settled_from` until `due_at`."""

    no: int
    id: str
    config: str
    terms: str
    label: str
    created_at: float
    paused_at: float | None
    ended_at: float | None
    settled_from: float | None
    due_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveRow:
    """A wave whose turn came: its campaign, or why it has none; `finished_at` is the campaign's."""

    number: int
    campaign: int | None
    id: str | None
    opened_at: float
    why: str
    finished_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedKey:
    """A key that came later, and the first wave that has it."""

    name: str
    wave: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationRow:
    """What somebody noted of a moment; `token` is the id of the token that did."""

    no: int
    at: float
    text: str
    token: str


class SeriesReading(Protocol):
    """What can be asked of series."""

    def series(self, id: str) -> SeriesRow | None:
        """The series with this id."""

    def all_series(self) -> list[SeriesRow]:
        """All, the oldest first."""

    def due_series(self, now: float) -> list[str]:
        """Ids of those of whose waves something else may have to be written at this moment."""

    def waves(self, series: int) -> list[WaveRow]:
        """The waves whose turn came, in order."""

    def wave_reports(self, series: int) -> dict[int, int]:
        """How many reports the campaigns of a series have, by the campaign's number."""

    def added_keys(self, series: int) -> list[AddedKey]:
        """The keys that came later, in the order in which waves hold them."""

    def annotations(self, series: int) -> list[AnnotationRow]:
        """What was noted, by the moment of which it was."""


class SeriesWriting(SeriesReading, Protocol):
    """What can be changed of them."""

    def add_series(
        self, *, id: str, config: str, terms: str, label: str, now: float, due_at: float | None
    ) -> bool:
        """Whether the series is new."""

    def lock_series(self, id: str) -> SeriesRow | None:
        """The series, alone: nobody else opens its waves or changes it until the transaction ends."""

    def label_series(self, series: int, label: str) -> None:
        """Another label."""

    def pause_series(self, series: int, paused_at: float | None) -> None:
        """No wave is opened from this moment on; None lets them be opened again."""

    def end_series(self, series: int, now: float) -> None:
        """No wave is opened any more."""

    def settle(self, series: int, settled_from: float | None, due_at: float | None) -> None:
        """From when until when nothing else is to be written of the waves; None: since or for ever."""

    def make_due(self, series: int, now: float) -> None:
        """Something else is to be written from this moment on."""

    def add_wave(self, series: int, number: int, *, campaign: int | None, now: float, why: str) -> bool:
        """Whether the wave is new, or had no campaign and has one now."""

    def add_keys(self, series: int, names: list[str], wave: int) -> None:
        """More keys, behind those that there are."""

    def annotate(self, series: int, *, at: float, text: str, token: str) -> int:
        """Note something of a moment; the note's number."""

    def drop_annotation(self, series: int, no: int) -> bool:
        """Whether a note with this number was there, and is not any more."""
