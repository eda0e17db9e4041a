"""Random words, one by one or all at once.

`Words` are 64-bit words behind their bytes: a device reads them from the operating system in one
piece, and no list of integers is made of them unless somebody asks for one.

A comparison of n words with one threshold costs a loop over n words, or a loop over their bits: read
the same bits as `word_bits` planes of n bits each, where bit k of plane i is bit i of the k-th number.
That is a bijection between n words and n numbers, so numbers are as uniform as words are, and

    at least T, from the lowest bit up:   held = held & plane where T has a 1, held | plane where it has a 0

settles all n at once. The number of steps depends on nothing but `word_bits`.

Words come from an entropy source, a function: asked for n words, it yields n integers below 2**64. The
default, `system_entropy`, is the operating system's generator, and nothing else may feed a device.
`InsecureSeededEntropy` repeats itself on purpose: for simulation and tests.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import overload

from keyveil.numerics.probability import WORD_BITS

_WORD_BYTES = WORD_BITS // 8
Entropy = Callable[[int], Sequence[int]]
# Up to so many words, shifting all bits at once is faster than cutting their bytes.
_FEW = 200


class Words(Sequence[int]):
    """64-bit words, little endian, behind their bytes.

    >>> words = Words(bytes(range(16)))
    >>> hex(words[0]), len(words), words[1:].data.hex()
    ('0x706050403020100', 2, '08090a0b0c0d0e0f')
    """

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        if len(data) % _WORD_BYTES:
            raise ValueError(f"expected whole words of {_WORD_BYTES} bytes, got {len(data)} bytes")
        self.data = data

    @classmethod
    def of(cls, words: Sequence[int]) -> Words:
        """These words; the same object where they are `Words` already."""
        return words if isinstance(words, cls) else cls(struct.pack(f"<{len(words)}Q", *words))

    def __len__(self) -> int:
        return len(self.data) // _WORD_BYTES

    @overload
    def __getitem__(self, place: int) -> int: ...

    @overload
    def __getitem__(self, place: slice) -> Words: ...

    def __getitem__(self, place: int | slice) -> int | Words:
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            if step != 1:
                raise ValueError("words are sliced in order, one by one")
            return Words(self.data[_WORD_BYTES * start : _WORD_BYTES * stop])
        at = _WORD_BYTES * range(len(self))[place]
        return int.from_bytes(self.data[at : at + _WORD_BYTES], "little")

    def __iter__(self) -> Iterator[int]:
        return iter(struct.unpack(f"<{len(self)}Q", self.data))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Words) and self.data == other.data

    def __hash__(self) -> int:
        return hash(self.data)

    def __repr__(self) -> str:
        return f"<{len(self)} secret words>"

    def with_word(self, place: int, word: int) -> Words:
        """The same words but for one.

        >>> list(Words(bytes(16)).with_word(1, 7))
        [0, 7]
        """
        at = _WORD_BYTES * range(len(self))[place]
        return Words(self.data[:at] + word.to_bytes(_WORD_BYTES, "little") + self.data[at + _WORD_BYTES :])


def planes(words: Sequence[int], word_bits: int = WORD_BITS) -> list[int]:
    """The bits of n words, one after the other, as `word_bits` planes of n bits, the lowest first.

    Bits from n upwards mean nothing; mask them when all is done.

    >>> [plane & 0b111 for plane in planes([0b01, 0b10, 0b11], word_bits=2)]
    [1, 7]
    """
    n = len(words)
    if word_bits != WORD_BITS:
        joined = sum(word << (place * word_bits) for place, word in enumerate(words))
    elif n <= _FEW:
        joined = int.from_bytes(Words.of(words).data, "little")
    else:
        view, read = memoryview(Words.of(words).data), int.from_bytes
        return [
            read(view[at >> 3 : (at + n + 7) >> 3], "little") >> (at & 7) for at in range(0, n * word_bits, n)
        ]
    everywhere = (1 << n) - 1
    return [joined >> at & everywhere for at in range(0, n * word_bits, n)]


def at_least(sliced: Sequence[int], threshold: int) -> int:
    """Bit k is set where the k-th number is not below `threshold`; here the numbers are 3, 2, 2.

    >>> [at_least(planes([0b01, 0b10, 0b11], word_bits=2), t) & 0b111 for t in range(4)]
    [7, 7, 7, 1]
    """
    held = -1
    for plane, is_one in zip(sliced, _bits(threshold, len(sliced)), strict=True):
        held = held & plane if is_one else held | plane
    return held


@lru_cache(maxsize=1024)
def _bits(threshold: int, n_bits: int) -> tuple[bool, ...]:
    return tuple(bool(threshold >> place & 1) for place in range(n_bits))


def system_entropy(n_words: int) -> Words:
    """`n_words` words from the operating system, safe after a fork.

    >>> len(system_entropy(3))
    3
    """
    return Words(os.urandom(8 * n_words))


class InsecureSeededEntropy:
    """Repeatable words for simulation; a device that used them would protect nobody.

    >>> InsecureSeededEntropy(7)(2) == InsecureSeededEntropy(7)(2)
    True
    """

    def __init__(self, seed: int, word_bits: int = WORD_BITS) -> None:
        from random import Random

        self._generator = Random(seed)
        self._word_bits = word_bits

    def __call__(self, n_words: int) -> Sequence[int]:
        """`n_words` words that the seed alone decides."""
        if self._word_bits == WORD_BITS:
            return Words(self._generator.randbytes(8 * n_words))
        return [self._generator.getrandbits(self._word_bits) for _ in range(n_words)]
