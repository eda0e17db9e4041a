"""Releases and exports, as files: what analysts take home."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, BinaryIO

import numpy as np

from keyveil.campaign import Campaign
from keyveil.collector.campaigns.cache import History, what_follows
from keyveil.collector.problems import Problem
from keyveil.collector.store.base import ReportBlock
from keyveil.collector.store.outcomes import Finished
from keyveil.errors import KeyveilError, MechanismError, ProtocolError
from keyveil.release import Release, release_found
from keyveil.rounds import Round

RELEASE_TYPES = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.file",
}
REPORT_TYPES = {"frames": "application/octet-stream", "parquet": RELEASE_TYPES["parquet"]}


def find(campaign: Campaign, history: History, *, estimator: str | None) -> Finished:
    """What the tallies of all rounds say, by the campaign's estimator or another one for the same reports."""
    try:
        if estimator is not None and estimator != campaign.mechanism:
            campaign = replace(campaign, mechanism=_check_same_reports(campaign, estimator, history))
        found = what_follows(campaign, history)
    except MechanismError as error:
        raise Problem("unknown-step", str(error)) from None
    except ProtocolError as error:
        raise Problem("round-empty", str(error)) from None
    if isinstance(found, Round):
        raise Problem("rounds-left", f"round {found.number} is still to be closed")
    return found


def make_release(campaign: Campaign, found: Finished, *, post: str, estimator: str | None) -> Release:
    """The release of what was found."""
    try:
        made = release_found(campaign, found.outcome, epsilon_exact=found.epsilon_exact, post=post)
    except MechanismError as error:
        raise Problem("unknown-step", str(error)) from None
    return made if estimator is None else replace(made, metadata={**made.metadata, "estimator": estimator})


def _check_same_reports(campaign: Campaign, estimator: str, history: History) -> str:
    """The estimator, if it would have asked the same."""
    refused = Problem(
        "unknown-step", f'"{estimator[:80]}" is no estimator for reports of "{campaign.mechanism}"'
    )
    try:
        theirs = replace(campaign, mechanism=estimator).protocol()
        for place, (asked, _) in enumerate(history):
            other = theirs.next(history[:place]) if place else theirs.start(campaign.id)
            if not isinstance(other, Round) or (other.mechanism, other.keys) != (asked.mechanism, asked.keys):
                raise refused
    except MechanismError:
        raise
    except KeyveilError:
        raise refused from None
    return estimator


def write_release(release: Release, form: str) -> bytes:
    """A release in one of `RELEASE_TYPES`."""
    if form == "json":
        return release.to_json().encode()
    if form == "csv":
        return release.to_csv().encode()
    import pyarrow as pa
    import pyarrow.parquet

    table, out = release.to_arrow(), io.BytesIO()
    if form == "parquet":
        pyarrow.parquet.write_table(table, out)
    else:
        with pa.ipc.new_file(out, table.schema) as file:
            file.write_table(table)
    return out.getvalue()


def write_frames(out: BinaryIO, blocks: Iterator[ReportBlock]) -> None:
    """Reports as a stream of frames."""
    for block in blocks:
        rows = np.frombuffer(block.reports, dtype=np.uint8).reshape(-1, block.length)
        framed = np.empty((len(rows), 4 + block.length), dtype=np.uint8)
        framed[:, :4] = np.frombuffer(struct.pack("<I", block.length), dtype=np.uint8)
        framed[:, 4:] = rows
        out.write(framed.tobytes())


def write_parquet(
    out: BinaryIO, campaign: Campaign, round: int, length: int, blocks: Iterator[ReportBlock]
) -> None:
    """Reports as Parquet."""
    from keyveil.report.parquet import write_reports

    write_reports(out, (block.reports for block in blocks), campaign=campaign.id, round=round, length=length)


def intact(
    read: Callable[[int], list[ReportBlock]], on_damage: Callable[[ReportBlock], Any]
) -> Iterator[ReportBlock]:
    """The blocks of a round, page by page; `on_damage` decides what becomes of one that is not intact."""
    after = 0
    while page := read(after):
        for block in page:
            if block.is_intact:
                yield block
            else:
                on_damage(block)
        after = page[-1].no
