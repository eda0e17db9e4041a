"""The public hash of `mechanisms.oracles`, vectorised: how many reports support each symbol."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keyveil.tally.tally import Counts

# Hashes evaluated at once: 32 MB of 64-bit numbers.
_BLOCK = 1 << 22


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


def bucket_of_many(cohorts: NDArray[np.int64], symbols: NDArray[np.int64], buckets: int) -> NDArray[np.int64]:
    """`mechanisms.oracles.bucket_of`, for arrays."""
    mixed = _mix(_mix(cohorts.astype(np.uint64) + np.uint64(1)) ^ (symbols.astype(np.uint64) + np.uint64(1)))
    return (((mixed >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32)).astype(np.int64)


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
