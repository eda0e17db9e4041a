"""The public hash of `mechanisms.oracles`, vectorised: how many reports support each symbol."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keyveil.mechanisms import Bucket
from keyveil.mechanisms.bucket import TIE_WORDS
from keyveil.tally.tally import Counts

# Hashes evaluated at once: what stays in a core's cache.
_BLOCK = 1 << 16


def supports(table: Counts, n_symbols: int) -> Counts:
    """Supports per symbol, from counts of (cohort, bucket); only cohorts that occur are hashed.

    >>> supports(np.array([[1, 0], [0, 2]]), n_symbols=4).tolist()
    [2, 2, 2, 2]
    """
    cohorts = np.flatnonzero(table.any(axis=1))
    total = np.zeros(n_symbols, dtype=np.int64)
    rows = max(1, _BLOCK // n_symbols)
    for start in range(0, cohorts.size, rows):
        part = cohorts[start : start + rows]
        buckets = bucket_of_many(part[:, None], np.arange(n_symbols)[None, :], table.shape[1])
        total += np.take_along_axis(table[part], buckets, axis=1).sum(axis=0)
    return total


def signed_supports(mechanism: Bucket, answers: Counts) -> tuple[Counts, Counts]:
    """Supports of every key's two signs, from answers; a table of (cohort, bucket) is made in parts."""
    d, g = mechanism.n_keys, mechanism.buckets
    plus, minus = np.zeros(d, dtype=np.int64), np.zeros(d, dtype=np.int64)
    cells, times = np.unique(answers, return_counts=True)
    cohorts, starts = np.unique(cells // g, return_index=True)
    ends, rows = np.append(starts[1:], cells.size), max(1, _BLOCK // max(d, g))
    for start in range(0, cohorts.size, rows):
        part = cohorts[start : start + rows]
        held = slice(starts[start], ends[start + part.size - 1])
        table = np.zeros((part.size, g), dtype=np.int64)
        table[np.searchsorted(part, cells[held] // g), cells[held] % g] = times[held]
        up, down = signed_buckets(mechanism, part[:, None], np.arange(d)[None, :])
        plus += np.take_along_axis(table, up, axis=1).sum(axis=0)
        minus += np.take_along_axis(table, down, axis=1).sum(axis=0)
    return plus, minus


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
    mixed = _mix(_mix(cohorts.astype(np.uint64) + np.uint64(1)) ^ (symbols.astype(np.uint64) + np.uint64(1)))
    return (((mixed >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32)).astype(np.int64)


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
