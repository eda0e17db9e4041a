"""Compiled loops of noise; imported by `noise` where numba is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

Array = Any


@intrinsic
def _lowest(typing: Any, word: Any) -> Any:
    """Which is the lowest bit that is set; one is."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.IntType(1)(1))

    return types.int64(types.uint64), generate


@njit(cache=True, nogil=True)
def draw_trits(out: Array, octets: Array, tails: Array, first: int, low: Any, high: Any, last: Any) -> Any:
    """Trits of rows from `first` on: 1 below `low`, 2 below `high`, else 0; how many rows are done.

    Trit 4 j + p of a row has byte octets[row, p, j] for its highest bits, and takes the other 56 from
    `tails`, in order, where they decide. Stops before a row for which the tails may not suffice.
    """
    n_bytes = out.shape[1]
    flags = np.zeros((n_bytes + 7) // 8, dtype=np.uint64)
    marks = flags.view(np.uint8)
    used = 0
    for row in range(first, out.shape[0]):
        _compare_trits(octets[row], out[row], np.uint8(low >> np.uint64(56)), np.uint8(high >> np.uint64(56)))
        _mark_trits(octets[row], marks, np.uint8(low >> np.uint64(56)), np.uint8(high >> np.uint64(56)))
        if used + _ones(flags) > tails.size:
            return row
        for group in range(flags.size):
            left = flags[group]
            # One step a tie: its place is where the lowest bit is set.
            while left:
                bit = _lowest(left)
                left &= left - np.uint64(1)
                byte, place = 8 * group + (bit >> 3), bit & 7
                word = _joined(octets[row, place, byte], tails[used])
                used += 1
                trit = 2 * np.int64(word < high) - np.int64(word < low)
                out[row, byte] = out[row, byte] & ~(3 << 2 * place) | trit << 2 * place
        out[row, n_bytes - 1] &= last
    return out.shape[0]


@njit(cache=True, nogil=True)
def _compare_trits(octets: Array, out: Array, low: Any, high: Any) -> None:
    a, b, c, d = octets[0], octets[1], octets[2], octets[3]
    for byte in range(out.size):
        out[byte] = (
            (2 * np.uint8(a[byte] < high) - np.uint8(a[byte] < low))
            | (2 * np.uint8(b[byte] < high) - np.uint8(b[byte] < low)) << 2
            | (2 * np.uint8(c[byte] < high) - np.uint8(c[byte] < low)) << 4
            | (2 * np.uint8(d[byte] < high) - np.uint8(d[byte] < low)) << 6
        )


@njit(cache=True, nogil=True)
def _mark_trits(octets: Array, marks: Array, low: Any, high: Any) -> None:
    """Bit p of a mark where byte p is the highest byte of a threshold."""
    a, b, c, d = octets[0], octets[1], octets[2], octets[3]
    for byte in range(octets.shape[1]):
        marks[byte] = (
            np.uint8((a[byte] == low) | (a[byte] == high))
            | np.uint8((b[byte] == low) | (b[byte] == high)) << 1
            | np.uint8((c[byte] == low) | (c[byte] == high)) << 2
            | np.uint8((d[byte] == low) | (d[byte] == high)) << 3
        )


@njit(cache=True, nogil=True)
def draw_bits(out: Array, octets: Array, tails: Array, first: int, threshold: Any, last: Any) -> Any:
    """Bits of rows from `first` on, set below the threshold; bit 8 j + p has byte octets[row, p, j]."""
    n_bytes = out.shape[1]
    flags = np.zeros((n_bytes + 7) // 8, dtype=np.uint64)
    marks = flags.view(np.uint8)
    top = np.uint8(threshold >> np.uint64(56))
    used = 0
    for row in range(first, out.shape[0]):
        _compare_bits(octets[row], out[row], marks, top)
        if used + _ones(flags) > tails.size:
            return row
        for group in range(flags.size):
            left = flags[group]
            while left:
                bit = _lowest(left)
                left &= left - np.uint64(1)
                byte, place = 8 * group + (bit >> 3), bit & 7
                word = _joined(octets[row, place, byte], tails[used])
                used += 1
                out[row, byte] |= np.int64(word < threshold) << place
        out[row, n_bytes - 1] &= last
    return out.shape[0]


@njit(cache=True, nogil=True)
def _compare_bits(octets: Array, out: Array, marks: Array, top: Any) -> None:
    """Bits of a row as far as the highest byte decides them, marks where it does not."""
    for byte in range(out.size):
        out[byte] = marks[byte] = 0
    for place in range(8):
        plane = octets[place]
        for byte in range(out.size):
            out[byte] |= np.uint8(plane[byte] < top) << place
        for byte in range(out.size):
            marks[byte] |= np.uint8(plane[byte] == top) << place


@njit(cache=True, nogil=True)
def _ones(words: Array) -> int:
    """How many bits are set."""
    total = 0
    for word in words:
        word = word - (word >> np.uint64(1) & np.uint64(0x5555555555555555))
        word = (word & np.uint64(0x3333333333333333)) + (word >> np.uint64(2) & np.uint64(0x3333333333333333))
        word = word + (word >> np.uint64(4)) & np.uint64(0x0F0F0F0F0F0F0F0F)
        total += np.int64(word * np.uint64(0x0101010101010101) >> np.uint64(56))
    return total


@njit(cache=True, nogil=True)
def draw_numbers(
    out: Array,
    digits: Array,
    tails: Array,
    first: int,
    table: Array,
    tie: int,
    step: Any,
    count: int,
    bits: int,
) -> Any:
    """Numbers of rows from `first` on: 1 + word // step below `count`, else 0, packed in `bits` bits each.

    `digits` are the 16 highest bits of each word and `table` says what they decide, `tie` where they do
    not; then the other 48 come from `tails`.
    """
    used = 0
    for row in range(first, out.shape[0]):
        ties = 0
        for place in range(digits.shape[1]):
            ties += table[digits[row, place]] == tie
        if used + ties > tails.size:
            return row
        held, left, byte = np.uint64(0), 0, 0
        for place in range(digits.shape[1]):
            number = np.int64(table[digits[row, place]])
            if number == tie:
                word = np.uint64(digits[row, place]) << np.uint64(48) | tails[used] >> np.uint64(16)
                used += 1
                cell = np.int64(word // step)
                number = 1 + cell if cell < count else 0
            held |= np.uint64(number) << np.uint64(left)
            left += bits
            while left >= 8:
                out[row, byte] = np.uint8(held & np.uint64(0xFF))
                held >>= np.uint64(8)
                byte, left = byte + 1, left - 8
        if left > 0:
            out[row, byte] = np.uint8(held)
    return out.shape[0]


@njit(cache=True, nogil=True)
def _joined(octet: Any, tail: Any) -> Any:
    """A word from its highest byte and the highest 56 bits of another."""
    return np.uint64(octet) << np.uint64(56) | tail >> np.uint64(8)


# --- one signed key ---


@intrinsic
def upper_half(typing: Any, a: Any, b: Any) -> Any:
    """The upper half of a product of two words, as `wide.high`; one instruction."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        one, other = (builder.zext(each, wide) for each in args)
        return builder.trunc(builder.lshr(builder.mul(one, other), wide(64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


@njit(cache=True, nogil=True)
def _sampled(start: int, size: int, codes: Array, slot: Any, dummy: Any, n_keys: int, l: int) -> Any:
    """The sampled key or dummy, and where a key's value is. No branch: chance is not foreseen.

    There is at least one code, if only to be looked at in vain.
    """
    place = np.int64(upper_half(slot, np.uint64(max(size, l))))
    padding = n_keys + np.int64(upper_half(dummy, np.uint64(l)))
    held = np.int64(place < size)
    at = (start + place) * held
    return padding + (codes[np.uint64(at)] - padding) * held, at


@njit(cache=True, nogil=True)
def _truth(key: int, at: int, n_keys: int, values: Array, rounding: Any, is_kept: bool) -> int:
    """The symbol of a key, or a dummy, whose sign is rounded, and kept or flipped."""
    value = values[at] if key < n_keys else 0.0
    level = (value + 1.0) * 9223372036854775808.0
    plus = level >= 18446744073709551616.0 or rounding < np.uint64(level)
    return 2 * key + np.int64(is_kept != plus)


@njit(cache=True, nogil=True)
def _divided(word: Any, step: Any, inverse: Any) -> Any:
    """Quotient and rest by a step whose inverse, 2**64 // step, is known: no division, which is slow.

    The product with the inverse is the quotient, or one below it.
    """
    number = upper_half(word, inverse)
    rest = word - number * step
    more = np.uint64(rest >= step)
    return number + more, rest - more * step


@njit(cache=True, nogil=True)
def _lie(key: int, number: Any) -> int:
    """Lies skip over the truth's two symbols."""
    lie = np.int64(number)
    return lie + 2 * np.int64(lie >= 2 * key)


@njit(cache=True, nogil=True)
def respond_signed(offsets: Array, codes: Array, values: Array, words: Array, kernel: Any) -> Any:
    """The symbols of `SignedResponse.perturb`, a record and a row of words each.

    `kernel` is n_keys, l, and the words keep, keep + flip, fake, and the inverse of the last.
    """
    n_keys, l, keep, own, fake, inverse = kernel
    symbols = np.empty(words.shape[0], dtype=np.int64)
    for user in range(words.shape[0]):
        start, size = offsets[user], offsets[user + 1] - offsets[user]
        key, at = _sampled(start, size, codes, words[user, 0], words[user, 1], n_keys, l)
        word = words[user, 3]
        if word < own:
            symbols[user] = _truth(key, at, n_keys, values, words[user, 2], word < keep)
        else:
            symbols[user] = _lie(key, _divided(word - own, fake, inverse)[0])
    return symbols


@njit(cache=True, nogil=True)
def _straddles(digit: Any, choices: Any) -> bool:
    """Whether 16 bits leave open which of some choices a word picks."""
    return (digit * choices & np.uint64(0xFFFF)) + choices > np.uint64(1 << 16)


@njit(cache=True, nogil=True)
def respond_signed_digits(
    symbols: Array,
    digits: Array,
    tails: Array,
    first: int,
    offsets: Array,
    codes: Array,
    values: Array,
    kernel: Any,
) -> int:
    """The same from digits, see `noise.SPLIT`; how many records are done before the tails run out."""
    n_keys, l, keep, own, fake, inverse = kernel
    used, low, short, long = 0, np.uint64(0xFFFFFFFF), np.uint64(0xFFFF), np.uint64(48)
    for user in range(first, symbols.size):
        if used + 4 > tails.size:
            return user
        start, drawn = offsets[user], digits[user]
        size = offsets[user + 1] - start
        slot, dummy, word = drawn >> np.uint64(16) & short, drawn & short, drawn & ~low
        slot_word, dummy_word = slot << long, dummy << long
        if _straddles(slot, np.uint64(max(size, l))):
            slot_word, used = slot_word | tails[used] >> np.uint64(16), used + 1
        if _straddles(dummy, np.uint64(l)):
            dummy_word, used = dummy_word | tails[used] >> np.uint64(16), used + 1
        key, at = _sampled(start, size, codes, slot_word, dummy_word, n_keys, l)
        if word >= own:
            beyond = word - own
            number, rest = _divided(beyond, fake, inverse)
            if rest + low >= fake:
                beyond, used = beyond + (tails[used] >> np.uint64(32)), used + 1
                number, _ = _divided(beyond, fake, inverse)
            symbols[user] = _lie(key, number)
            continue
        if (word | low) >= own or word < keep <= (word | low):
            word, used = word | tails[used] >> np.uint64(32), used + 1
        rounding, used = tails[used], used + 1
        if word < own:
            symbols[user] = _truth(key, at, n_keys, values, rounding, word < keep)
        else:
            symbols[user] = _lie(key, _divided(word - own, fake, inverse)[0])
    return symbols.size
