"""What every part of a collector works with: the store, what is known of it, the clock, the counts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Literal

from keyveil.collector.logs import Log
from keyveil.collector.metrics import Metrics
from keyveil.collector.problems import Problem
from keyveil.collector.rounds import Book, Known
from keyveil.collector.settings import Settings
from keyveil.collector.store import Store
from keyveil.errors import StoreError

# Who acts where no token does: the clock, or the count of reports.
NOBODY = ""
_ID = re.compile("[0-9a-f]{64}")


class Core:
    """A store and what is remembered of it."""

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
        self.metrics.gauges["keyveil_log_lines_lost"] = (
            "Lines of the log that could not be written.",
            lambda: self.log.lost,
        )
        self._clock, self._latest = clock, 0.0
        self.damaged: dict[str, str] = {}
        """Campaign ids (or tables), and what is wrong with them."""

    def now(self) -> float:
        """The time; it never runs backwards, so that what was over stays over."""
        now = self._clock()
        if now > self._latest:
            self._latest = now
        return self._latest

    def known(self, id: str) -> Known:
        """A campaign, or a refusal."""
        known = self.book.find(id)
        if known is None and not _ID.fullmatch(id):
            raise Problem("unknown-campaign")
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

    def state(self, known: Known, finished_at: float | None) -> Literal["open", "finished", "expired"]:
        """Whether a campaign still takes reports."""
        if finished_at is not None:
            return "finished"
        return "expired" if self.now() >= known.ends else "open"

    def mark_damaged(self, campaign: str, why: str) -> None:
        """Say that something of a campaign cannot be read."""
        if campaign not in self.damaged:
            self.log.event("damaged", campaign=campaign, why=why)
        self.damaged[campaign] = why
