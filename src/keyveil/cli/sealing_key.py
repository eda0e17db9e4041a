"""`keyveil sealing-key`: the keys to which devices seal what a relay carries."""

from __future__ import annotations

import json
from typing import Any

import click

from keyveil.cli.asking import Server, server_options

_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def sealing_key() -> None:
    """List, make and retire the keys of a running collector that open sealed reports."""


@sealing_key.command("list")
@_json_option
@server_options
def list_(as_json: bool, url: str, token: str | None) -> None:
    """List the public keys, the newest first: devices seal to that one, or are shipped with it."""
    _show(Server(url=url, token=token).ask("GET", "/v1/keys"), as_json)


@sealing_key.command()
@_json_option
@server_options
def create(as_json: bool, url: str, token: str | None) -> None:
    """Make another key, to which devices seal from now on; older ones open what is under way.

    Do it between rounds: reports to different keys go in batches of their own.
    """
    _show(Server(url=url, token=token).ask("POST", "/v1/keys"), as_json)


@sealing_key.command()
@click.argument("id")
@server_options
def retire(id: str, url: str, token: str | None) -> None:
    """Retire a key by its id: what is sealed to it opens no more. The newest one stays."""
    Server(url=url, token=token).ask("DELETE", f"/v1/keys/{id}")


def _show(said: Any, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(said))
        return
    for key in said["keys"]:
        click.echo(f"{key['id']}  {key['public']}")
