"""`keyveil tally`: files of reports become integers that add."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("campaign", type=click.Path(path_type=Path))
@click.argument("reports", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="The JSON file to write.")
@click.option(
    "--engine", type=click.Choice(["local"]), default="local", show_default=True, help="Where to count."
)
def tally(campaign: Path, reports: tuple[Path, ...], out: Path, engine: str) -> None:
    """Count the REPORTS (Parquet or framed) to CAMPAIGN. A report that comes twice counts once."""
    from keyveil.campaign import Campaign
    from keyveil.cli.counting import tally_files
    from keyveil.cli.files import write_text

    counted = tally_files(Campaign.load(campaign), reports)
    write_text(out, counted.to_json() + "\n")
    click.echo(f"wrote the tally of {counted.n_reports} reports to {out}", err=True)
