"""Campaigns as the collector knows them: rebuilt from what the store holds, and remembered.

A campaign, its protocol and its rounds never change, so they may be remembered for ever. Which round is
open may change at any moment, by another process too: that is asked of the store, in the transaction
that needs to know.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from keyveil.campaign import Campaign
from keyveil.collector.ids import campaign_secret
from keyveil.collector.store.base import CampaignRow, Reading, RoundRow
from keyveil.collector.store.cells import unpack
from keyveil.collector.store.outcomes import Finished
from keyveil.collector.terms import Terms
from keyveil.errors import StoreError
from keyveil.protocols import Outcome, Round, Rounds, replay
from keyveil.release import exact_epsilon
from keyveil.report import HEADER_BYTES
from keyveil.tally import Tally, count

# Campaigns remembered at once; the rest are read again when they are asked for.
_REMEMBERED = 256


@dataclass(frozen=True)
class Known:
    """A campaign of the store."""

    no: int
    campaign: Campaign
    terms: Terms
    created_at: float

    @property
    def id(self) -> str:
        """The campaign's."""
        return self.campaign.id

    @cached_property
    def protocol(self) -> Rounds:
        """Its rounds."""
        return self.campaign.protocol()

    @cached_property
    def ends(self) -> float:
        """When nothing more is counted."""
        expiry = self.campaign.expiry
        return float("inf") if expiry is None else expiry.timestamp()


def told(campaign: Campaign, round: Round) -> str:
    """What devices are told of a round: the device's configuration, and who is asked."""
    low, high = round.group
    said = campaign.device_config(round if campaign.has_several_rounds else None)
    said |= {"purpose": round.purpose, "group": [str(low), str(high)]}
    return json.dumps(said, ensure_ascii=False)


def what_follows(protocol: Rounds, campaign: str, tallies: Sequence[Tally]) -> Round | Finished:
    """The round that the tallies of all rounds so far lead to, or what the campaign found.

    This estimates, which may take seconds: never inside a transaction.
    """
    stands = replay(protocol, campaign, tallies)
    if isinstance(stands, Round):
        return stands
    return Finished(outcome=stands, epsilon_exact=exact_epsilon(protocol))


def report_length(round: Round) -> int:
    """Bytes of a report to a round."""
    return HEADER_BYTES + round.mechanism.layout.n_bytes


def open_number(rows: list[RoundRow]) -> int | None:
    """The number of the round that is open, if one is."""
    return next((row.number for row in rows if row.closed_at is None), None)


class Book:
    """Campaigns and rounds by name, found once."""

    def __init__(self) -> None:
        self._known: dict[str, Known] = {}
        self._rounds: dict[tuple[int, int], Round] = {}
        self._secret: bytes | None = None
        self._lock = threading.Lock()

    def find(self, id: str) -> Known | None:
        """A campaign that was met before."""
        return self._known.get(id)

    def campaign(self, tx: Reading, id: str) -> Known | None:
        """A campaign; one whose stored text does not have its hash is refused."""
        if (known := self._known.get(id)) is not None:
            return known
        row = tx.campaign(id)
        return None if row is None else self._remember(row)

    def round(self, tx: Reading, known: Known, number: int) -> Round:
        """A round that was opened."""
        if (found := self._rounds.get((known.no, number))) is None:
            self._replay(tx, known)
            found = self._rounds.get((known.no, number))
        if found is None:
            raise StoreError(f"campaign {known.id[:12]}: round {number} does not follow from its tallies")
        return found

    def secret(self, tx: Reading, known: Known) -> bytes:
        """What the ids of a campaign are made with."""
        if self._secret is None:
            self._secret = tx.secret()
        if self._secret is None:
            raise StoreError("the secret that ids were issued with is gone; restore a backup", damaged=True)
        return campaign_secret(self._secret, known.id)

    def tally(self, tx: Reading, known: Known, number: int) -> Tally:
        """The sum of a round's reports."""
        return self._tally_of(tx, known, self.round(tx, known, number))

    def _tally_of(self, tx: Reading, known: Known, round: Round) -> Tally:
        row = tx.tally(known.no, round.number)
        if row is None or not row.cells:
            return count(round.mechanism, [], question=round.question)
        return unpack(row.cells, question=round.question, n_reports=row.n_reports)

    def _remember(self, row: CampaignRow) -> Known:
        try:
            campaign = Campaign.from_fields(json.loads(row.config))
            terms = Terms.from_json(row.terms)
            if campaign.id != row.id:
                raise ValueError("its hash is another")
        except Exception as error:
            raise StoreError(
                f"campaign {row.id[:12]} is damaged: {type(error).__name__}", damaged=True
            ) from None
        with self._lock:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
                self._rounds.clear()
            return self._known.setdefault(
                row.id, Known(no=row.no, campaign=campaign, terms=terms, created_at=row.created_at)
            )

    def _replay(self, tx: Reading, known: Known) -> None:
        stands: Round | Outcome | None = None
        for row in tx.rounds(known.no):
            if stands is None:
                stands = known.protocol.start(known.id)
            else:
                assert isinstance(stands, Round)
                stands = known.protocol.next(stands, self._tally_of(tx, known, stands))
            if not isinstance(stands, Round) or told(known.campaign, stands) != row.told:
                raise StoreError(
                    f"campaign {known.id[:12]}: round {row.number} was opened with other parameters than its "
                    "tallies give here; run the keyveil that opened it, or restore a backup",
                    damaged=True,
                )
            self._rounds[known.no, row.number] = stands
