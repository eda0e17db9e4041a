"""A relay behind HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Any

from starlette.applications import Starlette

from keyveil.collector.http.openapi import document
from keyveil.collector.http.service import Service
from keyveil.relay.endpoints import RELAY_ENDPOINTS
from keyveil.relay.intake import SealedIntake
from keyveil.relay.relay import Relay
from keyveil.relay.taking import SealedWriter


class RelayApplication(Service):
    """The service of a relay."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        writer = SealedWriter(
            relay.store,
            relay.campaigns,
            relay.settings,
            clock=relay.clock.earliest,
            metrics=relay.metrics,
            log=relay.log,
        )
        super().__init__(
            relay,
            RELAY_ENDPOINTS,
            writer=writer,
            intake=lambda rates, executor: SealedIntake(relay, writer, rates, executor),
        )

    @cached_property
    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document of this interface."""
        words = "Takes sealed reports, forgets who sent them, and forwards them in shuffled batches."
        return document(self.endpoints, "keyveil relay", words)

    def background(self) -> Sequence[tuple[Callable[[], None], float]]:
        """What is done again and again, and every how many seconds."""
        settings = self.host.settings
        return (
            *super().background(),
            (self.relay.tick, settings.tick),
            (self.relay.refresh, self.relay.relay_settings.refresh),
            (self.relay.tidy, settings.tidy),
        )

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self.relay.forwarding.start()
        async with super()._lifespan(app):
            try:
                yield
            finally:
                # Before the store is closed, and away from the event loop: a request may be under way.
                await self.work(self.relay.forwarding.stop)
