"""The stored reports of a round: exported, counted again, tested for honest noise."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

import numpy as np

from keyveil.campaign import Campaign
from keyveil.collector.campaigns.cache import StoredCampaign
from keyveil.collector.campaigns.context import Context, find_round
from keyveil.collector.campaigns.messages import Examination, Oddity, Recount
from keyveil.collector.campaigns.outcomes import difference
from keyveil.collector.campaigns.verify import compare_ids, intact, known_sums, payloads, recount
from keyveil.collector.problems import Problem
from keyveil.collector.store import ReportBlock
from keyveil.collector.store.base import IdSum
from keyveil.errors import StoreError
from keyveil.segments import OTHER
from keyveil.tally import Tally, tally_reports, trace

REPORT_TYPES = {"frames": "application/octet-stream", "parquet": "application/vnd.apache.parquet"}


class StoredReports:
    """The reports that a collector keeps."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def export(self, id: str, number: int, form: str) -> BinaryIO:
        """The reports of a round as a file; refused if a byte of them has changed."""
        known = self._context.known(id)
        length = self._check_kept(known, number)

        def damaged(block: ReportBlock) -> None:
            raise Problem("campaign-damaged", self._mark_broken(id, number, block))

        blocks = intact(lambda after: self._blocks(known, number, after), damaged)
        out = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            if form == "frames":
                write_frames(out, blocks)
            else:
                write_parquet(out, known.campaign, number, length, blocks)
            out.seek(0)
        except OSError as error:
            out.close()
            raise Problem("no-room", str(error.strerror)) from None
        except BaseException:
            out.close()
            raise
        return out

    def recount(self, id: str, number: int) -> Recount:
        """Count the stored reports again, and compare with the tally; open the round again, and compare."""
        known = self._context.known(id)
        self._check_kept(known, number)
        faults: list[str] = []
        with self._context.store.read() as tx:
            asked = self._context.cache.round(tx, known, number)
            row = find_round(tx.rounds(known.no), number)
            claimed = known_sums(tx, known.no, faults.append).get(number, IdSum())
            again = recount(tx, self._context.cache, known, row, claimed)
            try:
                tally = self._context.cache.tally(tx, known, number)
            except StoreError:
                tally = tally_reports(asked, [])
            earlier = [row for row in tx.rounds(known.no) if row.number < number]
            try:
                before = self._context.cache.history(tx, known, earlier)
            except StoreError:
                before = None
        for block in again.damaged:
            self._mark_broken(id, number, block)
        if why := compare_ids(row, again, claimed):
            faults.append(why)
        if faults:
            self._context.mark_damaged(id, f"round {number}: {'; '.join(faults[:3])}")
        return Recount(
            round=number,
            tally_reports=tally.n_reports,
            stored_reports=again.total.n_reports,
            damaged_blocks=len(again.damaged),
            agrees=again.total == tally and not again.damaged and not faults,
            ids="; ".join(faults[:10]),
            difference="" if before is None else difference(known.campaign, before, asked),
        )

    def examine(self, id: str, number: int) -> Examination:
        """Test whether the stored reports of a round are honest noise."""
        from keyveil.audit.reports import examine

        known = self._context.known(id)
        self._check_kept(known, number)
        broken: list[ReportBlock] = []
        with self._context.store.read() as tx:
            asked = self._context.cache.round(tx, known, number)
            tally = self._context.cache.tally(tx, known, number)
            total = trace(asked.mechanism, [], question=asked.question)
            for block in intact(lambda after: tx.blocks(known.no, number, after=after), broken.append):
                packed = replace(payloads(block), n_bytes=asked.mechanism.layout.n_bytes)
                answers = [packed[place] for place in range(len(packed))]
                total += trace(asked.mechanism, answers, question=asked.question)
        for block in broken:
            self._mark_broken(id, number, block)
        verdict = examine(asked.mechanism, total, tally)
        names = (
            known.campaign.keys if asked.keys is None else [known.campaign.keys[code] for code in asked.keys]
        )
        return Examination(
            round=number,
            reports=total.n_reports,
            alarm=verdict.alarm,
            p=verdict.p,
            suspects=[names[code] for code in verdict.suspects if code < len(names)],
            tests=[
                Oddity(
                    test=each.test,
                    p=each.p,
                    what=each.what,
                    keys=[names[code] for code in each.keys if code < len(names)],
                )
                for each in verdict.findings
            ],
            segments=list(_apart(known.campaign, tally)),
            damaged_blocks=len(broken),
        )

    def _mark_broken(self, id: str, number: int, block: ReportBlock) -> str:
        """Note a block that is not intact, and say which."""
        why = f"block {block.no} of round {number} is damaged"
        self._context.mark_damaged(id, why)
        return why

    def _check_kept(self, known: StoredCampaign, number: int) -> int:
        with self._context.store.read() as tx:
            row = find_round(tx.rounds(known.no), number)
            if row.dropped_at is not None:
                raise Problem("reports-dropped")
            return self._context.cache.round(tx, known, number).report_bytes

    def _blocks(self, known: StoredCampaign, number: int, after: int) -> list[ReportBlock]:
        with self._context.store.read() as tx:
            return tx.blocks(known.no, number, after=after)


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


def _apart(campaign: Campaign, tally: Tally) -> Iterator[Oddity]:
    """Whether the segments of each attribute agree, those that differ most first."""
    from keyveil.audit.reports import compare

    attributes = () if campaign.segments is None else campaign.segments.attributes
    for place, (name, values) in enumerate(attributes):
        parts = {
            f"{name} = {(OTHER, *values)[label]}": part
            for (at, label), part in tally.segments.items()
            if at == place
        }
        if len(parts) > 1:
            findings = compare(parts).findings
            yield from (Oddity(test=each.test, p=each.p, what=each.what, keys=[]) for each in findings)
