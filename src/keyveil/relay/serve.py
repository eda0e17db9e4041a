"""A relay as a process: one store, one event loop, one thread that forwards."""

from __future__ import annotations

from collections.abc import Callable

from keyveil.collector.http.serve import listen, run
from keyveil.collector.settings import Settings
from keyveil.relay.app import RelayApplication
from keyveil.relay.relay import Relay
from keyveil.relay.settings import RelaySettings
from keyveil.relay.store import open_relay_store


def serve(
    store: str,
    *,
    collector: str,
    token: str | None,
    host: str,
    port: int,
    settings: Settings,
    relay_settings: RelaySettings,
    show_token: Callable[[str], None],
    started: Callable[[str], None] = lambda _: None,
) -> None:
    """Run until a signal says stop. `show_token` gets the admin token of a first start, once."""
    with listen(host, port) as listening:
        relay = Relay(
            open_relay_store(store),
            collector=collector,
            token=token,
            settings=settings,
            relay_settings=relay_settings,
        )
        first = relay.access.first_token()
        if first is not None:
            show_token(first)
        started(f"http://{host}:{listening.getsockname()[1]}")
        run(RelayApplication(relay), listening)
