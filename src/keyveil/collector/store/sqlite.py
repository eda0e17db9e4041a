"""The embedded store: one SQLite file, one process, one writer at a time.

Write-ahead log with synchronous = FULL: a commit is on the disk when it returns. Readers see the last
commit and wait for nobody. A lock file keeps a second collector away: two processes would each hold
half of the limits, and think themselves alone.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from keyveil.collector.store.base import SCHEMA, RoundRow, TallyRow
from keyveil.collector.store.sql import TABLES, SqlTransaction
from keyveil.errors import StoreError

# "kvcl", so that a file of another program is not taken for a store.
APPLICATION = 0x6B76636C
_WORDS = {"number": "integer", "blob": "blob", "real": "real", "serial": "integer primary key autoincrement"}
_OWN_TABLES = (
    # Ids arrive at random places; without rows behind them the tree is as small as it can be.
    """create table ids (campaign integer not null, id blob not null, round integer not null,
    primary key (campaign, id)) without rowid""",
    """create trigger acts_stay before update on acts
    begin select raise(abort, 'acts are never changed'); end""",
    """create trigger acts_last before delete on acts
    begin select raise(abort, 'acts are never deleted'); end""",
)
# ?1 ids, joined in ?2, as a table. One statement for all of them: the interpreter's lock is let go and
# taken again around every step of a statement, and each time the event loop may be before us.
_EACH = """with recursive
each_place (at) as (select 0 union all select at + 1 from each_place where at + 1 < ?1),
each_id (id) as (select substr(?2, 16 * at + 1, 16) from each_place where ?1 > 0)
"""
_CLAIM = f"{_EACH} insert into ids (campaign, id, round) select ?3, id, ?4 from each_id"  # noqa: S608
_KNOWN = f"{_EACH} select ids.id from each_id join ids on ids.campaign = ?3 and ids.id = each_id.id"  # noqa: S608


class SqliteTransaction(SqlTransaction):
    """A transaction on the only connection that writes, or on a reader's own."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def _all(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, values).fetchall()

    def _run(self, statement: str, values: Sequence[Any] = ()) -> int:
        return self._connection.execute(statement, values).rowcount

    def be_alone(self) -> None:
        """Nobody else writes now."""

    def lock_open_rounds(self, campaigns: Sequence[int]) -> dict[int, RoundRow]:
        """The open round of each campaign; nobody else writes now."""
        found = (self._rounds_where("campaign = ? and closed_at is null", (no,)) for no in campaigns)
        return {row.campaign: row for rows in found for row in rows}

    def lock_round(self, campaign: int, number: int) -> RoundRow | None:
        """The round; nobody else writes now."""
        return next(iter(self._rounds_where("campaign = ? and number = ?", (campaign, number))), None)

    def lock_tally(self, campaign: int, round: int) -> TallyRow | None:
        """The tally; nobody else writes now."""
        return self.tally(campaign, round)

    def claim_ids(self, campaign: int, round: int, ids: list[bytes]) -> set[bytes]:
        """Those of the ids, all different, that were not known; they are now."""
        fresh = set(ids) - self.known_ids(campaign, ids)
        joined = b"".join(sorted(fresh))
        self._run(_CLAIM, (len(fresh), joined, campaign, round))
        return fresh

    def known_ids(self, campaign: int, ids: list[bytes]) -> set[bytes]:
        """Those of the ids that are known."""
        return {row[0] for row in self._all(_KNOWN, (len(ids), b"".join(ids), campaign))}


class SqliteStore:
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

    kind = "sqlite"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock_file = _lock(path)
        self._lock = threading.Lock()
        self._readers = threading.local()
        self._open: list[sqlite3.Connection] = []
        try:
            with _refusals():
                self._writer = self._connect()
                self._prepare()
        except BaseException:
            self.close()
            raise

    @contextmanager
    def write(self) -> Iterator[SqliteTransaction]:
        """All or nothing, on the disk when the block ends."""
        with self._lock, _refusals():
            self._writer.execute("begin immediate")
            try:
                yield SqliteTransaction(self._writer)
                self._writer.execute("commit")
            except BaseException:
                # A full disk may have rolled back already.
                if self._writer.in_transaction:
                    self._writer.execute("rollback")
                raise

    @contextmanager
    def read(self) -> Iterator[SqliteTransaction]:
        """One moment's view, on a connection of this thread's own."""
        with _refusals():
            if not hasattr(self._readers, "connection"):
                self._readers.connection = self._connect()
            connection: sqlite3.Connection = self._readers.connection
            connection.execute("begin")
            try:
                yield SqliteTransaction(connection)
            finally:
                if connection.in_transaction:
                    connection.execute("rollback")

    def backup(self, path: Path) -> None:
        """A copy of one moment, while others write."""
        with _refusals():
            source, copy = self._connect(), sqlite3.connect(path)
            try:
                source.backup(copy, pages=4096)
            finally:
                copy.close()
                source.close()
                self._open.remove(source)

    def close(self) -> None:
        """Give the file back."""
        for connection in self._open:
            connection.close()
        self._open.clear()
        os.close(self._lock_file)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, isolation_level=None, check_same_thread=False, cached_statements=256, timeout=30
        )
        self._open.append(connection)
        # A damaged letter must not hide the row it stands in: a damaged campaign shows by its hash.
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        return connection

    def _prepare(self) -> None:
        """Make the tables, or check that they are the ones this program knows."""
        with _refusals():
            connection = self._writer
            (application,) = connection.execute("pragma application_id").fetchone()
            (n_tables,) = connection.execute("select count(*) from sqlite_master").fetchone()
            if n_tables and application != APPLICATION:
                raise StoreError(f"{self._path.name} is a database of another program; choose another file")
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = full")
            # The tree of ids is written at random places: 64 MiB of it stay in memory.
            connection.execute("pragma cache_size = -65536")
            # Space for a few groups between checkpoints; they are done while nobody waits for a commit.
            connection.execute("pragma wal_autocheckpoint = 8192")
            if not n_tables:
                connection.execute("begin immediate")
                for table in (*TABLES, *_OWN_TABLES):
                    connection.execute(table.format(**_WORDS))
                connection.execute("insert into store values ('schema', ?)", (str(SCHEMA),))
                connection.execute(f"pragma application_id = {APPLICATION}")
                connection.execute("commit")
            rows = connection.execute("select value from store where name = 'schema'").fetchall()
            check_schema(rows[0][0] if rows else "none")


def check_schema(found: str) -> None:
    """Refuse a store that a newer keyveil wrote."""
    if found != str(SCHEMA):
        raise StoreError(
            f"the store has schema {found}, this keyveil reads schema {SCHEMA}; "
            "run the keyveil that wrote it, or a newer one"
        )


def _lock(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        held = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StoreError(f"cannot open the store {path}: {error.strerror}") from None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        raise StoreError(
            f"another collector has {path.name} open; stop it, or use postgresql:// for several"
        ) from None
    return held


@contextmanager
def _refusals() -> Iterator[None]:
    """What SQLite says, in our words; the store is damaged, or it may be a matter of time."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise StoreError(f"the store cannot be used now: {error}") from None
    except sqlite3.DatabaseError as error:
        raise StoreError(f"the store is damaged: {error}", damaged=True) from None
