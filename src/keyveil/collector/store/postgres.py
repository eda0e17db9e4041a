"""The shared store: one PostgreSQL, as many collectors as are needed.

Every thread has a connection. An upload's transaction holds its round's row shared, so that a round is
closed only between uploads, and the tally's row alone, last and briefly. Ids go in as one array, sorted;
reports as one block. A connection that breaks is replaced at the next use; whether its last commit
happened is not known, and need not be: reports are sent again, and known by their ids.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import psycopg

from keyveil.collector.problems import Problem
from keyveil.collector.store.base import SCHEMA, RoundRow, TallyRow
from keyveil.collector.store.cells import unpack
from keyveil.collector.store.migrations import SHARED, Migration, find_migration, migrate
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
    """create table ids (campaign bigint not null, id bytea not null, round bigint not null,
    primary key (campaign, id))""",
    # Noise does not compress.
    "alter table blocks alter column reports set storage external",
    "alter table tallies alter column cells set storage external",
    """create function acts_stay() returns trigger language plpgsql as
    $$ begin raise exception 'acts are never changed'; end $$""",
    "create trigger acts_stay before update or delete on acts for each row execute function acts_stay()",
    "create trigger acts_last before truncate on acts for each statement execute function acts_stay()",
)
# Collectors that start at once make the tables one after the other; the number is arbitrary.
_STARTING = 0x6B76636C
# Seconds that a transaction may do nothing, and that it may wait for another's lock.
_LONGEST_IDLE, _LONGEST_WAIT = 10, 20
_DAMAGED = (psycopg.errors.DataCorrupted, psycopg.errors.IndexCorrupted)


class PostgresTransaction(SqlTransaction):
    """A transaction on this thread's connection."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._cursor = connection.cursor(binary=True)

    def _all(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        self._cursor.execute(cast(Any, statement.replace("?", "%b")), values)
        return self._cursor.fetchall()

    def _run(self, statement: str, values: Sequence[Any] = ()) -> int:
        return self._cursor.execute(cast(Any, statement.replace("?", "%b")), values).rowcount

    def be_alone(self) -> None:
        """Wait until no other transaction that asked for this is under way."""
        self._all("select pg_advisory_xact_lock(?::bigint)::text", (_STARTING,))

    def lock_open_rounds(self, campaigns: Sequence[int]) -> dict[int, RoundRow]:
        """The open round of each campaign; it stays open until the transaction ends."""
        condition = "campaign = any(?) and closed_at is null order by campaign, number for share"
        return {row.campaign: row for row in self._rounds_where(condition, (list(campaigns),))}

    def lock_round(self, campaign: int, number: int) -> RoundRow | None:
        """The round, alone: nobody adds to it until the transaction ends."""
        rows = self._rounds_where("campaign = ? and number = ? for update", (campaign, number))
        return next(iter(rows), None)

    def add_block(self, campaign: int, round: int, length: int, reports: bytes, counted: Tally) -> int:
        """Keep reports and add what they say to the round's tally; how many it counts now."""
        self._keep(campaign, round, length, reports)
        before = self._lock_tally(campaign, round)
        if before is not None:
            counted += unpack(before.cells, question=counted.question, n_reports=before.n_reports)
        self._set_tally(campaign, round, counted)
        return counted.n_reports

    def _lock_tally(self, campaign: int, round: int) -> TallyRow | None:
        """The tally, to be changed; the first to ask makes an empty row, so that there is one to lock."""
        statement = "select n_reports, cells from tallies where campaign = ? and round = ? for update"
        rows = self._all(statement, (campaign, round))
        if not rows:
            self._run(
                "insert into tallies (campaign, round, n_reports, cells) values (?, ?, 0, '') "
                "on conflict do nothing",
                (campaign, round),
            )
            rows = self._all(statement, (campaign, round))
        found = tally_row(rows)
        return found if found is not None and found.cells else None

    def claim_ids(self, campaign: int, round: int, ids: list[bytes]) -> set[bytes]:
        """Those of the ids, all different, that were not known; they are now."""
        statement = (
            "insert into ids (campaign, id, round) "
            "select ?::bigint, id, ?::bigint from unnest(?::bytea[]) as id "
            "on conflict do nothing returning id"
        )
        return {bytes(row[0]) for row in self._all(statement, (campaign, round, sorted(ids)))}

    def known_ids(self, campaign: int, ids: list[bytes]) -> set[bytes]:
        """Those of the ids that are known."""
        question = "select id from ids where campaign = ? and id = any(?::bytea[])"
        rows = self._all(question, (campaign, ids))
        return {bytes(row[0]) for row in rows}

    def live_tokens(self, ids: Iterable[str]) -> set[str]:
        """Those of the token ids that were not revoked."""
        rows = self._all("select id from tokens where id = any(?) and revoked_at is null", (list(ids),))
        return {row[0] for row in rows}


class PostgresStore:
    """The store behind a postgresql:// address."""

    kind, writers = "postgresql", 2

    def __init__(self, url: str, *, announce: Callable[[Migration], None] = lambda _: None) -> None:
        self._url = url
        self.migrated: Migration | None = None
        self._threads = threading.local()
        self._open: set[psycopg.Connection[Any]] = set()
        try:
            self._prepare(announce)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def write(self) -> Iterator[PostgresTransaction]:
        """All or nothing, durable when the block ends."""
        with self._transaction() as connection:
            yield PostgresTransaction(connection)

    gather = write

    @contextmanager
    def read(self) -> Iterator[PostgresTransaction]:
        """One moment's view."""
        with self._transaction() as connection:
            connection.execute("set transaction isolation level repeatable read, read only")
            yield PostgresTransaction(connection)

    def backup(self, path: Path, *, is_cancelled: Callable[[], bool] = lambda: False) -> None:
        """PostgreSQL has its own."""
        raise Problem("not-embedded")

    def close(self) -> None:
        """Give the connections back."""
        for connection in list(self._open):
            connection.close()
        self._open.clear()

    @contextmanager
    def _transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """A transaction; a connection that broke while nobody used it is replaced first."""
        with _refusals(), ExitStack() as stack:
            connection = self._connection()
            try:
                stack.enter_context(connection.transaction())
            except psycopg.OperationalError:
                connection = self._connection()
                stack.enter_context(connection.transaction())
            yield connection

    def _connection(self) -> psycopg.Connection[Any]:
        held: psycopg.Connection[Any] | None = getattr(self._threads, "connection", None)
        if held is not None and not held.closed and not held.broken:
            return held
        if held is not None:
            self._open.discard(held)
        connection = psycopg.connect(
            self._url, autocommit=True, connect_timeout=5, application_name="keyveil"
        )
        row = connection.execute("show synchronous_commit").fetchone()
        if row is not None and row[0] == "off":
            connection.execute("set synchronous_commit = on")
        # A process that is frozen inside a transaction loses it, and nobody waits for a lock for ever.
        connection.execute(f"set idle_in_transaction_session_timeout = '{_LONGEST_IDLE}s'")
        connection.execute(f"set lock_timeout = '{_LONGEST_WAIT}s'")
        self._threads.connection = connection
        self._open.add(connection)
        return connection

    def _prepare(self, announce: Callable[[Migration], None]) -> None:
        """Make the tables, or bring them to today's schema; collectors that start at once take turns."""
        with self.write() as tx:
            # Whoever migrates may take long, and whoever starts meanwhile waits for it.
            tx._run("set local idle_in_transaction_session_timeout = 0")
            tx._run("set local lock_timeout = 0")
            tx.be_alone()
            tables = {
                name
                for (name,) in tx._all("select tablename from pg_tables where schemaname = current_schema()")
            }
            if "store" not in tables:
                for table in (*TABLES, *_OWN_TABLES):
                    tx._run(table.format(**_WORDS))
                tx._run("insert into store values ('schema', ?)", (str(SCHEMA),))
                return
            migration = find_migration(tx, tables=tables)
            if migration.is_needed:
                announce(migration)
                migrate(tx, migration, SHARED)
                self.migrated = migration


@contextmanager
def _refusals() -> Iterator[None]:
    """What PostgreSQL says, in our words; addresses and passwords stay out of them."""
    try:
        yield
    except _DAMAGED:
        raise StoreError("the store is damaged: PostgreSQL found corrupted data", damaged=True) from None
    except psycopg.Error as error:
        raise StoreError(f"the store cannot be used now: {type(error).__name__}") from None
