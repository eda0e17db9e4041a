"""Files of reports or tallies, counted into one tally."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from keyveil.campaign import Campaign
from keyveil.cli.console import progress
from keyveil.cli.files import Reports
from keyveil.errors import TallyError
from keyveil.report import HEADER_BYTES
from keyveil.tally import Tally, trace

if TYPE_CHECKING:
    from keyveil.audit.reports import Verdict

# Reports examined at once.
_BLOCK = 4096


def tally_files(campaign: Campaign, paths: Sequence[Path]) -> Tally:
    """The tally of all reports in the files, each id once."""
    reports = Reports(campaign, paths)
    with progress("counting", None) as advance:

        def watched() -> Iterator[bytes]:
            for report in reports:
                advance()
                yield report

        total = campaign.tally(watched())
    if reports.n_repeated:
        click.echo(f"left out {reports.n_repeated} reports whose id came before", err=True)
    return total


def examine_files(campaign: Campaign, paths: Sequence[Path], tally: Tally) -> Verdict:
    """Whether the reports in the files, counted already, look like the noise that devices make."""
    from keyveil.audit.reports import examine

    mechanism = campaign.protocol().start(campaign.id).mechanism
    total = trace(mechanism, [], question=tally.question)
    reports = iter(Reports(campaign, paths))
    with progress("examining", tally.n_reports) as advance:
        while block := [report[HEADER_BYTES:] for report in islice(reports, _BLOCK)]:
            total += trace(mechanism, block, question=tally.question)
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
