"""The embedded store: one SQLite file, one process, one writer at a time.

Write-ahead log with synchronous = FULL: a commit is on the disk when it returns. Readers see the last
commit. A lock file keeps a second collector away: two processes would each hold half of the limits,
and think themselves alone. That there is one process also lets the last ids and tallies stay in memory
(`memtable`): `memtable_ids` and `memtable_tallies` hold them in the order of arrival until they are flushed,
ids into runs (`runs`), whose filters stay in memory.
"""

from __future__ import annotations

import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from keyveil.collector.store.base import SCHEMA, RoundRow, TallyRow
from keyveil.collector.store.cells import add, pack, unpack
from keyveil.collector.store.memtable import Memtable, Place, WriteBatch
from keyveil.collector.store.migrations import EMBEDDED, Migration, find_migration, migrate, refuse_to_change
from keyveil.collector.store.run_tables import (
    RUN_TABLES,
    add_key,
    drop_runs,
    flush_ids,
    flush_sliced,
    id_hash,
    ids_by_slice,
    known_in_runs,
    load_runs,
)
from keyveil.collector.store.runs import N_SLICES, IdHash, Ids, Runs, as_ids, ids_in, rows_of
from keyveil.collector.store.series import SeriesRow
from keyveil.collector.store.sql import TABLES, SqlTransaction
from keyveil.collector.store.sqlite_file import FINAL_ACTS, WORDS, SqliteFile, SqliteStatements, refusals
from keyveil.errors import StoreError
from keyveil.report import REPORT_ID_BYTES
from keyveil.tally import Tally

# "kvcl", so that a file of another program is not taken for a store.
APPLICATION = 0x6B76636C
_OWN_TABLES = (
    *RUN_TABLES,
    # The ids of a block, joined; and what it adds to its tally.
    """create table memtable_ids (block integer primary key, campaign integer not null,
    round integer not null, crc integer not null, ids blob not null)""",
    """create table memtable_tallies (block integer primary key, campaign integer not null,
    round integer not null, question text not null, n_reports integer not null, cells blob not null)""",
    # Up to which block the ids of a slice are in runs.
    """create table flushed (campaign integer not null, slice integer not null, block integer not null,
    primary key (campaign, slice)) without rowid""",
    *FINAL_ACTS,
)
_DELETE_FLUSHED = """delete from memtable_ids where campaign = ?1 and block <=
(select min(block) from flushed where campaign = ?1 group by campaign having count(*) = ?2)"""
# Reports, or groups of them, after which the tallies are brought up to date, and ids beyond the most that
# stay in memory move into runs: one slice of 64 at a time, if one campaign has them.
_STEP_REPORTS, _STEP_GROUPS = 4096, 128
_MOST_IDS = N_SLICES * 4096


@dataclass(slots=True)
class _StoreCache:
    """The cache of the only process that has the file open; a `write` drops open rounds and live tokens."""

    hash: IdHash
    runs: dict[int, Runs] = field(default_factory=dict)
    """The runs of campaigns to which reports came."""
    memtable: Memtable = field(default_factory=Memtable)
    quarantined: dict[int, str] = field(default_factory=dict)
    """Campaigns whose part of the memtable cannot be read or flushed, by number; and why."""
    rounds: dict[int, RoundRow | None] = field(default_factory=dict)
    """The open round of each campaign."""
    tokens: dict[str, bool] = field(default_factory=dict)
    """Which tokens are live."""


class _SqliteStatements(SqliteStatements, SqlTransaction):
    """Statements on a connection."""


class SqliteTransaction(_SqliteStatements):
    """A transaction on the only connection that writes, or on a reader's own."""

    def __init__(
        self, connection: sqlite3.Connection, memory: _StoreCache, sums: Mapping[Place, Tally]
    ) -> None:
        super().__init__(connection)
        self._memory, self._sums = memory, sums
        self.runs: dict[int, Runs] = {}
        """The runs of campaigns that this transaction has asked for or changed."""
        self.flushed: dict[int, Sequence[int]] = {}
        """The slices of each campaign that memory need not hold when this is committed."""

    @cached_property
    def pending(self) -> WriteBatch:
        """What this transaction adds; whoever only reads has none."""
        return WriteBatch()

    def be_alone(self) -> None:
        """Nobody else writes now."""

    def begin_group(self, tokens: list[str], campaigns: list[int]) -> tuple[set[str], dict[int, RoundRow]]:
        """The tokens that were not revoked; and the open round of each campaign: nobody else writes now."""
        return self._live(tokens), self._open_rounds(campaigns)

    def _open_rounds(self, campaigns: list[int]) -> dict[int, RoundRow]:
        known = self._memory.rounds
        for no in campaigns:
            if no not in known:
                rows = self._rounds_where("campaign = ? and closed_at is null", (no,))
                known[no] = rows[0] if rows else None
        return {no: row for no in campaigns if (row := known[no]) is not None}

    def lock_round(self, campaign: int, number: int) -> RoundRow | None:
        """The round; nobody else writes now."""
        return next(iter(self._rounds_where("campaign = ? and number = ?", (campaign, number))), None)

    def lock_series(self, id: str) -> SeriesRow | None:
        """The series; nobody else writes now."""
        return self._find_series(id)

    def _round_reports(self, series: int) -> list[tuple[int, int, int]]:
        """Campaign, round and reports of every round to which some came, to the last ones."""
        found = {(campaign, round_): n for campaign, round_, n in super()._round_reports(series)}
        campaigns = {row[0] for row in self._all("select campaign from waves where series = ?", (series,))}
        found |= {place: sum_.n_reports for place, sum_ in self._sums.items() if place[0] in campaigns}
        return [(*place, n_reports) for place, n_reports in found.items()]

    def _live(self, tokens: list[str]) -> set[str]:
        known = self._memory.tokens
        for name in tokens:
            if name not in known:
                alive = self._all("select 1 from tokens where id = ? and revoked_at is null", (name,))
                known[name] = bool(alive)
        return {name for name in tokens if known[name]}

    def tally(self, campaign: int, round: int) -> TallyRow | None:
        """The sum of a round's reports, if there are any."""
        self._check(campaign)
        unflushed = self._sums.get((campaign, round))
        if unflushed is None:
            return super().tally(campaign, round)
        return TallyRow(n_reports=unflushed.n_reports, cells=pack(unflushed))

    def id_hash(self) -> IdHash:
        """What the ids of this store are hashed with."""
        return self._memory.hash

    def ids_by_slice(self, campaign: int, damaged: Callable[[str], None]) -> Iterator[list[tuple[int, Ids]]]:
        """All ids that are known, with their rounds: a list for each slice; equal ids are in one slice."""

        def recent(at: int) -> list[tuple[int, Ids]]:
            rows = last[at] if last else []
            rounds = {round_ for round_, _ in rows}
            return [(each, as_ids([name for of, name in rows if of == each])) for each in rounds]

        last = self._last_ids(campaign)
        return ids_by_slice(self, campaign, self._memory.hash, recent, damaged)

    def lock_count(self, campaign: int, round: int) -> int:
        """How many reports a round has; nobody else writes now."""
        self._check(campaign)
        place = campaign, round
        held = self.pending.sums.get(place) or self._sums.get(place) or super().tally(*place)
        return 0 if held is None else held.n_reports

    def claim_ids(self, campaign: int, round: int, ids: list[bytes]) -> set[bytes]:
        """Those of the ids, all different, that were not known; they are now."""
        fresh = set(ids) - self.known_ids(campaign, ids)
        self.pending.claim((campaign, round), fresh)
        return fresh

    def known_ids(self, campaign: int, ids: list[bytes]) -> set[bytes]:
        """Those of the ids that are known."""
        last = self._memory.memtable.known(campaign, ids) | self.pending.known(campaign, ids)
        others = [name for name in ids if name not in last] if last else ids
        return last | known_in_runs(self, self._runs_of(campaign), others, self._memory.hash)

    def _runs_of(self, campaign: int) -> Runs:
        # What a transaction has read is remembered when it is committed: it may have changed it before.
        if campaign not in self.runs:
            self.runs[campaign] = self._memory.runs.get(campaign) or load_runs(self, campaign)
        return self.runs[campaign]

    def add_block(self, campaign: int, round: int, length: int, reports: bytes, counted: Tally) -> None:
        """Keep reports and add what they say to the round's tally."""
        self._check(campaign)
        self._keep(campaign, round, length, reports)
        ((block,),) = self._all("select last_insert_rowid()")
        ids = b"".join(ids_in(reports, length))
        self._run(
            "insert into memtable_ids values (?, ?, ?, ?, ?)", (block, campaign, round, zlib.crc32(ids), ids)
        )
        self._run(
            "insert into memtable_tallies values (?, ?, ?, ?, ?, ?)",
            (block, campaign, round, counted.question, counted.n_reports, pack(counted)),
        )
        self.add_tally((campaign, round), counted)

    def add_tally(self, place: Place, counted: Tally) -> None:
        """The round's tally with some more counted, in memory."""
        before = self.pending.sums.get(place) or self._sums.get(place)
        if before is None and (row := super().tally(*place)) is not None:
            before = unpack(row.cells, question=counted.question, n_reports=row.n_reports)
        self.pending.sums[place] = counted if before is None else add(before, counted)

    def drop_ids(self, campaign: int, round: int) -> None:
        """Forget the ids of a closed round's reports."""
        # Of a quarantined campaign memory holds nothing; what the file holds must wait for its repair.
        if campaign not in self._memory.quarantined:
            self.flush(campaign, range(N_SLICES))
        gone = drop_runs(self, campaign, round)
        if (runs := self.runs.get(campaign) or self._memory.runs.get(campaign)) is not None:
            self.runs[campaign] = runs.changed(without=gone)

    def flush(self, campaign: int, slices: Sequence[int]) -> None:
        """Flush slices of a campaign's ids into runs, and bring its tallies up to date."""
        assert not self.pending.round_of, "what this transaction adds is not in memory yet"
        memtable, hash_ = self._memory.memtable, self._memory.hash
        if len(slices) == N_SLICES:
            for round_, ids in memtable.ids(campaign, slices):
                runs = self._runs_of(campaign)
                self.runs[campaign] = flush_sliced(self, runs, campaign, round_, as_ids(ids), hash_)
        else:
            for at in slices:
                for round_, ids in memtable.ids(campaign, (at,)):
                    runs = self._runs_of(campaign)
                    self.runs[campaign] = flush_ids(self, runs, campaign, round_, at, as_ids(ids), hash_)
        for place, tally in memtable.sums.items():
            if place[0] == campaign:
                self._set_tally(*place, tally)
        self._run("delete from memtable_tallies where campaign = ?", (campaign,))
        ((last,),) = self._all("select coalesce(max(block), 0) from memtable_ids")
        for at in slices:
            self._run("insert or replace into flushed values (?, ?, ?)", (campaign, at, last))
        self._run(_DELETE_FLUSHED, (campaign, N_SLICES))
        self.flushed[campaign] = slices

    def _last_ids(self, campaign: int) -> list[list[tuple[int, bytes]]]:
        """The ids that were not flushed at this transaction's moment, slice by slice, from their table."""
        again = SqliteTransaction(self._connection, _StoreCache(hash=self._memory.hash), {})
        again.recover_ids()
        memtable = Memtable()
        memtable.update(again.pending, lambda ids: self._memory.hash(as_ids(ids)).slices.tolist())
        return memtable.copied(campaign)

    def recover(self) -> None:
        """Rebuild the memtable of a process that ended, from the tables that it wrote ahead."""
        self.recover_ids()
        tallies = "select campaign, round, question, n_reports, cells from memtable_tallies order by block"
        for campaign, round_, question, n_reports, cells in self._all(tallies):
            try:
                self.add_tally((campaign, round_), unpack(cells, question=question, n_reports=n_reports))
            except StoreError as error:
                self._memory.quarantined[campaign] = str(error)
        for campaign in self._memory.quarantined:
            self.pending.forget(campaign)

    def recover_ids(self) -> None:
        """The ids of the memtable; a campaign of which some are damaged is quarantined."""
        flushed_to = {(campaign, at): block for campaign, at, block in self._all("select * from flushed")}
        for block, campaign, round_, crc, joined in self._all("select * from memtable_ids order by block"):
            if zlib.crc32(joined) != crc:
                self._memory.quarantined[campaign] = "the ids of the last reports are damaged"
                continue
            ids = [joined[at : at + REPORT_ID_BYTES] for at in range(0, len(joined), REPORT_ID_BYTES)]
            slices = self._memory.hash(rows_of(joined)).slices.tolist()
            left = (
                name
                for name, at in zip(ids, slices, strict=True)
                if block > flushed_to.get((campaign, at), 0)
            )
            self.pending.claim((campaign, round_), left)

    def _check(self, campaign: int) -> None:
        if campaign in self._memory.quarantined:
            raise StoreError(self._memory.quarantined[campaign], damaged=True)


class SqliteStore(SqliteFile):
    """The store in a file.

    >>> import tempfile
    >>> store = SqliteStore(Path(tempfile.mkdtemp()) / "collector.db")
    >>> with store.write() as tx:
    ...     tx.add_campaign(id="c", config="{}", terms="{}", label="", now=0.0)
    True
    >>> with store.read() as tx:
    ...     tx.campaign("c").no
    1
    >>> store.close()
    """

    kind, writers = "sqlite", 1

    def __init__(
        self,
        path: Path,
        *,
        backup_first: Path | None = None,
        announce: Callable[[Migration], None] = lambda _: None,
        read_only: bool = False,
    ) -> None:
        super().__init__(
            path, owner="collector", otherwise=", or use postgresql:// for several", read_only=read_only
        )
        self.migrated: Migration | None = None
        # Held while the disk and the memory change together, and while a reader looks at both.
        self._moment = threading.Lock()
        # What came since tallies and ids were last flushed.
        self._reports = self._groups = 0
        # The slice of each campaign that was flushed last.
        self._turns: dict[int, int] = {}
        with self._giving_back():
            with refusals():
                self._writer = self._connect()
                if read_only:
                    tx = _SqliteStatements(self._writer)
                    refuse_to_change(
                        tx, tables={name for (name,) in tx._all("select name from sqlite_master")}
                    )
                else:
                    self._prepare()
                    self._migrate(backup_first, announce)
                self._memory = _StoreCache(hash=id_hash(_SqliteStatements(self._writer)))
            self._recover()

    @contextmanager
    def write(self) -> Iterator[SqliteTransaction]:
        """All or nothing, on the disk when the block ends."""
        with self._lock:
            self._forget()
            try:
                with self._transaction() as tx:
                    yield tx
            finally:
                self._forget()

    @contextmanager
    def gather(self) -> Iterator[SqliteTransaction]:
        """As `write`; ids and tallies stay in memory, and now and then some of them are flushed."""
        with self._lock:
            is_due = self._reports >= _STEP_REPORTS or self._groups >= _STEP_GROUPS
            with self._transaction(self._due() if is_due else {}) as tx:
                yield tx
            if is_due:
                self._reports = self._groups = 0
            self._reports += sum(map(len, tx.pending.round_of.values()))
            self._groups += 1

    def after_group(self) -> None:
        """Nothing: a group's own transaction flushes."""

    def _due(self) -> dict[int, list[int]]:
        """The campaigns whose tallies are flushed, each with those of its slices that are."""
        memtable = self._memory.memtable
        due: dict[int, list[int]] = {campaign: [] for campaign in memtable.campaigns}
        left = {campaign: memtable.n_ids(campaign) for campaign in due}
        while sum(left.values()) > _MOST_IDS:
            largest = max(left, key=lambda campaign: left[campaign])
            if left[largest] < _MOST_IDS // 2:
                due[largest], left[largest] = list(range(N_SLICES)), 0
            else:
                at = self._turns[largest] = (self._turns.get(largest, -1) + 1) % N_SLICES
                due[largest].append(at)
                left[largest] -= memtable.in_slice(largest, at)
        return due

    def _forget(self) -> None:
        """Tokens and rounds may be others."""
        self._memory = replace(self._memory, rounds={}, tokens={})

    @contextmanager
    def _transaction(self, due: Mapping[int, Sequence[int]] | None = None) -> Iterator[SqliteTransaction]:
        memtable = self._memory.memtable
        with refusals():
            self._writer.execute("begin" if self._is_read_only else "begin immediate")
            tx = SqliteTransaction(self._writer, self._memory, memtable.sums)
            try:
                for campaign, slices in (due or {}).items():
                    self._flush(tx, campaign, slices)
                yield tx
                with self._moment:
                    self._writer.execute("commit")
                    for campaign, flushed in tx.flushed.items():
                        memtable.forget(campaign, flushed)
                    memtable.update(tx.pending, self._slices_of)
                    self._memory.runs |= tx.runs
            except BaseException:
                # A full disk may have rolled back already.
                if self._writer.in_transaction:
                    self._writer.execute("rollback")
                raise

    def _slices_of(self, ids: list[bytes]) -> list[int]:
        slices: list[int] = self._memory.hash(as_ids(ids)).slices.tolist()
        return slices

    def _flush(self, tx: SqliteTransaction, campaign: int, slices: Sequence[int]) -> None:
        self._writer.execute("savepoint flushing")
        try:
            with refusals():
                tx.flush(campaign, slices)
        except StoreError as error:
            # A damaged page is a matter of one campaign; a full disk, of all.
            if not error.damaged:
                raise
            self._writer.execute("rollback to flushing")
            self._memory.quarantined[campaign] = str(error)
            tx.flushed[campaign] = range(N_SLICES)
            tx.runs.pop(campaign, None)
        self._writer.execute("release flushing")

    def _recover(self) -> None:
        try:
            with self._lock, self._transaction() as tx:
                tx.recover()
        except StoreError as error:
            if not error.damaged:
                raise
            # Nobody can say whose last reports are missing in the tallies.
            with self.read() as view:
                self._memory.quarantined |= dict.fromkeys((row.no for row in view.campaigns()), str(error))

    @contextmanager
    def read(self) -> Iterator[SqliteTransaction]:
        """One moment's view, on a connection of this thread's own."""
        with refusals():
            connection = self._reader()
            try:
                with self._moment:
                    connection.execute("begin")
                    # The view is that of the first statement, which may fail.
                    connection.execute("select 1 from store").fetchone()
                    sums = dict(self._memory.memtable.sums)
                yield SqliteTransaction(connection, self._memory, sums)
            finally:
                if connection.in_transaction:
                    connection.execute("rollback")

    def close(self) -> None:
        """Give the file back, with everything in its place."""
        here = self._memory.memtable.campaigns
        if here and not self._is_read_only:
            # What cannot be written now is found again at the next start.
            with suppress(StoreError), self._transaction(dict.fromkeys(here, range(N_SLICES))):
                """Nothing else."""
        self._give_back()

    def _prepare(self) -> None:
        """Make the tables where there are none."""
        connection = self._writer
        is_empty = self._is_empty(connection, APPLICATION)
        # Pages of runs that are merged, and of large tallies.
        connection.execute("pragma cache_size = -65536")
        # Checkpoints that are short: each holds up the group that sets it off.
        connection.execute("pragma wal_autocheckpoint = 2048")
        if is_empty:
            connection.execute("begin immediate")
            for table in (*TABLES, *_OWN_TABLES):
                connection.execute(table.format(**WORDS))
            connection.execute("insert into store values ('schema', ?)", (str(SCHEMA),))
            add_key(_SqliteStatements(connection))
            connection.execute(f"pragma application_id = {APPLICATION}")
            connection.execute("commit")

    def _migrate(self, backup_first: Path | None, announce: Callable[[Migration], None]) -> None:
        """Bring the tables to today's schema; nobody else has the file open."""
        tx = _SqliteStatements(self._writer)
        migration = find_migration(tx, tables={name for (name,) in tx._all("select name from sqlite_master")})
        if not migration.is_needed:
            return
        announce(migration)
        if backup_first is not None:
            self.copy(backup_first)
        self._writer.execute("begin immediate")
        try:
            migrate(tx, migration, EMBEDDED)
            self._writer.execute("commit")
        except BaseException:
            if self._writer.in_transaction:
                self._writer.execute("rollback")
            raise
        self.migrated = migration
