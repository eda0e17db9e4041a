"""The same question about the same data gets the same noised answer, for as long as it is asked.

Fresh noise averages out: thirty independent answers at epsilon 1 are right 99.6 % of the time. So an
answer is drawn once and kept, under a keyed hash of the record; asking again repeats the report byte
for byte, its id included, and costs nothing. The record itself is not kept. The key is the device's
secret and never leaves the ledger.

A record that has changed makes a new answer, and a new debit. Once the caps leave no room for one,
the latest answer is repeated, whatever the record is by then: that is what an unchanged device does,
while falling silent would tell that something changed.
"""

from __future__ import annotations

import hashlib
import hmac

from keyveil.client.ledger import Account
from keyveil.domain import Record


class Memo:
    """The kept answers to one round of one campaign."""

    def __init__(self, account: Account, campaign: str, round: int) -> None:
        self._account = account
        self._question = campaign, round

    def find(self, record: Record) -> bytes | None:
        """The report that was made of this record."""
        return self._first("and record = ?", self._mark(record))

    def latest(self) -> bytes | None:
        """The report that was made last."""
        return self._first("order by place desc limit 1")

    def keep(self, record: Record, report: bytes) -> None:
        """Remember a report."""
        self._account.connection.execute(
            "insert into memo values (?, ?, ?, ?, (select coalesce(max(place), 0) + 1 from memo))",
            (*self._question, self._mark(record), report),
        )

    def _first(self, condition: str, *values: object) -> bytes | None:
        row = self._account.connection.execute(
            f"select report from memo where campaign = ? and round = ? {condition}",  # noqa: S608
            (*self._question, *values),
        ).fetchone()
        return None if row is None else bytes(row[0])

    def _mark(self, record: Record) -> bytes:
        """A keyed hash of the question and the record."""
        pairs = (f"{pair.code} {pair.level}" for pair in record.pairs)
        said = "\n".join([*map(str, self._question), *pairs])
        return hmac.digest(self._account.secret, said.encode(), hashlib.sha256)


def forget_answers(account: Account) -> None:
    """Wipe every kept answer; what they cost stays spent."""
    account.connection.execute("delete from memo")
