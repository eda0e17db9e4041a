"""A service as a process: one store, one event loop, uvicorn around it."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import uvicorn

from keyveil.collector.campaigns.collector import Collector
from keyveil.collector.clock import Clock
from keyveil.collector.http.app import Application
from keyveil.collector.http.origins import CrossOrigin
from keyveil.collector.http.service import Service
from keyveil.collector.settings import Settings
from keyveil.collector.store import Migration, open_store
from keyveil.errors import StoreError

# Seconds that requests have to end when a stop is asked for; with the last group, under ten in all.
_GRACE = 6
_BACKLOG = 4096
# Seconds that the event loop may keep the interpreter from the writer. Every statement of a transaction
# takes the lock again; at the default of 5 ms each, a commit waits longer for it than for the disk.
_SWITCH = 0.001
# Objects made before the garbage collector runs. An upload that waits for its commit is a few dozen; at the
# default of 700, a fifth of the event loop's time goes to looking for cycles among those that wait.
_GC_THRESHOLD = 20_000


def serve(
    store: str,
    *,
    host: str,
    port: int,
    settings: Settings | None = None,
    clock: Clock | None = None,
    backup_first: Path | None = None,
    announce: Callable[[Migration], None] = lambda _: None,
    show_token: Callable[[str], None],
    started: Callable[[str], None] = lambda _: None,
) -> None:
    """Run until a signal says stop. `show_token` gets the admin token of a first start, once.

    `announce` hears of a migration before it is made.
    """
    with listen(host, port) as listening:
        opened = open_store(store, backup_first=backup_first, announce=announce)
        collector = Collector(opened, settings=settings, clock=clock)
        token = collector.access.first_token()
        if token is not None:
            show_token(token)
        collector.inspect()
        started(f"http://{host}:{listening.getsockname()[1]}")
        run(Application(collector), listening)


def _protocol(service: Service) -> type[asyncio.Protocol] | Literal["auto"]:
    """Our protocol on uvicorn's; uvicorn's own where it is not the one that ours builds on."""
    try:
        from keyveil.collector.http.direct import direct_protocol, find_difference

        why = find_difference()
    except ImportError as error:
        why = f"uvicorn's protocol is elsewhere: {error}"
    if not why:
        return direct_protocol(service.intake, service.connections, service.host.settings)
    service.host.log.event("not-direct", why=why)
    return "auto"


def run(service: Service, listening: socket.socket) -> None:
    """Serve until a signal says stop."""
    protocol = _protocol(service)
    origins = service.host.settings.origins
    config = uvicorn.Config(
        CrossOrigin(service, service.endpoints, origins) if origins else service,
        http=protocol,
        # Our protocol bounds them itself, by address, and keeps places for operators.
        limit_concurrency=service.host.settings.connections if protocol == "auto" else None,
        lifespan="on",
        ws="none",
        access_log=False,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=_GRACE,
        backlog=_BACKLOG,
    )
    library = logging.getLogger("uvicorn")
    library.handlers, library.propagate = [service.host.library_log()], False
    library.setLevel(logging.WARNING)
    sys.setswitchinterval(_SWITCH)
    # What is loaded now stays: the garbage collector need not look at it again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD)
    # uvicorn raises the signal that ended it once more; by then everything is done.
    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, lambda *_: None)
    uvicorn.Server(config).run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """The socket, taken before anything else: who cannot listen changes no store."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise StoreError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
    return listening
