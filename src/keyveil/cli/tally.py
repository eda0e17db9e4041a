"""`keyveil tally`: files of reports become integers that add."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from keyveil.campaign import Campaign
    from keyveil.tally import Tally


@click.command()
@click.argument("campaign", type=click.Path(path_type=Path))
@click.argument("reports", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="The JSON file to write.")
@click.option(
    "--engine",
    type=click.Choice(["local", "spark"]),
    default="local",
    show_default=True,
    help="Where to count: on this machine, or by Spark (Parquet only; any path that Spark reads).",
)
@click.option("--processes", type=click.IntRange(min=1), help="How many to use; by default as many as help.")
@click.option("--master", help="Spark's master; by default what spark-submit says, else local[*].")
@click.option("--strict", is_flag=True, help="Stop at the first report that is refused.")
@click.option("--check", is_flag=True, help="Also test whether this is honest noise; exit status 1 if not.")
def tally(
    campaign: Path,
    reports: tuple[Path, ...],
    out: Path,
    engine: str,
    processes: int | None,
    master: str | None,
    strict: bool,
    check: bool,
) -> None:
    """Count the REPORTS (Parquet or framed) to CAMPAIGN. A report that comes twice counts once.

    Reports that do not answer are counted by reason and left out; then the exit status is 1. Parts that
    are done are kept in OUT.parts until all are, so that a run that was cut off goes on.
    """
    from keyveil.campaign import Campaign
    from keyveil.cli.counting import count_files, say_what_was_refused
    from keyveil.cli.files import write_text

    asked, folder = Campaign.load(campaign), out.with_name(f"{out.name}.parts")
    if engine == "spark":
        from keyveil.batch.spark import session, tally_paths

        counted = tally_paths(
            session(master), asked.first_round(), [str(path) for path in reports], strict=strict
        )
        say_what_was_refused(counted)
    else:
        counted = count_files(asked, reports, folder=folder, processes=processes, strict=strict)
    write_text(out, counted.tally.to_json() + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    click.echo(f"wrote the tally of {counted.tally.n_reports} reports to {out}", err=True)
    if check and not _looks_honest(asked, reports, counted.tally):
        sys.exit(1)
    if not counted.is_whole:
        sys.exit(1)


def _looks_honest(campaign: Campaign, reports: tuple[Path, ...], counted: Tally) -> bool:
    """Say whether the noise is that of devices."""
    from keyveil.cli.console import honesty
    from keyveil.cli.counting import examine_files

    verdict = examine_files(campaign, reports, counted)
    found = verdict.findings
    what = found[0].what if found else ""
    click.echo(honesty(alarm=verdict.alarm, n_tests=len(found), p=verdict.p, what=what), err=True)
    return not verdict.alarm
