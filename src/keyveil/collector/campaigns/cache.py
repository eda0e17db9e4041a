"""The cache of campaigns and rounds: read from the store, and kept in memory.

A campaign and the rounds that were opened never change, so a cached one is never stale. Which round is
open may change at any moment, by another process too: that is asked of the store, in the transaction
that needs to know.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from keyveil.campaign import Campaign
from keyveil.collector.campaigns.ids import campaign_secret
from keyveil.collector.campaigns.terms import Terms
from keyveil.collector.store.base import CampaignRow, Reading, RoundRow
from keyveil.collector.store.cells import unpack
from keyveil.errors import KeyveilError, StoreError
from keyveil.mechanisms.base import ISSUED
from keyveil.rounds import Round
from keyveil.tally import Tally, tally_reports
from keyveil.tally.count import UNDECODED, decode

# Campaigns in the cache; beyond them it is emptied.
_MOST_CACHED = 256


@dataclass(frozen=True)
class StoredCampaign:
    """A campaign of the store."""

    no: int
    campaign: Campaign
    terms: Terms
    created_at: float
    id: str = field(init=False)
    """The campaign's."""
    tag: bytes = field(init=False)
    """The campaign's, too."""
    issues_ids: bool = field(init=False)
    """Whether only ids that were handed out count; an older keyveil said so in the terms."""
    ends: float = field(init=False)
    """When nothing more is counted."""

    def __post_init__(self) -> None:
        # Every upload asks for these: they are read once.
        campaign, expiry = self.campaign, self.campaign.expiry
        object.__setattr__(self, "id", campaign.id)
        object.__setattr__(self, "tag", campaign.tag)
        object.__setattr__(self, "issues_ids", campaign.issues_ids or self.terms.ids == ISSUED)
        object.__setattr__(self, "ends", float("inf") if expiry is None else expiry.timestamp())


@dataclass(frozen=True, slots=True)
class RoundGrowth:
    """A round that has more reports now; `is_full` where it is closed by count, and has as many."""

    campaign: str
    round: int
    accepted: int
    is_full: bool


History = Sequence[tuple[Round, Tally]]
"""The rounds so far as they were opened, each with the sum of its reports."""


def open_number(rows: list[RoundRow]) -> int | None:
    """The number of the round that is open, if one is."""
    return next((row.number for row in rows if row.closed_at is None), None)


class CampaignCache:
    """Campaigns, rounds and decoded tallies of a store, read once and kept in memory."""

    def __init__(self) -> None:
        self._known: dict[str, StoredCampaign] = {}
        self._rounds: dict[tuple[int, int], Round] = {}
        self._decoded: dict[tuple[int, int], Tally] = {}
        self._secret: bytes | None = None
        self._lock = threading.Lock()

    def find(self, id: str) -> StoredCampaign | None:
        """A campaign, if it is cached."""
        return self._known.get(id)

    def campaign(self, tx: Reading, id: str) -> StoredCampaign | None:
        """A campaign; one whose stored text does not have its hash is refused."""
        if (known := self._known.get(id)) is not None:
            return known
        row = tx.campaign(id)
        return None if row is None else self._add(row)

    def round(self, tx: Reading, known: StoredCampaign, number: int) -> Round:
        """A round that was opened."""
        if (found := self._rounds.get((known.no, number))) is not None:
            return found
        for row in tx.rounds(known.no):
            if row.number == number:
                return self.described(known, row)
        raise StoreError(f"campaign {known.id[:12]}: round {number} is missing", damaged=True)

    def described(self, known: StoredCampaign, row: RoundRow) -> Round:
        """The round of a row: what was opened is what is stored, whatever this version would open."""
        found = self._rounds.get((known.no, row.number))
        if found is None:
            found = self._rounds[known.no, row.number] = _read_round(known, row)
        return found

    def secret(self, tx: Reading, known: StoredCampaign) -> bytes:
        """What the ids of a campaign are made with."""
        if self._secret is None:
            self._secret = tx.secret()
        if self._secret is None:
            raise StoreError("the secret that ids were issued with is gone; restore a backup", damaged=True)
        return campaign_secret(self._secret, known.id)

    def tally(self, tx: Reading, known: StoredCampaign, number: int) -> Tally:
        """The sum of a round's reports."""
        round_ = self.round(tx, known, number)
        row = tx.tally(known.no, number)
        if row is None or not row.cells:
            return tally_reports(round_, [])
        stored = unpack(row.cells, question=round_.question, n_reports=row.n_reports)
        if UNDECODED not in stored.cells:
            return stored
        # Hashed answers are decoded when somebody asks, and once: the more reports, the longer it takes.
        place, held = (known.no, number), self._decoded.get((known.no, number))
        if held is None or held.n_reports != stored.n_reports:
            held = self._decoded[place] = decode(round_.mechanism, stored)
        return held

    def history(self, tx: Reading, known: StoredCampaign, rows: Sequence[RoundRow]) -> History:
        """Rounds and the sums of their reports."""
        return [(self.described(known, row), self.tally(tx, known, row.number)) for row in rows]

    def _add(self, row: CampaignRow) -> StoredCampaign:
        if row.quarantined is not None:
            raise StoreError(row.quarantined, damaged=True)
        try:
            campaign = Campaign.from_said(json.loads(row.config))
            terms = Terms.from_json(row.terms)
            if campaign.id != row.id:
                raise ValueError("its hash is another")
        except Exception as error:
            raise StoreError(
                f"campaign {row.id[:12]} is damaged: {type(error).__name__}", damaged=True
            ) from None
        with self._lock:
            if len(self._known) >= _MOST_CACHED:
                self._known.clear()
                self._rounds.clear()
                self._decoded.clear()
            return self._known.setdefault(
                row.id, StoredCampaign(no=row.no, campaign=campaign, terms=terms, created_at=row.created_at)
            )


def _read_round(known: StoredCampaign, row: RoundRow) -> Round:
    try:
        found = Round.from_fields(json.loads(row.description), n_keys=known.campaign.domain.n_keys)
        if (found.campaign, found.number, found.pin) != (known.id, row.number, row.pin):
            raise ValueError("it is another round's, or its hash is another")
    except (KeyveilError, ValueError) as error:
        raise StoreError(
            f"campaign {known.id[:12]}: the description of round {row.number} is damaged: {error}",
            damaged=True,
        ) from None
    return found
