"""The calendar of series: which wave is open follows from the collector's clock, and from nothing else.

At every boundary, whoever looks first opens the wave of the moment. What was missed meanwhile has no campaign
and says why. All of it is one transaction that holds the series alone, and a wave has one row for ever: two
collectors, or one whose clock jumped, never open it twice. A wave that was given up, and whose time it is
after all, is opened; one that was opened too early is there when its time comes. While the clock is in doubt
about which wave it is, nothing is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from keyveil.campaign import Campaign
from keyveil.collector.campaigns.access import NOBODY
from keyveil.collector.campaigns.cache import StoredCampaign, StoredSeries
from keyveil.collector.campaigns.campaigns import provide_keys
from keyveil.collector.campaigns.context import Context
from keyveil.collector.campaigns.running import Running, end_of_round
from keyveil.collector.store import Writing
from keyveil.collector.store.series import AddedKey, SeriesRow, WaveRow
from keyveil.errors import KeyveilError
from keyveil.rounds import Round

# Why a wave has no campaign: nobody was there to open it; nobody was to; there was no series yet.
Missed = Literal["down", "paused", "before"]
# Seconds until a series that could not be followed is tried again.
_RETRY = 60.0


@dataclass(frozen=True, slots=True)
class _DueWave:
    """A wave that is to be opened, worked out before the transaction that opens it."""

    number: int
    campaign: Campaign
    first: Round
    keys: Sequence[AddedKey]
    """The series' later keys as they were: it is another wave if there are more."""


class Calendar:
    """What is due, series by series."""

    def __init__(self, context: Context, running: Running) -> None:
        self._context, self._running = context, running
        self._retry_at: dict[str, float] = {}
        self.opened = self.missed = 0
        context.metrics.counters["keyveil_waves_opened_total"] = (
            "Waves of series that were opened here.",
            lambda: self.opened,
        )
        context.metrics.counters["keyveil_waves_missed_total"] = (
            "Waves that were given up here: the collector was away, or their series was paused.",
            lambda: self.missed,
        )

    def tick(self) -> None:
        """Follow every series at whose calendar something is due."""
        now = self._context.clock.earliest()
        with self._context.store.read() as tx:
            due = tx.due_series(now)
        for id in due:
            if now >= self._retry_at.get(id, 0.0):
                with self._guarded(id):
                    self.follow(id)

    def follow(self, id: str) -> None:
        """Bring a series to this moment: end it, or open the wave that it is time for."""
        known = self._context.known_series(id)
        clock = self._context.clock
        number = known.number_at(clock.earliest())
        if number != known.number_at(clock.latest()):
            return
        with self._context.store.read() as tx:
            row, waves, keys = tx.series(id), tx.waves(known.no), tx.added_keys(known.no)
        assert row is not None
        if row.ended_at is not None:
            self._end(known, waves)
            return
        span = _span(known, number)
        is_open = any(wave.number == number and wave.campaign is not None for wave in waves)
        wanted = None if is_open or row.paused_at is not None else _worked_out(known, number, keys)
        absent = self._absent(known, number, row, waves)
        if wanted is not None or absent or (row.settled_from, row.due_at) != span:
            self._write(known, row, wanted, absent, span)

    def _absent(
        self, known: StoredSeries, number: int, row: SeriesRow, waves: Sequence[WaveRow]
    ) -> dict[int, Missed]:
        """The waves that have no row and will have no campaign, each with the reason."""
        seen = {wave.number for wave in waves}
        last = number if row.paused_at is not None else number - 1
        return {
            each: _reason(known, each, row)
            for each in range(1, min(last, known.calendar.waves) + 1)
            if each not in seen
        }

    def _write(
        self,
        known: StoredSeries,
        seen: SeriesRow,
        wanted: _DueWave | None,
        absent: dict[int, Missed],
        span: tuple[float | None, float | None],
    ) -> None:
        """Write down what was decided; where what it was decided by has changed, the next look decides."""
        now, opened, missed = self._context.now(), False, []
        with self._context.store.write() as tx:
            row = tx.lock_series(known.id)
            if row is None or (row.paused_at, row.ended_at) != (seen.paused_at, seen.ended_at):
                return
            if wanted is not None and tx.added_keys(known.no) != wanted.keys:
                return
            for number, why in absent.items():
                if tx.add_wave(known.no, number, campaign=None, now=now, why=why):
                    missed.append((number, why))
            if wanted is not None:
                opened = _open(tx, known, wanted, now)
            tx.settle(known.no, *span)
        log = self._context.log
        for number, why in missed:
            log.event("wave-missed", series=known.id, wave=number, why=why)
        self.missed += len(missed)
        if wanted is not None and opened:
            self.opened += 1
            log.event("wave-opened", series=known.id, wave=wanted.number, campaign=wanted.campaign.id)

    def _end(self, known: StoredSeries, waves: Sequence[WaveRow]) -> None:
        """Close what is open of a series that was ended; nothing is due any more."""
        for wave in waves:
            if wave.id is not None and wave.finished_at is None:
                self._running.finish(self._context.known(wave.id), why="with its series")
        with self._context.store.write() as tx:
            tx.settle(known.no, None, None)

    @contextmanager
    def _guarded(self, id: str) -> Iterator[None]:
        """Follow one series: what fails is logged and tried again later, and stops no other."""
        try:
            yield
        except Exception as error:
            self._retry_at[id] = self._context.now() + _RETRY
            said = str(error) if isinstance(error, KeyveilError) else type(error).__name__
            self._context.log.event("fault", where="calendar", series=id, why=said)


def _worked_out(known: StoredSeries, number: int, keys: Sequence[AddedKey]) -> _DueWave | None:
    """The wave of a number, if the series has one."""
    if not 1 <= number <= known.calendar.waves:
        return None
    campaign = known.wave(number, keys)
    return _DueWave(number, campaign, campaign.first_round(), keys)


def _open(tx: Writing, known: StoredSeries, wanted: _DueWave, now: float) -> bool:
    """Open a wave, unless it is; whether it was not."""
    if any(row.number == wanted.number and row.campaign is not None for row in tx.waves(known.no)):
        return False
    campaign, terms = wanted.campaign, known.terms
    tx.add_campaign(
        id=campaign.id,
        config=campaign.canonical_json,
        terms=terms.to_json(),
        label=f"wave {wanted.number}",
        now=now,
    )
    row = tx.campaign(campaign.id)
    assert row is not None
    provide_keys(tx, campaign, actor=NOBODY, now=now)
    stored = StoredCampaign(no=row.no, campaign=campaign, terms=terms, created_at=now)
    tx.open_round(row.no, wanted.first, now=now, closes_at=end_of_round(stored, 1, now))
    tx.add_wave(known.no, wanted.number, campaign=row.no, now=now, why="")
    detail = f"wave {wanted.number} of {known.id[:12]}"
    tx.log(at=now, token=NOBODY, act="wave-opened", campaign=campaign.id, detail=detail)
    return True


def _span(known: StoredSeries, number: int) -> tuple[float | None, float | None]:
    """From when until when what is written in a wave is right; a clock that is set back is before that."""
    first = known.begins(number) if number else None
    return first, known.begins(number + 1) if number <= known.calendar.waves else None


def _reason(known: StoredSeries, number: int, row: SeriesRow) -> Missed:
    """Why a wave that has no row has none."""
    if known.created_at >= known.ends(number):
        return "before"
    return "paused" if row.paused_at is not None and row.paused_at < known.ends(number) else "down"
