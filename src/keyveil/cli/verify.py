"""`keyveil verify`: whether a store is whole."""

from __future__ import annotations

import click

from keyveil.cli.console import progress
from keyveil.errors import StoreError


class _Unreadable(click.ClickException):
    """There is no store to look at, or not now: a mistake, and no verdict."""

    exit_code = 2


@click.command()
@click.argument("store")
def verify(store: str) -> None:
    """Test every checksum of a STORE, and that reports, ids and tallies agree; nothing is changed.

    STORE is a file, sqlite:///FILE or postgresql://... A file must not be in use: stop its collector, or
    verify a copy (`keyveil backup`). PostgreSQL is looked at beside running collectors, campaign by campaign.
    """
    from keyveil.collector.campaigns.verify import verify as look
    from keyveil.collector.store import open_store

    url = store if "://" in store else f"sqlite:///{store}"
    try:
        opened = open_store(url, read_only=True)
    except StoreError as error:
        raise (click.ClickException if error.damaged else _Unreadable)(str(error)) from None
    try:
        with progress("reports and ids", None) as advance:
            found = look(opened, looked=advance)
    finally:
        opened.close()
    series = f"{found.series:,} series, " if found.series else ""
    click.echo(
        f"{series}{found.campaigns:,} campaigns, {found.rounds:,} rounds, {found.blocks:,} blocks of "
        f"{found.reports:,} reports, {found.ids:,} ids"
    )
    for fault in found.faults:
        click.echo(f"fault: {fault}")
    if found.faults:
        raise SystemExit(1)
    click.echo("every checksum matches; reports, ids and tallies agree")
