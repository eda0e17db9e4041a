"""Counting apart by the public dither: `domain.dither` for many reports, and what its bins leave in a tally.

A report's values are rounded by the word u that its id gives. Where it is counted, only the leading bits of
u are kept, j for short: of values at w = (1 + v)/2 of their range the reports of bin j say + with chance
J w - j, cut to [0, 1]. So each bin is a collection of its own, of values stretched J times, and all of them
together are the collection without a dither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from keyveil.compiled import is_compiled
from keyveil.mechanisms.base import AsksEverybody
from keyveil.report import REPORT_ID_BYTES
from keyveil.tally.hashing import mix_many
from keyveil.tally.payloads import Bytes, Ints, Payloads
from keyveil.tally.tally import Counts

Words = NDArray[np.uint64]

# Operations to hash an id, about.
_STEPS = 32


def dithers_of(ids: Bytes) -> Words:
    """`domain.dither_of` of ids, a row each.

    >>> hex(int(dithers_of(np.zeros((1, 16), dtype=np.uint8))[0]))
    '0xe9fd6049d65af21e'
    """
    low, high = np.ascontiguousarray(ids).view("<u8").reshape(-1, 2).astype(np.uint64).T
    return mix_many(mix_many(low + np.uint64(1)) ^ (high + np.uint64(1)))


def bins_of(ids: Payloads, bins: int) -> Ints:
    """The bin in which the report under each id is counted; `bins` is a power of two.

    >>> bins_of(Payloads.of([bytes(16)], n_bytes=16), 16).tolist()
    [14]
    """
    shift = np.uint64(64 - (bins.bit_length() - 1))
    if not is_compiled(_STEPS * len(ids)):
        return (dithers_of(ids.matrix()) >> shift).astype(np.int64)
    from keyveil.tally import loops

    found: Ints = loops.bins_of(ids.data, ids.starts, shift)
    return found


def rows_of(mechanism: object, bins: Sequence[Mapping[str, Counts]]) -> dict[str, Counts]:
    """The cells of a dithered tally, a row a bin, from those of each bin alone."""
    rows = {name: np.stack([cells[name] for cells in bins]) for name in bins[0]}
    if isinstance(mechanism, AsksEverybody):
        rows["asked"] = rows["asked"][:, :1]
    return rows


def ids_before(answers: Payloads) -> Payloads:
    """The ids of reports whose answers these are, where they lie: each right before its answer."""
    return Payloads(data=answers.data, starts=answers.starts - REPORT_ID_BYTES, n_bytes=REPORT_ID_BYTES)
