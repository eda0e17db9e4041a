"""Many reports of one length as one matrix of bytes, and which of its rows no device sends.

The layouts of `keyveil.report`, vectorised: what `Layout.decode` refuses, `non_canonical` marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from keyveil.errors import Refusal
from keyveil.mechanisms import Mechanism
from keyveil.report import (
    HEADER_BYTES,
    REPORT_ID_BYTES,
    Layout,
    Row,
    Symbol,
    Trits,
    public_word,
)

Bytes = NDArray[np.uint8]

# Rows whose shifted copies stay in a core's cache, and whose sums fit 16 bits.
_MANY = 240


class Packed(Sequence[bytes]):
    r"""Payloads of one length, a row each; counted without taking them apart.

    >>> packed = Packed(np.array([[1, 2], [3, 4]], dtype=np.uint8))
    >>> len(packed), packed[1], len(packed[:1])
    (2, b'\x03\x04', 1)
    """

    __slots__ = ("is_sound", "rows")

    def __init__(self, rows: Bytes, *, is_sound: bool = False) -> None:
        self.rows = rows
        self.is_sound = is_sound
        """Whether `refusals` found nothing to object to, so that it need not be asked again."""

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> Packed: ...
    def __getitem__(self, at: int | slice) -> bytes | Packed:
        return Packed(self.rows[at]) if isinstance(at, slice) else self.rows[at].tobytes()


def refusals(mechanism: Mechanism, reports: Bytes, *, tag: bytes, round: int) -> dict[int, Refusal]:
    """The rows of whole reports, one of this round each by their header, that cannot be counted, and why.

    Their length must be the mechanism's, their header that of the campaign and the round.
    """
    layout, payloads = mechanism.layout, reports[:, HEADER_BYTES:]
    bad = non_canonical(layout, payloads)
    found = {int(row): Refusal.NOT_CANONICAL for row in np.flatnonzero(bad)}
    if mechanism.public_word is not None:
        ids = slice(HEADER_BYTES - REPORT_ID_BYTES, HEADER_BYTES)
        for row in np.flatnonzero(~bad).tolist():
            word = public_word(tag, round, reports[row, ids].tobytes())
            if not mechanism.follows(layout.decode(payloads[row].tobytes()), word):
                found[row] = Refusal.WRONG_COHORT
    return found


def non_canonical(layout: Layout, packed: Bytes) -> NDArray[np.bool_]:
    """Which rows are no answer's bytes.

    >>> non_canonical(Symbol(300), np.array([[44, 1], [43, 1]], dtype=np.uint8)).tolist()
    [True, False]
    """
    if isinstance(layout, Symbol):
        return symbols_of(layout, packed) >= layout.size
    if isinstance(layout, Trits):
        spare = np.uint8(0xFF << (2 * (layout.length % 4)) & 0xFF if layout.length % 4 else 0)
        threes = (packed & (packed >> 1) & 0x55).any(axis=1)
        marked: NDArray[np.bool_] = threes | ((packed[:, -1] & spare) != 0)
        return marked
    bits = bits_of(packed)
    behind = bits[:, layout.bits * layout.length :].any(axis=1)
    if layout.size == 1 << layout.bits:
        return np.asarray(behind)
    return np.asarray(behind | (numbers_of(layout, bits) >= layout.size).any(axis=1))


def bit_sums(packed: Bytes) -> NDArray[np.int64]:
    """How many rows have each bit, the lowest of the first byte first.

    Half bytes are counters: up to fifteen rows add without a carry into the neighbour.

    >>> bit_sums(np.array([[5], [4]], dtype=np.uint8)).tolist()
    [1, 0, 2, 0, 0, 0, 0, 0]
    """
    n_rows, width = packed.shape
    total = np.zeros((width, 8), dtype=np.int64)
    for start in range(0, n_rows, _MANY):
        part = packed[start : start + _MANY]
        sums = np.zeros((8, width), dtype=np.uint16)
        for bit in range(4):
            halves = (part >> bit) & 0x11
            for low in range(0, len(part), 15):
                fifteen = np.add.reduce(halves[low : low + 15], axis=0, dtype=np.uint8)
                sums[bit] += fifteen & 15
                sums[bit + 4] += fifteen >> 4
        total += sums.T
    return total.ravel()


def bits_of(packed: Bytes) -> Bytes:
    """The bits of every row, the lowest first."""
    return np.unpackbits(packed, axis=1, bitorder="little")


def numbers_of(layout: Row, bits: Bytes) -> NDArray[np.int64]:
    """The numbers of a `Row`, one row a report."""
    used = bits[:, : layout.bits * layout.length].reshape(len(bits), layout.length, layout.bits)
    return np.asarray(used @ (1 << np.arange(layout.bits, dtype=np.int64)))


def symbols_of(layout: Symbol, packed: Bytes) -> NDArray[np.int64]:
    """The number that every row is."""
    return np.asarray(packed.astype(np.int64) @ (1 << (8 * np.arange(layout.n_bytes, dtype=np.int64))))
