"""Rounds while they run: how far each is, and how it ends - by hand, by count or by time."""

from __future__ import annotations

import json
import math

from keyveil.collector.commit import Grown
from keyveil.collector.core import NOBODY, Core
from keyveil.collector.messages import Progress, RoundClosed, RoundList, RoundView
from keyveil.collector.problems import Problem
from keyveil.collector.rounds import Known, open_number, told
from keyveil.collector.store import Writing
from keyveil.dashboard.precision import telling
from keyveil.errors import ProtocolError
from keyveil.numerics import two_sided_z
from keyveil.protocols import Round

_DAY = 86400.0


class Running:
    """The rounds of a collector's campaigns."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._forgotten: set[tuple[int, int]] = set()

    def list(self, id: str) -> RoundList:
        """How far each round is."""
        known = self._core.known(id)
        with self._core.store.read() as tx:
            rows = tx.rounds(known.no)
            tallies = [tx.tally(known.no, row.number) for row in rows]
        return RoundList(
            rounds=[
                RoundView(
                    number=row.number,
                    purpose=row.purpose,
                    reports=0 if tally is None else tally.n_reports,
                    opened_at=row.opened_at,
                    closes_at=row.closes_at,
                    closed_at=row.closed_at,
                    why=row.why,
                    reports_kept=row.dropped_at is None,
                )
                for row, tally in zip(rows, tallies, strict=True)
            ]
        )

    def progress(self, id: str) -> Progress:
        """How far a campaign is."""
        known = self._core.known(id)
        rounds = self.list(id).rounds
        with self._core.store.read() as tx:
            row = tx.campaign(id)
            opened = [(self._core.book.round(tx, known, one.number), one.reports) for one in rounds]
        assert row is not None
        return Progress(
            now=self._core.now(),
            name=known.campaign.name,
            label=row.label,
            mechanism=known.campaign.mechanism,
            state=self._core.state(known, row.finished_at),
            created_at=row.created_at,
            expires_at=known.ends if math.isfinite(known.ends) else None,
            close_at_count=known.terms.close_at_count,
            has_several_rounds=known.campaign.has_several_rounds,
            rounds=rounds,
            reports=sum(one.reports for one in rounds),
            statuses=self._core.metrics.of_campaign(id),
            telling=telling(known.campaign, opened),
            z=two_sided_z(),
        )

    def close(self, actor: str, id: str, number: int, *, why: str = "by hand") -> RoundClosed:
        """Close a round and open what follows, in one transaction; who comes second hears the same."""
        known = self._core.known(id)
        now = self._core.now()
        with self._core.store.write() as tx:
            row = tx.lock_round(known.no, number)
            if row is None:
                raise Problem("unknown-round")
            if row.closed_at is None:
                self._close(tx, known, number, why=why, now=now)
                tx.log(at=now, token=actor, act="round-closed", campaign=id, detail=f"round {number}, {why}")
            rows = {row.number: row for row in tx.rounds(known.no)}
            tally = tx.tally(known.no, number)
        closed, following = rows[number], rows.get(number + 1)
        assert closed.closed_at is not None
        return RoundClosed(
            round=number,
            reports=0 if tally is None else tally.n_reports,
            closed_at=closed.closed_at,
            why=closed.why,
            next_round=None if following is None else following.number,
            device_config=None if following is None else json.loads(following.told),
        )

    def _close(self, tx: Writing, known: Known, number: int, *, why: str, now: float) -> None:
        following: object = None
        if known.campaign.has_several_rounds:
            try:
                tally = self._core.book.tally(tx, known, number)
                following = known.protocol.next(self._core.book.round(tx, known, number), tally)
            except ProtocolError as error:
                raise Problem("round-empty", str(error)) from None
        tx.close_round(known.no, number, why=why, now=now)
        if isinstance(following, Round):
            after = known.terms.close_after
            tx.open_round(
                known.no,
                following.number,
                purpose=following.purpose,
                told=told(known.campaign, following),
                now=now,
                closes_at=None if after is None else now + after,
            )
        else:
            tx.finish_campaign(known.no, now)

    def grown(self, growth: Grown) -> None:
        """Close a round that has the reports it was waiting for; called by the writer after a commit."""
        known = self._core.book.find(growth.campaign)
        limit = None if known is None else known.terms.close_at_count
        if limit is not None and growth.n_reports >= limit:
            self._close_quietly(growth.campaign, growth.round, why="by count")

    def tick(self) -> None:
        """Close rounds whose time is over."""
        with self._core.store.read() as tx:
            due = tx.due_rounds(self._core.now())
        for campaign, number in due:
            self._close_quietly(campaign, number, why="by time")

    def tidy(self) -> None:
        """Forget what need not be kept, and close rounds whose count was reached when the store was away."""
        with self._core.store.read() as tx:
            campaigns = tx.campaign_ids()
        for campaign in campaigns:
            if campaign not in self._core.damaged:
                self._close_if_full(self._core.known(campaign))
                self._forget(campaign, self._core.now())

    def _close_if_full(self, known: Known) -> None:
        limit = known.terms.close_at_count
        if limit is None:
            return
        with self._core.store.read() as tx:
            number = open_number(tx.rounds(known.no))
            tally = None if number is None else tx.tally(known.no, number)
        if number is not None and tally is not None and tally.n_reports >= limit:
            self._close_quietly(known.id, number, why="by count")

    def _close_quietly(self, id: str, number: int, *, why: str) -> None:
        try:
            self.close(NOBODY, id, number, why=why)
        except Problem as problem:
            # An empty round whose successor needs reports stays open until it has some.
            if problem.code != "round-empty":
                raise

    def _forget(self, id: str, now: float) -> None:
        """Drop the reports of closed rounds if that was asked for, and ids beyond the replay window."""
        known = self._core.known(id)
        with self._core.store.read() as tx:
            rows = [row for row in tx.rounds(known.no) if row.closed_at is not None]
        for row in rows:
            if known.terms.drop_reports and row.dropped_at is None:
                with self._core.store.write() as tx:
                    tx.drop_reports(known.no, row.number, now)
                    tx.log(
                        at=now, token=NOBODY, act="reports-dropped", campaign=id, detail=f"round {row.number}"
                    )
            assert row.closed_at is not None
            forget_at = row.closed_at + known.terms.replay_days * _DAY
            if forget_at <= now and (known.no, row.number) not in self._forgotten:
                with self._core.store.write() as tx:
                    tx.drop_ids(known.no, row.number)
                self._forgotten.add((known.no, row.number))
