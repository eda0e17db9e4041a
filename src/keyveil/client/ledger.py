"""What this device has answered and spent, on disk: one SQLite file, and every change one transaction.

    fact     the device's secret, the latest time ever seen, consent, the seal; a campaign's last failure
    answer   a round that was answered: its pin, what it cost, when it was given, the bytes that were said,
             and as they were sealed for a relay, if they were
    series   what a series costs in all, booked with the first answer to one of its waves
    wave     a wave that was answered, and the campaign that it was
    outbox   reports that wait, and as they were sealed (see `queue`)
    route    how sending goes, a row a campaign: the way (directly or through a relay) once an attempt was
             made, failures in a row, when to try again, counts

A round of a campaign has one row in `answer`, made with its first answer and never changed: asked again, the
device repeats the bytes. Its cost and the report that it pays for are committed together, before anybody
sees the report. A process that is killed at any moment may have paid for a report that was never sent, never
the reverse.

A wave of a series is a campaign, and a series is one price: from its first answer on all that its waves may
ever cost counts as spent, and later answers add nothing. A wave has one campaign, that of its first answer.

What a ledger says is believed or refused, never repaired. The seal is a keyed hash over what was
answered, the time and the consent: a file that SQLite can read but that does not add up is refused, and
so is one that is empty, because a new ledger only ever appears complete. Whoever deletes the file
starts anew; that is the owner's right, and no server's.

The device's place among a campaign's groups, its panel in a series and the nonces with which it asks for ids
follow from its secret: they are random, and as old as the file.

Time only moves forwards: the ledger keeps the latest time it has seen, also of calls that were
refused, rounded up to a minute so that most calls write nothing. A clock set back brings no campaign
back to life, and no answer into another year: each keeps the time that it was given at.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from keyveil.errors import LedgerError

Clock = Callable[[], float]

# How long to wait for another process that holds the ledger. A host application must not hang.
_PATIENCE = 2.0
OLD_FORMATS, FORMAT = (1, 2, 3), 4
_GRAIN = 60.0
_SECRET_BYTES, NONCE_BYTES = 32, 16
UNASKED = "unasked"
_FAILURE = "failure"

SERIES = """
create table series (series text primary key, units text not null) without rowid;
create table wave (series text, number integer, campaign text not null, primary key (series, number))
                  without rowid;
"""
_SCHEMA = f"""
begin;
create table fact (name text primary key, value) without rowid;
create table answer (campaign text, round integer, pin text, units text not null, report blob, sealed blob,
                     given integer not null, primary key (campaign, round)) without rowid;
{SERIES}
create table outbox (place integer primary key, campaign text not null, report_id blob not null unique,
                     report blob not null, sealed blob);
create table route (campaign text primary key, failures integer not null default 0,
                    not_before real not null default 0, sent integer not null default 0,
                    refused integer not null default 0, dropped integer not null default 0,
                    way text) without rowid;
pragma user_version = {FORMAT};
commit;
"""


class AnsweredRound(NamedTuple):
    """A round that was answered.

    `pin` is the hash of its description, None for one that an older keyveil answered without it. `units` is
    the price in units of 2**-192. `report` is None once the person has wiped it.
    """

    pin: str | None
    units: int
    report: bytes | None


class _Paid(NamedTuple):
    """What a round was answered for: its pin, its price in units, and when, in seconds since 1970."""

    pin: str | None
    units: int
    given: int


class LastFailure(NamedTuple):
    """When sending failed last, the device's code for it, and in which words."""

    at: float
    code: str
    words: str


class Account:
    """The ledger inside one transaction."""

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        self.connection = connection
        try:
            facts = dict(connection.execute("select name, value from fact"))
            self.secret = bytes(facts["secret"])
            self._clock, self._consent = float(facts["clock"]), str(facts["consent"])
            self._answers = {
                (str(campaign), int(number)): _Paid(None if pin is None else str(pin), int(units), int(given))
                for campaign, number, pin, units, given in connection.execute(
                    "select campaign, round, pin, units, given from answer"
                )
            }
            self._prices = {
                str(series): int(units)
                for series, units in connection.execute("select series, units from series")
            }
            self._waves = {
                (str(series), int(number)): str(campaign)
                for series, number, campaign in connection.execute(
                    "select series, number, campaign from wave"
                )
            }
            self._sealed = bytes(facts["seal"])
        except (KeyError, ValueError, TypeError):
            raise sqlite3.DatabaseError("parts of it make no sense") from None
        if not hmac.compare_digest(self._sealed, self._own_seal()):
            raise sqlite3.DatabaseError("what was spent does not match its seal")
        paid = (*(answer.units for answer in self._answers.values()), *self._prices.values())
        if min(paid, default=0) < 0:
            raise sqlite3.DatabaseError("an answer has earned what it should have cost")
        self.wall = clock()
        if self.wall > self._clock:
            self._clock = rounded_time(self.wall)
            self._write("clock", self._clock)
        self.now = self._clock
        self.seal()

    @property
    def consent(self) -> str:
        """What the person said, see `permission`."""
        return self._consent

    @consent.setter
    def consent(self, said: str) -> None:
        self._consent = said
        self._write("consent", said)

    def place(self, campaign: str) -> Fraction:
        """Where the device stands among the groups of a campaign: random, and always the same."""
        return drawn_from(self.secret, f"place {campaign}")

    def place_in_series(self, series: str) -> Fraction:
        """What decides which waves of a series the device answers: random, and always the same."""
        return drawn_from(self.secret, f"panel {series}")

    def nonce(self, campaign: str, round: int) -> bytes:
        """What the device asks for an id with: random, stored before it is sent, always the same.

        It follows from the secret, as the place does, so it is as old as the ledger.
        """
        return nonce_of(self.secret, campaign, round)

    def spent(self, campaign: str | None = None) -> int:
        """What a campaign has cost so far, in units; without a name, what all of them have.

        A series of which a wave was answered has cost all that its waves may.
        """
        if campaign is not None:
            return sum(paid.units for (of, _), paid in self._answers.items() if of == campaign)
        waves = set(self._waves.values())
        alone = sum(paid.units for (of, _), paid in self._answers.items() if of not in waves)
        return alone + sum(self._prices.values())

    def spent_since(self, moment: float) -> int:
        """What answers cost that were given after a moment, in units."""
        return sum(paid.units for paid in self._answers.values() if paid.given > moment)

    def booked(self, series: str) -> int:
        """What a series has been booked for, in units; 0 before its first answer."""
        return self._prices.get(series, 0)

    @property
    def all_series(self) -> list[str]:
        """Every series of which a wave was answered."""
        return sorted(self._prices)

    def waves(self, series: str) -> dict[int, str]:
        """The waves of a series that were answered, and as which campaigns."""
        return {number: campaign for (of, number), campaign in self._waves.items() if of == series}

    def campaigns_beside(self, campaign: str) -> tuple[str, ...]:
        """The campaigns of the same series that were answered; itself alone where it is no wave of one."""
        of = next((series for (series, _), known in self._waves.items() if known == campaign), None)
        return (campaign,) if of is None else tuple(self.waves(of).values())

    def answers(self, campaign: str) -> int:
        """How many rounds of a campaign were answered."""
        return sum(of == campaign for of, _ in self._answers)

    def answer(self, campaign: str, round: int) -> AnsweredRound | None:
        """What a round was answered, if it was."""
        row = self.connection.execute(
            "select pin, units, report from answer where campaign = ? and round = ?", (campaign, round)
        ).fetchone()
        if row is None:
            return None
        pin, units, report = row
        return AnsweredRound(pin, int(units), None if report is None else bytes(report))

    def keep(self, campaign: str, round: int, answer: AnsweredRound) -> None:
        """Book a round's only answer."""
        given = math.ceil(self.now)
        self._answers[campaign, round] = _Paid(answer.pin, answer.units, given)
        self.connection.execute(
            "insert into answer (campaign, round, pin, units, given, report) values (?, ?, ?, ?, ?, ?)",
            (campaign, round, answer.pin, str(answer.units), given, answer.report),
        )

    def join(self, series: str, wave: int, campaign: str, units: int) -> None:
        """Book a series as a whole, if it is not, and that this wave of it is this campaign for good."""
        if series not in self._prices:
            self._prices[series] = units
            self.connection.execute("insert into series values (?, ?)", (series, str(units)))
        if (series, wave) not in self._waves:
            self._waves[series, wave] = campaign
            self.connection.execute("insert into wave values (?, ?, ?)", (series, wave, campaign))

    def wipe_answers(self) -> None:
        """Forget what was said; that it was said, and what it cost, stays."""
        self.connection.execute("update answer set report = null, sealed = null")

    def note_failure(self, campaign: str, code: str, words: str) -> None:
        """Keep why sending failed last, and when; nothing of it is about the record, and no seal is on it."""
        self._write(f"{_FAILURE} {campaign}", f"{self.wall:.0f} {code} {words}")

    def last_failures(self) -> dict[str, LastFailure]:
        """Why sending failed last, by campaign."""
        rows = self.connection.execute("select name, value from fact where name like ?", (f"{_FAILURE} %",))
        try:
            texts = {str(name).partition(" ")[2]: str(value).split(" ", 2) for name, value in rows}
            return {
                campaign: LastFailure(float(at), code, words) for campaign, (at, code, words) in texts.items()
            }
        except ValueError:
            raise sqlite3.DatabaseError("parts of it make no sense") from None

    def seal(self) -> None:
        """Make what was written believable; writes nothing where nothing has changed."""
        seal = self._own_seal()
        if seal != self._sealed:
            self._write("seal", seal)
            self._sealed = seal

    def _write(self, name: str, value: object) -> None:
        self.connection.execute("insert or replace into fact values (?, ?)", (name, value))

    def _own_seal(self) -> bytes:
        rows = [
            *(
                f"{of} {number} {paid.pin} {paid.units} {paid.given}"
                for (of, number), paid in sorted(self._answers.items())
            ),
            *(f"series {series} {units}" for series, units in sorted(self._prices.items())),
            *(f"wave {of} {number} {known}" for (of, number), known in sorted(self._waves.items())),
        ]
        return seal_of(self.secret, self._clock, self._consent, rows)


class Ledger:
    """The file. It is opened for each transaction and closed after it, so a fork shares nothing.

    >>> import tempfile
    >>> ledger = Ledger(Path(tempfile.mkdtemp()) / "device.db")
    >>> with ledger.transaction() as account:
    ...     account.keep("apps", 1, AnsweredRound(pin="ab", units=7, report=b"said"))
    >>> with ledger.transaction() as account:
    ...     account.spent(), account.answer("apps", 1).report
    (7, b'said')
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
                f"the ledger {self.path.name} cannot be used ({why}); nothing is reported without it",
                code=_code(error),
            ) from None

    @contextmanager
    def reading(self) -> Iterator[Account]:
        """The ledger as it is, to look at: nothing is made, brought over or written, not even the time."""
        try:
            with closing(
                sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True, timeout=_PATIENCE)
            ) as found:
                if found.execute("pragma user_version").fetchone() != (FORMAT,):
                    raise sqlite3.DatabaseError(f"it is no ledger of format {FORMAT}")
                yield Account(found, lambda: 0.0)
        except (sqlite3.Error, OSError) as error:
            raise LedgerError(f"the ledger {self.path} cannot be read ({error})", code=_code(error)) from None

    def _open(self) -> sqlite3.Connection:
        connection = _connect(self.path)
        try:
            (found,) = connection.execute("pragma user_version").fetchone()
            if found not in (*OLD_FORMATS, FORMAT):
                raise sqlite3.DatabaseError(f"it is no ledger of format {FORMAT}")
            if not self._was_checked:
                (verdict,) = connection.execute("pragma quick_check(1)").fetchone()
                if verdict != "ok":
                    raise sqlite3.DatabaseError("it is damaged")
                self._was_checked = True
            if found in OLD_FORMATS:
                from keyveil.client.upgrade import upgrade

                upgrade(connection, self._clock())
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


def rounded_time(seconds: float) -> float:
    """A time as a ledger keeps it: up to a whole minute."""
    return math.ceil(seconds / _GRAIN) * _GRAIN


def seal_of(secret: bytes, clock: float, consent: str, rows: list[str]) -> bytes:
    """The seal over the latest time, the consent and what was spent, a line each."""
    return hmac.digest(secret, "\n".join([clock.hex(), consent, *rows]).encode(), hashlib.sha256)


def drawn_from(secret: bytes, label: str) -> Fraction:
    """A number in [0, 1) that nobody without the secret can guess."""
    drawn = hmac.digest(secret, label.encode(), "sha256")
    return Fraction(int.from_bytes(drawn, "big"), 1 << 8 * len(drawn))


def nonce_of(secret: bytes, campaign: str, round: int) -> bytes:
    """What a device with this secret asks for the id of its answer to a round with.

    >>> nonce_of(bytes(32), "ab", 1).hex()
    '3c49457f955a36d10d7efd1c6885889f'
    """
    return hmac.digest(secret, f"nonce {campaign} {round}".encode(), "sha256")[:NONCE_BYTES]


def _code(error: Exception) -> str:
    """Which of a ledger's troubles it is."""
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return "ledger-busy"
    writing = ("SQLITE_FULL", "SQLITE_READONLY", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_PERM")
    return "ledger-unwritable" if isinstance(error, OSError) or name.startswith(writing) else "ledger-corrupt"


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=rw", uri=True, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
    )
    # EXTRA is FULL, and the directory too: a journal that comes back after a power cut would undo a debit.
    connection.execute("pragma synchronous = extra")
    connection.execute("pragma secure_delete = on")
    return connection


def new_secret() -> bytes:
    """What a device's place, its nonces and its seal follow from; the operating system's."""
    return os.urandom(_SECRET_BYTES)


def _create(path: Path) -> None:
    """Make a complete ledger under another name, then give it its own; the first of two makers wins."""
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        with closing(_connect(draft)) as connection:
            connection.executescript(_SCHEMA)
            connection.execute("begin")
            secret = new_secret()
            seal = seal_of(secret, 0.0, UNASKED, [])
            facts = [("secret", secret), ("clock", 0.0), ("consent", UNASKED), ("seal", seal)]
            connection.executemany("insert into fact values (?, ?)", facts)
            connection.execute("commit")
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        os.unlink(draft)
