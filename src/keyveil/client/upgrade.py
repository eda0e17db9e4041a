"""From a ledger of format 1 to one of format 2, in one transaction.

Format 1 kept an answer for every record that a round was asked with, and did not keep what the round had
said. What was spent stays spent, as one answer a round; its latest bytes are what is repeated from now on,
whatever description comes with the round.
"""

from __future__ import annotations

import hmac
import sqlite3
from fractions import Fraction

from keyveil.client.seal import seal_of
from keyveil.numerics import PRICE_BITS

FROM = 1


def upgrade(connection: sqlite3.Connection, answers: str, to: int) -> None:
    """Bring a ledger over; one whose seal does not match is refused as ever."""
    connection.execute("begin immediate")
    try:
        if connection.execute("pragma user_version").fetchone() == (FROM,):
            _convert(connection, answers)
            connection.execute(f"pragma user_version = {to}")
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def _convert(connection: sqlite3.Connection, answers: str) -> None:
    try:
        facts = dict(connection.execute("select name, value from fact"))
        secret, clock, consent = bytes(facts["secret"]), float(facts["clock"]), str(facts["consent"])
        spent = {
            (str(campaign), int(number)): (Fraction(epsilon), int(times))
            for campaign, number, epsilon, times in connection.execute("select * from spent")
        }
    except (KeyError, ValueError, TypeError, ArithmeticError):
        raise sqlite3.DatabaseError("parts of it make no sense") from None
    rows = [f"{of} {number} {paid} {times}" for (of, number), (paid, times) in sorted(spent.items())]
    if not hmac.compare_digest(bytes(facts["seal"]), seal_of(secret, clock, consent, rows)):
        raise sqlite3.DatabaseError("what was spent does not match its seal")
    connection.execute(answers)
    kept = []
    for (campaign, number), (paid, _) in sorted(spent.items()):
        units = -(-(paid.numerator << PRICE_BITS) // paid.denominator)
        connection.execute(
            "insert into answer values (?1, ?2, null, ?3, (select report from memo "
            "where campaign = ?1 and round = ?2 order by place desc limit 1))",
            (campaign, number, str(units)),
        )
        kept.append(f"{campaign} {number} None {units}")
    connection.execute("drop table spent")
    connection.execute("drop table memo")
    seal = seal_of(secret, clock, consent, kept)
    connection.execute("insert or replace into fact values ('seal', ?)", (seal,))
