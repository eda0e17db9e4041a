"""What a service works with, whatever it serves: its log, metrics, clock and settings, and who may ask.

A collector is one (`context`), a relay another.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from keyveil.collector.clock import Clock
from keyveil.collector.logs import LibraryLog, Log, Refusals
from keyveil.collector.metrics import Metrics
from keyveil.collector.problems import Problem
from keyveil.collector.settings import Settings
from keyveil.collector.store.base import AccessStore

if TYPE_CHECKING:
    from keyveil.collector.campaigns.access import Access
    from keyveil.collector.campaigns.cache import StoredCampaign


class Host:
    """Whom a service asks."""

    store: AccessStore
    access: Access

    def __init__(
        self,
        store: AccessStore,
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
        log: Log | None = None,
    ) -> None:
        self.store, self.settings = store, settings or Settings()
        self.metrics, self.log = Metrics(), log or Log()
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
        self.ailing = ""
        """What does not work, though uploads are taken."""

    def find(self, id: str) -> StoredCampaign | None:
        """A campaign, if it was met before; nobody is asked."""
        raise NotImplementedError

    def known(self, id: str) -> StoredCampaign:
        """A campaign, or a refusal."""
        raise NotImplementedError

    def check_series(self, id: str) -> None:
        """Refuse what is no series that is known here."""
        raise Problem("unknown-series")

    def overdue(self) -> list[str]:
        """Series that should have opened a wave, and did not."""
        return []

    def backup(self, actor: str, *, is_cancelled: Callable[[], bool] = lambda: False) -> BinaryIO:
        """A copy of an embedded store, as a file; nothing is left of one that `is_cancelled`."""
        with tempfile.TemporaryDirectory(prefix="keyveil-") as folder:
            path = Path(folder) / "backup.db"
            self.store.backup(path, is_cancelled=is_cancelled)
            copy = path.open("rb")
        with self.store.write() as tx:
            tx.log(at=self.now(), token=actor, act="backup-taken")
        return copy

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

    def mark_damaged(self, campaign: str, why: str) -> None:
        """Say that something of a campaign cannot be read."""
        if campaign not in self.damaged:
            self.log.event("damaged", campaign=campaign, why=why)
        self.damaged[campaign] = why
