"""Which campaigns, rounds and keys there are: what the collector says in public, asked for again and again.

A campaign that nobody has asked for here is looked up when somebody does, a few a second at most: strangers
must not make a relay ask. What was heard is kept on disk, so that a relay which starts while the collector
is away goes on taking reports to the rounds that it knows.

The campaign's id is its hash, so its text is what it was. How many hide together follows from its `batch` and
from the part of the devices that a round asks. That part is the collector's word, so a round for a smaller
part than the campaign's method ever asks is not carried.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from keyveil.campaign import Campaign
from keyveil.client.transport import Exchange
from keyveil.collector.campaigns.access import NOBODY
from keyveil.collector.campaigns.cache import StoredCampaign
from keyveil.collector.campaigns.terms import Terms
from keyveil.collector.problems import Problem
from keyveil.errors import DescriptionError, KeyveilError, TransportError
from keyveil.relay.settings import RelaySettings
from keyveil.relay.store import CarriedRound, RelayStore, RelayTransaction
from keyveil.rounds import Round
from keyveil.sealing import KEY_ID_BYTES, SEALED_OVERHEAD, SUITE, key_id

_ID = re.compile("[0-9a-f]{64}")
_LARGEST_VIEW, _LARGEST_KEYS = 64 << 20, 1 << 16
# Keys to which reports are taken: a collector with one for each device would know each by its key.
MOST_KEYS = 4
# Seconds that a campaign which is not there is not asked for again, and how many such are remembered.
_FORGOTTEN_AFTER, _MOST_STRANGE = 10.0, 1024
# Seconds that one who asks for a new campaign waits for another, and that the collector has for an answer.
_PATIENCE, _SOON = 2.0, 5.0
# Campaigns that nobody has asked for yet are looked up so often a second, at most.
_LOOKUPS = 10.0
# Of the time that is left to a round, the part in which the last batch is made, at most.
_LAST_PART = 0.1


@dataclass(frozen=True, slots=True)
class CarriedCampaign:
    """A campaign with the collector's words about it."""

    stored: StoredCampaign
    view: bytes
    is_over: bool


class Campaigns:
    """The campaigns of a collector, as a relay knows them."""

    def __init__(
        self,
        store: RelayStore,
        *,
        collector: str,
        settings: RelaySettings,
        exchange: Exchange,
        now: Callable[[], float],
        tell: Callable[..., None],
    ) -> None:
        self._store, self._settings, self._exchange = store, settings, exchange
        self._collector, self._now, self._tell = collector.rstrip("/"), now, tell
        self._known: dict[str, CarriedCampaign] = {}
        self._keys: bytes | None = None
        self._key_ids: frozenset[bytes] = frozenset()
        self.wants_keys = False
        """Whether somebody has sealed to a key that is not known here."""
        self._strange: dict[str, float] = {}
        self._asking = threading.Lock()
        self._lookups, self._looked_at = _LOOKUPS, time.monotonic()
        self._load()

    # --- what is known ---

    def find(self, id: str) -> StoredCampaign | None:
        """A campaign, if it was met before; nobody is asked."""
        found = self._known.get(id)
        return None if found is None else found.stored

    def known(self, id: str) -> StoredCampaign:
        """A campaign; the collector is asked for one that was never met."""
        return self.carried(id).stored

    def carried(self, id: str) -> CarriedCampaign:
        """The same with the collector's words."""
        found = self._known.get(id)
        if found is not None:
            return found
        if not _ID.fullmatch(id):
            raise Problem("unknown-campaign")
        if not self._asking.acquire(timeout=_PATIENCE):
            raise Problem("overloaded", retry_after=1.0)
        try:
            if id not in self._known:
                self._look_up(id)
            return self._known[id]
        finally:
            self._asking.release()

    def keys(self) -> bytes:
        """The collector's public keys, in its own words."""
        if self._keys is None:
            self.refresh_keys()
        assert self._keys is not None
        return self._keys

    def takes_key(self, id: bytes) -> bool:
        """Whether the collector lists the key; devices may have heard of a new one first."""
        if id not in self._key_ids:
            self.wants_keys = True
        return id in self._key_ids

    # --- asking ---

    def refresh(self) -> None:
        """Ask again for the keys, and for every campaign that is not over."""
        self.refresh_keys()
        for id, carried in list(self._known.items()):
            if not carried.is_over and carried.stored.campaign.is_relayed:
                self._keep(id, self._ask(f"/v1/campaigns/{id}", _LARGEST_VIEW))

    def refresh_keys(self) -> None:
        """Ask for the keys."""
        self.wants_keys = False
        said = self._ask("/v1/keys", _LARGEST_KEYS)
        ids = _read_keys(said)
        with self._store.write() as tx:
            tx.set_value("keys", said.decode())
        self._keys, self._key_ids = said, ids

    def _look_up(self, id: str) -> None:
        now = time.monotonic()
        if now - self._strange.get(id, -_FORGOTTEN_AFTER) < _FORGOTTEN_AFTER:
            raise Problem("unknown-campaign")
        self._lookups = min(_LOOKUPS, self._lookups + _LOOKUPS * (now - self._looked_at))
        self._looked_at = now
        if self._lookups < 1:
            raise Problem("overloaded", retry_after=1.0)
        self._lookups -= 1
        try:
            said = self._ask(f"/v1/campaigns/{id}", _LARGEST_VIEW, timeout=_SOON)
        except _NotThere:
            self._strange.pop(id, None)
            if len(self._strange) >= _MOST_STRANGE:
                del self._strange[next(iter(self._strange))]
            self._strange[id] = now
            raise Problem("unknown-campaign") from None
        except KeyveilError as error:
            raise Problem("collector-unreachable", str(error), retry_after=5.0) from None
        self._keep(id, said)

    def _ask(self, path: str, largest: int, timeout: float | None = None) -> bytes:
        answer = self._exchange(self._collector + path, None, timeout or self._settings.timeout, largest)
        if answer.status == 404:
            raise _NotThere(f"the collector does not know {path}")
        if answer.status != 200:
            raise TransportError(f"the collector answered {answer.said} to {path}")
        return answer.body

    # --- keeping ---

    def _load(self) -> None:
        with self._store.read() as tx:
            views, keys = tx.views(), tx.value("keys")
        for no, id, view in views:
            campaign, said = _read_view(id, view.encode())
            self._known[id] = self._carry(no, campaign, said, view.encode())
        if keys is not None:
            self._keys, self._key_ids = keys.encode(), _read_keys(keys.encode())

    def _keep(self, id: str, body: bytes) -> None:
        """What the collector said of a campaign, and what follows for its rounds."""
        before = self._known.get(id)
        if before is not None and before.view == body:
            return
        campaign, said = _read_view(id, body)
        if not campaign.is_relayed:
            self._known[id] = self._carry(0, campaign, said, body)
            return
        asked = None if said["round"] is None else self._read_round(campaign, said["round"])
        with self._store.write() as tx:
            no = tx.keep_view(id, body.decode())
            ended = self._follow(tx, no, campaign, asked, said.get("closes_at"))
        for round in ended:
            self._tell("round-ended", campaign=id, round=round.number, why="collector")
        self._known[id] = self._carry(no, campaign, said, body)

    def _read_round(self, campaign: Campaign, description: object) -> Round | None:
        """The round that is open; none, if it asks so few that they would not hide each other."""
        try:
            return campaign.read_round(description)
        except DescriptionError as error:
            if error.code != "small-group":
                raise
            self._tell("round-refused", campaign=campaign.id, why=str(error))
            return None

    def _follow(
        self,
        tx: RelayTransaction,
        no: int,
        campaign: Campaign,
        asked: Round | None,
        closes_at: float | None,
    ) -> list[CarriedRound]:
        """Open the round that is open there, and end the others."""
        now = self._now()
        number = 0 if asked is None else asked.number
        ended = [each for each in tx.rounds(no) if each.number != number and each.ended_at is None]
        for each in ended:
            tx.end_round(each.no, now=now, why="the collector closed it")
            tx.log(
                at=now, token=NOBODY, act="round-ended", campaign=campaign.id, detail=f"{each.number} closed"
            )
        if asked is not None:
            lead = 0.0 if closes_at is None else min(self._settings.lead, _LAST_PART * (closes_at - now))
            tx.open_round(
                no,
                asked.number,
                batch=campaign.batch_of(asked),
                length=asked.report_bytes + SEALED_OVERHEAD,
                ends_at=None if closes_at is None else closes_at - lead,
            )
        return ended

    def _carry(self, no: int, campaign: Campaign, said: dict[str, Any], view: bytes) -> CarriedCampaign:
        terms = Terms(uploads=self._settings.uploads, late=_late(campaign, said))
        stored = StoredCampaign(no=no, campaign=campaign, terms=terms, created_at=0.0)
        return CarriedCampaign(stored, view, said.get("state") == "finished")


def _late(campaign: Campaign, said: dict[str, Any]) -> float | None:
    """How many seconds after a wave's end the collector still takes reports to the round that is open."""
    closes_at = said.get("closes_at")
    if not campaign.is_wave or campaign.expiry is None or closes_at is None:
        return None
    return max(0.0, float(closes_at) - campaign.expiry.timestamp())


class _NotThere(TransportError):
    """The collector knows no such thing."""


def _read_view(id: str, body: bytes) -> tuple[Campaign, dict[str, Any]]:
    try:
        said = json.loads(body)
        campaign = Campaign.from_text(said["campaign"])
        if not isinstance(said.get("closes_at"), (int, float, type(None))):
            raise ValueError
        said["round"]
    except (ValueError, KeyError, TypeError, RecursionError, KeyveilError):
        raise TransportError("what the collector sent is no campaign; is --to its address?") from None
    if campaign.id != id:
        raise TransportError(f"expected campaign {id[:12]}, the collector sent another")
    return campaign, said


def _read_keys(body: bytes) -> frozenset[bytes]:
    """The ids of the newest keys."""
    try:
        said = json.loads(body)
        if said["suite"] != SUITE:
            raise ValueError
        found = [key_id(bytes.fromhex(each["public"])) for each in said["keys"]]
        if [each["id"] for each in said["keys"]] != [id.hex() for id in found]:
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise TransportError("what the collector sent is no list of keys; is --to its address?") from None
    assert all(len(id) == KEY_ID_BYTES for id in found)
    return frozenset(found[:MOST_KEYS])
