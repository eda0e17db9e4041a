"""Files of reports or tallies, counted into one tally."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from keyveil.batch.engine import Summary, tally_files
from keyveil.batch.files import blocks_of, cut
from keyveil.batch.partition import accepted
from keyveil.campaign import Campaign
from keyveil.cli.console import progress
from keyveil.errors import TallyError
from keyveil.protocols.base import History, Outcome, Protocol
from keyveil.report import HEADER_BYTES, REPORT_ID_BYTES, Envelope
from keyveil.rounds import Round
from keyveil.tally import Tally, trace

if TYPE_CHECKING:
    from keyveil.audit.reports import Verdict


def count_files(
    campaign: Campaign,
    paths: Sequence[Path],
    *,
    asked: Round | None = None,
    folder: Path | None = None,
    processes: int | None = None,
    strict: bool = False,
) -> Summary:
    """The tally of all reports in the files, each id once; says on stderr what is not in it.

    `asked` is the round that they answer, the first unless given. With a `folder` the work can be taken up
    again; it is removed when all is counted.
    """
    asked = asked or campaign.first_round()
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


class Followed(NamedTuple):
    """What a campaign's rounds led to; `is_whole` if every report was counted."""

    outcome: Outcome
    history: History
    n_reports: int
    is_whole: bool


def follow_rounds(
    campaign: Campaign,
    protocol: Protocol,
    paths: Sequence[Path],
    tallies: Sequence[Tally],
    *,
    strict: bool = False,
) -> Followed:
    """Go through the rounds of a campaign with what a collector exported of each: reports, or tallies.

    A file holds the reports of one round, which its first report names. Each round follows from the
    tallies before it, as it did in the collector.
    """
    by_round: dict[int, list[Path]] = {}
    for path in paths:
        by_round.setdefault(_round_of(campaign, path), []).append(path)
    is_whole, history = True, list[tuple[Round, Tally]]()
    stands: Round | Outcome = protocol.start(campaign.id)
    while isinstance(stands, Round):
        here, added = by_round.pop(stands.number, []), [t for t in tallies if t.question == stands.question]
        if not here and not added:
            raise TallyError(
                f"expected reports or a tally of round {stands.number} ({stands.purpose}), found none; "
                f"export it: GET /v1/campaigns/{campaign.id[:12]}.../rounds/{stands.number}/reports"
            )
        counted = count_files(campaign, here, asked=stands, strict=strict)
        is_whole = is_whole and counted.is_whole
        history.append((stands, sum(added, counted.tally)))
        stands = protocol.next(history)
    if by_round:
        raise TallyError(f"the campaign has {len(history)} rounds; found reports to round {min(by_round)}")
    return Followed(stands, history, sum(tally.n_reports for _, tally in history), is_whole)


def _round_of(campaign: Campaign, path: Path) -> int:
    """The round that the first report of a file answers."""
    first = next(blocks_of(cut(path, campaign.id)), None)
    if first is None or not len(first):
        raise TallyError(f"expected reports, found none in {path}")
    return Envelope.from_bytes(first.report(0)).round


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
    end = HEADER_BYTES + mechanism.layout.n_bytes
    total, seen = trace(mechanism, [], question=tally.question), set()
    parts = [part for path in paths for part in cut(path, campaign.id)]
    with progress("examining", tally.n_reports) as advance:
        for block, places in accepted(asked, blocks_of(parts)):
            fresh = []
            for report in block.reports(places):
                if (report_id := report[HEADER_BYTES - REPORT_ID_BYTES : HEADER_BYTES]) not in seen:
                    seen.add(report_id)
                    fresh.append(report[HEADER_BYTES:end])
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
