"""What every part of a collector works with: the store and its cache, the clock, log and metrics."""

from __future__ import annotations

import re
from typing import Literal

from keyveil.collector.campaigns.cache import CampaignCache, StoredCampaign
from keyveil.collector.clock import Clock
from keyveil.collector.logs import LibraryLog, Log, Refusals
from keyveil.collector.metrics import Metrics
from keyveil.collector.problems import Problem
from keyveil.collector.settings import Settings
from keyveil.collector.store import RoundRow, Store
from keyveil.errors import StoreError

# Who acts where no token does: the clock, or the count of reports.
NOBODY = ""
_ID = re.compile("[0-9a-f]{64}")


class Context:
    """A store with its cache, and what goes with it."""

    def __init__(
        self,
        store: Store,
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
        log: Log | None = None,
    ) -> None:
        self.store, self.settings = store, settings or Settings()
        self.cache, self.metrics, self.log = CampaignCache(), Metrics(), log or Log()
        self.metrics.build["store"] = store.kind
        self.metrics.gauges["keyveil_log_lines_lost"] = (
            "Lines of the log that could not be written.",
            lambda: self.log.lost,
        )
        self.clock = clock or Clock(jumped=lambda by: self.log.event("clock-jumped", seconds=round(by)))
        self.metrics.gauges["keyveil_clock_doubt_seconds"] = (
            "How far the wall clock is from what is believed, since it jumped.",
            lambda: self.clock.doubt,
        )
        self._refusals = Refusals(self.log)
        self.damaged: dict[str, str] = {}
        """Campaign ids (or tables) that cannot be read, and why."""

    def count_refusal(self, code: str) -> None:
        """A request that was refused: counted, and logged by its code."""
        self.metrics.count_problem(code)
        self._refusals.note(code)

    def flush_log(self) -> None:
        """Log the refusals that were only counted so far."""
        self._refusals.flush()

    def library_log(self) -> LibraryLog:
        """Where libraries log."""
        return LibraryLog(self.log, self._refusals)

    def now(self) -> float:
        """The time that is believed."""
        return self.clock.now()

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

    def state(
        self, known: StoredCampaign, finished_at: float | None
    ) -> Literal["open", "finished", "expired"]:
        """Whether a campaign still takes reports."""
        if finished_at is not None:
            return "finished"
        return "expired" if self.clock.earliest() >= known.ends else "open"

    def mark_damaged(self, campaign: str, why: str) -> None:
        """Say that something of a campaign cannot be read."""
        if campaign not in self.damaged:
            self.log.event("damaged", campaign=campaign, why=why)
        self.damaged[campaign] = why


def find_round(rows: list[RoundRow], number: int) -> RoundRow:
    """The round with this number, or a refusal."""
    for row in rows:
        if row.number == number:
            return row
    raise Problem("unknown-round")
