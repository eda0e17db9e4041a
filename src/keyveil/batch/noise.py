"""Many independent comparisons with one threshold, packed: the noise of unary reports.

A word is below a threshold of 64 bits if its highest byte is below the threshold's, and not if it is
above; only when the two are equal, once in 256, do the other 56 bits matter. So one random byte a
comparison is enough, and the rare tie draws the rest: exactly the law of whole words, for an eighth of
the randomness.

Which byte serves which position does not matter, so bytes come as planes: neighbours in memory belong
to neighbouring bytes of the report, and comparisons run in vectors. The numpy twins take the same bytes
and the same tails in the same order, and give the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.batch.stream import Bytes, Stream, Words, draw_words
from keyveil.compiled import is_compiled

# What decides nothing in a table of numbers.
_TIE = 0xFFFF
# Random bytes in hand at once.
_SCRATCH = 1 << 18
Rows = Callable[[Bytes, Any, Words, int], int]


def draw_trits(stream: Stream, n: int, length: int, low: int, high: int) -> Bytes:
    """N rows of packed trits: 1 with chance low / 2**64, 2 with chance (high - low) / 2**64, else 0.

    >>> from keyveil.batch.stream import InsecureSeededStream
    >>> draw_trits(InsecureSeededStream(1), 2, 5, 2**63, 2**64 - 1).shape
    (2, 2)
    """
    n_bytes = (2 * length + 7) // 8
    out, last = np.empty((n, n_bytes), dtype=np.uint8), _last(2 * length)
    if is_compiled(10 * n * 4 * n_bytes):
        from keyveil.batch import loops

        def rows(out: Bytes, drawn: Bytes, tails: Words, first: int) -> int:
            return int(loops.draw_trits(out, drawn, tails, first, np.uint64(low), np.uint64(high), last))
    else:

        def rows(out: Bytes, drawn: Bytes, tails: Words, first: int) -> int:
            return _trits_with_numpy(out, drawn, tails, first, low, high, last)

    return _fill(stream, out, np.empty((1, 4, n_bytes), dtype=np.uint8), 2 * 4 * n_bytes / 256, rows)


def draw_bits(stream: Stream, n: int, length: int, threshold: int) -> Bytes:
    """N rows of packed bits, each set with chance threshold / 2**64."""
    n_bytes = (length + 7) // 8
    out, last = np.empty((n, n_bytes), dtype=np.uint8), _last(length)
    if is_compiled(10 * n * 8 * n_bytes):
        from keyveil.batch import loops

        def rows(out: Bytes, drawn: Bytes, tails: Words, first: int) -> int:
            return int(loops.draw_bits(out, drawn, tails, first, np.uint64(threshold), last))
    else:

        def rows(out: Bytes, drawn: Bytes, tails: Words, first: int) -> int:
            return _bits_with_numpy(out, drawn, tails, first, threshold, last)

    return _fill(stream, out, np.empty((1, 8, n_bytes), dtype=np.uint8), 8 * n_bytes / 256, rows)


def draw_numbers(stream: Stream, n: int, length: int, step: int, count: int, bits: int) -> Bytes:
    """N rows of numbers packed in `bits` bits: each of 1 to `count` with chance step / 2**64, else 0."""
    n_bytes = (bits * length + 7) // 8
    out, table = np.empty((n, n_bytes), dtype=np.uint8), _table(step, count)
    if is_compiled(10 * n * length):
        from keyveil.batch import loops

        def rows(out: Bytes, drawn: Any, tails: Words, first: int) -> int:
            return int(
                loops.draw_numbers(out, drawn, tails, first, table, _TIE, np.uint64(step), count, bits)
            )
    else:

        def rows(out: Bytes, drawn: Any, tails: Words, first: int) -> int:
            return _numbers_with_numpy(out, drawn, tails, first, table, step, count, bits)

    return _fill(stream, out, np.empty((1, length), dtype="<u2"), length * (count + 1) / 2**16, rows)


# Where three of the four words of a signed response begin in a word of digits: 32 bits of the response, 16
# of the slot, 16 of the dummy. Tails decide what these leave open, and round where a truth may be reported.
SPLIT = (32, 16, 0)


def split_words(digits: Words, tails: Words, slots: Words, l: int, keep: int, own: int, fake: int) -> Words:
    """The words slot, dummy, rounding, response behind digits; bits that decide nothing are 0."""
    response, slot, dummy = (digits >> np.uint64(at) for at in SPLIT)
    slot, dummy = slot & np.uint64(0xFFFF), dummy & np.uint64(0xFFFF)
    word, low = response << np.uint64(32), np.uint64(0xFFFFFFFF)
    beyond = (word - np.uint64(own)) % np.uint64(fake) + low >= np.uint64(fake)
    upto = (word | low >= np.uint64(own)) | ((word < np.uint64(keep)) & (word | low >= np.uint64(keep)))
    answer = np.where(word < np.uint64(own), upto, beyond)
    may_be_true = word < np.uint64(own)
    tied = np.stack([_straddles(slot, slots), _straddles(dummy, np.uint64(l)), answer, may_be_true], axis=1)
    drawn = np.zeros(tied.shape, dtype=np.uint64)
    drawn[tied] = tails[: int(tied.sum())]
    long = np.uint64(48)
    return np.stack(
        [
            slot << long | drawn[:, 0] >> np.uint64(16),
            dummy << long | drawn[:, 1] >> np.uint64(16),
            drawn[:, 3],
            word | drawn[:, 2] >> np.uint64(32),
        ],
        axis=1,
    )


def _straddles(digit: Words, choices: Words | np.uint64) -> NDArray[np.bool_]:
    """Where 16 bits leave open which of some choices a word picks."""
    open_: NDArray[np.bool_] = (digit * choices & np.uint64(0xFFFF)) + choices > np.uint64(1 << 16)
    return open_


def _fill(stream: Stream, out: Bytes, row: Any, ties: float, rows: Rows) -> Bytes:
    """All rows; `row` has the shape of what one draws, `ties` is how many it has on average.

    What is drawn is used at once and overwritten: it stays in a core's second cache.
    """
    at_once = max(1, _SCRATCH // row.nbytes)
    scratch = np.empty((min(at_once, len(out)), *row.shape[1:]), dtype=row.dtype)
    for first in range(0, len(out), at_once):
        part = out[first : first + at_once]
        drawn = scratch[: len(part)]
        stream.fill(drawn.view(np.uint8))
        done, spare = 0, 64
        while done < len(part):
            mean = ties * (len(part) - done)
            # Which rows need more than there are depends on the bytes alone, not on the tails: drawing
            # new tails for them changes no chance.
            tails = draw_words(stream, int(mean + 8 * math.sqrt(mean)) + spare)
            before, done = done, rows(part, drawn, tails, done)
            spare = 64 if done > before else row.size
    return out


def _last(used_bits: int) -> np.uint8:
    """The bits of the last byte that mean something."""
    return np.uint8(0xFF >> (-used_bits % 8))


@lru_cache(maxsize=16)
def _table(step: int, count: int) -> NDArray[np.uint16]:
    """What the highest 16 bits of a word decide about 1 + word // step."""
    firsts = [(digit << 48) // step for digit in range(1 << 16)]
    lasts = [((digit + 1 << 48) - 1) // step for digit in range(1 << 16)]
    rows = [
        (1 + first if first < count else 0) if first == last or first >= count else _TIE
        for first, last in zip(firsts, lasts, strict=True)
    ]
    table = np.array(rows, dtype=np.uint16)
    table.setflags(write=False)
    return table


# --- the same in numpy ---


def _resolve(octets: Bytes, ties: NDArray[np.bool_], tails: Words, row: int) -> tuple[int, Words]:
    """How many rows the tails suffice for, and the words of the ties in them, in order."""
    reached = np.cumsum(ties.sum(axis=(1, 2)))
    done = int(np.searchsorted(reached, tails.size, side="right"))
    kept = ties[:done]
    used = int(reached[done - 1]) if done else 0
    words = octets[:done][kept].astype(np.uint64) << np.uint64(56) | tails[:used] >> np.uint64(8)
    return done, words


def _trits_with_numpy(
    out: Bytes, drawn: Bytes, tails: Words, first: int, low: int, high: int, last: np.uint8
) -> int:
    octets = drawn[first:].transpose(0, 2, 1)
    below, above = np.uint8(low >> 56), np.uint8(high >> 56)
    trits = np.where(octets < below, 1, np.where(octets < above, 2, 0)).astype(np.uint8)
    done, words = _resolve(octets, (octets == below) | (octets == above), tails, first)
    trits, ties = trits[:done], ((octets == below) | (octets == above))[:done]
    trits[ties] = np.where(words < np.uint64(low), 1, np.where(words < np.uint64(high), 2, 0))
    shifted = trits << np.arange(0, 8, 2, dtype=np.uint8)
    out[first : first + done] = np.bitwise_or.reduce(shifted, axis=2)
    out[first : first + done, -1] &= last
    return first + done


def _bits_with_numpy(
    out: Bytes, drawn: Bytes, tails: Words, first: int, threshold: int, last: np.uint8
) -> int:
    octets, top = drawn[first:].transpose(0, 2, 1), np.uint8(threshold >> 56)
    bits, ties = octets < top, octets == top
    done, words = _resolve(octets, ties, tails, first)
    bits = bits[:done]
    bits[ties[:done]] = words < np.uint64(threshold)
    out[first : first + done] = np.packbits(bits, axis=2, bitorder="little")[:, :, 0]
    out[first : first + done, -1] &= last
    return first + done


def _numbers_with_numpy(
    out: Bytes, drawn: Any, tails: Words, first: int, table: Any, step: int, count: int, bits: int
) -> int:
    digits = drawn[first:]
    numbers = table[digits].astype(np.int64)
    ties = numbers == _TIE
    reached = np.cumsum(ties.sum(axis=1))
    done = int(np.searchsorted(reached, tails.size, side="right"))
    numbers, ties = numbers[:done], ties[:done]
    used = int(reached[done - 1]) if done else 0
    words = digits[:done][ties].astype(np.uint64) << np.uint64(48) | tails[:used] >> np.uint64(16)
    cells = (words // np.uint64(step)).astype(np.int64)
    numbers[ties] = np.where(cells < count, cells + 1, 0)
    out[first : first + done] = pack_numbers(numbers, bits)
    return first + done


def pack_numbers(numbers: NDArray[np.int64], bits: int) -> Bytes:
    """Rows of numbers in `bits` bits each, the first in the lowest.

    >>> pack_numbers(np.array([[8, 0, 1]]), 4).tolist()
    [[8, 1]]
    """
    spread = (numbers[:, :, None] >> np.arange(bits)) & 1
    return np.packbits(spread.reshape(len(numbers), -1).astype(np.uint8), axis=1, bitorder="little")
