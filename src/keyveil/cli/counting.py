"""Files of reports or tallies, counted into one tally."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from keyveil.batch import Question
from keyveil.batch.engine import Summary, tally_files
from keyveil.campaign import Campaign
from keyveil.cli.console import progress
from keyveil.errors import TallyError
from keyveil.tally import Tally


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
    question = Question.of(campaign)
    made = Path(tempfile.mkdtemp(prefix="keyveil-")) if folder is None else folder
    if folder is not None and folder.exists():
        click.echo(f"going on with {folder}", err=True)
    try:
        with progress("counting", None) as advance:
            counted = tally_files(
                question,
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


def read_tally(path: Path) -> Tally:
    """The tally in a JSON file."""
    try:
        return Tally.from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TallyError(f"cannot read {path}: {error.strerror}") from None
    except (UnicodeDecodeError, TallyError) as error:
        raise TallyError(f"{error}, in {path.name}") from None
