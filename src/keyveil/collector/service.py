"""The collector without HTTP: campaigns, rounds, tokens, releases, all of it synchronous.

Whoever acts is named by the id of their token; every act is logged in the transaction that does it.
"""

from __future__ import annotations

import json
import math
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np

from keyveil.campaign import Campaign
from keyveil.collector.changes import Comparison, compare
from keyveil.collector.commit import Grown
from keyveil.collector.ids import issue
from keyveil.collector.logs import Log
from keyveil.collector.messages import (
    About,
    ActList,
    ActView,
    CampaignCreated,
    CampaignLine,
    CampaignList,
    CampaignView,
    Examination,
    Ids,
    NewCampaign,
    NewToken,
    Oddity,
    Progress,
    Recount,
    RoundClosed,
    RoundList,
    RoundView,
    TokenCreated,
    TokenList,
    TokenView,
)
from keyveil.collector.metrics import Metrics
from keyveil.collector.problems import Problem
from keyveil.collector.releases import intact, make_release, write_frames, write_parquet
from keyveil.collector.rounds import Book, Known, report_length, told
from keyveil.collector.settings import Settings
from keyveil.collector.store import Block, RoundRow, Store, Writing
from keyveil.collector.tokens import BELOW_OPERATOR, Credential, Role, digest, mint, recognise
from keyveil.dashboard.hostile import Reach, reach
from keyveil.dashboard.precision import telling
from keyveil.dashboard.results import make_results, pack
from keyveil.errors import KeyveilError, MechanismError, ProtocolError, StoreError
from keyveil.mechanisms.oracles import COHORTS
from keyveil.numerics import two_sided_z
from keyveil.protocols import Round
from keyveil.release import Release
from keyveil.report import HEADER_BYTES
from keyveil.tally import Counter, Payloads, Tally, count, trace

# Who acts where no token does: the clock, or the count of reports.
NOBODY = ""
_DAY = 86400.0
# Releases remembered; one is named by how many reports each of its rounds had.
_RELEASES = 16
# Device tokens remembered.
_DEVICES = 100_000


class Collector:
    """All that a collector does, over a store."""

    def __init__(
        self,
        store: Store,
        *,
        settings: Settings | None = None,
        clock: Callable[[], float] = time.time,
        log: Log | None = None,
    ) -> None:
        self.store, self.settings = store, settings or Settings()
        self.book, self.metrics, self.log = Book(), Metrics(), log or Log()
        self._clock, self._latest = clock, 0.0
        self._lock = threading.Lock()
        self._devices: dict[bytes, Credential] = {}
        self._releases: dict[tuple[Any, ...], Release] = {}
        self._results: dict[tuple[Any, ...], bytes] = {}
        self._forgotten: set[tuple[int, int]] = set()
        self.damaged: dict[str, str] = {}
        """Campaign ids (or tables), and what is wrong with them."""

    def now(self) -> float:
        """The time; it never runs backwards, so that what was over stays over."""
        now = self._clock()
        if now > self._latest:
            self._latest = now
        return self._latest

    # --- starting ---

    def first_token(self) -> str | None:
        """An admin token where none was ever made; it is shown once."""
        try:
            with self.store.write() as tx:
                tx.be_alone()
                if tx.has_admin():
                    return None
                token, credential = mint(Role.ADMIN, None, now=self.now(), label="made at the first start")
                tx.add_credential(credential)
                tx.log(at=self.now(), token=NOBODY, act="token-made", detail=f"{credential.id} admin")
                return token
        except StoreError as error:
            if not error.damaged:
                raise
            self.mark_damaged("tokens", str(error))
            return None

    def inspect(self) -> None:
        """Look at every campaign; what cannot be read is named, the rest is served."""
        try:
            with self.store.read() as tx:
                rows = tx.campaigns()
        except StoreError as error:
            if not error.damaged:
                raise
            self.mark_damaged("campaigns", str(error))
            return
        for row in rows:
            try:
                with self.store.read() as tx:
                    known = self.book.campaign(tx, row.id)
                    assert known is not None
                    for opened in tx.rounds(known.no):
                        self.book.tally(tx, known, opened.number)
            except KeyveilError as error:
                self.mark_damaged(row.id, str(error))

    def mark_damaged(self, campaign: str, why: str) -> None:
        """Say that something of a campaign cannot be read."""
        if campaign not in self.damaged:
            self.log.event("damaged", campaign=campaign, why=why)
        self.damaged[campaign] = why

    # --- who asks ---

    def cached(self, token: str) -> Credential | None:
        """A device's credential that was met before; it is checked again where reports are written.

        Found by the token's digest, so that the time it takes says nothing about other tokens.
        """
        return self._devices.get(digest(token))

    def recognise(self, token: str) -> Credential | None:
        """The credential behind a token, as the store knows it now."""
        with self.store.read() as tx:
            found = recognise(token, tx.credential)
        if found is not None and found.role is Role.DEVICE:
            if len(self._devices) >= _DEVICES:
                self._devices.clear()
            self._devices[digest(token)] = found
        return found

    # --- campaigns ---

    def known(self, id: str) -> Known:
        """A campaign, or a refusal."""
        known = self.book.find(id)
        if known is None:
            try:
                with self.store.read() as tx:
                    known = self.book.campaign(tx, id)
            except StoreError as error:
                if error.damaged:
                    self.mark_damaged(id, str(error))
                raise
        if known is None:
            raise Problem("unknown-campaign")
        return known

    def create(self, actor: str, new: NewCampaign) -> CampaignCreated:
        """A campaign whose first round is open. The same campaign again changes nothing."""
        campaign = read_campaign(new.campaign)
        now = self.now()
        for field in ("owner", "purpose", "expires"):
            if not getattr(campaign, field).strip():
                raise Problem("campaign-incomplete", f'field "{field}" is missing or empty, at $.{field}')
        if campaign.expiry is not None and campaign.expiry.timestamp() <= now:
            raise Problem("campaign-incomplete", f"expires lies in the past: {campaign.expires}")
        if new.terms.ids == "issued" and new.terms.uploads == "open":
            raise Problem("bad-request", "ids are issued to devices with a token: uploads must be token")
        try:
            first = campaign.protocol().start(campaign.id)
            config = told(campaign, first)
        except KeyveilError as error:
            raise Problem("bad-campaign", str(error)) from None
        token = None
        with self.store.write() as tx:
            created = tx.add_campaign(
                id=campaign.id,
                config=campaign.canonical_json,
                terms=new.terms.to_json(),
                label=new.label,
                now=now,
            )
            row = tx.campaign(campaign.id)
            assert row is not None
            if created:
                if new.terms.ids == "issued":
                    tx.be_alone()
                    if tx.secret() is None:
                        tx.set_secret(secrets.token_bytes(32))
                closes_at = None if new.terms.close_after is None else now + new.terms.close_after
                tx.open_round(
                    row.no, first.number, purpose=first.purpose, told=config, now=now, closes_at=closes_at
                )
                tx.log(
                    at=now,
                    token=actor,
                    act="campaign-created",
                    campaign=campaign.id,
                    detail=new.terms.to_json(),
                )
                if new.terms.uploads == "token":
                    token, credential = mint(
                        Role.DEVICE, campaign.id, now=now, label="made with the campaign"
                    )
                    tx.add_credential(credential)
                    tx.log(
                        at=now,
                        token=actor,
                        act="token-made",
                        campaign=campaign.id,
                        detail=f"{credential.id} device",
                    )
            number = _open_number(tx.rounds(row.no))
        return CampaignCreated(id=campaign.id, created=created, round=number or 0, device_token=token)

    def issue_ids(self, id: str, count: int) -> Ids:
        """Ids for reports to come."""
        known = self.known(id)
        if known.terms.ids != "issued":
            raise Problem("bad-request", "devices draw the ids of this campaign themselves")
        with self.store.read() as tx:
            secret = self.book.secret(tx, known)
        return Ids(ids=[name.hex() for name in issue(secret, count)])

    def view(self, id: str) -> CampaignView:
        """What everybody may know of a campaign."""
        known = self.known(id)
        with self.store.read() as tx:
            row = tx.campaign(id)
            rounds = tx.rounds(known.no)
        assert row is not None
        open_round = next((r for r in rounds if r.closed_at is None), None)
        return CampaignView(
            id=id,
            campaign=known.campaign.canonical_json,
            label=row.label,
            state=self._state(known, row.finished_at),
            uploads=known.terms.uploads,
            ids=known.terms.ids,
            round=None if open_round is None else open_round.number,
            device_config=None if open_round is None else json.loads(open_round.told),
        )

    def campaigns(self, only: str | None) -> CampaignList:
        """All campaigns, or the one that a token is for."""
        with self.store.read() as tx:
            rows = [row for row in tx.campaigns() if only is None or row.id == only]
        return CampaignList(campaigns=[self._line(row.id) for row in rows])

    def label(self, actor: str, id: str, label: str) -> None:
        """Another label for people."""
        known = self.known(id)
        with self.store.write() as tx:
            tx.label_campaign(known.no, label)
            tx.log(at=self.now(), token=actor, act="campaign-labelled", campaign=id, detail=label)

    def compare(self, id: str, fields: Mapping[str, Any]) -> Comparison:
        """What another campaign changes."""
        return compare(self.known(id).campaign, read_campaign(fields))

    def _line(self, id: str) -> CampaignLine:
        with self.store.read() as tx:
            row = tx.campaign(id)
            assert row is not None
            try:
                known = self.book.campaign(tx, id)
                assert known is not None
                rounds = tx.rounds(known.no)
                tallies = [tx.tally(known.no, opened.number) for opened in rounds]
                name, mechanism = known.campaign.name, known.campaign.mechanism
                state = self._state(known, row.finished_at)
            except StoreError as error:
                self.mark_damaged(id, str(error))
                return CampaignLine(
                    id=id,
                    name="",
                    label=row.label,
                    mechanism="",
                    state="damaged",
                    round=None,
                    reports=0,
                    created_at=row.created_at,
                )
        return CampaignLine(
            id=id,
            name=name,
            label=row.label,
            mechanism=mechanism,
            state=state,
            round=_open_number(rounds),
            reports=sum(tally.n_reports for tally in tallies if tally is not None),
            created_at=row.created_at,
        )

    def _state(self, known: Known, finished_at: float | None) -> Literal["open", "finished", "expired"]:
        if finished_at is not None:
            return "finished"
        return "expired" if self.now() >= known.ends else "open"

    # --- rounds ---

    def rounds(self, id: str) -> RoundList:
        """How far each round is."""
        known = self.known(id)
        with self.store.read() as tx:
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

    def close(self, actor: str, id: str, number: int, *, why: str = "by hand") -> RoundClosed:
        """Close a round and open what follows, in one transaction; who comes second hears the same."""
        known = self.known(id)
        now = self.now()
        with self.store.write() as tx:
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
                tally = self.book.tally(tx, known, number)
                following = known.protocol.next(self.book.round(tx, known, number), tally)
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
        known = self.book.find(growth.campaign)
        limit = None if known is None else known.terms.close_at_count
        if limit is not None and growth.n_reports >= limit:
            self._close_quietly(growth.campaign, growth.round, why="by count")

    def tick(self) -> None:
        """Close rounds whose time is over."""
        with self.store.read() as tx:
            due = tx.due_rounds(self.now())
        for campaign, number in due:
            self._close_quietly(campaign, number, why="by time")

    def tidy(self) -> None:
        """Forget what need not be kept, and close rounds whose count was reached when the store was away."""
        with self.store.read() as tx:
            campaigns = tx.campaign_ids()
        for campaign in campaigns:
            if campaign not in self.damaged:
                self._close_if_full(self.known(campaign))
                self._forget(campaign, self.now())

    def _close_if_full(self, known: Known) -> None:
        limit = known.terms.close_at_count
        if limit is None:
            return
        with self.store.read() as tx:
            number = _open_number(tx.rounds(known.no))
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
        known = self.known(id)
        with self.store.read() as tx:
            rows = [row for row in tx.rounds(known.no) if row.closed_at is not None]
        for row in rows:
            if known.terms.drop_reports and row.dropped_at is None:
                with self.store.write() as tx:
                    tx.drop_reports(known.no, row.number, now)
                    tx.log(
                        at=now, token=NOBODY, act="reports-dropped", campaign=id, detail=f"round {row.number}"
                    )
            assert row.closed_at is not None
            forget_at = row.closed_at + known.terms.replay_days * _DAY
            if forget_at <= now and (known.no, row.number) not in self._forgotten:
                with self.store.write() as tx:
                    tx.drop_ids(known.no, row.number)
                self._forgotten.add((known.no, row.number))

    # --- what is read out ---

    def tally(self, id: str, number: int) -> Tally:
        """The sum of a round's reports."""
        known = self.known(id)
        with self.store.read() as tx:
            self._row(tx.rounds(known.no), number)
            return self.book.tally(tx, known, number)

    def release(self, id: str, *, post: str, estimator: str | None) -> tuple[Release, bool]:
        """What the campaign found, and whether more reports may still come.

        A campaign of one round may be read at any time: reports are noised, so looking costs nothing.
        """
        known, tallies, is_open = self._tallies(id)
        name = (id, post, estimator, *(tally.n_reports for tally in tallies))
        made = self._releases.get(name)
        if made is None:
            made = make_release(known.campaign, tallies, post=post, estimator=estimator)
            with self._lock:
                while len(self._releases) >= _RELEASES:
                    del self._releases[next(iter(self._releases))]
                self._releases[name] = made
        return made, is_open

    def results(self, id: str, *, post: str) -> bytes:
        """The release as the dashboard shows it, packed."""
        known, tallies, is_open = self._tallies(id)
        name = (id, post, is_open, *(tally.n_reports for tally in tallies))
        packed = self._results.get(name)
        if packed is None:
            try:
                packed = pack(make_results(known.campaign, tallies, post=post, is_open=is_open))
            except MechanismError as error:
                raise Problem("unknown-step", str(error)) from None
            except ProtocolError as error:
                raise Problem("round-empty", str(error)) from None
            with self._lock:
                while len(self._results) >= _RELEASES:
                    del self._results[next(iter(self._results))]
                self._results[name] = packed
        return packed

    def reach(self, id: str, share: float) -> Reach:
        """What this share of devices, lying, could make of the campaign's most frequent keys."""
        return reach(self.release(id, post="none", estimator=None)[0], share)

    def about(self, id: str) -> About:
        """A campaign in a few words."""
        known = self.known(id)
        with self.store.read() as tx:
            row = tx.campaign(id)
        assert row is not None
        return About(
            id=id,
            name=known.campaign.name,
            label=row.label,
            owner=known.campaign.owner,
            purpose=known.campaign.purpose,
            state=self._state(known, row.finished_at),
            uploads=known.terms.uploads,
        )

    def progress(self, id: str) -> Progress:
        """How far a campaign is."""
        known = self.known(id)
        rounds = self.rounds(id).rounds
        with self.store.read() as tx:
            row = tx.campaign(id)
            opened = [(self.book.round(tx, known, one.number), one.reports) for one in rounds]
        assert row is not None
        return Progress(
            now=self.now(),
            name=known.campaign.name,
            label=row.label,
            mechanism=known.campaign.mechanism,
            state=self._state(known, row.finished_at),
            created_at=row.created_at,
            expires_at=known.ends if math.isfinite(known.ends) else None,
            close_at_count=known.terms.close_at_count,
            has_several_rounds=known.campaign.has_several_rounds,
            rounds=rounds,
            reports=sum(one.reports for one in rounds),
            statuses=self.metrics.of_campaign(id),
            telling=telling(known.campaign, opened),
            z=two_sided_z(),
        )

    def _tallies(self, id: str) -> tuple[Known, list[Tally], bool]:
        """The tallies of all rounds of a campaign that can be read, and whether more reports may come."""
        known = self.known(id)
        with self.store.read() as tx:
            rows = tx.rounds(known.no)
            row = tx.campaign(id)
            assert row is not None
            if known.campaign.has_several_rounds and row.finished_at is None:
                raise Problem("rounds-left", f"round {rows[-1].number} is still to be closed")
            tallies = [self.book.tally(tx, known, row.number) for row in rows]
        return known, tallies, row.finished_at is None

    def export(self, id: str, number: int, form: str) -> BinaryIO:
        """The reports of a round as a file; refused if a byte of them has changed."""
        known = self.known(id)
        length = self._check_kept(known, number)

        def damaged(block: Block) -> None:
            self.mark_damaged(id, f"block {block.no} of round {number} is damaged")
            raise Problem("campaign-damaged", f"block {block.no} of round {number} is damaged")

        blocks = intact(lambda after: self._blocks(known, number, after), damaged)
        out = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            if form == "frames":
                write_frames(out, blocks)
            else:
                write_parquet(out, known.campaign, number, length, blocks)
            out.seek(0)
        except BaseException:
            out.close()
            raise
        return out

    def recount(self, id: str, number: int) -> Recount:
        """Count the stored reports again, and compare with the tally."""
        known = self.known(id)
        self._check_kept(known, number)
        broken: list[Block] = []
        with self.store.read() as tx:
            asked = self.book.round(tx, known, number)
            counter = Counter(asked.mechanism, question=asked.question)
            for block in intact(lambda after: tx.blocks(known.no, number, after=after), broken.append):
                counter.add(payloads(block))
            total = counter.tally()
            try:
                tally = self.book.tally(tx, known, number)
            except StoreError:
                tally = count(asked.mechanism, [], question=asked.question)
        self._mark_broken(id, number, broken)
        agrees = total == tally and not broken
        return Recount(
            round=number,
            tally_reports=tally.n_reports,
            stored_reports=total.n_reports,
            damaged_blocks=len(broken),
            agrees=agrees,
        )

    def examine(self, id: str, number: int) -> Examination:
        """Test whether the stored reports of a round are honest noise."""
        from keyveil.audit.reports import examine

        known = self.known(id)
        self._check_kept(known, number)
        broken: list[Block] = []
        with self.store.read() as tx:
            asked = self.book.round(tx, known, number)
            tally = self.book.tally(tx, known, number)
            total = trace(asked.mechanism, [], question=asked.question)
            for block in intact(lambda after: tx.blocks(known.no, number, after=after), broken.append):
                packed = payloads(block)
                answers = [packed[place] for place in range(len(packed))]
                total += trace(asked.mechanism, answers, question=asked.question)
        self._mark_broken(id, number, broken)
        verdict = examine(asked.mechanism, total, tally)
        names = (
            known.campaign.keys if asked.keys is None else [known.campaign.keys[code] for code in asked.keys]
        )
        return Examination(
            round=number,
            reports=total.n_reports,
            alarm=verdict.alarm,
            p=verdict.p,
            tests=[
                Oddity(
                    test=each.test,
                    p=each.p,
                    what=each.what,
                    keys=[names[code] for code in each.keys if code < len(names)],
                )
                for each in verdict.findings
            ],
            damaged_blocks=len(broken),
        )

    def _mark_broken(self, id: str, number: int, broken: list[Block]) -> None:
        for block in broken:
            self.mark_damaged(id, f"block {block.no} of round {number} is damaged")

    def backup(self, actor: str) -> BinaryIO:
        """A copy of the embedded store, as a file."""
        with tempfile.TemporaryDirectory(prefix="keyveil-") as folder:
            path = Path(folder) / "backup.db"
            self.store.backup(path)
            copy = path.open("rb")
        with self.store.write() as tx:
            tx.log(at=self.now(), token=actor, act="backup-taken")
        return copy

    def _check_kept(self, known: Known, number: int) -> int:
        with self.store.read() as tx:
            row = self._row(tx.rounds(known.no), number)
            if row.dropped_at is not None:
                raise Problem("reports-dropped")
            return report_length(self.book.round(tx, known, number))

    def _blocks(self, known: Known, number: int, after: int) -> list[Block]:
        with self.store.read() as tx:
            return tx.blocks(known.no, number, after=after)

    def _row(self, rows: list[RoundRow], number: int) -> RoundRow:
        for row in rows:
            if row.number == number:
                return row
        raise Problem("unknown-round")

    # --- tokens and the log ---

    def make_token(self, actor: Credential, campaign: str | None, new: NewToken) -> TokenCreated:
        """A token for a campaign, or for the whole collector."""
        role = Role(new.role)
        if actor.role is not Role.ADMIN and role not in BELOW_OPERATOR:
            raise Problem("forbidden", "an operator makes tokens for devices and analysts")
        if campaign is not None:
            self.known(campaign)
            if role is Role.ADMIN:
                raise Problem(
                    "forbidden", "an admin's token is for the whole collector; make it at /v1/tokens"
                )
        now = self.now()
        token, credential = mint(role, campaign, now=now, label=new.label, rate=new.rate)
        with self.store.write() as tx:
            tx.add_credential(credential)
            detail = f"{credential.id} {role.value}"
            tx.log(at=now, token=actor.id, act="token-made", campaign=campaign or "", detail=detail)
        return TokenCreated(id=credential.id, token=token, role=new.role, campaign=campaign)

    def tokens(self, campaign: str | None) -> TokenList:
        """The tokens of a campaign, or those of the whole collector."""
        with self.store.read() as tx:
            found = tx.credentials(campaign)
        return TokenList(
            tokens=[
                TokenView(
                    id=credential.id,
                    role=credential.role.value,
                    campaign=credential.campaign,
                    label=credential.label,
                    rate=credential.rate,
                    created_at=credential.created_at,
                    revoked_at=credential.revoked_at,
                )
                for credential in found
            ]
        )

    def revoke(self, actor: Credential, campaign: str | None, id: str) -> None:
        """A token of this scope opens nothing from now on."""
        now = self.now()
        with self.store.write() as tx:
            found = tx.credential(id)
            if found is None or found.campaign != campaign:
                raise Problem("unknown-token-id")
            if actor.role is not Role.ADMIN and found.role not in BELOW_OPERATOR:
                raise Problem("forbidden", "an operator revokes tokens of devices and analysts")
            tx.revoke(id, now)
            tx.log(at=now, token=actor.id, act="token-revoked", campaign=campaign or "", detail=id)
        self._devices = {key: device for key, device in self._devices.items() if device.id != id}

    def acts(self, after: int) -> ActList:
        """The log of administrative acts from a place on."""
        with self.store.read() as tx:
            found = tx.acts(after=after)
        return ActList(
            acts=[
                ActView(
                    no=act.no,
                    at=act.at,
                    token=act.token,
                    act=act.act,
                    campaign=act.campaign,
                    detail=act.detail,
                )
                for act in found
            ]
        )


# Beyond these a campaign is a mistake, and would take the collector's time and memory with it.
_LARGEST = {"pairs_per_user": 100_000, "bins": 4096, "cohorts": COHORTS, "rounds": 1000}


def read_campaign(fields: Mapping[str, Any]) -> Campaign:
    """A campaign that somebody sent; it may not name files of this machine."""
    if "keys_file" in fields:
        raise Problem("bad-campaign", "keys_file names a file of yours; send the keys themselves, at $.keys")
    for field, largest in _LARGEST.items():
        number = fields.get(field)
        if isinstance(number, int) and number > largest:
            raise Problem("bad-campaign", f"{field} must be at most {largest}, at $.{field}")
    try:
        campaign = Campaign.from_fields(fields)
        campaign.canonical_json.encode()
    except (KeyveilError, ValueError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        said = str(error) if isinstance(error, KeyveilError) else type(error).__name__
        raise Problem("bad-campaign", said[:300]) from None
    return campaign


def payloads(block: Block) -> Payloads:
    """The answers in a block, where they lie."""
    data = np.frombuffer(block.reports, dtype=np.uint8)
    starts = np.arange(HEADER_BYTES, data.size, block.length, dtype=np.int64)
    return Payloads(data=data, starts=starts, n_bytes=block.length - HEADER_BYTES)


def _open_number(rows: list[RoundRow]) -> int | None:
    return next((row.number for row in rows if row.closed_at is None), None)
