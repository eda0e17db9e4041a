"""Files of reports or tallies, counted into one tally."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from keyveil.batch.engine import Summary, tally_files
from keyveil.batch.files import blocks_of, cut
from keyveil.batch.partition import accepted
from keyveil.campaign import Campaign
from keyveil.cli.console import progress
from keyveil.errors import TallyError
from keyveil.report import HEADER_BYTES, REPORT_ID_BYTES
from keyveil.tally import Tally, trace

if TYPE_CHECKING:
    from keyveil.audit.reports import Verdict


def count_files(
    campaign: Campaign,
    paths: Sequence[Path],
    *,
    folder: Path | None = None,
    processes: int | None = None,
    strict: bool = False,
) -> Summary:
    """The tally of all reports in the files, each id once; says on stderr what is not in it.

    With a `folder` the work can be taken up again; it is removed when all is counted.
    """
    asked = campaign.first_round()
    made = Path(tempfile.mkdtemp(prefix="keyveil-")) if folder is None else folder
    if folder is not None and folder.exists():
        click.echo(f"going on with {folder}", err=True)
    try:
        with progress("counting", None) as advance:
            counted = tally_files(
                asked,
                paths,
                folder=made,
                campaign_id=campaign.id,
                processes=processes,
                strict=strict,
                advance=lambda steps: advance(steps),
            )
    finally:
        if folder is None or not any(made.glob("*")):
            shutil.rmtree(made, ignore_errors=True)
    say_what_was_refused(counted)
    return counted


def say_what_was_refused(counted: Summary) -> None:
    """Tell what is not in a tally, and refuse one that has nothing in it for that reason."""
    if counted.n_repeated:
        click.echo(f"left out {counted.n_repeated} reports whose id came before", err=True)
    for path, why in counted.unreadable.items():
        click.echo(f"could not read {path}: {why}", err=True)
    refused = ", ".join(f"{count} {code}" for code, count in sorted(counted.refused.items()))
    if refused and not counted.tally.n_reports:
        raise TallyError(f"no report answers this campaign; refused: {refused}")
    if refused:
        total = counted.refused.total() + counted.tally.n_reports
        click.echo(f"refused {counted.refused.total()} of {total} reports: {refused}", err=True)


def examine_files(campaign: Campaign, paths: Sequence[Path], tally: Tally) -> Verdict:
    """Whether the reports in the files, counted already, look like the noise that devices make."""
    from keyveil.audit.reports import examine

    asked = campaign.first_round()
    mechanism = asked.mechanism
    total, seen = trace(mechanism, [], question=tally.question), set()
    parts = [part for path in paths for part in cut(path, campaign.id)]
    with progress("examining", tally.n_reports) as advance:
        for block, places in accepted(asked, blocks_of(parts)):
            fresh = []
            for report in block.reports(places):
                if (report_id := report[HEADER_BYTES - REPORT_ID_BYTES : HEADER_BYTES]) not in seen:
                    seen.add(report_id)
                    fresh.append(report[HEADER_BYTES:])
            total += trace(mechanism, fresh, question=tally.question)
            advance(len(block))
    return examine(mechanism, total, tally)


def read_tally(path: Path) -> Tally:
    """The tally in a JSON file."""
    try:
        return Tally.from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TallyError(f"cannot read {path}: {error.strerror}") from None
    except (UnicodeDecodeError, TallyError) as error:
        raise TallyError(f"{error}, in {path.name}") from None
