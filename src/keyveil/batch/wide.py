"""Exact products of 64-bit words, for arrays; the integers that `domain.record` has in Python."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Words = NDArray[np.uint64]

_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


def as_words(numbers: ArrayLike) -> Words:
    """Numbers from 0 up to 2**64 - 1."""
    return np.asarray(numbers, dtype=np.uint64)


def high(a: Words, b: ArrayLike) -> Words:
    """The upper half of a product: `domain.pick(word, choices)` for 64-bit words.

    >>> high(as_words([2**63, 2**64 - 1]), 3).tolist()
    [1, 2]
    """
    b = as_words(b)
    a0, a1, b0, b1 = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    middle = a1 * b0 + (a0 * b0 >> _HALF)
    other = a0 * b1 + (middle & _LOW)
    upper: Words = a1 * b1 + (middle >> _HALF) + (other >> _HALF)
    return upper


def muldiv(a: Words, b: ArrayLike, divisor: Words) -> Words:
    """floor(a * b / divisor) for a < divisor and b below 2**32; exact.

    >>> muldiv(as_words([2**63]), 3, as_words([2**64 - 1])).tolist(), 2**63 * 3 // (2**64 - 1)
    ([1], 1)
    """
    b = as_words(b)
    # A float is off by less than one, so the quotient is this number or a neighbour.
    guess = as_words(np.floor(a / divisor * b))
    top, bottom = high(a, b), a * b
    for _ in range(2):
        guess = guess - _exceeds(high(guess, divisor), guess * divisor, top, bottom)
    after = as_words(guess + np.uint64(1))
    quotient: Words = after - _exceeds(high(after, divisor), after * divisor, top, bottom)
    return quotient


def _exceeds(top: Words, bottom: Words, other_top: Words, other_bottom: Words) -> Words:
    """1 where one 128-bit number is above the other, else 0."""
    above = (top > other_top) | ((top == other_top) & (bottom > other_bottom))
    return as_words(above)


def bits_across(words: Words) -> Words:
    """The numbers whose planes of bits these words are, row by row; see `numerics.words`.

    >>> bits_across(as_words([[1, 0]])).tolist()
    [[1, 0]]
    """
    n, length = words.shape
    bits = np.unpackbits(words.astype("<u8").view(np.uint8).reshape(n, -1), axis=1, bitorder="little")
    numbers = np.packbits(bits.reshape(n, 64, length), axis=1, bitorder="little")
    return np.ascontiguousarray(numbers.transpose(0, 2, 1)).view("<u8").reshape(n, length)
