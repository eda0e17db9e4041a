"""`keyveil perturb`: a file of pairs becomes a file of reports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyveil.cli.columns import column_options, read_for, skip_option
from keyveil.errors import PairsError

if TYPE_CHECKING:
    from keyveil.cli.crowd import FileUsers


@click.command()
@click.argument("campaign", type=click.Path(path_type=Path))
@click.argument("pairs", type=click.Path(path_type=Path))
@click.option(
    "-o", "--out", required=True, type=click.Path(path_type=Path), help="The Parquet file to write."
)
@column_options
@skip_option
def perturb(campaign: Path, pairs: Path, out: Path, **columns: Any) -> None:
    """Noise every user in PAIRS (CSV, JSON lines or Parquet) by CAMPAIGN: one report a user.

    The noise is keyed by the operating system and cannot be repeated; reports come in a random order.
    """
    from keyveil.campaign import Campaign
    from keyveil.cli.console import progress
    from keyveil.cli.crowd import FileUsers
    from keyveil.cli.files import write_reports

    if out.suffix.lower() not in ("", ".parquet", ".pq"):
        raise PairsError(
            f"reports are written as Parquet; expected a name such as reports.parquet, got {out.name}"
        )
    asked = Campaign.load(campaign)
    crowd = FileUsers(asked, read_for(asked, pairs, **columns).population)
    say_who_is_unknown(crowd)
    with progress("noising", crowd.n_users) as advance:

        def watched(blocks: Iterator[bytes]) -> Iterator[bytes]:
            for block in blocks:
                advance(len(block) // crowd.length)
                yield block

        count = write_reports(out, crowd.campaign, watched(crowd.blocks()), crowd.length)
    click.echo(f"wrote {count} reports of {crowd.length} bytes to {out}", err=True)


def say_who_is_unknown(crowd: FileUsers) -> None:
    """Tell how many pairs have keys that the campaign does not name."""
    if crowd.n_unknown:
        goes = 'went to "other"' if crowd.campaign.other else "were left out"
        click.echo(f"{crowd.n_unknown} pairs with keys that the campaign does not name {goes}", err=True)
