"""The shared store: one PostgreSQL, as many collectors as are needed.

Every thread has a connection. An upload's transaction holds its round's row shared, so that a round is
closed only between uploads. Ids go in as one array, sorted; reports as one block; what they add to the tally
as a row of `recent_tallies`, so that groups need not wait for each other, nor write a sum anew that may be
large. The sum of a round is its row of `tallies` and those rows together; every so often, and when the round
is closed, one transaction makes them one. A connection that breaks is replaced at the next use; whether its
last commit happened is not known, and need not be: reports are sent again, and known by their ids.

The last ids are rows of `recent_ids`, the others are in runs (`runs`). An id is claimed first and looked for
in the runs afterwards: it is inserted into `recent_ids`, and if that succeeds, a statement of its own, with a
view of its own (read committed), asks which runs there are. Ids move by a flush, one transaction that deletes
rows and adds the run that holds them. If the flush is committed before the insert, the look sees its run. If
it is under way, the insert meets a row that is being deleted, and waits: for a commit, and then the look sees
the run; or for none, and then the row is there still. If it comes later, the row is in the way of the insert.
So an id that was claimed is seen by one or by the other. Merging runs changes no ids; a look that meets a run
which was merged meanwhile looks again.
"""

from __future__ import annotations

import random
import select
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import reduce
from pathlib import Path
from typing import Any, cast

import psycopg

from keyveil.collector.store.base import SCHEMA, NotEmbeddedError, RoundRow, TallyRow
from keyveil.collector.store.cells import add, pack, unpack
from keyveil.collector.store.migrations import SHARED, Migration, find_migration, migrate, refuse_to_change
from keyveil.collector.store.run_tables import (
    RUN_TABLES,
    SHARED_RUN_TABLES,
    PageGone,
    add_key,
    drop_runs,
    flush_ids,
    id_hash,
    ids_by_slice,
    known_in_runs,
    load_runs,
)
from keyveil.collector.store.runs import N_SLICES, IdHash, Ids, Runs, as_ids
from keyveil.collector.store.series import SeriesRow
from keyveil.collector.store.sql import TABLES, SqlTransaction, tally_row
from keyveil.errors import StoreError
from keyveil.tally import Tally

_WORDS = {
    "number": "bigint",
    "blob": "bytea",
    "real": "double precision",
    "serial": "bigint generated always as identity primary key",
}
_OWN_TABLES = (
    *RUN_TABLES,
    *SHARED_RUN_TABLES,
    # Noise does not compress.
    "alter table blocks alter column reports set storage external",
    "alter table tallies alter column cells set storage external",
    """create table recent_tallies (no {serial}, campaign {number} not null, round {number} not null,
    n_reports {number} not null, cells {blob} not null)""",
    "create index recent_tallies_by_round on recent_tallies (campaign, round)",
    "alter table recent_tallies alter column cells set storage external",
    """create function acts_stay() returns trigger language plpgsql as
    $$ begin raise exception 'acts are never changed'; end $$""",
    "create trigger acts_stay before update or delete on acts for each row execute function acts_stay()",
    "create trigger acts_last before truncate on acts for each statement execute function acts_stay()",
)
# Collectors that start at once make the tables one after the other; the number is arbitrary.
_STARTING = 0x6B76636C
# One collector at a time changes the runs of a campaign; the number is arbitrary too.
_FLUSHING = 0x6B7664
# Seconds that a transaction may do nothing, and that it may wait for another's lock.
_LONGEST_IDLE, _LONGEST_WAIT = 10, 20
# Ids of a campaign that a collector takes between two flushes of a slice, and the fewest that are worth a
# run: with 64 slices about 2^17 ids are in the tree, and a run has 4,096.
_STEP_IDS, _FEWEST_IDS = 4096, 2048
# Groups of a round that a collector writes between two flushes of its tally: so many rows are read with it.
_STEP_GROUPS = 64
_DAMAGED = (psycopg.errors.DataCorrupted, psycopg.errors.IndexCorrupted)


class _RunCache:
    """The cache of a process: how ids are hashed, and the runs, with their filters, of campaigns in use."""

    def __init__(self, hash: IdHash) -> None:
        self.hash, self.runs = hash, dict[int, Runs]()

    def slices_of(self, ids: list[bytes]) -> list[int]:
        """The slices to which ids belong."""
        slices: list[int] = self.hash(as_ids(ids)).slices.tolist()
        return slices


class _PostgresStatements(SqlTransaction):
    """Statements on a connection."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def _send(self, statement: str, values: Sequence[Any] = ()) -> psycopg.Cursor[Any]:
        """A statement whose rows may be fetched; in a pipeline it is waited for only then."""
        return self._connection.execute(cast(Any, statement.replace("?", "%b")), values, binary=True)

    def _all(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._send(statement, values).fetchall()

    def _run(self, statement: str, values: Sequence[Any] = ()) -> int:
        return self._send(statement, values).rowcount

    def _run_each(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        self._connection.cursor(binary=True).executemany(cast(Any, statement.replace("?", "%b")), rows)

    def _by_number(self, table: str, columns: str, nos: list[int]) -> list[tuple[Any, ...]]:
        return self._all(f"select {columns} from {table} where no = any(?)", (nos,))  # noqa: S608

    def be_alone(self) -> None:
        """Wait until no other transaction that asked for this is under way."""
        self._all("select pg_advisory_xact_lock(?::bigint)::text", (_STARTING,))


class PostgresTransaction(_PostgresStatements):
    """A transaction on this thread's connection."""

    def __init__(self, connection: psycopg.Connection[Any], memory: _RunCache) -> None:
        super().__init__(connection)
        self._memory = memory
        self.claimed: Counter[int] = Counter()
        """How many ids of each campaign were claimed."""
        self.grown: Counter[tuple[int, int]] = Counter()
        """How many blocks were added to each round's tally."""

    def begin_group(self, tokens: list[str], campaigns: list[int]) -> tuple[set[str], dict[int, RoundRow]]:
        """The tokens that live, and the open round of each campaign: it stays open until the end."""
        live = self._send("select id from tokens where id = any(?) and revoked_at is null", (tokens,))
        condition = "campaign = any(?) and closed_at is null order by campaign, number for share"
        rounds = {row.campaign: row for row in self._rounds_where(condition, (campaigns,))}
        return {row[0] for row in live.fetchall()}, rounds

    def lock_round(self, campaign: int, number: int) -> RoundRow | None:
        """The round, alone: nobody adds to it until the transaction ends."""
        rows = self._rounds_where("campaign = ? and number = ? for update", (campaign, number))
        return next(iter(rows), None)

    def close_round(self, campaign: int, number: int, *, why: str, now: float) -> None:
        """Take no more reports to a round."""
        super().close_round(campaign, number, why=why, now=now)
        self.flush_tally(campaign, number)

    def tally(self, campaign: int, round: int) -> TallyRow | None:
        """The sum of a round's reports, if there are any."""
        # One statement, one view: what a flush moves meanwhile is in one of the tables.
        rows = self._all(
            "select n_reports, cells from tallies where campaign = ? and round = ? union all "
            "select n_reports, cells from recent_tallies where campaign = ? and round = ?",
            (campaign, round) * 2,
        )
        if len(rows) <= 1:
            return tally_row(rows)
        total = _total(round, rows)
        return TallyRow(n_reports=total.n_reports, cells=pack(total))

    def add_block(self, campaign: int, round: int, length: int, reports: bytes, counted: Tally) -> None:
        """Keep reports and add what they say to the round's tally."""
        self._keep(campaign, round, length, reports)
        self._run(
            "insert into recent_tallies (campaign, round, n_reports, cells) values (?, ?, ?, ?)",
            (campaign, round, counted.n_reports, pack(counted)),
        )
        self.grown[campaign, round] += 1

    def flush_tally(self, campaign: int, round: int) -> None:
        """Bring a round's tally up to date with what groups have added."""
        before = self._lock_tally(campaign, round)
        added = self._all(
            "delete from recent_tallies where campaign = ? and round = ? returning n_reports, cells",
            (campaign, round),
        )
        if added:
            self._set_tally(campaign, round, _total(round, before + added))

    def _lock_tally(self, campaign: int, round: int) -> list[tuple[int, bytes]]:
        """The tally's row, to be changed, if it has counted any; the first to ask makes one to lock."""
        statement = "select n_reports, cells from tallies where campaign = ? and round = ? for update"
        rows = self._all(statement, (campaign, round))
        if not rows:
            self._run(
                "insert into tallies (campaign, round, n_reports, cells) values (?, ?, 0, '') "
                "on conflict do nothing",
                (campaign, round),
            )
            rows = self._all(statement, (campaign, round))
        return [(n_reports, cells) for n_reports, cells in rows if cells]

    def id_hash(self) -> IdHash:
        """What the ids of this store are hashed with."""
        return self._memory.hash

    def ids_by_slice(self, campaign: int, damaged: Callable[[str], None]) -> Iterator[list[tuple[int, Ids]]]:
        """All ids that are known, with their rounds: a list for each slice; equal ids are in one slice."""

        def recent(at: int) -> list[tuple[int, Ids]]:
            rows = self._all(
                "select round, id from recent_ids where campaign = ? and slice = ?", (campaign, at)
            )
            rounds = {round_ for round_, _ in rows}
            return [(each, as_ids([bytes(name) for of, name in rows if of == each])) for each in rounds]

        return ids_by_slice(self, campaign, self._memory.hash, recent, damaged)

    def lock_series(self, id: str) -> SeriesRow | None:
        """The series, alone: nobody else opens its waves or changes it until the transaction ends."""
        return self._find_series(id, " for update")

    def _round_reports(self, series: int) -> list[tuple[int, int, int]]:
        """Campaign, round and reports of every round to which some came, and what groups added since."""
        recent = self._all(
            "select recent_tallies.campaign, round, n_reports from recent_tallies join waves "
            "on waves.campaign = recent_tallies.campaign where series = ?",
            (series,),
        )
        return [*super()._round_reports(series), *((*place, int(n)) for *place, n in recent)]

    def lock_count(self, campaign: int, round: int) -> int:
        """How many reports a round has; nobody else adds to it until the transaction ends."""
        held = self._lock_tally(campaign, round)
        ((recent,),) = self._all(
            "select coalesce(sum(n_reports), 0)::bigint from recent_tallies where campaign = ? and round = ?",
            (campaign, round),
        )
        return sum(n_reports for n_reports, _ in held) + int(recent)

    def claim_ids(self, campaign: int, round: int, ids: list[bytes]) -> set[bytes]:
        """Those of the ids, all different, that were not known; they are now."""
        # Most that are old are found here already, and are never inserted; whether all are, is seen below.
        runs, old = self._look(campaign, ids, self._memory.runs.get(campaign))
        new = [name for name in ids if name not in old] if old else ids
        claimed, last = self._insert(campaign, round, new)
        if claimed and last != runs.last:
            _, old = self._look(campaign, claimed)
            self._withdraw(campaign, old)
            claimed = [name for name in claimed if name not in old]
        self.claimed[campaign] += len(claimed)
        return set(claimed)

    def _insert(self, campaign: int, round: int, ids: list[bytes]) -> tuple[list[bytes], int]:
        """Those of the ids that were not recent, and are now; and the last run as it is then."""
        ordered = sorted(zip(self._memory.slices_of(ids), ids, strict=True))
        inserted = self._send(
            "insert into recent_ids (campaign, slice, id, round) "
            "select ?::bigint, slice, id, ?::bigint "
            "from unnest(?::smallint[], ?::bytea[]) as claimed (slice, id) "
            "on conflict do nothing returning id",
            (campaign, round, [at for at, _ in ordered], [name for _, name in ordered]),
        )
        last = self._last_run(campaign)
        return [bytes(row[0]) for row in inserted.fetchall()], last

    def _withdraw(self, campaign: int, ids: set[bytes]) -> None:
        names = list(ids)
        self._run(
            "delete from recent_ids using unnest(?::smallint[], ?::bytea[]) as old (slice, id) "
            "where campaign = ? and recent_ids.slice = old.slice and recent_ids.id = old.id",
            (self._memory.slices_of(names), names, campaign),
        )

    def known_ids(self, campaign: int, ids: list[bytes]) -> set[bytes]:
        """Those of the ids that are known."""
        # Runs are asked last: what moves meanwhile is seen in one place or in both.
        question = (
            "select id from unnest(?::smallint[], ?::bytea[]) as asked (slice, id) "
            "join recent_ids using (slice, id) where campaign = ?"
        )
        rows = self._all(question, (self._memory.slices_of(ids), ids, campaign))
        recent = {bytes(row[0]) for row in rows}
        return recent | self._look(campaign, [name for name in ids if name not in recent])[1]

    def _look(self, campaign: int, ids: list[bytes], runs: Runs | None = None) -> tuple[Runs, set[bytes]]:
        """Runs, as they are now unless they are given, and those of the ids that they hold."""
        runs = runs or self._runs_of(campaign)
        while True:
            try:
                return runs, known_in_runs(self, runs, ids, self._memory.hash)
            except PageGone:
                before, runs = runs, self._load(campaign)
                # A run that is still there should have all its pages.
                if before.by_no.keys() == runs.by_no.keys():
                    raise

    def _runs_of(self, campaign: int) -> Runs:
        """The runs of a campaign, those included that another collector has just made."""
        known = self._memory.runs.get(campaign)
        return known if known is not None and known.last == self._last_run(campaign) else self._load(campaign)

    def _last_run(self, campaign: int) -> int:
        """Every flush makes a run with a higher number than those before it."""
        ((last,),) = self._all("select coalesce(max(no), 0) from runs where campaign = ?", (campaign,))
        return int(last)

    def _load(self, campaign: int) -> Runs:
        known = self._memory.runs
        known[campaign] = load_runs(self, campaign, known.get(campaign))
        return known[campaign]

    def flush(self, campaign: int, at: int) -> bool:
        """Move a slice of the recent ids into a run, if it is worth one; False if another flushes now."""
        if not self._lock_runs(campaign, wait=False):
            return False
        slice_ = "from recent_ids where campaign = ? and slice = ?"
        ((n_ids,),) = self._all(
            f"select count(*) from (select 1 {slice_} limit ?) as first_few",  # noqa: S608
            (campaign, at, _FEWEST_IDS),
        )
        by_round: dict[int, list[bytes]] = {}
        if n_ids >= _FEWEST_IDS:
            for name, round_ in self._all(f"delete {slice_} returning id, round", (campaign, at)):
                by_round.setdefault(round_, []).append(bytes(name))
        runs = self._runs_of(campaign)
        for round_, ids in sorted(by_round.items()):
            runs = flush_ids(self, runs, campaign, round_, at, as_ids(ids), self._memory.hash)
        return True

    def drop_ids(self, campaign: int, round: int) -> None:
        """Forget the ids of a closed round's reports."""
        self._lock_runs(campaign, wait=True)
        self._run("delete from recent_ids where campaign = ? and round = ?", (campaign, round))
        drop_runs(self, campaign, round)

    def _lock_runs(self, campaign: int, *, wait: bool) -> bool:
        """Be the one who changes the runs of a campaign: their numbers then rise in the order of commits."""
        values = (_FLUSHING, campaign % (1 << 31))
        if not wait:
            ((locked,),) = self._all("select pg_try_advisory_xact_lock(?::int, ?::int)", values)
            return bool(locked)
        self._all("select pg_advisory_xact_lock(?::int, ?::int)::text", values)
        return True


class PostgresStore:
    """The store behind a postgresql:// address."""

    kind, writers = "postgresql", 2

    def __init__(
        self,
        url: str,
        *,
        announce: Callable[[Migration], None] = lambda _: None,
        read_only: bool = False,
    ) -> None:
        self._url, self._is_read_only = url, read_only
        self.migrated: Migration | None = None
        self._threads = threading.local()
        self._open: set[psycopg.Connection[Any]] = set()
        # Ids claimed since the last flush of each campaign, and the slice of which that was.
        self._claimed: Counter[int] = Counter()
        self._turns: dict[int, int] = {}
        # Blocks added since the last flush of each round's tally.
        self._grown: Counter[tuple[int, int]] = Counter()
        self._counting = threading.Lock()
        try:
            self._memory = _RunCache(self._prepare(announce))
        except BaseException:
            self.close()
            raise

    @contextmanager
    def write(self, *, pipelined: bool = False) -> Iterator[PostgresTransaction]:
        """All or nothing, durable when the block ends."""
        with self._transaction(pipelined=pipelined) as connection:
            tx = PostgresTransaction(connection, self._memory)
            yield tx
        with self._counting:
            self._claimed += tx.claimed
            self._grown += tx.grown

    def gather(self) -> AbstractContextManager[PostgresTransaction]:
        """As `write`, for uploads: nothing is waited for but what decides how to go on."""
        return self.write(pipelined=True)

    def after_group(self) -> None:
        """Flush a slice of a campaign for every slice's worth of ids that it has had, and tallies."""
        for place in [place for place, count in self._grown.items() if count >= _STEP_GROUPS]:
            with self._counting:
                self._grown[place] = 0
            with self.write() as tx:
                tx.flush_tally(*place)
        with self._counting:
            due = {campaign: count // _STEP_IDS for campaign, count in self._claimed.items()}
            for campaign, turns in due.items():
                self._claimed[campaign] -= turns * _STEP_IDS
        for campaign, turns in due.items():
            for _ in range(turns):
                with self.write() as tx:
                    is_done = tx.flush(campaign, self._next_slice(campaign))
                if not is_done:
                    with self._counting:
                        self._claimed[campaign] += _STEP_IDS

    def _next_slice(self, campaign: int) -> int:
        """Collectors begin anywhere, so that they seldom meet."""
        last = self._turns.get(campaign, random.randrange(N_SLICES))
        self._turns[campaign] = (last + 1) % N_SLICES
        return self._turns[campaign]

    @contextmanager
    def read(self) -> Iterator[PostgresTransaction]:
        """One moment's view."""
        with self._transaction() as connection:
            connection.execute("set transaction isolation level repeatable read, read only")
            yield PostgresTransaction(connection, self._memory)

    def backup(self, path: Path, *, is_cancelled: Callable[[], bool] = lambda: False) -> None:
        """PostgreSQL has its own."""
        raise NotEmbeddedError("only the embedded store is backed up by the collector")

    def close(self) -> None:
        """Give the connections back."""
        for connection in list(self._open):
            connection.close()
        self._open.clear()

    @contextmanager
    def _transaction(self, *, pipelined: bool = False) -> Iterator[psycopg.Connection[Any]]:
        """A transaction; a connection that broke while nobody used it is replaced first."""
        with _refusals(), ExitStack() as stack:
            connection = self._connection()
            try:
                self._begin(connection, stack, pipelined)
            except psycopg.OperationalError:
                connection = self._connection()
                self._begin(connection, stack, pipelined)
            yield connection

    def _begin(self, connection: psycopg.Connection[Any], stack: ExitStack, pipelined: bool) -> None:
        if pipelined:
            stack.enter_context(connection.pipeline())
        stack.enter_context(connection.transaction())

    def _connection(self) -> psycopg.Connection[Any]:
        held: psycopg.Connection[Any] | None = getattr(self._threads, "connection", None)
        if held is not None and not held.closed and not held.broken and not _has_word(held):
            return held
        if held is not None:
            self._open.discard(held)
            held.close()
        connection = psycopg.connect(
            self._url, autocommit=True, connect_timeout=5, application_name="keyveil"
        )
        row = connection.execute("show synchronous_commit").fetchone()
        if row is not None and row[0] == "off":
            connection.execute("set synchronous_commit = on")
        # What was committed a moment ago must be seen.
        connection.execute("set default_transaction_isolation = 'read committed'")
        # A process that is frozen inside a transaction loses it, and nobody waits for a lock for ever.
        connection.execute(f"set idle_in_transaction_session_timeout = '{_LONGEST_IDLE}s'")
        connection.execute(f"set lock_timeout = '{_LONGEST_WAIT}s'")
        self._threads.connection = connection
        self._open.add(connection)
        return connection

    def _prepare(self, announce: Callable[[Migration], None]) -> IdHash:
        """Make the tables, or bring them to today's schema; collectors that start at once take turns."""
        with self._transaction() as connection:
            tx = _PostgresStatements(connection)
            # Whoever migrates may take long, and whoever starts meanwhile waits for it.
            tx._run("set local idle_in_transaction_session_timeout = 0")
            tx._run("set local lock_timeout = 0")
            tx.be_alone()
            tables = {
                name
                for (name,) in tx._all("select tablename from pg_tables where schemaname = current_schema()")
            }
            if self._is_read_only:
                refuse_to_change(tx, tables=tables)
            if "store" not in tables:
                for table in (*TABLES, *_OWN_TABLES):
                    tx._run(table.format(**_WORDS))
                tx._run("insert into store values ('schema', ?)", (str(SCHEMA),))
                add_key(tx)
                return id_hash(tx)
            migration = find_migration(tx, tables=tables)
            if migration.is_needed:
                announce(migration)
                migrate(tx, migration, SHARED)
                self.migrated = migration
            return id_hash(tx)


def _has_word(connection: psycopg.Connection[Any]) -> bool:
    """Whether the server said something, unasked: most often that it hangs up."""
    return bool(select.select([connection.fileno()], [], [], 0)[0])


def _total(round: int, rows: Iterable[tuple[int, bytes]]) -> Tally:
    """The sum of packed tallies of one round; one that has counted nothing may be of no bytes."""
    name = f"round {round}"
    tallies = (unpack(bytes(cells), question=name, n_reports=count) for count, cells in rows if cells)
    return reduce(add, tallies)


# By PostgreSQL's own codes, or their first two letters.
_WORDS_OF_STATES = {
    "28": "the user or the password is not accepted",
    "3D000": "there is no database of this name; create it first",
    "42501": "the user may not do this; grant it the rights to its schema",
    "53100": "the disk is full",
    "53300": "there are too many connections",
    "55P03": "another process holds a lock for too long",
    "57P01": "PostgreSQL is being shut down",
    "57P03": "PostgreSQL is starting up",
}


@contextmanager
def _refusals() -> Iterator[None]:
    """What PostgreSQL says, in our words; addresses and passwords stay out of them."""
    try:
        yield
    except _DAMAGED:
        raise StoreError("the store is damaged: PostgreSQL found corrupted data", damaged=True) from None
    except psycopg.Error as error:
        raise StoreError(f"the store cannot be used now: {_in_words(error)}") from None


def _in_words(error: psycopg.Error) -> str:
    """What an operator can do something about; what PostgreSQL says may hold an address, and is left out."""
    if error.sqlstate is not None:
        said = _WORDS_OF_STATES.get(error.sqlstate) or _WORDS_OF_STATES.get(error.sqlstate[:2])
        return (
            f"{said} (PostgreSQL's {error.sqlstate})" if said else f"{type(error).__name__} {error.sqlstate}"
        )
    if isinstance(error, psycopg.OperationalError):
        return "PostgreSQL does not answer; is it running, and may this machine connect to it?"
    return type(error).__name__
