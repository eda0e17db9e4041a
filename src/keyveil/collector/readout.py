"""What is read out: tallies, releases, the reports themselves; recounts and tests of the noise."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from keyveil.collector.core import Core
from keyveil.collector.messages import Examination, Oddity, Recount
from keyveil.collector.problems import Problem
from keyveil.collector.releases import find, intact, make_release, write_frames, write_parquet
from keyveil.collector.rounds import Known, difference
from keyveil.collector.store import Block, RoundRow
from keyveil.collector.store.base import IdSum
from keyveil.collector.store.outcomes import Finished, pack_outcome, unpack_outcome
from keyveil.collector.verify import compare_ids, known_sums, payloads, recount
from keyveil.dashboard.reach import Reach, reach
from keyveil.dashboard.results import make_results, pack
from keyveil.errors import StoreError
from keyveil.release import Release
from keyveil.tally import Tally, count, trace

T = TypeVar("T")
# Releases remembered; one is named by how many reports each of its rounds had.
_RELEASES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A campaign, whether more reports may come, and how many each round has."""

    known: Known
    is_open: bool
    counts: tuple[int, ...]


class ReadOut:
    """What may be known of a collector's campaigns."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._lock = threading.Lock()
        self._releases: dict[tuple[Any, ...], Release] = {}
        self._results: dict[tuple[Any, ...], bytes] = {}

    def tally(self, id: str, number: int) -> Tally:
        """The sum of a round's reports."""
        known = self._core.known(id)
        with self._core.store.read() as tx:
            self._row(tx.rounds(known.no), number)
            return self._core.book.tally(tx, known, number)

    def release(self, id: str, *, post: str, estimator: str | None) -> tuple[Release, bool]:
        """What the campaign found, and whether more reports may still come.

        A campaign of one round may be read at any time: reports are noised, so looking costs nothing.
        """
        seen = self._look(id)
        name = (id, post, estimator, seen.is_open, *seen.counts)
        made = self._releases.get(name)
        if made is None:
            found = self._find(seen, estimator)
            made = make_release(seen.known.campaign, found, post=post, estimator=estimator)
            self._remember(self._releases, name, made)
        return made, seen.is_open

    def results(self, id: str, *, post: str) -> bytes:
        """The release as the dashboard shows it, packed."""
        release, is_open = self.release(id, post=post, estimator=None)
        name = (id, post, is_open, release.metadata["users"])
        packed = self._results.get(name)
        if packed is None:
            packed = pack(make_results(self._core.known(id).campaign, release, is_open=is_open))
            self._remember(self._results, name, packed)
        return packed

    def _remember(self, kept: dict[tuple[Any, ...], T], name: tuple[Any, ...], made: T) -> None:
        with self._lock:
            while len(kept) >= _RELEASES:
                del kept[next(iter(kept))]
            kept[name] = made

    def reach(self, id: str, share: float) -> Reach:
        """What this share of devices, lying, could make of the campaign's most frequent keys."""
        return reach(self.release(id, post="none", estimator=None)[0], share)

    def _look(self, id: str) -> _Seen:
        """A campaign that can be read."""
        known = self._core.known(id)
        with self._core.store.read() as tx:
            rows, row = tx.rounds(known.no), tx.campaign(id)
            assert row is not None
            if known.campaign.has_several_rounds and row.finished_at is None:
                is_between = rows[-1].closed_at is not None
                still = "being followed up" if is_between else "still to be closed"
                raise Problem("rounds-left", f"round {rows[-1].number} is {still}")
            sums = [tx.tally(known.no, each.number) for each in rows]
        counts = tuple(0 if each is None else each.n_reports for each in sums)
        return _Seen(known=known, is_open=row.finished_at is None, counts=counts)

    def _find(self, seen: _Seen, estimator: str | None) -> Finished:
        """What was found and stored; else what the tallies say, stored if the campaign is finished."""
        known = seen.known
        is_own = estimator is None or estimator == known.campaign.mechanism
        with self._core.store.read() as tx:
            stored = tx.outcome(known.no) if is_own and not seen.is_open else None
            if stored is None:
                history = self._core.book.history(tx, known, tx.rounds(known.no))
        if stored is None:
            try:
                found = find(known.campaign, history, estimator=estimator)
            except Problem as problem:
                if not seen.is_open and is_own:
                    self._core.log.event("no-outcome", campaign=known.id, why=problem.detail)
                raise
            if seen.is_open or not is_own:
                return found
            # A store that was migrated: from now on the campaign has found what is found here.
            with self._core.store.write() as tx:
                tx.keep_outcome(known.no, pack_outcome(found))
                stored = tx.outcome(known.no)
            assert stored is not None
        return unpack_outcome(stored, campaign=known.id)

    def export(self, id: str, number: int, form: str) -> BinaryIO:
        """The reports of a round as a file; refused if a byte of them has changed."""
        known = self._core.known(id)
        length = self._check_kept(known, number)

        def damaged(block: Block) -> None:
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
        known = self._core.known(id)
        self._check_kept(known, number)
        faults: list[str] = []
        with self._core.store.read() as tx:
            asked = self._core.book.round(tx, known, number)
            row = self._row(tx.rounds(known.no), number)
            claimed = known_sums(tx, known.no, faults.append).get(number, IdSum())
            again = recount(tx, self._core.book, known, row, claimed)
            try:
                tally = self._core.book.tally(tx, known, number)
            except StoreError:
                tally = count(asked.mechanism, [], question=asked.question)
            earlier = [row for row in tx.rounds(known.no) if row.number < number]
            try:
                before = self._core.book.history(tx, known, earlier)
            except StoreError:
                before = None
        for block in again.damaged:
            self._mark_broken(id, number, block)
        if why := compare_ids(row, again, claimed):
            faults.append(why)
        if faults:
            self._core.mark_damaged(id, f"round {number}: {'; '.join(faults[:3])}")
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

        known = self._core.known(id)
        self._check_kept(known, number)
        broken: list[Block] = []
        with self._core.store.read() as tx:
            asked = self._core.book.round(tx, known, number)
            tally = self._core.book.tally(tx, known, number)
            total = trace(asked.mechanism, [], question=asked.question)
            for block in intact(lambda after: tx.blocks(known.no, number, after=after), broken.append):
                packed = payloads(block)
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
            damaged_blocks=len(broken),
        )

    def _mark_broken(self, id: str, number: int, block: Block) -> str:
        """Note a block that is not intact, and say which."""
        why = f"block {block.no} of round {number} is damaged"
        self._core.mark_damaged(id, why)
        return why

    def backup(self, actor: str, *, is_cancelled: Callable[[], bool] = lambda: False) -> BinaryIO:
        """A copy of the embedded store, as a file; nothing is left of one that `is_cancelled`."""
        with tempfile.TemporaryDirectory(prefix="keyveil-") as folder:
            path = Path(folder) / "backup.db"
            self._core.store.backup(path, is_cancelled=is_cancelled)
            copy = path.open("rb")
        with self._core.store.write() as tx:
            tx.log(at=self._core.now(), token=actor, act="backup-taken")
        return copy

    def _check_kept(self, known: Known, number: int) -> int:
        with self._core.store.read() as tx:
            row = self._row(tx.rounds(known.no), number)
            if row.dropped_at is not None:
                raise Problem("reports-dropped")
            return self._core.book.round(tx, known, number).report_bytes

    def _blocks(self, known: Known, number: int, after: int) -> list[Block]:
        with self._core.store.read() as tx:
            return tx.blocks(known.no, number, after=after)

    def _row(self, rows: list[RoundRow], number: int) -> RoundRow:
        for row in rows:
            if row.number == number:
                return row
        raise Problem("unknown-round")
