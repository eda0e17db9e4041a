"""Series: created once, never changed but for keys that come later; shown, paused, ended, annotated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from keyveil.campaign import Campaign
from keyveil.collector.campaigns.cache import StoredSeries
from keyveil.collector.campaigns.calendar import Calendar
from keyveil.collector.campaigns.campaigns import (
    Campaigns,
    check_complete,
    check_rounds,
    check_terms,
    make_device_token,
    read_campaign,
)
from keyveil.collector.campaigns.context import Context
from keyveil.collector.campaigns.series_messages import (
    AddedKeyView,
    Annotation,
    AnnotationList,
    KeysAdded,
    NewAnnotation,
    NewSeries,
    SeriesCreated,
    SeriesLine,
    SeriesList,
    SeriesState,
    SeriesStatus,
    SeriesView,
    WaveLine,
    WaveList,
    WaveState,
    WaveView,
)
from keyveil.collector.campaigns.terms import Terms
from keyveil.collector.problems import Problem
from keyveil.collector.store.series import SeriesRow, WaveRow
from keyveil.errors import KeyveilError, StoreError

# The part of a wave, and the seconds at most, in which late reports are taken. Whoever was away for a
# night is back within a day; and nobody should wait for numbers more than a tenth longer than for the wave.
_LATE, _LATEST = 0.1, 86400.0


class AllSeries:
    """The series of a collector."""

    def __init__(self, context: Context, campaigns: Campaigns, calendar: Calendar) -> None:
        self._context, self._campaigns, self._calendar = context, campaigns, calendar

    # --- made and shown ---

    def create(self, actor: str, new: NewSeries) -> SeriesCreated:
        """A series whose wave of this moment is open. The same series again changes nothing."""
        now = self._context.now()
        campaign = _read_series(new.campaign, now)
        calendar = campaign.series
        assert calendar is not None
        check_complete(campaign)
        terms = _settled(campaign, new.terms)
        ending = calendar.begins(calendar.waves + 1)
        if ending.timestamp() <= now:
            raise Problem(
                "campaign-incomplete", f"all waves lie in the past: {calendar.start}, at $.series.start"
            )
        if campaign.expiry is not None and campaign.expiry < ending:
            raise Problem(
                "campaign-incomplete",
                f"expires lies before the end of the last wave, {ending.date()}, at $.expires; "
                "say that day or a later one, or fewer waves",
            )
        _check_wave(campaign.wave(1))
        token = None
        with self._context.store.write() as tx:
            created = tx.add_series(
                id=campaign.id,
                config=campaign.canonical_json,
                terms=terms.to_json(),
                label=new.label,
                now=now,
                due_at=min(now, calendar.begins(1).timestamp()),
            )
            if created:
                tx.log(
                    at=now, token=actor, act="series-created", campaign=campaign.id, detail=terms.to_json()
                )
                if terms.uploads == "token":
                    token = make_device_token(tx, campaign.id, actor=actor, now=now)
        self._calendar.follow(campaign.id)
        return SeriesCreated(
            id=campaign.id,
            created=created,
            start=calendar.start,
            wave=self._status(campaign.id).wave,
            device_token=token,
        )

    def list(self, only: str | None) -> SeriesList:
        """All series, or the one that a token is for."""
        with self._context.store.read() as tx:
            rows = [row for row in tx.all_series() if only is None or row.id == only]
        return SeriesList(series=[self._line(row) for row in rows])

    def view(self, id: str) -> SeriesView:
        """What everybody may know of a series."""
        known, row, waves = self._look(id)
        now = self._context.now()
        state, wave = _state(known, row, now), _open_wave(known, row, waves, now)
        return SeriesView(
            id=id,
            campaign=known.campaign.canonical_json,
            label=row.label,
            state=state,
            every=known.calendar.every,  # type: ignore[arg-type]
            opens_at=_opens_at(known, state, waves, now),
            wave=None if wave is None else self._wave_view(wave),
        )

    def waves(self, id: str) -> WaveList:
        """Every wave: how far it is, or why there is none."""
        known, row, waves = self._look(id)
        with self._context.store.read() as tx:
            counts = tx.wave_reports(known.no)
        rows = {wave.number: wave for wave in waves}
        now = self._context.now()
        return WaveList(
            waves=[
                self._wave_line(known, row, rows.get(number), number, counts, now)
                for number in range(1, known.calendar.waves + 1)
            ]
        )

    # --- changed ---

    def label(self, actor: str, id: str, label: str) -> None:
        """Another label for people."""
        known = self._context.known_series(id)
        with self._context.store.write() as tx:
            tx.label_series(known.no, label)
            tx.log(at=self._context.now(), token=actor, act="series-labelled", campaign=id, detail=label)

    def pause(self, actor: str, id: str) -> SeriesStatus:
        """Open no wave until it is resumed; the open one goes on."""
        known, now = self._context.known_series(id), self._context.now()
        with self._context.store.write() as tx:
            row = _going_on(known, tx.lock_series(id), now)
            if row.paused_at is None:
                tx.pause_series(known.no, now)
                tx.log(at=now, token=actor, act="series-paused", campaign=id)
        return self._status(id)

    def resume(self, actor: str, id: str) -> SeriesStatus:
        """Open waves again, the wave of this moment at once."""
        known, now = self._context.known_series(id), self._context.now()
        with self._context.store.write() as tx:
            row = _going_on(known, tx.lock_series(id), now)
            if row.paused_at is not None:
                tx.pause_series(known.no, None)
                tx.make_due(known.no, now)
                tx.log(at=now, token=actor, act="series-resumed", campaign=id)
        self._calendar.follow(id)
        return self._status(id)

    def end(self, actor: str, id: str) -> SeriesStatus:
        """Open no more waves, and close those that are open."""
        known, now = self._context.known_series(id), self._context.now()
        with self._context.store.write() as tx:
            row = tx.lock_series(id)
            assert row is not None
            if row.ended_at is None and not known.is_over(now):
                tx.end_series(known.no, now)
                tx.make_due(known.no, now)
                tx.log(at=now, token=actor, act="series-ended", campaign=id)
        self._calendar.follow(id)
        return self._status(id)

    def add_keys(self, actor: str, id: str, names: Sequence[str]) -> KeysAdded:
        """Ask for more keys from the next wave on."""
        known, now = self._context.known_series(id), self._context.now()
        with self._context.store.read() as tx:
            before, number = tx.added_keys(known.no), self._next_wave(known, tx.waves(known.no), now)
        there = {*known.campaign.domain.names, *(key.name for key in before)}
        new = [name for name in dict.fromkeys(names) if name not in there]
        if new:
            try:
                wave = known.campaign.wave(number, [*(key.name for key in before), *new])
            except (KeyveilError, UnicodeEncodeError) as error:
                raise Problem("bad-campaign", str(error)[:300]) from None
            _check_wave(wave)
        with self._context.store.write() as tx:
            _going_on(known, tx.lock_series(id), now)
            if new and tx.added_keys(known.no) != before:
                raise Problem("overloaded", "somebody else adds keys to this series now", retry_after=1.0)
            # What opened meanwhile asks for what it asks for.
            number = self._next_wave(known, tx.waves(known.no), now)
            if new:
                tx.add_keys(known.no, new, number)
                detail = f"{len(new)} keys from wave {number}"
                tx.log(at=now, token=actor, act="keys-added", campaign=id, detail=detail)
            after = tx.added_keys(known.no)
        return KeysAdded(keys=[AddedKeyView(key=key.name, wave=key.wave) for key in after])

    # --- annotations ---

    def annotate(self, actor: str, id: str, new: NewAnnotation) -> Annotation:
        """Note what happened at a moment."""
        known, now = self._context.known_series(id), self._context.now()
        with self._context.store.write() as tx:
            no = tx.annotate(known.no, at=new.at, text=new.text, token=actor)
            tx.log(at=now, token=actor, act="annotated", campaign=id, detail=f"{no}: {new.text}")
        return Annotation(id=no, at=new.at, text=new.text, token=actor)

    def annotations(self, id: str) -> AnnotationList:
        """What was noted."""
        known = self._context.known_series(id)
        with self._context.store.read() as tx:
            rows = tx.annotations(known.no)
        return AnnotationList(
            annotations=[Annotation(id=row.no, at=row.at, text=row.text, token=row.token) for row in rows]
        )

    def drop_annotation(self, actor: str, id: str, no: int) -> None:
        """Take a note away; the log of acts keeps what it said."""
        known = self._context.known_series(id)
        with self._context.store.write() as tx:
            if not tx.drop_annotation(known.no, no):
                raise Problem("unknown-annotation")
            tx.log(at=self._context.now(), token=actor, act="annotation-dropped", campaign=id, detail=str(no))

    # --- parts of answers ---

    def _look(self, id: str) -> tuple[StoredSeries, SeriesRow, Sequence[WaveRow]]:
        known = self._context.known_series(id)
        with self._context.store.read() as tx:
            row, waves = tx.series(id), tx.waves(known.no)
        assert row is not None
        return known, row, waves

    def _status(self, id: str) -> SeriesStatus:
        known, row, waves = self._look(id)
        now = self._context.now()
        wave = _open_wave(known, row, waves, now)
        return SeriesStatus(id=id, state=_state(known, row, now), wave=None if wave is None else wave.number)

    def _next_wave(self, known: StoredSeries, waves: Sequence[WaveRow], now: float) -> int:
        """The first wave that is still to be opened."""
        opened = [wave.number for wave in waves if wave.campaign is not None]
        number = max([1, known.number_at(now), *(each + 1 for each in opened)])
        if number > known.calendar.waves:
            raise Problem("series-over", "the last wave is open already")
        return number

    def _wave_view(self, wave: WaveRow) -> WaveView:
        assert wave.id is not None
        shown = self._campaigns.view(wave.id)
        return WaveView(
            number=wave.number, **{name: getattr(shown, name) for name in shown.__struct_fields__}
        )

    def _wave_line(
        self,
        known: StoredSeries,
        row: SeriesRow,
        wave: WaveRow | None,
        number: int,
        counts: Mapping[int, int],
        now: float,
    ) -> WaveLine:
        state, why = _wave_state(known, row, wave, number, now)
        if wave is not None and wave.id in self._context.damaged:
            state = "damaged"
        return WaveLine(
            number=number,
            begins=known.begins(number),
            ends=known.ends(number),
            closes=known.closes(number),
            campaign=None if wave is None else wave.id,
            why=why,
            reports=0 if wave is None or wave.campaign is None else counts.get(wave.campaign, 0),
            state=state,
        )

    def _line(self, row: SeriesRow) -> SeriesLine:
        now = self._context.now()
        try:
            known = self._context.known_series(row.id)
            with self._context.store.read() as tx:
                counts = tx.wave_reports(known.no)
        except StoreError:
            return SeriesLine(
                id=row.id,
                name="",
                label=row.label,
                mechanism="",
                state="damaged",
                every="",
                waves=0,
                wave=0,
                reports=0,
                created_at=row.created_at,
            )
        return SeriesLine(
            id=row.id,
            name=known.campaign.name,
            label=row.label,
            mechanism=known.campaign.mechanism,
            state=_state(known, row, now),
            every=known.calendar.every,
            waves=known.calendar.waves,
            wave=known.number_at(now),
            reports=sum(counts.values()),
            created_at=row.created_at,
        )


def _read_series(fields: Mapping[str, Any], now: float) -> Campaign:
    """The series that somebody sent, which begins today where nothing is said."""
    campaign = read_campaign(fields)
    calendar = campaign.series
    if calendar is None:
        raise Problem("bad-campaign", "a series says every and waves, at $.series; else it is a campaign")
    if calendar.wave is not None:
        raise Problem("bad-campaign", "this is one wave; send the series without it, at $.series.wave")
    if calendar.start:
        return campaign
    today = datetime.fromtimestamp(now, UTC).date().isoformat()
    try:
        return replace(campaign, series=replace(calendar, start=today))
    except KeyveilError as error:
        raise Problem("bad-campaign", f"{error}; the series would begin today") from None


def _settled(campaign: Campaign, terms: Terms) -> Terms:
    """The terms of every wave, with what was not said."""
    check_terms(campaign, terms)
    if terms.close_at_count is not None or terms.close_after is not None:
        raise Problem("bad-request", "a wave ends by its calendar: leave close_at_count and close_after out")
    calendar = campaign.series
    assert calendar is not None
    length = (calendar.ends(1) - calendar.begins(1)).total_seconds()
    late = min(_LATE * length, _LATEST) if terms.late is None else terms.late
    if late > length:
        raise Problem("bad-request", f"late is at most a wave's length, {length:g} seconds, at $.terms.late")
    return msgspec.structs.replace(terms, late=late)


def _check_wave(wave: Campaign) -> None:
    """Refuse a wave that devices would not read."""
    check_rounds(wave)
    try:
        Campaign.from_text(wave.canonical_json)
    except KeyveilError as error:
        raise Problem("bad-campaign", str(error)[:300]) from None


def _going_on(known: StoredSeries, row: SeriesRow | None, now: float) -> SeriesRow:
    """The series, or a refusal if it is over."""
    assert row is not None
    if row.ended_at is not None or known.is_over(now):
        raise Problem("series-over")
    return row


def _state(known: StoredSeries, row: SeriesRow, now: float) -> SeriesState:
    if row.ended_at is not None:
        return "ended"
    if known.is_over(now):
        return "finished"
    if row.paused_at is not None:
        return "paused"
    return "running" if known.number_at(now) else "waiting"


def _open_wave(known: StoredSeries, row: SeriesRow, waves: Sequence[WaveRow], now: float) -> WaveRow | None:
    """The wave of this moment, if it has a campaign and the series was not ended."""
    number = known.number_at(now)
    found = next((wave for wave in waves if wave.number == number), None)
    return None if row.ended_at is not None or found is None or found.campaign is None else found


def _opens_at(known: StoredSeries, state: SeriesState, waves: Sequence[WaveRow], now: float) -> float | None:
    """When a wave begins that devices can look forward to: a moment that is over if it opens any time now."""
    if state not in ("waiting", "running"):
        return None
    number = known.number_at(now)
    if number and all(wave.number != number for wave in waves):
        return known.begins(number) if number <= known.calendar.waves else None
    return known.begins(number + 1) if number < known.calendar.waves else None


def _wave_state(
    known: StoredSeries, row: SeriesRow, wave: WaveRow | None, number: int, now: float
) -> tuple[WaveState, str]:
    """How far a wave is, and why there is none."""
    if wave is None:
        return ("coming", "") if row.ended_at is None else ("missed", "ended")
    if wave.campaign is None:
        return "missed", wave.why
    if wave.finished_at is not None:
        return "finished", ""
    if now < known.begins(number):
        return "coming", ""
    return ("open" if now < known.ends(number) else "late"), ""
