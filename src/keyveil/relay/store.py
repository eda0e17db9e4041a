"""What a relay keeps: one SQLite file.

    campaigns   the collector's public words about each, as last heard
    rounds      which are known, how many reports hide together, and when nothing more is taken
    digests     of every sealed report that was taken: a repeat is known by them
    sealed      reports that wait
    batches     who goes together, under which id
    parts       of a batch: reports in the order in which they go, framed; empty once the collector has them

There is no column for an address or a time of arrival. A report's place in `sealed` is the only trace of when
it came; a batch draws another order, and the rows are overwritten (`secure_delete`). Digests are made with a
secret of the store's own, so nobody outside can find two reports that have one.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from keyveil.collector.store.access_sql import ACCESS_TABLES
from keyveil.collector.store.sqlite_file import FINAL_ACTS, WORDS, SqliteFile, SqliteStatements, refusals
from keyveil.errors import StoreError

# "kvrl", so that a collector's file is not taken for a relay's.
APPLICATION = 0x6B76726C
SCHEMA = 1
DIGEST_BYTES = 16
_SECRET_BYTES = 32
_TABLES = (
    *ACCESS_TABLES,
    "create table campaigns (no {serial}, id text not null unique, view text not null)",
    """create table rounds (no {serial}, campaign {number} not null, number {number} not null,
    batch {number} not null, length {number} not null, ends_at {real}, ended_at {real}, why text not null,
    discarded {number} not null default 0, unique (campaign, number))""",
    """create table digests (round {number} not null, digest {blob} not null, primary key (round, digest))
    without rowid""",
    """create table sealed (no {serial}, round {number} not null, key {blob} not null,
    report {blob} not null)""",
    "create index sealed_by_crowd on sealed (round, key, no)",
    """create table batches (no {serial}, id text not null unique, round {number} not null,
    key {blob} not null, size {number} not null, per_part {number} not null, n_parts {number} not null,
    state text not null)""",
    """create table parts (batch {number} not null, part {number} not null, n_reports {number} not null,
    reports {blob}, primary key (batch, part)) without rowid""",
    *FINAL_ACTS,
)
# What becomes of a batch: its parts are drawn, sent, and taken; or it came when its round was over.
FORMING, READY, FORWARDED, REFUSED = "forming", "ready", "forwarded", "refused"
_ROUND = "no, campaign, number, batch, length, ends_at, ended_at, why, discarded"
_BATCH = "no, id, round, key, size, per_part, n_parts, state"


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedRound:
    """A round that devices answer through here; `batch` is how many of them go together at least."""

    no: int
    campaign: int
    number: int
    batch: int
    length: int
    """Of a sealed report."""
    ends_at: float | None
    """When nothing more is taken, where the collector closes the round by time."""
    ended_at: float | None
    why: str
    discarded: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """Who hides together: those who answered one round and sealed to one key; how many of them wait."""

    round: int
    key: bytes
    n_waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingBatch:
    """A batch, in parts of at most `per_part` reports."""

    no: int
    id: str
    round: int
    key: bytes
    size: int
    per_part: int
    n_parts: int
    state: str


class RelayTransaction(SqliteStatements):
    """What is asked and changed, in one transaction."""

    # --- campaigns and rounds ---

    def be_alone(self) -> None:
        """Nobody else writes now."""

    def views(self) -> list[tuple[int, str, str]]:
        """Number, id and the collector's words of every campaign."""
        return [
            (no, id, view) for no, id, view in self._all("select no, id, view from campaigns order by no")
        ]

    def id_of(self, campaign: int) -> str:
        """The id of the campaign with a number here."""
        ((id,),) = self._all("select id from campaigns where no = ?", (campaign,))
        return str(id)

    def keep_view(self, id: str, view: str) -> int:
        """The collector's words about a campaign; its number here."""
        self._run(
            "insert into campaigns (id, view) values (?, ?) "
            "on conflict (id) do update set view = excluded.view",
            (id, view),
        )
        ((no,),) = self._all("select no from campaigns where id = ?", (id,))
        return int(no)

    def value(self, name: str) -> str | None:
        """One of the store's own values."""
        rows = self._all("select value from store where name = ?", (name,))
        return rows[0][0] if rows else None

    def set_value(self, name: str, value: str) -> None:
        """Keep one of the store's own values."""
        self._run("insert or replace into store values (?, ?)", (name, value))

    def rounds(self, campaign: int | None = None) -> list[CarriedRound]:
        """All rounds, or those of a campaign, in order."""
        where, values = ("", ()) if campaign is None else (" where campaign = ?", (campaign,))
        rows = self._all(f"select {_ROUND} from rounds{where} order by no", values)  # noqa: S608
        return [_round(row) for row in rows]

    def round(self, campaign: int, number: int) -> CarriedRound | None:
        """A round, if it is known."""
        rows = self._all(
            f"select {_ROUND} from rounds where campaign = ? and number = ?",  # noqa: S608
            (campaign, number),
        )
        return _round(rows[0]) if rows else None

    def open_round(
        self, campaign: int, number: int, *, batch: int, length: int, ends_at: float | None
    ) -> None:
        """A round that takes reports; one that is known stays what it is."""
        self._run(
            "insert or ignore into rounds (campaign, number, batch, length, ends_at, why) "
            "values (?, ?, ?, ?, ?, '')",
            (campaign, number, batch, length, ends_at),
        )

    def end_round(self, round: int, *, now: float, why: str) -> bool:
        """Take nothing more to a round; whether it was open."""
        return (
            self._run(
                "update rounds set ended_at = ?, why = ? where no = ? and ended_at is null", (now, why, round)
            )
            == 1
        )

    def forget_digests(self, before: float) -> int:
        """Forget the digests of rounds that ended long ago; how many were known."""
        return self._run(
            "delete from digests where round in (select no from rounds where ended_at < ?)", (before,)
        )

    # --- what comes ---

    def live_tokens(self, ids: Sequence[str]) -> set[str]:
        """Those of the tokens that were not revoked."""
        return {
            id for id in ids if self._all("select 1 from tokens where id = ? and revoked_at is null", (id,))
        }

    def add(self, round: int, key: bytes, reports: Sequence[bytes], digests: Sequence[bytes]) -> int:
        """Keep reports that wait, but for repeats; how many are new."""
        run = self._connection.execute
        fresh = [
            (round, key, report)
            for report, digest in zip(reports, digests, strict=True)
            if run("insert or ignore into digests values (?, ?)", (round, digest)).rowcount
        ]
        self._run_each("insert into sealed (round, key, report) values (?, ?, ?)", fresh)
        return len(fresh)

    def is_known(self, round: int, digest: bytes) -> bool:
        """Whether a report was taken before."""
        return bool(self._all("select 1 from digests where round = ? and digest = ?", (round, digest)))

    # --- what goes ---

    def crowds(self) -> list[Crowd]:
        """Who waits, by round and key."""
        rows = self._all("select round, key, count(*) from sealed group by round, key order by round, key")
        return [Crowd(round=round_, key=bytes(key), n_waiting=n) for round_, key, n in rows]

    def waiting(self, round: int, key: bytes) -> list[int]:
        """The places of those who wait."""
        rows = self._all("select no from sealed where round = ? and key = ?", (round, key))
        return [no for (no,) in rows]

    def begin_batch(self, id: str, round: int, key: bytes, size: int, per_part: int) -> OutgoingBatch:
        """A batch of so many, to be drawn."""
        n_parts = -(-size // per_part)
        self._run(
            "insert into batches (id, round, key, size, per_part, n_parts, state) "
            "values (?, ?, ?, ?, ?, ?, ?)",
            (id, round, key, size, per_part, n_parts, FORMING),
        )
        [found] = self.batches("id = ?", (id,))
        return found

    def drawn(self, batch: int) -> int:
        """How many parts of a batch are drawn."""
        ((n,),) = self._all("select count(*) from parts where batch = ?", (batch,))
        return int(n)

    def reports_at(self, nos: list[int]) -> list[bytes]:
        """The reports at these places, in this order."""
        found = dict(self._by_number("sealed", "no, report", nos))
        return [bytes(found[no]) for no in nos]

    def add_part(self, batch: OutgoingBatch, part: int, nos: list[int], framed: bytes) -> None:
        """The next part of a batch, whose reports wait no longer; after the last one it is ready."""
        self._run("insert into parts values (?, ?, ?, ?)", (batch.no, part, len(nos), framed))
        self._run_each("delete from sealed where no = ?", [(no,) for no in nos])
        if part == batch.n_parts - 1:
            self.set_state(batch.no, READY)

    def batches(self, where: str = "1", values: Sequence[object] = ()) -> list[OutgoingBatch]:
        """Batches, the oldest first."""
        rows = self._all(f"select {_BATCH} from batches where {where} order by no", values)  # noqa: S608
        return [OutgoingBatch(**dict(zip(_BATCH.split(", "), row, strict=True))) for row in rows]

    def next_part(self, batch: int) -> tuple[int, bytes] | None:
        """The first part that the collector has not taken; None where it has all."""
        rows = self._all(
            "select part, reports from parts where batch = ? and reports is not null order by part limit 1",
            (batch,),
        )
        return (rows[0][0], bytes(rows[0][1])) if rows else None

    def take_part(self, batch: int, part: int) -> None:
        """The collector has it."""
        self._run("update parts set reports = null where batch = ? and part = ?", (batch, part))

    def set_state(self, batch: int, state: str) -> None:
        """What became of a batch."""
        self._run("update batches set state = ? where no = ?", (state, batch))
        if state in (FORWARDED, REFUSED):
            self._run("delete from parts where batch = ?", (batch,))

    def left_of(self, batch: int) -> int:
        """How many reports of a batch the collector has not taken."""
        ((n,),) = self._all(
            "select coalesce(sum(n_reports), 0) from parts where batch = ? and reports is not null", (batch,)
        )
        return int(n)

    def discard(self, round: int, key: bytes) -> int:
        """Throw away who waits; how many."""
        n = self._run("delete from sealed where round = ? and key = ?", (round, key))
        self.note_discarded(round, n)
        return n

    def note_discarded(self, round: int, n: int) -> None:
        """So many more reports to a round were thrown away."""
        self._run("update rounds set discarded = discarded + ? where no = ?", (n, round))


class RelayStore(SqliteFile):
    """The file.

    >>> import tempfile
    >>> store = RelayStore(Path(tempfile.mkdtemp()) / "relay.db")
    >>> with store.write() as tx:
    ...     no = tx.keep_view("ab", "{}")
    ...     tx.open_round(no, 1, batch=2, length=5, ends_at=None)
    ...     [round] = tx.rounds()
    ...     tx.add(round.no, b"key", [b"said"] * 2, [store.digest(b"said")] * 2)
    1
    >>> store.close()
    """

    kind, writers = "sqlite", 1

    def __init__(self, path: Path) -> None:
        super().__init__(path, owner="relay")
        with self._giving_back():
            self._writer = self._connect()
            self._prepare()
            with self.write() as tx:
                secret = tx.value("secret")
                if secret is None:
                    tx.set_value("secret", secret := secrets.token_hex(_SECRET_BYTES))
        self._secret = bytes.fromhex(secret)

    def digest(self, sealed: bytes) -> bytes:
        """By what a repeat is known."""
        return hashlib.blake2b(sealed, digest_size=DIGEST_BYTES, key=self._secret).digest()

    @contextmanager
    def write(self) -> Iterator[RelayTransaction]:
        """All or nothing, on the disk when the block ends."""
        with self._lock, refusals():
            self._writer.execute("begin immediate")
            try:
                yield RelayTransaction(self._writer)
                self._writer.execute("commit")
            except BaseException:
                # A full disk may have rolled back already.
                if self._writer.in_transaction:
                    self._writer.execute("rollback")
                raise

    @contextmanager
    def read(self) -> Iterator[RelayTransaction]:
        """One moment's view, on a connection of this thread's own."""
        with refusals():
            connection = self._reader()
            try:
                connection.execute("begin")
                yield RelayTransaction(connection)
            finally:
                if connection.in_transaction:
                    connection.execute("rollback")

    def after_group(self) -> None:
        """Nothing: a group's own transaction does it all."""

    def close(self) -> None:
        """Give the file back."""
        with self._lock:
            self._give_back()

    def _prepare(self) -> None:
        connection = self._writer
        is_empty = self._is_empty(connection, APPLICATION)
        connection.execute("pragma secure_delete = on")
        connection.execute("pragma cache_size = -65536")
        connection.execute("pragma wal_autocheckpoint = 4096")
        if is_empty:
            connection.execute("begin immediate")
            for table in _TABLES:
                connection.execute(table.format(**WORDS))
            connection.execute("insert into store values ('schema', ?)", (str(SCHEMA),))
            connection.execute(f"pragma application_id = {APPLICATION}")
            connection.execute("commit")
        ((found,),) = connection.execute("select value from store where name = 'schema'").fetchall()
        if found != str(SCHEMA):
            raise StoreError(
                f"{self._path.name} is of schema {found}, this keyveil reads {SCHEMA}; "
                "run the keyveil that made it, or a newer one"
            )


def open_relay_store(url: str) -> RelayStore:
    """The store at sqlite:///file.

    >>> open_relay_store("postgresql://host/db")
    Traceback (most recent call last):
        ...
    keyveil.errors.StoreError: a relay keeps what waits in sqlite:///FILE, got postgresql://...
    """
    if url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        return RelayStore(Path(url.removeprefix("sqlite:///")))
    raise StoreError(f"a relay keeps what waits in sqlite:///FILE, got {url.partition(':')[0][:20]}://...")


def _round(row: tuple[object, ...]) -> CarriedRound:
    return CarriedRound(**dict(zip(_ROUND.split(", "), row, strict=True)))  # type: ignore[arg-type]
