"""What this device has spent, on disk: one SQLite file, and every change one transaction.

    fact     the device's secret, the latest time ever seen, consent, the seal
    spent    epsilon a round of a campaign, exact, and how many answers it paid for
    memo     noised answers, each under a keyed hash of the record it was made from (see `memo`)
    outbox   reports that wait for the collector (see `queue`)
    route    how sending goes, a row a campaign: failures in a row, when to try again, counts

A debit and the report that it pays for are committed together, before anybody sees the report. A
process that is killed at any moment may have paid for a report that was never sent, never the
reverse.

What a ledger says is believed or refused, never repaired. The seal is a keyed hash over what was
spent, the time and the consent: a file that SQLite can read but that does not add up is refused, and
so is one that is empty, because a new ledger only ever appears complete. Whoever deletes the file
starts anew; that is the owner's right, and no server's.

Time only moves forwards: the ledger keeps the latest time it has seen, also of calls that were
refused, rounded up to a minute so that most calls write nothing. A clock set back brings no campaign
back to life.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from fractions import Fraction
from pathlib import Path

from keyveil.errors import LedgerError

Clock = Callable[[], float]
_Spent = dict[tuple[str, int], tuple[Fraction, int]]

# How long to wait for another process that holds the ledger. A host application must not hang.
_PATIENCE = 2.0
_FORMAT = 1
_GRAIN = 60.0
_SECRET_BYTES = 32
UNASKED = "unasked"

_SCHEMA = f"""
begin;
create table fact (name text primary key, value) without rowid;
create table spent (campaign text, round integer, epsilon text not null, answers integer not null,
                    primary key (campaign, round)) without rowid;
create table memo (campaign text, round integer, record blob, report blob not null, place integer not null,
                   primary key (campaign, round, record)) without rowid;
create table outbox (place integer primary key, campaign text not null, report_id blob not null unique,
                     report blob not null);
create table route (campaign text primary key, failures integer not null default 0,
                    not_before real not null default 0, sent integer not null default 0,
                    refused integer not null default 0, dropped integer not null default 0) without rowid;
pragma user_version = {_FORMAT};
commit;
"""


class Account:
    """The ledger inside one transaction."""

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        self.connection = connection
        try:
            facts = dict(connection.execute("select name, value from fact"))
            self.secret = bytes(facts["secret"])
            self._clock, self._consent = float(facts["clock"]), str(facts["consent"])
            self._spent = {
                (str(campaign), int(number)): (Fraction(epsilon), int(answers))
                for campaign, number, epsilon, answers in connection.execute("select * from spent")
            }
            self._sealed = bytes(facts["seal"])
        except (KeyError, ValueError, TypeError, ArithmeticError):
            raise sqlite3.DatabaseError("parts of it make no sense") from None
        if not hmac.compare_digest(self._sealed, self._own_seal()):
            raise sqlite3.DatabaseError("what was spent does not match its seal")
        self.wall = clock()
        if self.wall > self._clock:
            self._clock = math.ceil(self.wall / _GRAIN) * _GRAIN
            self._write("clock", self._clock)
        self.now = self._clock
        self.seal()

    @property
    def consent(self) -> str:
        """What the person said, see `consent`."""
        return self._consent

    @consent.setter
    def consent(self, said: str) -> None:
        self._consent = said
        self._write("consent", said)

    def spent(self, campaign: str | None = None) -> Fraction:
        """What a campaign has cost so far; without a name, what all of them have."""
        return sum((epsilon for epsilon, _ in self._entries(campaign).values()), Fraction(0))

    def answers(self, campaign: str) -> int:
        """How many answers a campaign has been given."""
        return sum(answers for _, answers in self._entries(campaign).values())

    def price_of_rounds(self, campaign: str) -> dict[int, Fraction]:
        """What one answer to each round cost, on average."""
        return {number: paid / answers for (_, number), (paid, answers) in self._entries(campaign).items()}

    def debit(self, campaign: str, epsilon: Fraction, round: int = 1) -> None:
        """Book one more answer."""
        paid, answers = self._spent.get((campaign, round), (Fraction(0), 0))
        self._spent[campaign, round] = entry = paid + epsilon, answers + 1
        self.connection.execute(
            "insert or replace into spent values (?, ?, ?, ?)", (campaign, round, str(entry[0]), entry[1])
        )

    def seal(self) -> None:
        """Make what was written believable; writes nothing where nothing has changed."""
        seal = self._own_seal()
        if seal != self._sealed:
            self._write("seal", seal)
            self._sealed = seal

    def _write(self, name: str, value: object) -> None:
        self.connection.execute("insert or replace into fact values (?, ?)", (name, value))

    def _entries(self, campaign: str | None) -> _Spent:
        return {key: entry for key, entry in self._spent.items() if campaign in (None, key[0])}

    def _own_seal(self) -> bytes:
        return _seal(self.secret, self._clock, self._consent, self._spent)


class Ledger:
    """The file. It is opened for each transaction and closed after it, so a fork shares nothing.

    >>> import tempfile
    >>> ledger = Ledger(Path(tempfile.mkdtemp()) / "device.db")
    >>> with ledger.transaction() as account:
    ...     account.debit("apps", Fraction(1))
    >>> with ledger.transaction() as account:
    ...     account.spent()
    Fraction(1, 1)
    """

    def __init__(self, path: str | os.PathLike[str], *, clock: Clock = time.time) -> None:
        self.path = Path(path).absolute()
        self._clock = clock
        self._was_checked = False

    @contextmanager
    def transaction(self) -> Iterator[Account]:
        """All of the block or nothing is on disk when it ends; but for the time, which is kept anyway."""
        try:
            if not os.path.lexists(self.path):
                _create(self.path)
            with closing(self._open()) as connection:
                connection.execute("begin immediate")
                yield from _inside(connection, self._clock)
        except (sqlite3.Error, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise LedgerError(
                f"the ledger {self.path.name} cannot be used ({why}); nothing is reported without it"
            ) from None

    def _open(self) -> sqlite3.Connection:
        connection = _connect(self.path)
        try:
            if connection.execute("pragma user_version").fetchone() != (_FORMAT,):
                raise sqlite3.DatabaseError(f"it is no ledger of format {_FORMAT}")
            if not self._was_checked:
                (verdict,) = connection.execute("pragma quick_check(1)").fetchone()
                if verdict != "ok":
                    raise sqlite3.DatabaseError("it is damaged")
                self._was_checked = True
        except BaseException:
            connection.close()
            raise
        return connection


def _inside(connection: sqlite3.Connection, clock: Clock) -> Iterator[Account]:
    account = Account(connection, clock)
    connection.execute("savepoint answer")
    try:
        yield account
        account.seal()
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback to answer")
            connection.execute("commit")
        raise
    connection.execute("commit")


def _seal(secret: bytes, clock: float, consent: str, spent: _Spent) -> bytes:
    rows = [f"{name} {number} {paid} {answers}" for (name, number), (paid, answers) in sorted(spent.items())]
    return hmac.digest(secret, "\n".join([clock.hex(), consent, *rows]).encode(), hashlib.sha256)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=rw", uri=True, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
    )
    # EXTRA is FULL, and the directory too: a journal that comes back after a power cut would undo a debit.
    connection.execute("pragma synchronous = extra")
    connection.execute("pragma secure_delete = on")
    return connection


def _create(path: Path) -> None:
    """Make a complete ledger under another name, then give it its own; the first of two makers wins."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        with closing(_connect(draft)) as connection:
            connection.executescript(_SCHEMA)
            connection.execute("begin")
            secret = secrets.token_bytes(_SECRET_BYTES)
            seal = _seal(secret, 0.0, UNASKED, {})
            facts = [("secret", secret), ("clock", 0.0), ("consent", UNASKED), ("seal", seal)]
            connection.executemany("insert into fact values (?, ?)", facts)
            connection.execute("commit")
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        os.unlink(draft)
