"""`keyveil perturb`: a file of pairs becomes a file of reports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from keyveil.cli.crowd import FileUsers


@click.command()
@click.argument("campaign", type=click.Path(path_type=Path))
@click.argument("pairs", type=click.Path(path_type=Path))
@click.option(
    "-o", "--out", required=True, type=click.Path(path_type=Path), help="The Parquet file to write."
)
def perturb(campaign: Path, pairs: Path, out: Path) -> None:
    """Noise every user in PAIRS (Parquet or CSV: user, key, value) by CAMPAIGN: one report a user.

    The noise is keyed by the operating system and cannot be repeated; reports come in a random order.
    """
    from keyveil.campaign import Campaign
    from keyveil.cli.console import progress
    from keyveil.cli.crowd import FileUsers
    from keyveil.cli.files import write_reports

    crowd = FileUsers(Campaign.load(campaign), pairs)
    say_what_was_settled(crowd)
    with progress("noising", crowd.n_users) as advance:

        def watched(blocks: Iterator[bytes]) -> Iterator[bytes]:
            for block in blocks:
                advance(len(block) // crowd.length)
                yield block

        count = write_reports(out, crowd.campaign, watched(crowd.blocks()), crowd.length)
    click.echo(f"wrote {count} reports of {crowd.length} bytes to {out}", err=True)


def say_what_was_settled(crowd: FileUsers) -> None:
    """Tell how many rows were averaged and how many keys were strangers."""
    if crowd.n_repeated:
        click.echo(f"averaged {crowd.n_repeated} rows that repeat a (user, key)", err=True)
    if crowd.n_unknown:
        goes = 'went to "other"' if crowd.campaign.other else "were left out"
        click.echo(f"{crowd.n_unknown} pairs with keys that the campaign does not name {goes}", err=True)
