"""What is kept, and the one way to it: transactions of small operations.

    with store.write() as tx: ...      all or nothing, durable when the block ends
    with store.gather() as tx: ...     the same, for groups of uploads
    with store.read() as tx: ...       one moment's view

A report is kept twice: its id, to be known again, and its bytes, inside a block: the reports to one
round that one transaction accepted, joined. Tallies change in the transaction that stores the block.
Locks are always taken in one order, so two collectors cannot wait for each other: a series; rounds, by
campaign; then campaign by campaign its ids, by slice and bytes. Of a campaign whose rounds are closed by
count the tally comes before the ids: whoever claims them must know for how many there is room. A flush of ids
waits for nobody, one of tallies holds nothing else.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from keyveil.collector.store.series import SeriesReading, SeriesWriting
from keyveil.collector.tokens import Credential
from keyveil.errors import StoreError
from keyveil.rounds import Round
from keyveil.tally import Tally

if TYPE_CHECKING:
    from keyveil.collector.store.migrations import Migration
    from keyveil.collector.store.runs import IdHash, Ids

# What `migrations` brings every older store to.
SCHEMA = 8


class NotEmbeddedError(StoreError):
    """What only a store in this machine's own file can do: the shared one has tools of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRow:
    """A campaign as it was created; `no` is its number in this store, `quarantined` why it cannot be read."""

    no: int
    id: str
    config: str
    terms: str
    label: str
    created_at: float
    finished_at: float | None
    quarantined: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRow:
    """A round; `description` is its canonical JSON as it was opened, `pin` the hash of that."""

    campaign: int
    number: int
    purpose: str
    description: str
    opened_at: float
    closes_at: float | None
    closed_at: float | None
    why: str
    dropped_at: float | None
    pin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TallyRow:
    """The sum so far of a round; `cells` as in `cells.pack`."""

    n_reports: int
    cells: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeRow:
    """What a finished campaign found; `body` as in `outcomes.pack_outcome` of this version."""

    version: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow:
    """A batch that a relay forwarded: how many reports it says it has, how many came, how many count."""

    round: int
    id: str
    size: int
    received: int
    counted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpeningKeyRow:
    """A private key to whose public half reports are sealed; `id` follows from the key."""

    id: str
    private: bytes
    made_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportBlock:
    """Reports of one length, joined, and their checksum."""

    no: int
    length: int
    crc: int
    reports: bytes

    @property
    def is_intact(self) -> bool:
        """Whether every byte is as it was written."""
        return zlib.crc32(self.reports) == self.crc and len(self.reports) % self.length == 0


@dataclass(slots=True)
class IdSum:
    """How many ids, and the sum of their hashes: the same in any order, and another for other ids."""

    count: int = 0
    total: int = 0

    def add(self, hash: IdHash, ids: Ids) -> None:
        """Some more ids."""
        self.count += len(ids)
        self.total = (self.total + int(hash.checksums(ids).sum())) % (1 << 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """A line of the log of administrative acts; `token` is the id of the token that acted."""

    no: int
    at: float
    token: str
    act: str
    campaign: str
    detail: str


class AccessReading(Protocol):
    """What can be asked of tokens and of the log: in every store."""

    def credential(self, id: str) -> Credential | None:
        """The token with this id."""

    def credentials(self, campaign: str | None) -> list[Credential]:
        """The tokens of a campaign, or those of the whole collector."""

    def has_admin(self) -> bool:
        """Whether any admin token was ever made."""

    def acts(self, *, after: int = 0, most: int = 1000) -> list[Act]:
        """The log from a place on."""


class AccessWriting(AccessReading, Protocol):
    """What can be changed of them."""

    def be_alone(self) -> None:
        """Wait until no other transaction that asked for this is under way: for what is done once."""

    def probe(self) -> None:
        """Write a little that means nothing: a disk that is full or read-only shows at the commit."""

    def add_credential(self, credential: Credential) -> None:
        """A new token."""

    def revoke(self, id: str, now: float) -> None:
        """The token opens nothing from now on."""

    def log(self, *, at: float, token: str, act: str, campaign: str = "", detail: str = "") -> None:
        """A line that is never changed."""


class AccessStore(Protocol):
    """A place to keep tokens and the log of acts, whatever else it keeps; threads may share it."""

    kind: str
    writers: int
    """How many threads of a process write uploads at once."""

    def read(self) -> AbstractContextManager[AccessReading]:
        """One moment's view."""

    def write(self) -> AbstractContextManager[AccessWriting]:
        """All or nothing, durable when the block ends."""

    def after_group(self) -> None:
        """What is left to do once a group is answered: move ids and sums to where they stay."""

    def backup(self, path: Path, *, is_cancelled: Callable[[], bool] = lambda: False) -> None:
        """A copy of one moment, while others write; a StoreError soon after it `is_cancelled`."""

    def close(self) -> None:
        """Give everything back."""


class Reading(AccessReading, SeriesReading, Protocol):
    """What can be asked."""

    def campaign(self, id: str) -> CampaignRow | None:
        """The campaign with this id."""

    def campaigns(self) -> list[CampaignRow]:
        """All, the oldest first."""

    def campaign_ids(self) -> list[str]:
        """The ids alone; campaigns may be long."""

    def rounds(self, campaign: int) -> list[RoundRow]:
        """The rounds that were opened, in order."""

    def due_rounds(self, now: float) -> list[tuple[str, int]]:
        """Campaign ids and numbers of open rounds whose time is over."""

    def between_rounds(self) -> list[str]:
        """Ids of campaigns whose last round is closed, and that neither go on nor are finished."""

    def outcome(self, campaign: int) -> OutcomeRow | None:
        """What a finished campaign found, if it was stored."""

    def tally(self, campaign: int, round: int) -> TallyRow | None:
        """The sum of a round's reports, if there are any."""

    def blocks(self, campaign: int, round: int, *, after: int = 0, most: int = 16) -> list[ReportBlock]:
        """The next blocks of a round's reports, by number."""

    def id_hash(self) -> IdHash:
        """What the ids of this store are hashed with."""

    def ids_by_slice(self, campaign: int, damaged: Callable[[str], None]) -> Iterator[list[tuple[int, Ids]]]:
        """All ids that are known, with their rounds: a list for each slice; equal ids are in one slice."""

    def secret(self) -> bytes | None:
        """What issued ids are made with, once there is one."""

    def batches(self, campaign: int) -> list[BatchRow]:
        """What relays have forwarded to a campaign, by round."""

    def opening_keys(self) -> list[OpeningKeyRow]:
        """The keys that open sealed reports, the newest first."""


class Writing(Reading, AccessWriting, SeriesWriting, Protocol):
    """What can be changed, all or nothing."""

    def add_campaign(self, *, id: str, config: str, terms: str, label: str, now: float) -> bool:
        """Whether the campaign is new."""

    def label_campaign(self, campaign: int, label: str) -> None:
        """Another label."""

    def finish_campaign(self, campaign: int, now: float) -> None:
        """The last round is over."""

    def keep_outcome(self, campaign: int, outcome: OutcomeRow) -> None:
        """Store what a campaign found; what was stored before stays."""

    def begin_group(self, tokens: list[str], campaigns: list[int]) -> tuple[set[str], dict[int, RoundRow]]:
        """The tokens that live, and the open round of each campaign: it stays open until the end."""

    def lock_round(self, campaign: int, number: int) -> RoundRow | None:
        """The round, alone: nobody adds to it until the transaction ends."""

    def open_round(self, campaign: int, round: Round, *, now: float, closes_at: float | None) -> None:
        """A round to which reports are taken."""

    def postpone_round(self, campaign: int, number: int, closes_at: float) -> None:
        """An open round takes reports until another moment."""

    def close_round(self, campaign: int, number: int, *, why: str, now: float) -> None:
        """Take no more reports to a round."""

    def lock_count(self, campaign: int, round: int) -> int:
        """How many reports a round has; nobody else adds to it until the transaction ends."""

    def claim_ids(self, campaign: int, round: int, ids: list[bytes]) -> set[bytes]:
        """Those of the ids, all different, that were not known; they are now."""

    def known_ids(self, campaign: int, ids: list[bytes]) -> set[bytes]:
        """Those of the ids that are known."""

    def add_block(self, campaign: int, round: int, length: int, reports: bytes, counted: Tally) -> None:
        """Keep reports and add what they say to the round's tally."""

    def set_secret(self, secret: bytes) -> None:
        """Keep what issued ids are made with; only where there is none."""

    def add_part(self, campaign: int, part: int, batch: BatchRow) -> None:
        """Part of a batch, or some more that was counted of one; what came of it is noted the first time."""

    def add_opening_key(self, key: OpeningKeyRow) -> None:
        """Another key, to which reports are sealed from now on."""

    def drop_opening_key(self, id: str) -> None:
        """A key that opens nothing from now on."""

    def drop_reports(self, campaign: int, round: int, now: float) -> None:
        """Forget the bytes of a closed round's reports; ids and tally stay."""

    def drop_ids(self, campaign: int, round: int) -> None:
        """Forget the ids of a closed round's reports."""


class Store(AccessStore, Protocol):
    """A place to keep campaigns."""

    migrated: Migration | None
    """What was done to an older store when it was opened."""

    def read(self) -> AbstractContextManager[Reading]:
        """One moment's view."""

    def write(self) -> AbstractContextManager[Writing]:
        """All or nothing, durable when the block ends."""

    def gather(self) -> AbstractContextManager[Writing]:
        """As `write`, for uploads: all there is to do is claim ids and add blocks."""
