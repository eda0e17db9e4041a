"""A tally as bytes: a line of JSON (names, shapes, types), the arrays, a checksum.

Counts are written in the narrowest unsigned type that holds them: most are small for long. Where most are
zero, the others are written with their places. Tallies of segments follow that of the whole, each with heads
of its own: of those that have no report nothing is written.
"""

from __future__ import annotations

import json
import zlib
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from keyveil.errors import StoreError
from keyveil.tally import Tally
from keyveil.tally.tally import Counts

_WIDTHS = ("<u1", "<u2", "<u4", "<u8")
# A place takes four bytes: where one count in eight is not zero, all of them take hardly more.
_PLACE, _SPARSE = "<u4", 8
# A name, a shape and a type; where only counts that are not zero are written, how many.
Heads = list[list[Any]]


def pack(tally: Tally) -> bytes:
    """The cells of a tally, and behind them those of its segments.

    >>> tally = Tally.of(question="q", n_reports=2, plus=[1, 300], minus=[0, 0])
    >>> unpack(pack(tally), question="q", n_reports=2) == tally
    True
    """
    bodies: list[bytes] = []
    said: Any = _pack_cells(tally, bodies)
    if tally.segments:
        parts = [
            [*segment, part.n_reports, _pack_cells(part, bodies)] for segment, part in tally.segments.items()
        ]
        said = {"whole": said, "segments": parts}
    packed = b"".join((json.dumps(said).encode(), b"\n", *bodies))
    return zlib.crc32(packed).to_bytes(4, "little") + packed


def _pack_cells(tally: Tally, bodies: list[bytes]) -> Heads:
    """The heads of its cells; their bytes are appended."""
    heads: Heads = []
    for name, counts in tally.cells.items():
        kind = _narrowest(int(counts.max(initial=0)))
        places = np.flatnonzero(counts)
        heads.append([name, list(counts.shape), kind])
        if _SPARSE * places.size < counts.size < 1 << 32:
            heads[-1].append(places.size)
            bodies += [places.astype(_PLACE).tobytes(), counts.reshape(-1)[places].astype(kind).tobytes()]
        else:
            bodies.append(counts.astype(kind).tobytes())
    return heads


def unpack(cells: bytes, *, question: str, n_reports: int) -> Tally:
    """The tally that `pack` wrote, or a refusal where a byte has changed."""
    if len(cells) < 4 or zlib.crc32(cells[4:]).to_bytes(4, "little") != cells[:4]:
        raise StoreError(
            f"the stored tally of {question[:12]} is damaged: its checksum does not match", damaged=True
        )
    head, _, body = cells[4:].partition(b"\n")
    said = json.loads(head)
    whole, parts = (said["whole"], said["segments"]) if isinstance(said, dict) else (said, [])
    found, end = _unpack_cells(whole, body, 0, question, n_reports)
    segments = {}
    for attribute, label, count, heads in parts:
        segments[attribute, label], end = _unpack_cells(heads, body, end, question, count)
    return found.with_segments(segments)


def _unpack_cells(heads: Heads, body: bytes, start: int, question: str, n_reports: int) -> tuple[Tally, int]:
    """The tally whose cells begin at a place, and where they end."""
    ends = [*accumulate(map(_size, heads), initial=start)]
    counts = {
        each[0]: _counts(each, body[low:high])
        for each, (low, high) in zip(heads, pairwise(ends), strict=True)
    }
    return Tally.of(question=question, n_reports=n_reports, **counts), ends[-1]


def add(before: Tally, counted: Tally) -> Tally:
    """The sum by name: hashed answers may be decoded in one tally and undecoded in the other."""
    parts = dict(before.segments)
    for segment, part in counted.segments.items():
        parts[segment] = add(parts[segment], part) if segment in parts else part
    return _add_cells(before.whole, counted.whole).with_segments(parts)


def _add_cells(before: Tally, counted: Tally) -> Tally:
    if before.cells.keys() == counted.cells.keys() or before.question != counted.question:
        return before + counted
    cells = dict(before.cells)
    for name, counts in counted.cells.items():
        cells[name] = counts + cells[name] if name in cells else counts
    return Tally.of(question=before.question, n_reports=before.n_reports + counted.n_reports, **cells)


def _size(head: list[Any]) -> int:
    """The bytes of an array."""
    _, shape, kind, *n_places = head
    width: int = np.dtype(kind).itemsize
    if n_places:
        return int(n_places[0]) * (width + 4)
    return int(np.prod(shape)) * width


def _counts(head: list[Any], body: bytes) -> Counts:
    _, shape, kind, *n_places = head
    if not n_places:
        return np.frombuffer(body, dtype=kind).astype(np.int64).reshape(shape)
    end = 4 * n_places[0]
    counts = np.zeros(shape, dtype=np.int64)
    counts.reshape(-1)[np.frombuffer(body[:end], dtype=_PLACE)] = np.frombuffer(body[end:], dtype=kind)
    return counts


def _narrowest(largest: int) -> str:
    return next(kind for kind in _WIDTHS if largest <= np.iinfo(kind).max)
