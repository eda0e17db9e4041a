"""Whether a store is what it was written as: every checksum, and every sum that must be another's.

Of each round the reports are counted again. Their ids must be the ids that are known, each once. Comparing
two sets of 10^8 takes no memory: those that are known are looked at slice by slice, where equal ones would
lie side by side, and of both sets the count and the sum of a keyed 64-bit hash are compared.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from keyveil.collector.campaigns.cache import CampaignCache, StoredCampaign
from keyveil.collector.store.base import CampaignRow, IdSum, Reading, ReportBlock, RoundRow, Store
from keyveil.collector.store.outcomes import unpack_outcome
from keyveil.collector.store.runs import N_SLICES, IdHash, Ids, as_ids, ids_in, rows_of
from keyveil.collector.store.series import SeriesRow
from keyveil.errors import StoreError
from keyveil.report import HEADER_BYTES
from keyveil.tally import Counter, Payloads, Tally
from keyveil.tally.dither import ids_before

Say = Callable[[str], None]


@dataclass(slots=True)
class Verified:
    """What was looked at, and all that is wrong."""

    series: int = 0
    campaigns: int = 0
    rounds: int = 0
    blocks: int = 0
    reports: int = 0
    ids: int = 0
    faults: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Recounted:
    """The stored reports of a round, counted again."""

    total: Tally
    ids: IdSum
    blocks: int
    damaged: list[ReportBlock]
    repeated: int
    """Reports whose id another report of the round has; looked for where ids are not known any more."""


def verify(store: Store, *, looked: Callable[[int], None] = lambda _: None) -> Verified:
    """Look at all that a store holds; `looked` hears of reports and ids as they are passed."""
    found = Verified()
    with store.read() as tx:
        rows, series = tx.campaigns(), tx.all_series()
    for row in rows:
        with store.read() as tx, _said(found, f"campaign {row.id[:12]}"):
            _verify_campaign(tx, row, found, looked)
    for each in series:
        with store.read() as tx, _said(found, f"series {each.id[:12]}"):
            _verify_series(tx, each, found)
    return found


@contextmanager
def _said(found: Verified, where: str) -> Iterator[None]:
    """What cannot be read is a fault, and not the end."""
    try:
        yield
    except StoreError as error:
        found.faults.append(f"{where}: {error}")


def _verify_campaign(tx: Reading, row: CampaignRow, found: Verified, looked: Callable[[int], None]) -> None:
    found.campaigns += 1
    cache, where = CampaignCache(), f"campaign {row.id[:12]}"
    known = cache.campaign(tx, row.id)
    assert known is not None
    with _said(found, where):
        if (outcome := tx.outcome(known.no)) is not None:
            unpack_outcome(outcome, campaign=known.id)
    sums = known_sums(tx, known.no, lambda why: found.faults.append(f"{where}: {why}"), looked)
    found.ids += sum(each.count for each in sums.values())
    for opened in tx.rounds(known.no):
        found.rounds += 1
        with _said(found, f"{where}, round {opened.number}"):
            _verify_round(tx, cache, known, opened, sums, found, looked)


def _verify_series(tx: Reading, row: SeriesRow, found: Verified) -> None:
    """Every wave's campaign must be the one that follows from the series and the keys that came later."""
    found.series += 1
    known = CampaignCache().series(tx, row.id)
    assert known is not None
    keys = tx.added_keys(known.no)
    for wave in tx.waves(known.no):
        if wave.campaign is not None and wave.id != known.wave(wave.number, keys).id:
            found.faults.append(f"series {row.id[:12]}: wave {wave.number} is another campaign")


def _verify_round(
    tx: Reading,
    cache: CampaignCache,
    known: StoredCampaign,
    row: RoundRow,
    sums: dict[int, IdSum],
    found: Verified,
    looked: Callable[[int], None],
) -> None:
    where = f"campaign {known.id[:12]}, round {row.number}"
    claimed = sums.get(row.number, IdSum())
    cache.described(known, row)
    tally: Tally | None = None
    with _said(found, where):
        tally = cache.tally(tx, known, row.number)
    if row.dropped_at is not None:
        if tally is not None and not _is_forgotten(row, claimed) and claimed.count != tally.n_reports:
            found.faults.append(f"{where}: {tally.n_reports} reports were counted, {claimed.count} ids known")
        return
    again = recount(tx, cache, known, row, claimed, looked)
    found.blocks += again.blocks
    found.reports += again.total.n_reports
    found.faults += [f"{where}: block {block.no} is damaged" for block in again.damaged]
    if tally is not None and again.total != tally:
        found.faults.append(
            f"{where}: the tally has {tally.n_reports} reports, counted again they are "
            f"{again.total.n_reports}, or say something else"
        )
    if why := compare_ids(row, again, claimed):
        found.faults.append(f"{where}: {why}")


def known_sums(
    tx: Reading, campaign: int, say: Say, looked: Callable[[int], None] = lambda _: None
) -> dict[int, IdSum]:
    """The count and sum of the ids that are known, by round; `say` hears of damage and of equal ones."""
    sums: dict[int, IdSum] = {}
    hash_ = tx.id_hash()
    for parts in tx.ids_by_slice(campaign, say):
        together = np.concatenate([rows_of(b""), *(ids for _, ids in parts)])
        if repeated := _repeated(together):
            say(f"{repeated} ids are known twice")
        for round_, ids in parts:
            sums.setdefault(round_, IdSum()).add(hash_, ids)
        looked(len(together))
    return sums


def recount(
    tx: Reading,
    cache: CampaignCache,
    known: StoredCampaign,
    row: RoundRow,
    claimed: IdSum,
    looked: Callable[[int], None] = lambda _: None,
) -> Recounted:
    """Count the reports of a round again, and their ids."""
    asked = cache.described(known, row)
    counter = Counter.of(asked)
    ids, damaged, blocks, hash_ = IdSum(), list[ReportBlock](), 0, tx.id_hash()
    with ExitStack() as stack:
        # Where ids are known, equal ones show in the sum.
        spill = stack.enter_context(_Spill(hash_)) if _is_forgotten(row, claimed) else None
        for block in intact(lambda after: tx.blocks(known.no, row.number, after=after), damaged.append):
            answers = payloads(block)
            counter.add(answers, ids_before(answers) if asked.is_dithered else None)
            names = as_ids(ids_in(block.reports, block.length))
            ids.add(hash_, names)
            if spill is not None:
                spill.add(names)
            blocks += 1
            looked(len(names))
        repeated = 0 if spill is None else spill.repeated()
    return Recounted(
        total=counter.tally(), ids=ids, blocks=blocks + len(damaged), damaged=damaged, repeated=repeated
    )


def compare_ids(row: RoundRow, again: Recounted, claimed: IdSum) -> str:
    """What is wrong with the ids of a round's reports, or nothing."""
    if again.repeated:
        return f"{again.repeated} reports have the id of another"
    if again.damaged or _is_forgotten(row, claimed) or again.ids == claimed:
        return ""
    if again.ids.count == claimed.count:
        return "the ids that are known are not those of the reports"
    return f"there are {again.ids.count} reports, and {claimed.count} ids are known"


def _is_forgotten(row: RoundRow, claimed: IdSum) -> bool:
    """A round that is closed takes no reports: some day its ids are dropped."""
    return row.closed_at is not None and not claimed.count


class _Spill:
    """Ids on the disk, in parts that fit into memory."""

    def __init__(self, hash: IdHash) -> None:
        self._hash, self._stack = hash, ExitStack()
        self._files = [
            self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
            for _ in range(N_SLICES)
        ]

    def __enter__(self) -> _Spill:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, ids: Ids) -> None:
        """Keep some."""
        slices = self._hash(ids).slices
        for at in np.unique(slices).tolist():
            self._files[at].write(ids[slices == at].tobytes())

    def repeated(self) -> int:
        """How many equal another."""
        total = 0
        for file in self._files:
            file.seek(0)
            total += _repeated(rows_of(file.read()))
        return total


def _repeated(ids: Ids) -> int:
    """How many ids equal another."""
    halves = ids.view("<u8")
    order = np.lexsort((halves[:, 1], halves[:, 0]))
    ordered = halves[order]
    return int((ordered[1:] == ordered[:-1]).all(axis=1).sum())


def payloads(block: ReportBlock) -> Payloads:
    """The answers in a block, where they lie."""
    data = np.frombuffer(block.reports, dtype=np.uint8)
    starts = np.arange(HEADER_BYTES, data.size, block.length, dtype=np.int64)
    return Payloads(data=data, starts=starts, n_bytes=block.length - HEADER_BYTES)


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
