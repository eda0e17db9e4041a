"""One SQLite file that one process has open: its lock, its connections, its backup.

Write-ahead log with synchronous = FULL: a commit is on the disk when it returns, and readers see the last
one. A lock file keeps a second process away.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from keyveil.collector.store.access_sql import AccessTransaction
from keyveil.errors import StoreError

# SQLite's words for the types of columns.
WORDS = {"number": "integer", "blob": "blob", "real": "real", "serial": "integer primary key autoincrement"}
# Acts are written once.
FINAL_ACTS = (
    """create trigger acts_stay before update on acts
    begin select raise(abort, 'acts are never changed'); end""",
    """create trigger acts_last before delete on acts
    begin select raise(abort, 'acts are never deleted'); end""",
)
# Steps of SQLite's machine, a few a row, after which a backup asks whether it is still wanted.
_LOOK_UP = 100


class SqliteStatements(AccessTransaction):
    """Statements on a connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def _all(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, values).fetchall()

    def _run(self, statement: str, values: Sequence[Any] = ()) -> int:
        return self._connection.execute(statement, values).rowcount

    def _run_each(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        self._connection.executemany(statement, rows)

    def _by_number(self, table: str, columns: str, nos: list[int]) -> list[tuple[Any, ...]]:
        # One statement for all of them: the interpreter's lock is let go and taken again around every step of
        # a statement, and each time the event loop may be before us.
        question = f"select {columns} from {table} where no in (select value from json_each(?))"  # noqa: S608
        return self._all(question, (json.dumps(nos),))


class SqliteFile:
    """The file; `owner` is what has it open, for people."""

    def __init__(self, path: Path, *, owner: str, otherwise: str = "", read_only: bool = False) -> None:
        if read_only and not path.exists():
            raise StoreError(f"there is no store {path}")
        self._is_read_only = read_only
        # A link leads to the same file, and to the same lock.
        self._path = path.resolve()
        self._lock_file = _lock(self._path, owner, otherwise)
        self._lock = threading.Lock()
        self._readers = threading.local()
        self._open: list[sqlite3.Connection] = []
        if not read_only:
            with self._giving_back():
                _make_private(self._path)

    def backup(self, path: Path, *, is_cancelled: Callable[[], bool] = lambda: False) -> None:
        """A copy of one moment, while others write; a StoreError soon after it `is_cancelled`.

        One reader's view, written out whole: the pages of SQLite's own backup begin anew at every commit.
        """
        with refusals():
            source = self._connect()
            source.set_progress_handler(is_cancelled, _LOOK_UP)
            try:
                source.execute("vacuum into ?", (str(path),))
            finally:
                source.close()
                self._open.remove(source)

    def copy(self, path: Path) -> None:
        """A copy under a name that is not taken; whatever gets the name is whole, and on the disk."""
        part = path.with_name(f"{path.name}.part")
        try:
            # What a process that was killed left behind.
            part.unlink(missing_ok=True)
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            self.backup(part)
            os.link(part, path)
            _sync(path.parent)
        except FileExistsError:
            raise StoreError(f"{path} exists already; name another file for the copy") from None
        except OSError as error:
            raise StoreError(f"cannot write {path}: {error.strerror}") from None
        finally:
            part.unlink(missing_ok=True)

    @contextmanager
    def _giving_back(self) -> Iterator[None]:
        """Nothing of the file is held by one that could not be opened."""
        try:
            with refusals():
                yield
        except BaseException:
            self._give_back()
            raise

    def _give_back(self) -> None:
        for connection in self._open:
            connection.close()
        self._open.clear()
        os.close(self._lock_file)

    def _connect(self) -> sqlite3.Connection:
        mode = "ro" if self._is_read_only else "rwc"
        connection = sqlite3.connect(
            f"{self._path.as_uri()}?mode={mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
            timeout=30,
        )
        self._open.append(connection)
        # A damaged letter must not hide the row it stands in: a damaged campaign shows by its hash.
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        return connection

    def _reader(self) -> sqlite3.Connection:
        """A connection of this thread's own."""
        if not hasattr(self._readers, "connection"):
            self._readers.connection = self._connect()
        connection: sqlite3.Connection = self._readers.connection
        return connection

    def _is_empty(self, connection: sqlite3.Connection, application: int) -> bool:
        """Whether there are no tables yet; another program's file is refused."""
        (found,) = connection.execute("pragma application_id").fetchone()
        (n_tables,) = connection.execute("select count(*) from sqlite_master").fetchone()
        if n_tables and found != application:
            raise StoreError(f"{self._path.name} is a database of another program; choose another file")
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        return not n_tables


def _sync(folder: Path) -> None:
    """The names in a folder are on the disk."""
    held = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(held)
    finally:
        os.close(held)


def _make_private(path: Path) -> None:
    """A new file is its owner's alone; SQLite gives those that it puts beside it the same mode."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def _lock(path: Path, owner: str, else_: str) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        held = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StoreError(f"cannot open the store {path}: {error.strerror}") from None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        raise StoreError(f"another {owner} has {path.name} open; stop it{else_}") from None
    if path.exists() and path.stat().st_nlink > 1:
        os.close(held)
        raise StoreError(f"{path.name} has two names, and a lock knows one; remove the hard link")
    return held


@contextmanager
def refusals() -> Iterator[None]:
    """What SQLite says, in our words; the store is damaged, or it may be a matter of time."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise StoreError(f"the store cannot be used now: {error}") from None
    except sqlite3.DatabaseError as error:
        raise StoreError(f"the store is damaged: {error}", damaged=True) from None
