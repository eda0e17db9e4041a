"""Options that whoever serves has: a collector and a relay."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

_LIMITS = (
    "largest_body",
    "waiting_bytes",
    "waiting_uploads",
    "connections",
    "proxies",
    "origins",
    "patience",
)


def _read_origins(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    from keyveil.collector.settings import read_origin

    try:
        return tuple(read_origin(origin) for origin in given)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


_OPTIONS = (
    click.option(
        "--largest-body",
        default=8 << 20,
        show_default=True,
        type=click.IntRange(1024),
        help="Bytes of an upload.",
    ),
    click.option(
        "--waiting-bytes",
        default=64 << 20,
        show_default=True,
        type=click.IntRange(1024),
        help="Bytes of uploads in memory; beyond them senders wait.",
    ),
    click.option(
        "--waiting-uploads",
        default=4096,
        show_default=True,
        type=click.IntRange(1),
        help="Uploads that may wait to be written.",
    ),
    click.option(
        "--connections",
        default=2048,
        show_default=True,
        type=click.IntRange(128),
        help="Connections at once; 64 of them are kept for health checks and operators.",
    ),
    click.option(
        "--proxy",
        "proxies",
        multiple=True,
        default=("127.0.0.1", "::1"),
        show_default=True,
        metavar="ADDRESS",
        help="A server in front, whose X-Forwarded-For tells whom it speaks for.",
    ),
    click.option(
        "--allow-origin",
        "origins",
        multiple=True,
        callback=_read_origins,
        metavar="ORIGIN",
        help="A site whose pages may send reports, such as https://app.example; repeat it for more, * for "
        "all. Without it no page of another site may.",
    ),
    click.option(
        "--patience",
        default=30.0,
        show_default=True,
        type=click.FloatRange(0, min_open=True),
        help="Seconds that a header, or the body of an upload, may take to come.",
    ),
)


def limit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--largest-body and the other bounds, which reach the command as `settings`."""

    @wraps(command)
    def limited(*given: Any, **named: Any) -> Any:
        from keyveil.collector.settings import Settings

        settings = Settings(**{name: named.pop(name) for name in _LIMITS})
        return command(*given, settings=settings, **named)

    made: Callable[..., Any] = limited
    for option in reversed(_OPTIONS):
        made = option(made)
    return made


def host_options(port: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """--host and --port."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        number = click.option(
            "--port", default=port, show_default=True, type=click.IntRange(0, 65535), help="The port."
        )
        host = click.option(
            "--host", default="127.0.0.1", show_default=True, help="The address to listen on."
        )
        made: Callable[..., Any] = host(number(command))
        return made

    return add
