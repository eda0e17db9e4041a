"""What every part of a collector works with: the store and its cache, the clock, log and metrics."""

from __future__ import annotations

import re
from typing import Literal

from keyveil.collector.campaigns.cache import CampaignCache, StoredCampaign, StoredSeries
from keyveil.collector.campaigns.host import Host
from keyveil.collector.clock import Clock
from keyveil.collector.logs import Log
from keyveil.collector.problems import Problem
from keyveil.collector.settings import Settings
from keyveil.collector.store import RoundRow, Store
from keyveil.errors import StoreError

_ID = re.compile("[0-9a-f]{64}")
# Seconds after which a wave that is not open is worth a word.
_PATIENCE = 60.0


class Context(Host):
    """A store with its cache, and what goes with it."""

    store: Store

    def __init__(
        self,
        store: Store,
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
        log: Log | None = None,
    ) -> None:
        super().__init__(store, settings=settings, clock=clock, log=log)
        self.cache = CampaignCache()

    def find(self, id: str) -> StoredCampaign | None:
        """A campaign, if it is cached."""
        return self.cache.find(id)

    def known(self, id: str) -> StoredCampaign:
        """A campaign, or a refusal."""
        known = self.cache.find(id)
        if known is None and not _ID.fullmatch(id):
            raise Problem("unknown-campaign")
        if known is None:
            try:
                with self.store.read() as tx:
                    known = self.cache.campaign(tx, id)
            except StoreError as error:
                if error.damaged:
                    self.mark_damaged(id, str(error))
                raise
        if known is None:
            raise Problem("unknown-campaign")
        return known

    def known_series(self, id: str) -> StoredSeries:
        """A series, or a refusal."""
        if not _ID.fullmatch(id):
            raise Problem("unknown-series")
        try:
            with self.store.read() as tx:
                known = self.cache.series(tx, id)
        except StoreError as error:
            if error.damaged:
                self.mark_damaged(id, str(error))
            raise
        if known is None:
            raise Problem("unknown-series")
        return known

    def check_series(self, id: str) -> None:
        """Refuse what is no series of this store."""
        self.known_series(id)

    def overdue(self) -> list[str]:
        """Series that should have opened a wave, and did not."""
        with self.store.read() as tx:
            return tx.due_series(self.clock.earliest() - _PATIENCE)

    def state(
        self, known: StoredCampaign, finished_at: float | None
    ) -> Literal["open", "finished", "expired"]:
        """Whether a campaign still takes reports."""
        if finished_at is not None:
            return "finished"
        return "expired" if self.clock.earliest() >= known.ends else "open"


def find_round(rows: list[RoundRow], number: int) -> RoundRow:
    """The round with this number, or a refusal."""
    for row in rows:
        if row.number == number:
            return row
    raise Problem("unknown-round")
