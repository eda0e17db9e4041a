"""The collector behind HTTP: its reports, its pages, and what goes on in the background."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import Response

from keyveil.collector.campaigns.cache import RoundGrowth
from keyveil.collector.campaigns.collector import Collector
from keyveil.collector.http.endpoints import ENDPOINTS
from keyveil.collector.http.intake import ReportIntake
from keyveil.collector.http.service import Service
from keyveil.collector.problems import Problem
from keyveil.collector.writing.writer import ReportWriter
from keyveil.dashboard.assets import answer
from keyveil.errors import StoreError
from keyveil.tally.bits import warm_up

_ASSETS = "/assets/"


class Application(Service):
    """A collector behind HTTP."""

    intake: ReportIntake

    def __init__(self, collector: Collector) -> None:
        self.collector = collector
        writer = ReportWriter(
            collector.store,
            collector.cache,
            collector.settings,
            clock=collector.clock.earliest,
            metrics=collector.metrics,
            log=collector.log,
            filled=self._filled,
        )
        super().__init__(
            collector,
            ENDPOINTS,
            writer=writer,
            intake=lambda rates, executor: ReportIntake(collector, writer, rates, executor),
        )

    async def answer(self, scope: Any, receive: Any, send: Any) -> None:
        """A request that is no upload."""
        is_asset = scope["type"] == "http" and scope["path"].startswith(_ASSETS)
        if is_asset and scope["method"] in ("GET", "HEAD"):
            await self._asset(scope["path"][len(_ASSETS) :], scope, receive, send)
        else:
            await super().answer(scope, receive, send)

    def background(self) -> Sequence[tuple[Callable[[], None], float]]:
        """What is done again and again, and every how many seconds."""
        running, settings = self.collector.running, self.collector.settings
        return (
            *super().background(),
            (self.collector.calendar.tick, settings.tick),
            (running.tick, settings.tick),
            (running.tidy, settings.tidy),
        )

    def started(self) -> None:
        """The process is up: rounds that are complete go on."""
        self._executor.submit(warm_up)
        self._executor.submit(self._resume)

    def _filled(self, growth: RoundGrowth) -> None:
        """Called by the writer, which must not wait for what follows a round that is complete."""
        if self.collector.running.filled(growth):
            self._executor.submit(self._resume)

    def _resume(self) -> None:
        try:
            self.collector.running.resume()
            self.collector.calendar.tick()
        except StoreError as error:
            # The clock tries again.
            self.collector.log.event("store", why=str(error), request="resume")

    async def _asset(self, name: str, scope: Any, receive: Any, send: Any) -> None:
        """A file of the dashboard: the same for everybody, so no table of roles stands before it."""
        asked = Headers(scope=scope)
        found = answer(
            name,
            takes_gzip="gzip" in asked.get("accept-encoding", ""),
            known_tag=asked.get("if-none-match"),
        )
        if found is None:
            await self.refused(Problem("not-found"))(scope, receive, send)
            return
        status, headers, body = found
        await Response(body, status_code=status, headers=headers)(scope, receive, send)
