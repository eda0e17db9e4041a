"""A tally as bytes: a line of JSON (names, shapes, types), the arrays, a checksum.

Counts are written in the narrowest unsigned type that holds them: most are small for long. Where most are
zero, the others are written with their places.
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


def pack(tally: Tally) -> bytes:
    """The cells of a tally.

    >>> tally = Tally.of(question="q", n_reports=2, plus=[1, 300], minus=[0, 0])
    >>> unpack(pack(tally), question="q", n_reports=2) == tally
    True
    """
    heads: list[list[Any]] = []
    bodies: list[bytes] = []
    for name, counts in tally.cells.items():
        kind = _narrowest(int(counts.max(initial=0)))
        places = np.flatnonzero(counts)
        heads.append([name, list(counts.shape), kind])
        if counts.ndim == 1 and _SPARSE * places.size < counts.size < 1 << 32:
            heads[-1].append(places.size)
            bodies += [places.astype(_PLACE).tobytes(), counts[places].astype(kind).tobytes()]
        else:
            bodies.append(counts.astype(kind).tobytes())
    said = b"".join((json.dumps(heads).encode(), b"\n", *bodies))
    return zlib.crc32(said).to_bytes(4, "little") + said


def unpack(cells: bytes, *, question: str, n_reports: int) -> Tally:
    """The tally that `pack` wrote, or a refusal where a byte has changed."""
    if len(cells) < 4 or zlib.crc32(cells[4:]).to_bytes(4, "little") != cells[:4]:
        raise StoreError(
            f"the stored tally of {question[:12]} is damaged: its checksum does not match", damaged=True
        )
    head, _, body = cells[4:].partition(b"\n")
    heads = json.loads(head)
    ends = pairwise(accumulate(map(_size, heads), initial=0))
    counts = {each[0]: _counts(each, body[low:high]) for each, (low, high) in zip(heads, ends, strict=True)}
    return Tally.of(question=question, n_reports=n_reports, **counts)


def add(before: Tally, counted: Tally) -> Tally:
    """The sum by name: hashed answers may be decoded in one tally and undecoded in the other."""
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
    counts[np.frombuffer(body[:end], dtype=_PLACE)] = np.frombuffer(body[end:], dtype=kind)
    return counts


def _narrowest(largest: int) -> str:
    return next(kind for kind in _WIDTHS if largest <= np.iinfo(kind).max)
