"""Ids that came twice: a report counts once, whichever partition its copies are in.

Partitions are counted first, as if no id came twice; that is the usual case, and finding out costs one
sort of the ids. Where some did, the extra copies are counted too and taken off: tallies are sums, so
that is exact. Of reports that share an id the one with the smallest SHA-256 counts, so the result is the
same for every order and every cut.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from keyveil.batch.partition import Block, accepted
from keyveil.batch.stream import Bytes
from keyveil.report import HEADER_BYTES, REPORT_ID_BYTES
from keyveil.rounds import Round
from keyveil.tally import Tally, tally_reports

# Ids sorted at once: 16 MB, and a few times as much while they are.
_AT_ONCE = 1 << 20

Halves = NDArray[np.uint64]


def repeated_ids(load: Callable[[], Iterable[Bytes]], total: int) -> set[bytes]:
    """The ids that occur more than once; `load` yields all `total` of them in parts of (n, 16) bytes.

    Memory is bounded whatever their number is: they are loaded once for each million.

    >>> ids = np.zeros((3, 16), dtype=np.uint8)
    >>> ids[2] = 7
    >>> repeated_ids(lambda: [ids], total=3) == {bytes(16)}
    True
    """
    n_ranges = -(-total // _AT_ONCE)
    found: set[bytes] = set()
    for number in range(n_ranges):
        # Ids are random; ranges of their first half share them out evenly.
        low, high = ((at << 64) // n_ranges for at in (number, number + 1))
        some = [_between(part, low, high - 1) for part in load()]
        found |= _repeated(np.concatenate(some))
    return found


def _between(part: Bytes, low: int, high: int) -> Halves:
    halves = np.ascontiguousarray(part).view(np.uint64).reshape(-1, 2)
    inside = (halves[:, 0] >= np.uint64(low)) & (halves[:, 0] <= np.uint64(high))
    return halves if inside.all() else halves[inside]


def _repeated(halves: Halves) -> set[bytes]:
    ordered = np.sort(halves[:, 0])
    again = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if not again.size:
        return set()
    rows, times = np.unique(halves[np.isin(halves[:, 0], again)], axis=0, return_counts=True)
    return {row.tobytes() for row in rows[times > 1]}


def extra_copies(round: Round, repeated: set[bytes], read: Callable[[], Iterable[Block]]) -> Tally:
    """The tally of all copies but one of each repeated id; `read` reads all reports, and is called twice."""
    first: dict[bytes, bytes] = {}
    for report in _copies(round, repeated, read()):
        own, digest = _id_of(report), hashlib.sha256(report).digest()
        first[own] = min(first.get(own, digest), digest)
    return tally_reports(round, _but_the_first(first, _copies(round, repeated, read())))


def without(total: Tally, extra: Tally) -> Tally:
    """A tally less one that is part of it."""
    cells = {name: counts - extra.cells[name] for name, counts in total.cells.items()}
    left = Tally.of(question=total.question, n_reports=total.n_reports - extra.n_reports, **cells)
    parts = dict(total.segments) | {
        segment: without(total.segments[segment], part) for segment, part in extra.segments.items()
    }
    return left.with_segments(parts)


def _copies(round: Round, repeated: set[bytes], blocks: Iterable[Block]) -> Iterable[bytes]:
    for block, places in accepted(round, blocks):
        ids = block.ids(places)
        for place, own in zip(places, ids, strict=True):
            if own.tobytes() in repeated:
                yield block.report(int(place))


def _but_the_first(first: dict[bytes, bytes], copies: Iterable[bytes]) -> Iterable[bytes]:
    """All copies but one of those that count."""
    for report in copies:
        if first.get(_id_of(report)) == hashlib.sha256(report).digest():
            del first[_id_of(report)]
        else:
            yield report


def _id_of(report: bytes) -> bytes:
    return report[HEADER_BYTES - REPORT_ID_BYTES : HEADER_BYTES]
