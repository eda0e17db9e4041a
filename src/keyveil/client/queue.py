"""Reports that wait for the collector, on disk, bounded; and when to try again.

When a report does not fit, the oldest make room and are counted as dropped. A report stays until the
collector has said what became of it; sending it twice is harmless, because it is counted by its id.

A campaign's reports go one way, directly or through a relay: whoever got one both ways would know its sender.
All waves of a series go the way of the first. It is written down before the first attempt. What a relay
carries is sealed once and kept so, here and beside the answer that it repeats: other bytes would be carried
twice.

After the n-th failure in a row the next attempt waits a uniform time below min(1 hour, 1 s * 2**n):
full jitter, so that a crowd of devices does not come back all at once. A collector that names a time
(Retry-After) gets it, up to a day.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from keyveil.client.ledger import Account
from keyveil.errors import TransportError
from keyveil.report import Envelope

DIRECTLY, THROUGH_RELAY = "direct", "relay"
_WORDS = {DIRECTLY: "to the collector directly", THROUGH_RELAY: "through a relay"}

_SIZE = "length(report) + coalesce(length(sealed), 0)"
_FIRST_WAIT, _LONGEST_WAIT, _LONGEST_ASKED = 1.0, 3600.0, 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a device keeps for later, and how much it sends at once."""

    reports: int = 1000
    bytes: int = 4 << 20
    batch_reports: int = 500
    batch_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What became of a campaign's reports."""

    waiting: int = 0
    sent: int = 0
    refused: int = 0
    dropped: int = 0
    failures: int = 0
    not_before: float = 0.0


class Waiting(NamedTuple):
    """A report that waits, and as it was sealed for a relay; None if it was not."""

    report: bytes
    sealed: bytes | None


class Queue:
    """The reports of one campaign that wait; the bounds are over all campaigns."""

    def __init__(self, account: Account, campaign: str, limits: Limits) -> None:
        self._account, self._campaign, self._limits = account, campaign, limits
        self._sql = account.connection.execute
        self._sql("insert or ignore into route (campaign) values (?)", (campaign,))

    def put(self, *reports: bytes) -> None:
        """Add reports, but for those that wait already; one that was sealed before waits as it was sealed."""
        for report in reports:
            said = Envelope.from_bytes(report)
            self._sql(
                "insert or ignore into outbox (campaign, report_id, report, sealed) values (?1, ?2, ?3, "
                "(select sealed from answer where campaign = ?1 and round = ?4 and report = ?3))",
                (self._campaign, said.report_id, report, said.round),
            )
        self._make_room()

    def batch(self) -> list[Waiting]:
        """The oldest reports, as many as may be sent at once."""
        rows = self._sql(
            "select report, sealed from outbox where campaign = ? order by place limit ?",
            (self._campaign, self._limits.batch_reports),
        )
        chosen: list[Waiting] = []
        room = self._limits.batch_bytes
        for row in rows:
            one = Waiting(*row)
            room -= len(one.sealed or one.report)
            if room < 0 and chosen:
                break
            chosen.append(one)
        return chosen

    @property
    def way(self) -> str | None:
        """The way of the campaign's reports, or its series'; None before the first attempt to send one."""
        for campaign in dict.fromkeys((self._campaign, *self._account.campaigns_beside(self._campaign))):
            row = self._sql("select way from route where campaign = ?", (campaign,)).fetchone()
            way: str | None = None if row is None else row[0]
            if way not in (None, *_WORDS):
                raise sqlite3.DatabaseError("parts of it make no sense")
            if way is not None:
                return way
        return None

    def check_way(self, way: str) -> None:
        """Refuse another way than the one that was taken before."""
        taken = self.way
        if taken is not None and taken != way:
            raise TransportError(
                f"reports of this campaign went {_WORDS[taken]} before and do not go {_WORDS[way]} now; a "
                "report that comes both ways shows who sent it",
                code="other-route",
            )

    def take_way(self, way: str) -> None:
        """From now on the campaign's reports go this way, or a refusal; committed before any is sent."""
        self.check_way(way)
        self._sql("update route set way = ? where campaign = ?", (way, self._campaign))

    def keep_sealed(self, batch: Sequence[Waiting]) -> list[Waiting]:
        """Keep how reports were sealed, each the first time; those that wait still, as they were then."""
        kept = []
        for report, sealed in batch:
            said = Envelope.from_bytes(report)
            self._sql(
                "update outbox set sealed = ? where report_id = ? and sealed is null",
                (sealed, said.report_id),
            )
            found = self._sql("select sealed from outbox where report_id = ?", (said.report_id,)).fetchone()
            if found is not None:
                kept.append(Waiting(report, bytes(found[0])))
                self._sql(
                    "update answer set sealed = ? where campaign = ? and round = ? and report = ?",
                    (kept[-1].sealed, self._campaign, said.round, report),
                )
        return kept

    def forget_sealed(self, batch: Iterable[Waiting]) -> None:
        """Forget how reports were sealed, where they were not sealed again since: nobody opens them so."""
        for report, sealed in batch:
            said = Envelope.from_bytes(report)
            self._sql(
                "update outbox set sealed = null where report_id = ? and sealed = ?",
                (said.report_id, sealed),
            )
            self._sql(
                "update answer set sealed = null "
                "where campaign = ? and round = ? and report = ? and sealed = ?",
                (self._campaign, said.round, report, sealed),
            )

    def settle(self, statuses: Iterable[tuple[bytes, bool]], why: str = "") -> None:
        """Take out what the collector has judged: each report, and whether it counts; why some do not."""
        for report, counts in statuses:
            gone = self._sql(
                "delete from outbox where report_id = ?", (Envelope.from_bytes(report).report_id,)
            )
            self._count("sent" if counts else "refused", gone.rowcount)
        if why:
            self._account.note_failure(self._campaign, "refused", why)
        self.try_at_once()

    def try_at_once(self) -> None:
        """Forget that attempts failed: the next one may be made now."""
        self._sql("update route set failures = 0, not_before = 0 where campaign = ?", (self._campaign,))

    def back_off(self, failure: TransportError) -> float:
        """Note a failure; how many seconds to wait, which the collector may have named."""
        self._account.note_failure(self._campaign, str(failure.code), str(failure))
        asked = failure.retry_after
        failures, _ = self._attempts()
        ceiling = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(failures, 32))
        # Imported where an attempt has failed: a device that starts does not wait for it.
        from random import SystemRandom

        jitter = SystemRandom().uniform(0.0, ceiling)
        wait = jitter if asked is None else min(max(asked, 0.0), _LONGEST_ASKED)
        self._sql(
            "update route set failures = failures + 1, not_before = ? where campaign = ?",
            (self._account.wall + wait, self._campaign),
        )
        return wait

    def wait(self) -> float:
        """Seconds until the next attempt may be made."""
        left = self._attempts()[1] - self._account.wall
        # Nobody is made to wait longer than a day: the clock was set back since.
        return left if 0.0 < left <= _LONGEST_ASKED else 0.0

    def _attempts(self) -> tuple[int, float]:
        """Failures in a row, and when the next attempt may be made; what waits is not counted."""
        row = self._sql("select failures, not_before from route where campaign = ?", (self._campaign,))
        failures, not_before = row.fetchone()
        return failures, not_before

    def traffic(self) -> Traffic:
        """The counts."""
        sent, refused, dropped, failures, not_before = self._sql(
            "select sent, refused, dropped, failures, not_before from route where campaign = ?",
            (self._campaign,),
        ).fetchone()
        (waiting,) = self._sql("select count(*) from outbox where campaign = ?", (self._campaign,)).fetchone()
        return Traffic(
            waiting=waiting, sent=sent, refused=refused, dropped=dropped, failures=failures,
            not_before=not_before,
        )  # fmt: skip

    def _make_room(self) -> None:
        count, size = self._sql(f"select count(*), coalesce(sum({_SIZE}), 0) from outbox").fetchone()  # noqa: S608
        while count > self._limits.reports or size > self._limits.bytes:
            place, campaign, length = self._sql(
                f"select place, campaign, {_SIZE} from outbox order by place limit 1"  # noqa: S608
            ).fetchone()
            self._sql("delete from outbox where place = ?", (place,))
            self._sql("update route set dropped = dropped + 1 where campaign = ?", (campaign,))
            count, size = count - 1, size - length

    def _count(self, column: str, by: int) -> None:
        self._sql(
            f"update route set {column} = {column} + ? where campaign = ?",  # noqa: S608
            (by, self._campaign),
        )


def waiting_among(account: Account, campaigns: Iterable[str]) -> list[str]:
    """Those of some campaigns of which reports wait, the oldest report first."""
    rows = account.connection.execute("select campaign from outbox group by campaign order by min(place)")
    wanted = set(campaigns)
    return [str(campaign) for (campaign,) in rows if campaign in wanted]


def forget_reports(account: Account) -> None:
    """Wipe what waits, whatever the campaign."""
    account.connection.execute("delete from outbox")
