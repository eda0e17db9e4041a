"""Who was asked, and the reports that wait: the memory of `keyveil send`, one SQLite file.

It is a ledger (`client.ledger`), whose queue holds the reports, with one table more:

    asked    a campaign, a round and a person: a report was made for this person, and queued with this row

A person is a keyed hash of a name, so the file tells nobody who was asked; and nothing links a person to a
report, neither a column nor an order. Whoever was asked is not asked again: the answer is in the queue, with
its id, or the collector has settled it.

Of a series every person answers the waves that follow from the spool's secret and the person's name, as a
device's follow from its own. A wave is the campaign that it was first asked as.
"""

from __future__ import annotations

import hmac
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from keyveil.client import Limits
from keyveil.client.ledger import Account, Ledger, drawn_from
from keyveil.client.queue import Queue, Traffic
from keyveil.client.waves import Wave

ENDLESS = Limits(reports=sys.maxsize, bytes=sys.maxsize)
_PERSON_BYTES = 16
_TABLE = """create table if not exists asked (campaign text, round integer, person blob,
                    primary key (campaign, round, person)) without rowid"""


class Spool:
    """What was asked of whom in one round of a campaign, or of a wave.

    >>> import tempfile
    >>> from keyveil import Campaign
    >>> from keyveil.client import Reporter
    >>> campaign = Campaign(name="apps", epsilon=1.0, keys=("maps", "mail"), value_range=(0, 60),
    ...                     pairs_per_user=2, mechanism="pckv-ue")
    >>> spool = Spool(Path(tempfile.mkdtemp()) / "spool", campaign.id, 1)
    >>> report = Reporter(campaign).report({})
    >>> spool.put([("ann", report)]), spool.put([("ann", report)]), spool.are_new(["ann", "bob"])
    (1, 0, [False, True])
    """

    def __init__(self, path: Path, campaign: str, round: int, wave: Wave | None = None) -> None:
        self._ledger, self._campaign, self._round, self._wave = Ledger(path), campaign, round, wave

    def are_asked(self, people: Sequence[str]) -> list[bool]:
        """Whether the wave is one of those that each of these answers; it is pinned here, or refused."""
        if self._wave is None:
            return [True] * len(people)
        wave = self._wave
        with self._ledger.transaction() as account:
            wave.check_time(account)
            wave.check_campaign(account)
            places = (drawn_from(account.secret, f"panel {wave.id} {name}") for name in people)
            return [wave.number in wave.series.panel(place) for place in places]

    def are_new(self, people: Sequence[str]) -> list[bool]:
        """Whether each of these was never asked."""
        with self._ledger.transaction() as account:
            account.connection.execute(_TABLE)
            asked = {
                bytes(person)
                for (person,) in account.connection.execute(
                    "select person from asked where campaign = ? and round = ?", (self._campaign, self._round)
                )
            }
            return [_person(account, name) not in asked for name in people]

    def put(self, answers: Iterable[tuple[str, bytes]]) -> int:
        """Queue the reports of those who were never asked, and that they were; how many those are."""
        with self._ledger.transaction() as account:
            account.connection.execute(_TABLE)
            new = [report for name, report in answers if self._is_first(account, name)]
            if self._wave is not None:
                self._wave.check_campaign(account)
                self._wave.join(account)
            self._queue(account).put(*new)
            return len(new)

    def traffic(self) -> Traffic:
        """What became of the campaign's reports so far."""
        with self._ledger.transaction() as account:
            return self._queue(account).traffic()

    def why(self) -> str:
        """The last words of the collector about what it did not take."""
        with self._ledger.transaction() as account:
            failure = account.last_failures().get(self._campaign)
            return "nothing" if failure is None else failure.words

    def try_at_once(self) -> None:
        """Let the next run begin without a wait: what was refused is mended by people, not by time."""
        with self._ledger.transaction() as account:
            self._queue(account).try_at_once()

    def _is_first(self, account: Account, name: str) -> bool:
        row = self._campaign, self._round, _person(account, name)
        return account.connection.execute("insert or ignore into asked values (?, ?, ?)", row).rowcount == 1

    def _queue(self, account: Account) -> Queue:
        return Queue(account, self._campaign, ENDLESS)


def _person(account: Account, name: str) -> bytes:
    return hmac.digest(account.secret, f"person {name}".encode(), "sha256")[:_PERSON_BYTES]
