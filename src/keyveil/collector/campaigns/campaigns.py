"""Campaigns: created once, never changed; shown, labelled, compared."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from keyveil.audit import largest_promised
from keyveil.campaign import Campaign
from keyveil.collector.campaigns.cache import StoredCampaign, open_number
from keyveil.collector.campaigns.changes import Comparison, compare
from keyveil.collector.campaigns.context import Context
from keyveil.collector.campaigns.ids import NONCE_BYTES, issue
from keyveil.collector.campaigns.messages import (
    About,
    CampaignCreated,
    CampaignLine,
    CampaignList,
    CampaignView,
    Ids,
    NewCampaign,
)
from keyveil.collector.campaigns.opening import add_fresh
from keyveil.collector.campaigns.terms import Terms
from keyveil.collector.problems import Problem
from keyveil.collector.store import Writing
from keyveil.collector.tokens import Role, mint
from keyveil.errors import CampaignError, KeyveilError, StoreError
from keyveil.mechanisms.base import ISSUED
from keyveil.mechanisms.oracles import COHORTS
from keyveil.rounds import Round

# Beyond these a campaign is a mistake, and would take the collector's time and memory with it.
_LARGEST = {"pairs_per_user": 100_000, "bins": 4096, "cohorts": COHORTS, "rounds": 1000}
_NONCE = re.compile(f"[0-9a-f]{{{2 * NONCE_BYTES}}}", re.ASCII)


class Campaigns:
    """The campaigns of a collector."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def create(self, actor: str, new: NewCampaign) -> CampaignCreated:
        """A campaign whose first round is open. The same campaign again changes nothing."""
        campaign = read_campaign(new.campaign)
        if campaign.series is not None:
            raise Problem(
                "bad-campaign",
                "this is asked in waves: create it at /v1/series, which opens them, at $.series",
            )
        now = self._context.now()
        check_complete(campaign)
        if campaign.expiry is not None and campaign.expiry.timestamp() <= now:
            raise Problem("campaign-incomplete", f"expires lies in the past: {campaign.expires}")
        check_terms(campaign, new.terms)
        if new.terms.late is not None:
            raise Problem("bad-request", "only a wave of a series takes late reports, at $.terms.late")
        first = check_rounds(campaign)
        token = None
        with self._context.store.write() as tx:
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
                provide_keys(tx, campaign, actor=actor, now=now)
                closes_at = None if new.terms.close_after is None else now + new.terms.close_after
                tx.open_round(row.no, first, now=now, closes_at=closes_at)
                tx.log(
                    at=now,
                    token=actor,
                    act="campaign-created",
                    campaign=campaign.id,
                    detail=new.terms.to_json(),
                )
                if new.terms.uploads == "token":
                    token = make_device_token(tx, campaign.id, actor=actor, now=now)
            number = open_number(tx.rounds(row.no))
        return CampaignCreated(id=campaign.id, created=created, round=number or 0, device_token=token)

    def issue_ids(self, id: str, *, token: str, nonce: str | None, count: int) -> Ids:
        """Ids for reports to come; the same for the same token and nonce."""
        known = self._context.known(id)
        if not known.issues_ids:
            raise Problem("bad-request", "devices draw the ids of this campaign themselves")
        drawn = self._nonce(known, nonce)
        with self._context.store.read() as tx:
            secret = self._context.cache.secret(tx, known)
        made = issue(secret, token=token, nonce=drawn, count=count)
        return Ids(ids=[name.hex() for name in made])

    def _nonce(self, known: StoredCampaign, nonce: str | None) -> bytes:
        """The nonce of a device; one of a campaign that an older keyveil made may have none."""
        if nonce is None and not known.campaign.issues_ids:
            return secrets.token_bytes(NONCE_BYTES)
        if nonce is None or _NONCE.fullmatch(nonce) is None:
            raise Problem("bad-request", f"nonce must be {2 * NONCE_BYTES} small hexadecimal digits")
        return bytes.fromhex(nonce)

    def view(self, id: str) -> CampaignView:
        """What everybody may know of a campaign."""
        known = self._context.known(id)
        with self._context.store.read() as tx:
            row = tx.campaign(id)
            rounds = tx.rounds(known.no)
        assert row is not None
        is_open = next((each for each in rounds if each.closed_at is None), None)
        return CampaignView(
            id=id,
            campaign=known.campaign.canonical_json,
            label=row.label,
            state=self._context.state(known, row.finished_at),
            uploads=known.terms.uploads,
            ids="issued" if known.issues_ids else "own",
            round=None if is_open is None else self._context.cache.described(known, is_open).fields(),
            closes_at=None if is_open is None else is_open.closes_at,
        )

    def list(self, only: str | None) -> CampaignList:
        """All campaigns, or the one that a token is for, or the waves of its series."""
        with self._context.store.read() as tx:
            series = None if only is None else tx.series(only)
            ours = {only} if series is None else {wave.id for wave in tx.waves(series.no)}
            ids = [id for id in tx.campaign_ids() if only is None or id in ours]
        return CampaignList(campaigns=[self._line(id) for id in ids])

    def about(self, id: str) -> About:
        """A campaign in a few words."""
        known = self._context.known(id)
        with self._context.store.read() as tx:
            row = tx.campaign(id)
        assert row is not None
        return About(
            id=id,
            name=known.campaign.name,
            label=row.label,
            owner=known.campaign.owner,
            purpose=known.campaign.purpose,
            state=self._context.state(known, row.finished_at),
            uploads=known.terms.uploads,
            is_demo=self._context.settings.is_demo,
            series=known.series,
            wave=None if known.campaign.series is None else known.campaign.series.wave,
            segments=[] if known.campaign.segments is None else list(known.campaign.segments.names),
            has_pairs=known.campaign.pairs is not None,
        )

    def label(self, actor: str, id: str, label: str) -> None:
        """Another label for people."""
        known = self._context.known(id)
        with self._context.store.write() as tx:
            tx.label_campaign(known.no, label)
            tx.log(at=self._context.now(), token=actor, act="campaign-labelled", campaign=id, detail=label)

    def compare(self, id: str, fields: Mapping[str, Any]) -> Comparison:
        """What another campaign changes."""
        return compare(self._context.known(id).campaign, read_campaign(fields))

    def _line(self, id: str) -> CampaignLine:
        with self._context.store.read() as tx:
            row = tx.campaign(id)
            assert row is not None
            try:
                known = self._context.cache.campaign(tx, id)
                assert known is not None
                rounds = tx.rounds(known.no)
                tallies = [tx.tally(known.no, opened.number) for opened in rounds]
                name, mechanism = known.campaign.name, known.campaign.mechanism
                state = self._context.state(known, row.finished_at)
            except StoreError as error:
                self._context.mark_damaged(id, str(error))
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
            round=open_number(rounds),
            reports=sum(tally.n_reports for tally in tallies if tally is not None),
            created_at=row.created_at,
            series=known.series,
            wave=None if known.campaign.series is None else known.campaign.series.wave,
        )


def check_complete(campaign: Campaign) -> None:
    """Refuse what does not say who asks, why and until when."""
    for field in ("owner", "purpose", "expires"):
        if not getattr(campaign, field).strip():
            raise Problem("campaign-incomplete", f'field "{field}" is missing or empty, at $.{field}')


def check_terms(campaign: Campaign, terms: Terms) -> None:
    """Refuse terms under which the campaign cannot be run."""
    if terms.ids == ISSUED:
        raise Problem(
            "bad-request",
            f'ids are said in the campaign now: ids = "{ISSUED}" at $.campaign.ids, not at $.terms.ids',
        )
    if campaign.issues_ids and terms.uploads == "open":
        raise Problem("bad-request", "ids are issued to devices with a token: uploads must be token")
    if campaign.is_relayed and terms.close_at_count is not None:
        raise Problem(
            "bad-request",
            "what a relay holds back is not counted yet: rounds of a relayed campaign are closed by time "
            "or by hand, at $.terms.close_at_count",
        )


def check_rounds(campaign: Campaign) -> Round:
    """The first round; what devices would refuse to read is refused, now or later in the campaign."""
    try:
        first, stages = campaign.first_round(), campaign.protocol().stages()
        for stage in (first, *(replace(stage, campaign=campaign.id) for stage in stages)):
            campaign.read_round(campaign.device_config(stage))
        _check_promise(campaign)
    except KeyveilError as error:
        raise Problem("bad-campaign", str(error)) from None
    return first


def provide_keys(tx: Writing, campaign: Campaign, *, actor: str, now: float) -> None:
    """What ids are issued with and what sealed reports are opened with, where the campaign is the first."""
    if campaign.issues_ids:
        tx.be_alone()
        if tx.secret() is None:
            tx.set_secret(secrets.token_bytes(32))
    if campaign.is_relayed:
        tx.be_alone()
        if not tx.opening_keys():
            add_fresh(tx, actor=actor, now=now)


def make_device_token(tx: Writing, id: str, *, actor: str, now: float) -> str:
    """A token for the devices of a campaign, or of all waves of a series."""
    token, credential = mint(Role.DEVICE, id, now=now, label="made with the campaign")
    tx.add_credential(credential)
    tx.log(at=now, token=actor, act="token-made", campaign=id, detail=f"{credential.id} device")
    return token


def read_campaign(fields: Mapping[str, Any]) -> Campaign:
    """A campaign that somebody sent; it may not name files of this machine."""
    if "keys_file" in fields:
        raise Problem("bad-campaign", "keys_file names a file of yours; send the keys themselves, at $.keys")
    for field, largest in _LARGEST.items():
        number = fields.get(field)
        if isinstance(number, int) and number > largest:
            raise Problem("bad-campaign", f"{field} must be at most {largest}, at $.{field}")
    try:
        campaign = Campaign.from_said(fields)
        campaign.canonical_json.encode()
    except (KeyveilError, ValueError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        said = str(error) if isinstance(error, KeyveilError) else type(error).__name__
        raise Problem("bad-campaign", said[:300]) from None
    return campaign


def _check_promise(campaign: Campaign) -> None:
    """Refuse a central promise that batches of just the promised size do not keep."""
    if campaign.central_epsilon is None:
        return
    most = largest_promised(campaign)
    if most == campaign.epsilon:
        return
    way = "a larger batch" if most is None else f"epsilon {most:g}, or a larger batch"
    raise CampaignError(
        f"batches of {campaign.batch:,} reports do not hide an answer of epsilon {campaign.epsilon:g} down "
        f"to {campaign.central_epsilon:g} at delta {campaign.delta:g}; {way} would do, at $.epsilon"
    )
