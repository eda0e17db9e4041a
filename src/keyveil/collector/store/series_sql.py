"""Series in the SQL that both stores speak."""

from __future__ import annotations

from typing import Any

from keyveil.collector.store.access_sql import AccessTransaction
from keyveil.collector.store.series import AddedKey, AnnotationRow, SeriesRow, WaveRow

SERIES_TABLES = (
    """create table series (no {serial}, id text not null unique, settled_from {real}, due_at {real},
    created_at {real} not null, paused_at {real}, ended_at {real}, label text not null, terms text not null,
    config text not null)""",
    "create index series_by_due on series (due_at)",
    "create index series_by_settled on series (settled_from)",
    """create table waves (series {number} not null, number {number} not null, campaign {number},
    opened_at {real} not null, why text not null, primary key (series, number))""",
    """create table added_keys (series {number} not null, place {number} not null, name text not null,
    wave {number} not null, primary key (series, place), unique (series, name))""",
    """create table annotations (no {serial}, series {number} not null, at {real} not null,
    text text not null, token text not null)""",
    "create index annotations_by_series on annotations (series, at)",
)

_SERIES = "no, id, config, terms, label, created_at, paused_at, ended_at, settled_from, due_at"


class SeriesTransaction(AccessTransaction):
    """What concerns series; how one is locked is the store's."""

    # --- reading ---

    def series(self, id: str) -> SeriesRow | None:
        """The series with this id."""
        return self._find_series(id)

    def _find_series(self, id: str, locking: str = "") -> SeriesRow | None:
        rows = self._all(f"select {_SERIES} from series where id = ?{locking}", (id,))  # noqa: S608
        return _series(rows[0]) if rows else None

    def all_series(self) -> list[SeriesRow]:
        """All, the oldest first."""
        return list(map(_series, self._all(f"select {_SERIES} from series order by no")))  # noqa: S608

    def due_series(self, now: float) -> list[str]:
        """Ids of those of whose waves something else may have to be written at this moment."""
        rows = self._all(
            "select id from series where due_at <= ? or settled_from > ? order by due_at, no", (now, now)
        )
        return [row[0] for row in rows]

    def waves(self, series: int) -> list[WaveRow]:
        """The waves whose turn came, in order."""
        rows = self._all(
            "select number, campaign, campaigns.id, opened_at, why, finished_at from waves "
            "left join campaigns on campaigns.no = campaign where series = ? order by number",
            (series,),
        )
        names = ("number", "campaign", "id", "opened_at", "why", "finished_at")
        return [WaveRow(**dict(zip(names, row, strict=True))) for row in rows]

    def wave_reports(self, series: int) -> dict[int, int]:
        """How many reports the campaigns of a series have, by the campaign's number."""
        found: dict[int, int] = {}
        for campaign, _, n_reports in self._round_reports(series):
            found[campaign] = found.get(campaign, 0) + n_reports
        return found

    def _round_reports(self, series: int) -> list[tuple[int, int, int]]:
        """Campaign, round and reports of every round to which some came."""
        rows = self._all(
            "select tallies.campaign, round, n_reports from tallies join waves "
            "on waves.campaign = tallies.campaign where series = ?",
            (series,),
        )
        return [(campaign, round_, int(n_reports)) for campaign, round_, n_reports in rows]

    def added_keys(self, series: int) -> list[AddedKey]:
        """The keys that came later, in the order in which waves hold them."""
        rows = self._all("select name, wave from added_keys where series = ? order by place", (series,))
        return [AddedKey(name=name, wave=wave) for name, wave in rows]

    def annotations(self, series: int) -> list[AnnotationRow]:
        """What was noted, by the moment of which it was."""
        rows = self._all(
            "select no, at, text, token from annotations where series = ? order by at, no", (series,)
        )
        return [AnnotationRow(no=no, at=at, text=text, token=token) for no, at, text, token in rows]

    # --- writing ---

    def add_series(
        self, *, id: str, config: str, terms: str, label: str, now: float, due_at: float | None
    ) -> bool:
        """Whether the series is new."""
        statement = (
            "insert into series (id, config, terms, label, created_at, due_at) values (?, ?, ?, ?, ?, ?) "
            "on conflict (id) do nothing"
        )
        return self._run(statement, (id, config, terms, label, now, due_at)) == 1

    def lock_series(self, id: str) -> SeriesRow | None:
        """The series, alone: nobody else opens its waves or changes it until the transaction ends."""
        raise NotImplementedError

    def label_series(self, series: int, label: str) -> None:
        """Another label."""
        self._run("update series set label = ? where no = ?", (label, series))

    def pause_series(self, series: int, paused_at: float | None) -> None:
        """No wave is opened from this moment on; None lets them be opened again."""
        self._run("update series set paused_at = ? where no = ?", (paused_at, series))

    def end_series(self, series: int, now: float) -> None:
        """No wave is opened any more."""
        self._run("update series set ended_at = ? where no = ? and ended_at is null", (now, series))

    def settle(self, series: int, settled_from: float | None, due_at: float | None) -> None:
        """From when until when nothing else is to be written of the waves; None: since or for ever."""
        self._run(
            "update series set settled_from = ?, due_at = ? where no = ?", (settled_from, due_at, series)
        )

    def make_due(self, series: int, now: float) -> None:
        """Something else is to be written from this moment on."""
        self._run("update series set due_at = ? where no = ?", (now, series))

    def add_wave(self, series: int, number: int, *, campaign: int | None, now: float, why: str) -> bool:
        """Whether the wave is new, or had no campaign and has one now."""
        changed = self._run(
            "insert into waves (series, number, campaign, opened_at, why) values (?, ?, ?, ?, ?) "
            "on conflict (series, number) do update set campaign = excluded.campaign, "
            "opened_at = excluded.opened_at, why = excluded.why "
            "where waves.campaign is null and excluded.campaign is not null",
            (series, number, campaign, now, why),
        )
        return changed == 1

    def add_keys(self, series: int, names: list[str], wave: int) -> None:
        """More keys, behind those that there are."""
        ((before,),) = self._all("select coalesce(max(place), 0) from added_keys where series = ?", (series,))
        self._run_each(
            "insert into added_keys (series, place, name, wave) values (?, ?, ?, ?)",
            [(series, place, name, wave) for place, name in enumerate(names, start=int(before) + 1)],
        )

    def annotate(self, series: int, *, at: float, text: str, token: str) -> int:
        """Note something of a moment; the note's number."""
        ((no,),) = self._all(
            "insert into annotations (series, at, text, token) values (?, ?, ?, ?) returning no",
            (series, at, text, token),
        )
        return int(no)

    def drop_annotation(self, series: int, no: int) -> bool:
        """Whether a note with this number was there, and is not any more."""
        return self._run("delete from annotations where series = ? and no = ?", (series, no)) == 1


def _series(row: tuple[Any, ...]) -> SeriesRow:
    return SeriesRow(**dict(zip(_SERIES.split(", "), row, strict=True)))
