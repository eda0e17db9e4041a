"""`keyveil relay`: between devices and a collector, so that it does not see who sends what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyveil.cli.asking import Server
from keyveil.cli.serving import host_options, limit_options
from keyveil.cli.token import hand_over, token_file_option
from keyveil.errors import KeyveilError

if TYPE_CHECKING:
    from keyveil.collector.settings import Settings

_PORT = 8766
_url_option = click.option(
    "--url",
    envvar="KEYVEIL_RELAY",
    default=f"http://127.0.0.1:{_PORT}",
    show_default=True,
    help="The relay; KEYVEIL_RELAY in the environment if left out.",
)
_token_option = click.option(
    "--token",
    envvar="KEYVEIL_RELAY_TOKEN",
    metavar="TOKEN",
    help="A token of the relay's own; KEYVEIL_RELAY_TOKEN in the environment if left out.",
)


@click.group(invoke_without_command=True)
@click.option("--to", metavar="URL", help="The collector's address.")
@click.option(
    "--token",
    "collector_token",
    envvar="KEYVEIL_TOKEN",
    metavar="TOKEN",
    help="The collector's token for this relay, of role relay; KEYVEIL_TOKEN in the environment if left out.",
)
@click.option(
    "--store",
    default="sqlite:///relay.db",
    show_default=True,
    metavar="URL",
    help="sqlite:///FILE, where sealed reports wait.",
)
@click.option(
    "--uploads",
    type=click.Choice(["open", "token"]),
    default="open",
    show_default=True,
    help="Whether devices need a token of this relay.",
)
@click.option(
    "--lead",
    default=60.0,
    show_default=True,
    type=click.FloatRange(0),
    help="Seconds before a round's end from which nothing is taken, so that the last batch arrives in time.",
)
@click.option(
    "--refresh",
    default=5.0,
    show_default=True,
    type=click.FloatRange(0.1),
    help="Seconds between questions to the collector about keys and rounds.",
)
@host_options(_PORT)
@limit_options
@token_file_option
@click.pass_context
def relay(
    context: click.Context,
    to: str | None,
    collector_token: str | None,
    store: str,
    uploads: Any,
    lead: float,
    refresh: float,
    host: str,
    port: int,
    settings: Settings,
    token_file: Path | None,
) -> None:
    """Take sealed reports and forward them to a collector in shuffled batches, until it is stopped.

    Somebody else than the collector's operator runs it: it sees addresses and cannot read a report, the
    collector reads reports and sees no address. The first start makes an admin token of the relay's own.
    """
    if context.invoked_subcommand is not None:
        return
    if to is None:
        raise click.UsageError("say with --to which collector the reports are for")
    from keyveil.relay.serve import serve
    from keyveil.relay.settings import RelaySettings

    serve(
        store,
        collector=to,
        token=collector_token,
        host=host,
        port=port,
        settings=settings,
        relay_settings=RelaySettings(uploads=uploads, lead=lead, refresh=refresh),
        show_token=lambda token: hand_over(token, token_file),
        started=lambda address: click.echo(f"listening on {address}"),
    )


@relay.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_url_option
@_token_option
def status(as_json: bool, url: str, token: str | None) -> None:
    """Say what a running relay carries: who waits, and how large the batches were."""
    _show(Server(url=url, token=token).ask("GET", "/v1/relay"), as_json)


@relay.command()
@click.argument("campaign")
@click.argument("round", type=click.IntRange(1, 65535), default=1)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_url_option
@_token_option
def end(campaign: str, round: int, as_json: bool, url: str, token: str | None) -> None:
    """Take nothing more to ROUND of CAMPAIGN (its whole id, or its file) and send those who wait.

    Do this before the collector closes a round by hand. Where fewer wait than must go together they are
    thrown away.
    """
    server = Server(url=url, token=token)
    _show(server.ask("POST", f"{server.campaign(campaign)}/rounds/{round}/end"), as_json)


def _show(said: Any, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(said))
        return
    from keyveil.cli.console import output, table

    rows = [
        (
            one["campaign"][:12],
            str(one["round"]),
            "over" if one["ended_at"] else "open",
            f"{one['waiting']:,}",
            f"{one['batch']:,}",
            ", ".join(f"{size:,}" for size in one["batches"]) or "-",
            f"{one['discarded']:,}",
        )
        for one in said["rounds"]
    ]
    columns = ("campaign", "round", "state", "waiting", "batch", "batches made", "discarded")
    output().print(table(f"to {said['collector']}", columns, rows))
    if said["failing"]:
        raise KeyveilError(said["failing"])
