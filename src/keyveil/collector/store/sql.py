"""The operations in the SQL that both stores speak; what they speak differently is in their own files."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from keyveil.collector.store.access_sql import ACCESS_TABLES
from keyveil.collector.store.base import (
    BatchRow,
    CampaignRow,
    OpeningKeyRow,
    OutcomeRow,
    ReportBlock,
    RoundRow,
    TallyRow,
)
from keyveil.collector.store.cells import pack
from keyveil.collector.store.series_sql import SERIES_TABLES, SeriesTransaction
from keyveil.rounds import Round
from keyveil.tally import Tally

TABLES = (
    *ACCESS_TABLES,
    """create table campaigns (no {serial}, id text not null unique, config text not null,
    terms text not null, label text not null, created_at {real} not null, finished_at {real},
    quarantined text)""",
    """create table rounds (campaign {number} not null, number {number} not null, purpose text not null,
    description text not null, opened_at {real} not null, closes_at {real}, closed_at {real},
    why text not null, dropped_at {real}, pin text not null default '', primary key (campaign, number))""",
    """create table tallies (campaign {number} not null, round {number} not null, n_reports {number} not null,
    cells {blob} not null, primary key (campaign, round))""",
    """create table blocks (no {serial}, campaign {number} not null, round {number} not null,
    length {number} not null, crc {number} not null, reports {blob} not null)""",
    "create index blocks_by_round on blocks (campaign, round, no)",
    "create table outcomes (campaign {number} primary key, version {number} not null, body {blob} not null)",
    """create table batch_parts (campaign {number} not null, round {number} not null, id text not null,
    part {number} not null, size {number} not null, received {number} not null, counted {number} not null,
    primary key (campaign, round, id, part))""",
    """create table opening_keys (no {serial}, id text not null unique, private {blob} not null,
    made_at {real} not null)""",
    *SERIES_TABLES,
)

_CAMPAIGN = "no, id, config, terms, label, created_at, finished_at, quarantined"
_ROUND = "campaign, number, purpose, description, opened_at, closes_at, closed_at, why, dropped_at, pin"


class SqlTransaction(SeriesTransaction):
    """Everything but locks, ids and how a statement is run."""

    # --- reading ---

    def campaign(self, id: str) -> CampaignRow | None:
        """The campaign with this id."""
        rows = self._all(f"select {_CAMPAIGN} from campaigns where id = ?", (id,))  # noqa: S608
        return _campaign(rows[0]) if rows else None

    def campaigns(self) -> list[CampaignRow]:
        """All, the oldest first."""
        return list(map(_campaign, self._all(f"select {_CAMPAIGN} from campaigns order by no")))  # noqa: S608

    def campaign_ids(self) -> list[str]:
        """The ids alone; campaigns may be long."""
        return [row[0] for row in self._all("select id from campaigns order by no")]

    def rounds(self, campaign: int) -> list[RoundRow]:
        """The rounds that were opened, in order."""
        rows = self._all(f"select {_ROUND} from rounds where campaign = ? order by number", (campaign,))  # noqa: S608
        return list(map(round_row, rows))

    def due_rounds(self, now: float) -> list[tuple[str, int]]:
        """Campaign ids and numbers of open rounds whose time is over."""
        rows = self._all(
            "select campaigns.id, number from rounds join campaigns on campaigns.no = campaign "
            "where closed_at is null and closes_at <= ? order by campaign, number",
            (now,),
        )
        return [(campaign, number) for campaign, number in rows]

    def between_rounds(self) -> list[str]:
        """Ids of campaigns whose last round is closed, and that neither go on nor are finished."""
        rows = self._all(
            "select id from campaigns where finished_at is null "
            "and exists (select 1 from rounds where campaign = campaigns.no) and not exists "
            "(select 1 from rounds where campaign = campaigns.no and closed_at is null) order by no"
        )
        return [row[0] for row in rows]

    def outcome(self, campaign: int) -> OutcomeRow | None:
        """What a finished campaign found, if it was stored."""
        rows = self._all("select version, body from outcomes where campaign = ?", (campaign,))
        return OutcomeRow(version=rows[0][0], body=bytes(rows[0][1])) if rows else None

    def tally(self, campaign: int, round: int) -> TallyRow | None:
        """The sum of a round's reports, if there are any."""
        rows = self._all(
            "select n_reports, cells from tallies where campaign = ? and round = ?", (campaign, round)
        )
        return tally_row(rows)

    def blocks(self, campaign: int, round: int, *, after: int = 0, most: int = 16) -> list[ReportBlock]:
        """The next blocks of a round's reports, by number."""
        rows = self._all(
            "select no, length, crc, reports from blocks where campaign = ? and round = ? and no > ? "
            "order by no limit ?",
            (campaign, round, after, most),
        )
        return [
            ReportBlock(no=no, length=length, crc=crc, reports=bytes(reports))
            for no, length, crc, reports in rows
        ]

    def secret(self) -> bytes | None:
        """What issued ids are made with, once there is one."""
        rows = self._all("select value from store where name = 'secret'")
        return bytes.fromhex(rows[0][0]) if rows else None

    def batches(self, campaign: int) -> list[BatchRow]:
        """What relays have forwarded to a campaign, by round."""
        rows = self._all(
            "select round, id, max(size), sum(received), sum(counted) from batch_parts where campaign = ? "
            "group by round, id order by round, id",
            (campaign,),
        )
        return [
            BatchRow(round=round_, id=id, size=int(size), received=int(received), counted=int(counted))
            for round_, id, size, received, counted in rows
        ]

    def opening_keys(self) -> list[OpeningKeyRow]:
        """The keys that open sealed reports, the newest first."""
        rows = self._all("select id, private, made_at from opening_keys order by no desc")
        return [
            OpeningKeyRow(id=id, private=bytes(private), made_at=made_at) for id, private, made_at in rows
        ]

    # --- writing ---

    def set_secret(self, secret: bytes) -> None:
        """Keep what issued ids are made with; only where there is none."""
        self._run("insert into store values ('secret', ?)", (secret.hex(),))

    def add_campaign(self, *, id: str, config: str, terms: str, label: str, now: float) -> bool:
        """Whether the campaign is new."""
        statement = (
            "insert into campaigns (id, config, terms, label, created_at) values (?, ?, ?, ?, ?) "
            "on conflict (id) do nothing"
        )
        return self._run(statement, (id, config, terms, label, now)) == 1

    def label_campaign(self, campaign: int, label: str) -> None:
        """Another label."""
        self._run("update campaigns set label = ? where no = ?", (label, campaign))

    def finish_campaign(self, campaign: int, now: float) -> None:
        """The last round is over."""
        self._run(
            "update campaigns set finished_at = ? where no = ? and finished_at is null", (now, campaign)
        )

    def keep_outcome(self, campaign: int, outcome: OutcomeRow) -> None:
        """Store what a campaign found; what was stored before stays."""
        self._run(
            "insert into outcomes (campaign, version, body) values (?, ?, ?) "
            "on conflict (campaign) do nothing",
            (campaign, outcome.version, outcome.body),
        )

    def open_round(self, campaign: int, round: Round, *, now: float, closes_at: float | None) -> None:
        """A round to which reports are taken."""
        self._run(
            "insert into rounds (campaign, number, purpose, description, pin, opened_at, closes_at, why) "
            "values (?, ?, ?, ?, ?, ?, ?, '')",
            (campaign, round.number, round.purpose, round.canonical_json, round.pin, now, closes_at),
        )

    def postpone_round(self, campaign: int, number: int, closes_at: float) -> None:
        """An open round takes reports until another moment."""
        self._run(
            "update rounds set closes_at = ? where campaign = ? and number = ? and closed_at is null",
            (closes_at, campaign, number),
        )

    def close_round(self, campaign: int, number: int, *, why: str, now: float) -> None:
        """Take no more reports to a round."""
        self._run(
            "update rounds set closed_at = ?, why = ? "
            "where campaign = ? and number = ? and closed_at is null",
            (now, why, campaign, number),
        )

    def _keep(self, campaign: int, round: int, length: int, reports: bytes) -> None:
        self._run(
            "insert into blocks (campaign, round, length, crc, reports) values (?, ?, ?, ?, ?)",
            (campaign, round, length, zlib.crc32(reports), reports),
        )

    def add_part(self, campaign: int, part: int, batch: BatchRow) -> None:
        """Part of a batch, or some more that was counted of one; what came of it is noted the first time."""
        self._run(
            "insert into batch_parts (campaign, round, id, part, size, received, counted) "
            "values (?, ?, ?, ?, ?, ?, ?) on conflict (campaign, round, id, part) "
            "do update set counted = batch_parts.counted + excluded.counted",
            (campaign, batch.round, batch.id, part, batch.size, batch.received, batch.counted),
        )

    def add_opening_key(self, key: OpeningKeyRow) -> None:
        """Another key, to which reports are sealed from now on."""
        self._run(
            "insert into opening_keys (id, private, made_at) values (?, ?, ?)",
            (key.id, key.private, key.made_at),
        )

    def drop_opening_key(self, id: str) -> None:
        """A key that opens nothing from now on."""
        self._run("delete from opening_keys where id = ?", (id,))

    def _set_tally(self, campaign: int, round: int, tally: Tally) -> None:
        self._run(
            "insert into tallies (campaign, round, n_reports, cells) values (?, ?, ?, ?) on conflict "
            "(campaign, round) do update set n_reports = excluded.n_reports, cells = excluded.cells",
            (campaign, round, tally.n_reports, pack(tally)),
        )

    def drop_reports(self, campaign: int, round: int, now: float) -> None:
        """Forget the bytes of a closed round's reports; ids and tally stay."""
        self._run("delete from blocks where campaign = ? and round = ?", (campaign, round))
        self._run(
            "update rounds set dropped_at = ? where campaign = ? and number = ?", (now, campaign, round)
        )

    def _rounds_where(self, condition: str, values: Sequence[Any]) -> list[RoundRow]:
        return list(map(round_row, self._all(f"select {_ROUND} from rounds where {condition}", values)))  # noqa: S608


def _campaign(row: tuple[Any, ...]) -> CampaignRow:
    return CampaignRow(**dict(zip(_CAMPAIGN.split(", "), row, strict=True)))


def round_row(row: tuple[Any, ...]) -> RoundRow:
    """A row of `rounds`."""
    return RoundRow(**dict(zip(_ROUND.split(", "), row, strict=True)))


def tally_row(rows: list[tuple[Any, ...]]) -> TallyRow | None:
    """The only row of `tallies` that was asked for, if it is there."""
    return TallyRow(n_reports=rows[0][0], cells=bytes(rows[0][1])) if rows else None
