"""What a tally of prefixes says of any of them: one Walsh-Hadamard transform a head counts all its tails.

A tally of `prefix-bucket` holds how often each cohort c said each bucket y, T(c, y). A prefix of head h and
tail t is supported by the reports of its bucket, of which there are

    A(h, t) = sum over c of T(c, o(c, h) xor L(c) t)
            = 1/g sum over c and u of F(c, u) (-1)^(u . o(c, h)) (-1)^(u . L(c) t)

with F the transform of T along y, and L(c) the columns. The last sign is that of (L(c)' u) . t: so all pairs
(c, u) are added up at the place L(c)' u, and one transform over tails is A of all of them. Integers
throughout: the result is the same on any number of cores and with or without a compiler.

Memory, in bytes: 8 R g for the tally of R cohorts, 12 R g more while it is read (without a compiler another
24 R g), and 8 * 2^step a head and thread.
A head costs R g + step 2^step additions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.compiled import is_compiled, usable_cores
from keyveil.mechanisms import PrefixBucket
from keyveil.mechanisms.hash.prefix_bucket import SEED_OF_COLUMNS
from keyveil.numerics import WORD_BITS
from keyveil.tally.hashing import mix_many
from keyveil.tally.tally import Counts, Tally

Words = NDArray[np.uint64]
_WORD = (1 << WORD_BITS) - 1
# Steps of numpy a cell and a head.
_CELL = 12


class Prefixes(NamedTuple):
    """Prefixes as a mechanism hashes them: words of their heads, a row each, and their tails."""

    heads: Words
    tails: Counts

    @classmethod
    def of(cls, mechanism: PrefixBucket, numbers: Sequence[int]) -> Prefixes:
        """Of prefixes as numbers.

        >>> m = PrefixBucket.for_epsilon(1, n_keys=256, step=4)
        >>> Prefixes.of(m, [0x5A]).heads.tolist(), Prefixes.of(m, [0x5A]).tails.tolist()
        ([[5]], [10])
        """
        words = max(1, -(-(mechanism.bits - mechanism.step) // WORD_BITS))
        heads = [
            [number >> mechanism.step + WORD_BITS * at & _WORD for at in range(words)] for number in numbers
        ]
        tails = [number & (1 << mechanism.step) - 1 for number in numbers]
        return cls(np.array(heads, dtype=np.uint64).reshape(-1, words), np.array(tails, dtype=np.int64))

    def take(self, places: Counts) -> Prefixes:
        """Some of them, in any order."""
        return Prefixes(self.heads[places], self.tails[places])


def buckets_of(mechanism: PrefixBucket, cohorts: Counts, asked: Prefixes) -> Counts:
    """`PrefixBucket.symbol_bucket` of a cohort and a prefix each."""
    found = _offsets(mechanism, cohorts, asked.heads)
    for place in range(mechanism.step):
        found ^= (asked.tails >> place & 1) * _columns(mechanism, cohorts, place)
    return found


class Decoder:
    """The transform of a tally, ready for any head.

    >>> m = PrefixBucket.for_epsilon(2, n_keys=256, step=4, cells=64)
    >>> answers = np.bincount([9, 9, 41], minlength=m.layout.size)
    >>> tally = Tally.of(question="q", n_reports=3, support=answers)
    >>> [counts] = Decoder(m, tally).supports([5])
    >>> asked = Prefixes.of(m, range(0x50, 0x60))
    >>> said = [sum(buckets_of(m, np.full(16, a // m.buckets), asked) == a % m.buckets) for a in (9, 9, 41)]
    >>> int(counts.sum()) == sum(map(int, said))
    True
    """

    def __init__(self, mechanism: PrefixBucket, tally: Tally) -> None:
        self._mechanism = mechanism
        g = mechanism.buckets
        self._cohorts = np.arange(mechanism.cohorts)
        flat = np.array(tally.cells["support"], dtype=np.int64).reshape(-1, g)
        transform(flat)
        self._flat = flat
        self._places = self._transposed()
        # (-1) to the number of bits that are set, of every number below g.
        signs = np.ones(1, dtype=np.int8)
        while signs.size < g:
            signs = np.concatenate([signs, -signs])
        self._signs = signs

    def supports(self, heads: Sequence[int]) -> Iterator[Counts]:
        """Of one head after the other, how many reports support each of its tails."""
        m = self._mechanism
        asked = Prefixes.of(m, [head << m.step for head in heads]).heads
        is_fast = is_compiled(_CELL * self._flat.size * len(heads))
        threads = min(usable_cores(), len(heads)) if is_fast else 1
        if threads <= 1:
            yield from (self._of_head(head, is_fast) for head in asked)
            return
        with ThreadPoolExecutor(threads) as pool:
            # Some at a time: what is not asked for yet takes no memory.
            for start in range(0, len(asked), threads):
                yield from pool.map(lambda head: self._of_head(head, True), asked[start : start + threads])

    def _of_head(self, head: Words, is_fast: bool) -> Counts:
        m = self._mechanism
        offsets = _offsets(m, self._cohorts, np.broadcast_to(head, (m.cohorts, head.size)))
        if is_fast:
            from keyveil.tally import loops

            counts: Counts = loops.tail_counts(self._flat, self._places, offsets, self._signs, 1 << m.step)
            return counts
        turned = self._flat * self._signs[np.arange(m.buckets) & offsets[:, None]]
        # Sums of whole numbers below 2^53 are exact in floats: at most n g, whatever is added up.
        sums = np.bincount(self._places.ravel(), weights=turned.ravel(), minlength=1 << m.step)
        counts = sums.astype(np.int64)
        transform(counts[None, :])
        return counts // m.buckets

    def _transposed(self) -> NDArray[np.int32]:
        """L(c)' u of every cohort and u, by doubling: it is linear in u."""
        m = self._mechanism
        columns = np.stack([_columns(m, self._cohorts, place) for place in range(m.step)])
        places = np.zeros((m.cohorts, m.buckets), dtype=np.int32)
        for bit in range(m.buckets.bit_length() - 1):
            row = np.zeros(m.cohorts, dtype=np.int32)
            for place in range(m.step):
                row |= ((columns[place] >> bit & 1) << place).astype(np.int32)
            half = 1 << bit
            places[:, half : 2 * half] = places[:, :half] ^ row[:, None]
        return places


def transform(rows: Counts) -> None:
    """Walsh and Hadamard's, of each row, in place.

    >>> row = np.array([[1, 0, 0, 2]])
    >>> transform(row)
    >>> row.tolist()
    [[3, -1, -1, 3]]
    """
    half = 1
    while half < rows.shape[1]:
        pairs = rows.reshape(rows.shape[0], -1, 2, half)
        upper = pairs[:, :, 0] - pairs[:, :, 1]
        pairs[:, :, 0] += pairs[:, :, 1]
        pairs[:, :, 1] = upper
        half *= 2


def _offsets(mechanism: PrefixBucket, cohorts: Counts, heads: Words) -> Counts:
    words = mix_many(cohorts.astype(np.uint64) + np.uint64(1))
    for place in range(heads.shape[1]):
        words = mix_many(words ^ heads[:, place])
    return _leading(mechanism, words)


def _columns(mechanism: PrefixBucket, cohorts: Counts, place: int) -> Counts:
    seeds = mix_many(cohorts.astype(np.uint64) + np.uint64(SEED_OF_COLUMNS))
    return _leading(mechanism, mix_many(seeds ^ np.uint64(place)))


def _leading(mechanism: PrefixBucket, words: Words) -> Counts:
    narrow = WORD_BITS - (mechanism.buckets.bit_length() - 1)
    return (words >> np.uint64(narrow)).astype(np.int64)
