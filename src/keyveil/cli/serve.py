"""`keyveil serve`: a collector on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from keyveil.cli.token import hand_over, token_file_option

if TYPE_CHECKING:
    from keyveil.collector.store import Migration


def _read_origins(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    from keyveil.collector.settings import read_origin

    try:
        return tuple(read_origin(origin) for origin in given)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.option(
    "--store",
    default="sqlite:///keyveil.db",
    show_default=True,
    metavar="URL",
    help="sqlite:///FILE, or postgresql://... for several collectors at once.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=8765, show_default=True, type=click.IntRange(0, 65535), help="The port.")
@click.option(
    "--largest-body",
    default=8 << 20,
    show_default=True,
    type=click.IntRange(1024),
    help="Bytes of an upload.",
)
@click.option(
    "--waiting-bytes",
    default=64 << 20,
    show_default=True,
    type=click.IntRange(1024),
    help="Bytes of uploads in memory; beyond them senders wait.",
)
@click.option(
    "--waiting-uploads",
    default=4096,
    show_default=True,
    type=click.IntRange(1),
    help="Uploads that may wait to be written.",
)
@click.option(
    "--connections",
    default=2048,
    show_default=True,
    type=click.IntRange(128),
    help="Connections at once; 64 of them are kept for health checks and operators.",
)
@click.option(
    "--proxy",
    "proxies",
    multiple=True,
    default=("127.0.0.1", "::1"),
    show_default=True,
    metavar="ADDRESS",
    help="A server in front, whose X-Forwarded-For tells whom it speaks for.",
)
@click.option(
    "--allow-origin",
    "origins",
    multiple=True,
    callback=_read_origins,
    metavar="ORIGIN",
    help="A site whose pages may send reports, such as https://app.example; repeat it for more, * for all. "
    "Without it no page of another site may.",
)
@click.option(
    "--patience",
    default=30.0,
    show_default=True,
    type=click.FloatRange(0, min_open=True),
    help="Seconds that a header, or the body of an upload, may take to come.",
)
@click.option(
    "--backup-first",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where an embedded store that must be migrated is copied to, as it was.",
)
@token_file_option
def serve(
    store: str,
    host: str,
    port: int,
    largest_body: int,
    waiting_bytes: int,
    waiting_uploads: int,
    connections: int,
    proxies: tuple[str, ...],
    origins: tuple[str, ...],
    patience: float,
    backup_first: Path | None,
    token_file: Path | None,
) -> None:
    """Collect reports over HTTP until told to stop. The first start makes an admin token.

    Put a server that speaks https in front: devices send over http to their own machine only.
    """
    from keyveil.collector.http.serve import serve as run
    from keyveil.collector.settings import Settings

    settings = Settings(
        largest_body=largest_body,
        waiting_bytes=waiting_bytes,
        waiting_uploads=waiting_uploads,
        connections=connections,
        proxies=proxies,
        origins=origins,
        patience=patience,
    )

    def announce(migration: Migration) -> None:
        copy = "no copy is made" if backup_first is None else f"a copy goes to {backup_first}"
        click.echo(f"migrating the store from schema {migration.start} to {migration.end}; {copy}")

    run(
        store,
        backup_first=backup_first,
        announce=announce,
        host=host,
        port=port,
        settings=settings,
        show_token=lambda token: hand_over(token, token_file),
        started=lambda address: click.echo(f"listening on {address}"),
    )
