"""`keyveil token`: who may talk to a running collector."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from keyveil.cli.asking import Server, server_options
from keyveil.errors import CampaignError, StoreError

token_file_option = click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where the admin token goes, readable by its owner alone; it is printed if left out.",
)


def _scope_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--campaign and --series."""
    for option in (
        click.option("--series", metavar="SERIES", help="The same of a series: for all of its waves."),
        click.option(
            "--campaign",
            metavar="CAMPAIGN",
            help="The campaign, by its id or the beginning of it, its name or its file; every campaign if "
            "left out.",
        ),
    ):
        command = option(command)
    return command


@click.group()
def token() -> None:
    """Make, list and revoke the tokens of a running collector."""


@token.command()
@click.argument(
    "role", type=click.Choice(["device", "analyst", "operator", "admin", "monitor", "relay", "annotator"])
)
@_scope_options
@click.option("--label", default="", help="A name for people.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="At most so many a second.")
@server_options
def create(
    role: str,
    campaign: str | None,
    series: str | None,
    label: str,
    rate: float | None,
    url: str,
    token: str | None,
) -> None:
    """Make a token for ROLE; it is printed this once."""
    server = Server(url=url, token=token)
    made = server.ask("POST", _path(server, campaign, series), {"role": role, "label": label, "rate": rate})
    click.echo(made["token"])


@token.command("list")
@_scope_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@server_options
def list_(campaign: str | None, series: str | None, as_json: bool, url: str, token: str | None) -> None:
    """List tokens, without their secrets."""
    server = Server(url=url, token=token)
    found = server.ask("GET", _path(server, campaign, series))["tokens"]
    if as_json:
        click.echo(json.dumps(found))
        return
    for one in found:
        click.echo(f"{one['id']}  {one['role']:8}  {'revoked' if one['revoked_at'] else 'valid'}")


@token.command()
@click.argument("id")
@_scope_options
@server_options
def revoke(id: str, campaign: str | None, series: str | None, url: str, token: str | None) -> None:
    """Revoke a token by its id; it opens nothing from now on."""
    server = Server(url=url, token=token)
    server.ask("DELETE", f"{_path(server, campaign, series)}/{id}")


@token.command()
@click.option("--store", required=True, metavar="URL", help="The store, as `keyveil serve --store` names it.")
@token_file_option
def recover(store: str, token_file: Path | None) -> None:
    """Make another admin token, for whoever holds the store: every other one is lost or revoked.

    Stop the collector of an embedded store first. The log of acts says that it was done.
    """
    from keyveil.collector.campaigns.collector import Collector
    from keyveil.collector.store import open_store

    opened = open_store(store)
    try:
        hand_over(Collector(opened).access.recover(), token_file)
    finally:
        opened.close()


def hand_over(token: str, token_file: Path | None) -> None:
    """Show an admin token once, or put it into a new file that only its owner reads."""
    if token_file is None:
        click.echo(f"admin token, shown this once: {token}")
        return
    try:
        with open(token_file, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(f"{token}\n")
    except OSError as error:
        click.echo(f"admin token, shown this once: {token}")
        raise StoreError(f"cannot write {token_file}: {error.strerror}; the token is above") from None
    click.echo(f"admin token, in {token_file}")


def _path(server: Server, campaign: str | None, series: str | None) -> str:
    if campaign is not None and series is not None:
        raise CampaignError("a token is for a campaign or for a series: say one of --campaign and --series")
    if series is not None:
        return f"{server.series(series)}/tokens"
    return "/v1/tokens" if campaign is None else f"{server.campaign(campaign)}/tokens"
