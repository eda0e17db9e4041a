"""Rounds while they run: how far each is, and how it ends - by hand, by count or by time."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from keyveil.collector.campaigns.access import NOBODY
from keyveil.collector.campaigns.cache import RoundGrowth, StoredCampaign, open_number
from keyveil.collector.campaigns.context import Context
from keyveil.collector.campaigns.messages import Progress, RoundClosed, RoundList, RoundView
from keyveil.collector.campaigns.outcomes import what_follows
from keyveil.collector.problems import Problem
from keyveil.collector.store import Writing
from keyveil.collector.store.base import OutcomeRow
from keyveil.collector.store.outcomes import Finished, pack_outcome
from keyveil.dashboard.precision import telling
from keyveil.errors import KeyveilError, ProtocolError
from keyveil.numerics import two_sided_z
from keyveil.rounds import Round

_DAY = 86400.0
# Seconds until a campaign that failed to go on is tried again.
_RETRY = 60.0


class Running:
    """The rounds of a collector's campaigns."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._forgotten: set[tuple[int, int]] = set()
        self._going_on: dict[int, threading.Lock] = {}
        """Held while a campaign's next round is worked out: a second closer waits for the first."""
        self._retry_at: dict[str, float] = {}
        """When a campaign that failed is tried again."""

    def list(self, id: str) -> RoundList:
        """How far each round is."""
        known = self._context.known(id)
        with self._context.store.read() as tx:
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
        known = self._context.known(id)
        rounds = self.list(id).rounds
        with self._context.store.read() as tx:
            row = tx.campaign(id)
            opened = [(self._context.cache.round(tx, known, one.number), one.reports) for one in rounds]
        assert row is not None
        return Progress(
            now=self._context.now(),
            name=known.campaign.name,
            label=row.label,
            mechanism=known.campaign.mechanism,
            state=self._context.state(known, row.finished_at),
            created_at=row.created_at,
            expires_at=known.ends if math.isfinite(known.ends) else None,
            close_at_count=known.terms.close_at_count,
            has_several_rounds=known.campaign.has_several_rounds,
            rounds=rounds,
            reports=sum(one.reports for one in rounds),
            statuses=self._context.metrics.of_campaign(id),
            refused_at=self._context.metrics.refused_at(id),
            telling=telling(known.campaign, opened),
            z=two_sided_z(),
        )

    # --- how a round ends ---

    def close(self, actor: str, id: str, number: int, *, why: str = "by hand") -> RoundClosed:
        """Close a round and open what follows; who comes second hears the same.

        One transaction stops the intake, a second one opens the next round or finishes the campaign. What
        follows is worked out between them. Whoever finds a campaign in that state goes on with it.
        """
        known = self._context.known(id)
        self._check_closable(known, number)
        self.stop_intake(actor, known, number, why=why)
        self.go_on(known)
        with self._context.store.read() as tx:
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
        )

    def _check_closable(self, known: StoredCampaign, number: int) -> None:
        """Refuse to close what could not be followed: another version's round, or one that lacks answers."""
        with self._context.store.read() as tx:
            rows = [row for row in tx.rounds(known.no) if row.number <= number]
            if not rows or rows[-1].number != number:
                raise Problem("unknown-round")
            if rows[-1].closed_at is not None:
                return
            history = self._context.cache.history(tx, known, rows)
        asked, tally = history[-1]
        try:
            known.campaign.protocol(asked.protocol)
        except ProtocolError as error:
            raise Problem("other-version", str(error)) from None
        if tally.n_reports or not known.campaign.has_several_rounds:
            return
        try:
            what_follows(known.campaign, history)
        except ProtocolError as error:
            raise Problem("round-empty", str(error)) from None

    def stop_intake(self, actor: str, known: StoredCampaign, number: int, *, why: str) -> None:
        """Take no more reports to a round."""
        now = self._context.now()
        with self._context.store.write() as tx:
            row = tx.lock_round(known.no, number)
            if row is not None and row.closed_at is None:
                tx.close_round(known.no, number, why=why, now=now)
                detail = f"round {number}, {why}"
                tx.log(at=now, token=actor, act="round-closed", campaign=known.id, detail=detail)

    def finish(self, known: StoredCampaign, *, why: str) -> None:
        """End a campaign, whatever its protocol would still ask: a wave does not go on into the next."""
        while True:
            with self._context.store.read() as tx:
                row, rows = tx.campaign(known.id), tx.rounds(known.no)
            assert row is not None
            if row.finished_at is not None:
                return
            self.stop_intake(NOBODY, known, rows[-1].number, why=why)
            self.go_on(known, is_last=True)

    def go_on(self, known: StoredCampaign, *, is_last: bool = False) -> None:
        """Open the round that follows the last, or finish, unless somebody did so meanwhile.

        Nothing follows in a wave whose time is over, nor where the last round is this one.
        """
        is_last = is_last or self._is_over(known)
        with self._going_on.setdefault(known.no, threading.Lock()):
            with self._context.store.read() as tx:
                row, rows = tx.campaign(known.id), tx.rounds(known.no)
                assert row is not None
                if row.finished_at is not None or rows[-1].closed_at is None:
                    return
                history = self._context.cache.history(tx, known, rows)
            try:
                follows = what_follows(known.campaign, history)
            except ProtocolError:
                if not is_last:
                    raise
                follows = None
            stored = pack_outcome(follows) if isinstance(follows, Finished) else follows
            if is_last and isinstance(stored, Round):
                stored = None
            with self._context.store.write() as tx:
                tx.lock_round(known.no, rows[-1].number)
                if len(tx.rounds(known.no)) == len(rows):
                    self._store(tx, known, stored)

    def _store(self, tx: Writing, known: StoredCampaign, follows: Round | OutcomeRow | None) -> None:
        now = self._context.now()
        if isinstance(follows, Round):
            tx.open_round(known.no, follows, now=now, closes_at=end_of_round(known, follows.number, now))
            return
        if follows is not None:
            tx.keep_outcome(known.no, follows)
        tx.finish_campaign(known.no, now)

    def _is_over(self, known: StoredCampaign) -> bool:
        """Whether it is a wave of which nothing is taken any more."""
        return known.series is not None and self._context.clock.earliest() >= known.ends

    # --- what is done without being asked ---

    def filled(self, growth: RoundGrowth) -> bool:
        """Stop the intake of a round that has the reports it was waiting for; whether it is known here."""
        known = self._context.cache.find(growth.campaign)
        if known is None:
            return False
        self.stop_intake(NOBODY, known, growth.round, why="by count")
        return True

    def tick(self) -> None:
        """Close rounds whose time is over, and go on where somebody was interrupted."""
        with self._context.store.read() as tx:
            due = tx.due_rounds(self._context.clock.earliest())
        for campaign, number in due:
            if self._is_its_turn(campaign):
                with self._guarded(campaign):
                    self._close_quietly(campaign, number, "by time")
        self.resume()

    def resume(self) -> None:
        """Go on with campaigns between two rounds: whoever closed the last one did not come to it."""
        with self._context.store.read() as tx:
            waiting = tx.between_rounds()
        for campaign in waiting:
            if self._is_its_turn(campaign):
                with self._guarded(campaign):
                    self.go_on(self._context.known(campaign))

    def tidy(self) -> None:
        """Forget what need not be kept, and close rounds whose count was reached when the store was away."""
        with self._context.store.read() as tx:
            campaigns = tx.campaign_ids()
        for campaign in campaigns:
            if campaign not in self._context.damaged:
                with self._guarded(campaign):
                    self._close_if_full(self._context.known(campaign))
                    self._forget(campaign, self._context.clock.earliest())

    def _is_its_turn(self, campaign: str) -> bool:
        return self._context.now() >= self._retry_at.get(campaign, 0.0)

    @contextmanager
    def _guarded(self, campaign: str) -> Iterator[None]:
        """Work on one campaign: what fails is logged and tried again later, and stops no other campaign."""
        try:
            yield
        except Exception as error:
            self._retry_at[campaign] = self._context.now() + _RETRY
            said = str(error) if isinstance(error, KeyveilError) else type(error).__name__
            self._context.log.event("fault", where="round", campaign=campaign, why=said)

    def _close_if_full(self, known: StoredCampaign) -> None:
        limit = known.terms.close_at_count
        if limit is None:
            return
        with self._context.store.read() as tx:
            number = open_number(tx.rounds(known.no))
            tally = None if number is None else tx.tally(known.no, number)
        if number is not None and tally is not None and tally.n_reports >= limit:
            self._close_quietly(known.id, number, "by count")

    def _close_quietly(self, id: str, number: int, why: str) -> None:
        known = self._context.known(id)
        if self._is_over(known):
            self.finish(known, why=why)
            return
        try:
            self.close(NOBODY, id, number, why=why)
        except Problem as problem:
            # An empty round whose successor needs reports stays open until it has some.
            if problem.code != "round-empty":
                raise
            self._postpone(known, number)

    def _postpone(self, known: StoredCampaign, number: int) -> None:
        """An empty round of a wave gets a part of the days that are left; any other waits for reports."""
        now = self._context.now()
        closes_at = end_of_round(known, number, now)
        if known.series is not None and closes_at is not None:
            with self._context.store.write() as tx:
                tx.postpone_round(known.no, number, closes_at)

    def _forget(self, id: str, now: float) -> None:
        """Drop the reports of closed rounds if that was asked for, and ids beyond the replay window."""
        known = self._context.known(id)
        with self._context.store.read() as tx:
            rows = [row for row in tx.rounds(known.no) if row.closed_at is not None]
        for row in rows:
            if known.terms.drop_reports and row.dropped_at is None:
                with self._context.store.write() as tx:
                    tx.drop_reports(known.no, row.number, now)
                    tx.log(
                        at=now, token=NOBODY, act="reports-dropped", campaign=id, detail=f"round {row.number}"
                    )
            assert row.closed_at is not None
            forget_at = row.closed_at + known.terms.replay_days * _DAY
            if forget_at <= now and (known.no, row.number) not in self._forgotten:
                with self._context.store.write() as tx:
                    tx.drop_ids(known.no, row.number)
                self._forgotten.add((known.no, row.number))


def end_of_round(known: StoredCampaign, number: int, now: float) -> float | None:
    """When a round ends that is opened now, if it ends by time.

    The rounds of a wave divide what is left of its days evenly; late reports are taken to the last.
    """
    campaign, after = known.campaign, known.terms.close_after
    if known.series is None or campaign.expiry is None:
        return None if after is None else now + after
    left = len(campaign.protocol().stages()) - number + 1
    end = campaign.expiry.timestamp()
    return known.ends if left <= 1 or now >= end else now + (end - now) / left
