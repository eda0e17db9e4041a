"""From a ledger of an older format to one of today's, in one transaction.

Format 1 kept an answer for every record that a round was asked with, and did not keep what the round had
said. What was spent stays spent, as one answer a round; its latest bytes are what is repeated from now on,
whatever description comes with the round. Format 2 knew no relay: what was sent went to the collector, and a
campaign of which anything was keeps to that way. Format 3 knew no series, and not when an answer was given:
those that there are count as given when the ledger was brought over.
"""

from __future__ import annotations

import hmac
import math
import sqlite3
from fractions import Fraction

from keyveil.client.ledger import FORMAT, OLD_FORMATS, SERIES, rounded_time, seal_of
from keyveil.client.queue import DIRECTLY
from keyveil.numerics import PRICE_BITS

_FIRST, _SECOND, _THIRD = OLD_FORMATS
_ANSWERS = """create table answer (campaign text, round integer, pin text, units text not null, report blob,
                     primary key (campaign, round)) without rowid"""


def upgrade(connection: sqlite3.Connection, wall: float) -> None:
    """Bring a ledger over, format by format; one whose seal does not match is refused as ever."""
    connection.execute("begin immediate")
    try:
        (found,) = connection.execute("pragma user_version").fetchone()
        if found == _FIRST:
            _keep_one_answer_a_round(connection)
        if found in (_FIRST, _SECOND):
            _learn_ways(connection)
        if found in OLD_FORMATS:
            _learn_times(connection, wall)
            connection.execute(f"pragma user_version = {FORMAT}")
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def _learn_ways(connection: sqlite3.Connection) -> None:
    """Room for what is sealed, and for the way that a campaign's reports went."""
    connection.execute("alter table answer add column sealed blob")
    connection.execute("alter table outbox add column sealed blob")
    connection.execute("alter table route add column way text")
    connection.execute("update route set way = ? where failures + sent + refused > 0", (DIRECTLY,))


def _learn_times(connection: sqlite3.Connection, wall: float) -> None:
    """Room for series, and for when answers were given: by now, all of them."""
    try:
        facts = dict(connection.execute("select name, value from fact"))
        secret, clock, consent = bytes(facts["secret"]), float(facts["clock"]), str(facts["consent"])
        rows = [
            f"{campaign} {number} {pin} {units}"
            for campaign, number, pin, units in connection.execute(
                "select campaign, round, pin, units from answer order by campaign, round"
            )
        ]
        if not hmac.compare_digest(bytes(facts["seal"]), seal_of(secret, clock, consent, rows)):
            raise sqlite3.DatabaseError("what was spent does not match its seal")
    except (KeyError, ValueError, TypeError):
        raise sqlite3.DatabaseError("parts of it make no sense") from None
    given = math.ceil(max(clock, rounded_time(wall)))
    connection.execute(f"alter table answer add column given integer not null default {given}")
    for statement in SERIES.split(";"):
        connection.execute(statement)
    _seal_anew(connection, seal_of(secret, clock, consent, [f"{row} {given}" for row in rows]))


def _seal_anew(connection: sqlite3.Connection, seal: bytes) -> None:
    connection.execute("insert or replace into fact values ('seal', ?)", (seal,))


def _keep_one_answer_a_round(connection: sqlite3.Connection) -> None:
    try:
        facts = dict(connection.execute("select name, value from fact"))
        secret, clock, consent = bytes(facts["secret"]), float(facts["clock"]), str(facts["consent"])
        spent = {
            (str(campaign), int(number)): (str(epsilon), int(times))
            for campaign, number, epsilon, times in connection.execute("select * from spent")
        }
        # The seal first, over the prices as they are written: one that was edited may take for ever to read.
        rows = [f"{of} {number} {paid} {times}" for (of, number), (paid, times) in sorted(spent.items())]
        if not hmac.compare_digest(bytes(facts["seal"]), seal_of(secret, clock, consent, rows)):
            raise sqlite3.DatabaseError("what was spent does not match its seal")
        prices = {of: _units(paid) for of, (paid, _) in sorted(spent.items())}
    except (KeyError, ValueError, TypeError, ArithmeticError):
        raise sqlite3.DatabaseError("parts of it make no sense") from None
    connection.execute(_ANSWERS)
    for (campaign, number), units in prices.items():
        connection.execute(
            "insert into answer (campaign, round, units, report) values (?1, ?2, ?3, "
            "(select report from memo where campaign = ?1 and round = ?2 order by place desc limit 1))",
            (campaign, number, str(units)),
        )
    connection.execute("drop table spent")
    connection.execute("drop table memo")
    kept = [f"{campaign} {number} None {units}" for (campaign, number), units in prices.items()]
    _seal_anew(connection, seal_of(secret, clock, consent, kept))


def _units(epsilon: str) -> int:
    """A price of format 1, a fraction in text, in units of 2**-192, rounded up."""
    paid = Fraction(epsilon)
    if paid < 0:
        raise sqlite3.DatabaseError("an answer has earned what it should have cost")
    return -(-(paid.numerator << PRICE_BITS) // paid.denominator)
