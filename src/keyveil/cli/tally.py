"""`keyveil tally`: files of reports become integers that add."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command()
@click.argument("campaign", type=click.Path(path_type=Path))
@click.argument("reports", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="The JSON file to write.")
@click.option(
    "--engine", type=click.Choice(["local"]), default="local", show_default=True, help="Where to count."
)
@click.option("--check", is_flag=True, help="Also test whether this is honest noise; exit status 1 if not.")
def tally(campaign: Path, reports: tuple[Path, ...], out: Path, engine: str, check: bool) -> None:
    """Count the REPORTS (Parquet or framed) to CAMPAIGN. A report that comes twice counts once."""
    from keyveil.campaign import Campaign
    from keyveil.cli.counting import examine_files, tally_files
    from keyveil.cli.files import write_text

    asked = Campaign.load(campaign)
    counted = tally_files(asked, reports)
    write_text(out, counted.to_json() + "\n")
    click.echo(f"wrote the tally of {counted.n_reports} reports to {out}", err=True)
    if check:
        verdict = examine_files(asked, reports, counted)
        if verdict.alarm:
            click.echo(f"NOT honest noise: {verdict.findings[0].what} (p = {verdict.p:.2g})", err=True)
            sys.exit(1)
        click.echo(
            f"no attack that can be seen ({len(verdict.findings)} tests, p = {verdict.p:.2g})", err=True
        )
