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
from datetime import UTC, datetime

from keyveil.campaign import Campaign
from keyveil.collector.campaigns.ids import campaign_secret
from keyveil.collector.campaigns.terms import Terms
from keyveil.collector.store.base import CampaignRow, Reading, RoundRow
from keyveil.collector.store.cells import unpack
from keyveil.collector.store.series import AddedKey, SeriesRow
from keyveil.errors import KeyveilError, StoreError
from keyveil.mechanisms.base import ISSUED
from keyveil.rounds import Round
from keyveil.series import Series
from keyveil.tally import Tally, tally_reports
from keyveil.tally.count import UNDECODED, decode

# Campaigns in the cache; beyond them it is emptied.
_MOST_CACHED = 256
# The last moment of which calendars speak.
_LAST_MOMENT = datetime(9999, 12, 31, tzinfo=UTC).timestamp()


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
    series: str | None = field(init=False)
    """The id of the series that it is a wave of."""
    ends: float = field(init=False)
    """When nothing more is counted: of a wave, once those who are late have had their time."""

    def __post_init__(self) -> None:
        # Every upload asks for these: they are read once.
        campaign, expiry = self.campaign, self.campaign.expiry
        object.__setattr__(self, "id", campaign.id)
        object.__setattr__(self, "tag", campaign.tag)
        object.__setattr__(self, "issues_ids", campaign.issues_ids or self.terms.ids == ISSUED)
        is_wave, late = campaign.is_wave, self.terms.late or 0.0
        object.__setattr__(self, "series", campaign.whole_series.id if is_wave else None)
        ends = float("inf") if expiry is None else expiry.timestamp()
        object.__setattr__(self, "ends", ends + late if is_wave else ends)


@dataclass(frozen=True)
class StoredSeries:
    """A series of the store, and its calendar in seconds."""

    no: int
    campaign: Campaign
    calendar: Series
    terms: Terms
    created_at: float

    @property
    def id(self) -> str:
        """The series'."""
        return self.campaign.id

    def wave(self, number: int, later: Sequence[AddedKey]) -> Campaign:
        """A wave's campaign, with those of the later keys that it asks for."""
        return self.campaign.wave(number, [key.name for key in later if key.wave <= number])

    def number_at(self, now: float) -> int:
        """The wave of a moment: 0 before the first, one more than there are after the last."""
        return self.calendar.number_at(datetime.fromtimestamp(min(max(now, 0.0), _LAST_MOMENT), UTC))

    def begins(self, wave: int) -> float:
        """When a wave begins."""
        return self.calendar.begins(wave).timestamp()

    def ends(self, wave: int) -> float:
        """From when on devices do not answer it."""
        return self.calendar.ends(wave).timestamp()

    def closes(self, wave: int) -> float:
        """Until when answers are taken that were made in time."""
        return self.ends(wave) + (self.terms.late or 0.0)

    def is_over(self, now: float) -> bool:
        """Whether nothing is taken any more, and nothing asked."""
        return now >= self.closes(self.calendar.waves)


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
        self._series: dict[str, StoredSeries] = {}
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

    def series(self, tx: Reading, id: str) -> StoredSeries | None:
        """A series; one whose stored text does not have its hash is refused."""
        if (known := self._series.get(id)) is not None:
            return known
        row = tx.series(id)
        return None if row is None else self._add_series(row)

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

    def _add_series(self, row: SeriesRow) -> StoredSeries:
        try:
            campaign = Campaign.from_said(json.loads(row.config))
            terms = Terms.from_json(row.terms)
            if campaign.id != row.id or campaign.series is None:
                raise ValueError("its hash is another")
        except Exception as error:
            raise StoreError(
                f"series {row.id[:12]} is damaged: {type(error).__name__}", damaged=True
            ) from None
        with self._lock:
            if len(self._series) >= _MOST_CACHED:
                self._series.clear()
            return self._series.setdefault(
                row.id,
                StoredSeries(
                    no=row.no,
                    campaign=campaign,
                    calendar=campaign.series,
                    terms=terms,
                    created_at=row.created_at,
                ),
            )


def _read_round(known: StoredCampaign, row: RoundRow) -> Round:
    try:
        found = known.campaign.round_of(json.loads(row.description))
        if (found.campaign, found.number, found.pin) != (known.id, row.number, row.pin):
            raise ValueError("it is another round's, or its hash is another")
    except (KeyveilError, ValueError) as error:
        raise StoreError(
            f"campaign {known.id[:12]}: the description of round {row.number} is damaged: {error}",
            damaged=True,
        ) from None
    return found
