"""The public hash of `mechanisms.oracles`, vectorised: how many reports support each symbol."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.compiled import is_compiled, usable_cores
from keyveil.mechanisms import Bucket, Hashed
from keyveil.mechanisms.hash.bucket import TIE_WORDS
from keyveil.tally.tally import Counts

# Hashes evaluated at once: what stays in a core's cache.
_BLOCK = 1 << 16
# Steps of numpy a hash.
_HASH = 15
# Hashes that take as long as starting a thread is worth: some ten milliseconds.
_WORTH_A_THREAD = 1 << 24


def supports(oracle: Hashed, answers: Counts, times: Counts | None = None) -> Counts:
    """Supports of every symbol, from answers of (cohort, bucket), each given once or so many times.

    >>> olh = Hashed.for_epsilon(1, n_symbols=4, cohorts=2)
    >>> supports(olh, np.array([0, 1, 2, 3])).tolist()
    [1, 1, 1, 1]
    """
    histogram = _BucketCounts.of(answers, oracle.buckets, times)
    if is_compiled(_HASH * histogram.cohorts.size * oracle.n_symbols):
        return _in_threads(histogram, oracle.n_symbols, oracle.buckets, 0)
    total = np.zeros(oracle.n_symbols, dtype=np.int64)
    rows = max(1, _BLOCK // max(oracle.n_symbols, oracle.buckets))
    for cohorts, table in histogram.tables(rows, oracle.buckets):
        buckets = bucket_of_many(cohorts[:, None], np.arange(oracle.n_symbols)[None, :], oracle.buckets)
        total += np.take_along_axis(table, buckets, axis=1).sum(axis=0)
    return total


def signed_supports(mechanism: Bucket, answers: Counts, times: Counts | None = None) -> tuple[Counts, Counts]:
    """Supports of every key's two signs, from answers of (cohort, bucket)."""
    d, g = mechanism.n_keys, mechanism.buckets
    histogram = _BucketCounts.of(answers, g, times)
    if is_compiled(_HASH * histogram.cohorts.size * 2 * d):
        both = _in_threads(histogram, 2 * d, g, mechanism.tie).reshape(d, 2)
        return both[:, 0], both[:, 1]
    plus, minus = np.zeros(d, dtype=np.int64), np.zeros(d, dtype=np.int64)
    for cohorts, table in histogram.tables(max(1, _BLOCK // max(d, g)), g):
        up, down = signed_buckets(mechanism, cohorts[:, None], np.arange(d)[None, :])
        plus += np.take_along_axis(table, up, axis=1).sum(axis=0)
        minus += np.take_along_axis(table, down, axis=1).sum(axis=0)
    return plus, minus


def dithered_supports(
    mechanism: Bucket, bins: Counts, answers: Counts, times: Counts | None, n_bins: int
) -> tuple[Counts, Counts]:
    """The same apart by the dither's bins, a row a bin.

    A bucket of a bin is a bucket of its own, but a cohort's keys are hashed once for all bins: the counts of
    a bucket lie side by side, and are added to a key's side by side.
    """
    d, g = mechanism.n_keys, mechanism.buckets
    cells = answers * n_bins + bins
    if times is not None:
        order = np.argsort(cells)
        cells, times = cells[order], times[order]
    histogram = _BucketCounts.of(cells, g * n_bins, times)
    if is_compiled(_HASH * histogram.cohorts.size * 2 * d):
        both = _in_threads(histogram, 2 * d, g, mechanism.tie, n_bins).reshape(d, 2, n_bins)
        return both[:, 0].T, both[:, 1].T
    plus, minus = np.zeros((d, n_bins), dtype=np.int64), np.zeros((d, n_bins), dtype=np.int64)
    for cohorts, table in histogram.tables(max(1, _BLOCK // (max(d, g) * n_bins)), g * n_bins):
        up, down = signed_buckets(mechanism, cohorts[:, None], np.arange(d)[None, :])
        rows, cells = np.arange(cohorts.size)[:, None], table.reshape(-1, g, n_bins)
        plus += cells[rows, up].sum(axis=0)
        minus += cells[rows, down].sum(axis=0)
    return plus.T, minus.T


class _BucketCounts(NamedTuple):
    """Which buckets each cohort's reports name, and how often; only cohorts that occur."""

    cohorts: Counts
    ends: Counts
    buckets: Counts
    times: Counts

    @classmethod
    def of(cls, answers: Counts, buckets: int, times: Counts | None = None) -> _BucketCounts:
        """From all answers, or from those that differ, in order, and how often each was given."""
        cells = answers
        if times is None:
            cells, times = np.unique(answers, return_counts=True)
        cohorts, starts = np.unique(cells // buckets, return_index=True)
        return cls(cohorts, np.append(starts[1:], cells.size)[: cohorts.size], cells % buckets, times)

    def part(self, first: int, last: int) -> _BucketCounts:
        """From one cohort to before another."""
        start, end = (int(self.ends[at - 1]) if at else 0 for at in (first, last))
        held = slice(start, end)
        ends = self.ends[first:last] - start
        return _BucketCounts(self.cohorts[first:last], ends, self.buckets[held], self.times[held])

    def tables(self, rows: int, buckets: int) -> Iterator[tuple[Counts, Counts]]:
        """Some cohorts at a time, and how often each named each bucket."""
        for first in range(0, self.cohorts.size, rows):
            part = self.part(first, min(first + rows, self.cohorts.size))
            table = np.zeros((part.cohorts.size, buckets), dtype=np.int64)
            sizes = np.diff(part.ends, prepend=0)
            table[np.repeat(np.arange(part.cohorts.size), sizes), part.buckets] = part.times
            yield part.cohorts, table


def _in_threads(histogram: _BucketCounts, n_symbols: int, buckets: int, tie: int, bins: int = 1) -> Counts:
    """The compiled sums, on as many cores as this process may use; loops let go of the interpreter."""
    from keyveil.tally import loops

    def sums(part: _BucketCounts) -> Counts:
        seeds = mix_many(part.cohorts.astype(np.uint64) + np.uint64(1))
        held = seeds, part.ends, part.buckets, part.times
        if bins > 1:
            apart: Counts = loops.sum_supports_apart(*held, n_symbols, buckets, tie, TIE_WORDS, bins)
            return apart
        if tie:
            tied: Counts = loops.sum_tied_supports(*held, n_symbols // 2, buckets, tie, TIE_WORDS)
            return tied
        free: Counts = loops.sum_supports(*held, n_symbols, buckets)
        return free

    work = histogram.cohorts.size * n_symbols
    threads = min(usable_cores(), max(1, work // _WORTH_A_THREAD))
    if threads == 1:
        return sums(histogram)
    cuts = [histogram.cohorts.size * at // threads for at in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        parts = pool.map(lambda ends: sums(histogram.part(*ends)), pairwise(cuts))
        return sum(parts, start=np.zeros(bins * n_symbols, dtype=np.int64))


def signed_buckets(mechanism: Bucket, cohorts: Counts, codes: Counts) -> tuple[Counts, Counts]:
    """`Bucket.symbol_bucket` of both signs, for arrays."""
    g, tie = mechanism.buckets, mechanism.tie
    up, down = (bucket_of_many(cohorts, 2 * codes + minus, g) for minus in (0, 1))
    if tie:
        tied = bucket_of_many(cohorts, ~codes, TIE_WORDS) < abs(tie)
        other = up if tie > 0 else (up + 1 + bucket_of_many(cohorts, 2 * codes + 1, g - 1)) % g
        down = np.where(tied, other, down)
    return up, down


def bucket_of_many(cohorts: NDArray[np.int64], symbols: NDArray[np.int64], buckets: int) -> NDArray[np.int64]:
    """`mechanisms.oracles.bucket_of`, for arrays."""
    mixed = mix_many(
        mix_many(cohorts.astype(np.uint64) + np.uint64(1)) ^ (symbols.astype(np.uint64) + np.uint64(1))
    )
    return (((mixed >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32)).astype(np.int64)


def mix_many(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """`numerics.mix`, for arrays."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
