"""How often each bit is set: the counting behind trits and bit vectors.

The bits of an answer are columns, answers are rows, and what is wanted are column sums. Compiled, sixteen
rows at a time go through a tree of carry-save adders (Harley and Seal's population count, one column a
lane): planes of bits hold the sums in binary, and only their carries go on to the next sixteen. That is
under three operations for 256 columns of a row; `bench/` compares it with reading the same bytes.

A row that no device sends (the fourth code of a trit, bits behind the last) is left out and marked.

[Harley-Seal] Warren: Hacker's Delight, 2nd edition, section 5-2; Mula, Kurz, Lemire: Faster population
counts using AVX2 instructions, The Computer Journal 2018.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from keyveil.compiled import has_compiler, is_compiled
from keyveil.report import Row, Subset, Trits
from keyveil.tally.payloads import Bytes, Ints, Mask, Payloads

# Rows whose bits a byte can count.
_ROWS = 255
# How many bits of a byte are set.
_SET: Bytes = np.array([byte.bit_count() for byte in range(256)], dtype=np.uint8)
# Bytes that one compiled step reads of a row.
_VECTOR = 32


def count_bits(layout: Trits | Row, payloads: Payloads) -> tuple[Ints, Mask]:
    r"""How often each bit of the answers is set, and which answers were left out as bad.

    >>> counts, bad = count_bits(Trits(3), Payloads.of([b"\x09", b"\x01", b"\x03"], n_bytes=1))
    >>> counts[:6].tolist(), bad.tolist()
    ([2, 0, 0, 1, 0, 0], [False, False, True])
    """
    if not is_compiled(len(payloads) * payloads.n_bytes):
        return _with_numpy(payloads, *_masks(layout))
    from keyveil.tally import loops

    width = -(-payloads.n_bytes // _VECTOR) * _VECTOR
    words = _words(layout, width)
    counts, bad = np.zeros(8 * width, dtype=np.int64), np.zeros(len(payloads), dtype=np.bool_)
    # The step that reads the last answers would read on behind the buffer: they go by themselves.
    cut = int(np.searchsorted(payloads.starts, payloads.data.size - width, side="right"))
    for first, some in ((0, payloads.part(0, cut)), (cut, payloads.part(cut, len(payloads)).padded(width))):
        if len(some):
            counted, wrong, _ = loops.count_bits(some.data, some.starts, *words)
            counts += counted
            bad[first : first + len(some)] = wrong
    return counts[: 8 * payloads.n_bytes], bad


def count_subsets(layout: Subset, payloads: Payloads) -> tuple[Ints, Mask]:
    r"""The same for answers that must have so many bits set, no more and no fewer.

    >>> counts, bad = count_subsets(Subset(3, 2), Payloads.of([b"\x05", b"\x01", b"\x0a"], n_bytes=1))
    >>> counts[:3].tolist(), bad.tolist()
    ([1, 0, 1], [False, True, True])
    """
    bad = np.concatenate(
        [
            _SET[payloads.part(start, start + _ROWS).matrix()].sum(axis=1) != layout.chosen
            for start in range(0, max(len(payloads), 1), _ROWS)
        ]
    )
    counts, behind = count_bits(layout.bits, payloads.only(~bad))
    bad[~bad] = behind
    return counts, bad


def warm_up() -> None:
    """Have the compiled loop ready before it is needed, in a process that will count for long.

    >>> warm_up()
    """
    if has_compiler():
        from keyveil.tally import loops

        nothing, one = np.zeros(_VECTOR // 8, dtype=np.uint64), np.zeros(1, dtype=np.int64)
        loops.count_bits(np.zeros(_VECTOR, dtype=np.uint8), one, nothing, nothing)


def _masks(layout: Trits | Row) -> tuple[Bytes, Bytes]:
    """Bits that must not be set together with the next one, and bits that must not be set."""
    trits = isinstance(layout, Trits)
    used = 2 * layout.length if isinstance(layout, Trits) else layout.length * layout.bits
    spare = np.full(layout.n_bytes, 0, dtype=np.uint8)
    if used % 8:
        spare[-1] = 0xFF << (used % 8) & 0xFF
    return np.full(layout.n_bytes, 0x55 if trits else 0, dtype=np.uint8), spare


# A collector asks for the same few again with every group.
@lru_cache(maxsize=64)
def _words(layout: Trits | Row, width: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The masks, as wide as the steps that read a row, in words."""
    doubled, spare = (np.pad(mask, (0, width - mask.size)).view(np.uint64) for mask in _masks(layout))
    return doubled, spare


def _with_numpy(payloads: Payloads, doubled: Bytes, spare: Bytes) -> tuple[Ints, Mask]:
    counts = np.zeros(8 * payloads.n_bytes, dtype=np.int64)
    bad: NDArray[np.bool_] = np.zeros(len(payloads), dtype=np.bool_)
    for start in range(0, len(payloads), _ROWS):
        rows = payloads.part(start, start + _ROWS).matrix()
        wrong = ((rows & (rows >> 1) & doubled) | (rows & spare)).any(axis=1)
        bad[start : start + _ROWS] = wrong
        bits = np.unpackbits(rows[~wrong] if wrong.any() else rows, axis=1, bitorder="little")
        counts += bits.sum(axis=0, dtype=np.uint8)
    return counts, bad
