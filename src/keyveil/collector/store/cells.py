"""A tally as bytes: a line of JSON (names, shapes, types), the arrays, a checksum.

Counts are written in the narrowest unsigned type that holds them: most are small for long.
"""

from __future__ import annotations

import json
import zlib
from itertools import accumulate, pairwise

import numpy as np

from keyveil.errors import StoreError
from keyveil.tally import Tally

_WIDTHS = ("<u1", "<u2", "<u4", "<u8")


def pack(tally: Tally) -> bytes:
    """The cells of a tally.

    >>> tally = Tally.of(question="q", n_reports=2, plus=[1, 300], minus=[0, 0])
    >>> unpack(pack(tally), question="q", n_reports=2) == tally
    True
    """
    heads, bodies = [], []
    for name, counts in tally.cells.items():
        kind = _narrowest(int(counts.max(initial=0)))
        heads.append([name, list(counts.shape), kind])
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
    sizes = [int(np.prod(shape)) * np.dtype(kind).itemsize for _, shape, kind in heads]
    counts = {
        name: np.frombuffer(body[low:high], dtype=kind).astype(np.int64).reshape(shape)
        for (name, shape, kind), (low, high) in zip(
            heads, pairwise(accumulate(sizes, initial=0)), strict=True
        )
    }
    return Tally.of(question=question, n_reports=n_reports, **counts)


def _narrowest(largest: int) -> str:
    return next(kind for kind in _WIDTHS if largest <= np.iinfo(kind).max)
