"""The collector without HTTP, all of it synchronous: one part for each thing that it does.

    access       who asks: tokens and the log of acts
    campaigns    created once, never changed
    series       campaigns that are asked in waves; `calendar` opens them
    opening      the keys of sealed reports
    running      rounds, and how they end
    outcomes     what a campaign found
    readout      tallies, releases, results
    trends       what a series found
    reports      the stored reports: exports, recounts, tests of the noise

Whoever acts is named by the id of their token; every act is logged in the transaction that does it.
"""

from __future__ import annotations

from contextlib import suppress

from keyveil.collector.campaigns.access import Access
from keyveil.collector.campaigns.calendar import Calendar
from keyveil.collector.campaigns.campaigns import Campaigns
from keyveil.collector.campaigns.context import Context
from keyveil.collector.campaigns.opening import Opening
from keyveil.collector.campaigns.outcomes import Outcomes
from keyveil.collector.campaigns.readout import ReadOut
from keyveil.collector.campaigns.running import Running
from keyveil.collector.campaigns.series import AllSeries
from keyveil.collector.campaigns.stored_reports import StoredReports
from keyveil.collector.campaigns.trends import Trends
from keyveil.collector.clock import Clock
from keyveil.collector.logs import Log
from keyveil.collector.settings import Settings
from keyveil.collector.store import Store
from keyveil.errors import KeyveilError, StoreError


class Collector(Context):
    """All that a collector does, over a store."""

    def __init__(
        self,
        store: Store,
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
        log: Log | None = None,
    ) -> None:
        super().__init__(store, settings=settings, clock=clock, log=log)
        if store.migrated is not None:
            self.log.event("store-migrated", **{"from": store.migrated.start, "to": store.migrated.end})
        self.access, self.campaigns = Access(self), Campaigns(self)
        self.opening = Opening(self)
        self.running, self.reports = Running(self), StoredReports(self)
        self.calendar = Calendar(self, self.running)
        self.series = AllSeries(self, self.campaigns, self.calendar)
        outcomes = Outcomes(self)
        self.readout = ReadOut(self, outcomes)
        self.trends = Trends(self, self.series, outcomes, self.readout)

    def inspect(self) -> None:
        """Look at every campaign; what cannot be read is named, the rest is served."""
        try:
            with self.store.read() as tx:
                rows, series = tx.campaigns(), [row.id for row in tx.all_series()]
        except StoreError as error:
            if not error.damaged:
                raise
            self.mark_damaged("campaigns", str(error))
            return
        for id in series:
            with suppress(StoreError):
                self.known_series(id)
        for row in rows:
            try:
                with self.store.read() as tx:
                    known = self.cache.campaign(tx, row.id)
                    assert known is not None
                    for opened in tx.rounds(known.no):
                        self.cache.tally(tx, known, opened.number)
            except KeyveilError as error:
                self.mark_damaged(row.id, str(error))
