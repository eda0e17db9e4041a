"""`keyveil serve`: a collector on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from keyveil.cli.serving import host_options, limit_options
from keyveil.cli.token import hand_over, token_file_option

if TYPE_CHECKING:
    from keyveil.collector.settings import Settings
    from keyveil.collector.store import Migration


@click.command()
@click.option(
    "--store",
    default="sqlite:///keyveil.db",
    show_default=True,
    metavar="URL",
    help="sqlite:///FILE, or postgresql://... for several collectors at once.",
)
@host_options(8765)
@limit_options
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
    settings: Settings,
    backup_first: Path | None,
    token_file: Path | None,
) -> None:
    """Collect reports over HTTP until told to stop. The first start makes an admin token.

    Put a server that speaks https in front: devices send over http to their own machine only.
    """
    from keyveil.collector.http.serve import serve as run

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
