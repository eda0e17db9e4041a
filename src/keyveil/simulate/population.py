"""Whole populations as flat arrays: who holds what, and how much.

User u holds the pairs offsets[u] .. offsets[u + 1] - 1; their codes ascend. Values are on the scale
[-1, 1]; `value_range` says what they stand for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.domain import Record
from keyveil.errors import PairsError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def insecure_generator(*seed: int) -> np.random.Generator:
    """A repeatable numpy generator for simulation; never for a device."""
    return np.random.default_rng(np.random.SeedSequence(seed))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Population:
    """The truth about every user, for simulation only."""

    names: Sequence[str]
    offsets: Ints
    codes: Ints
    values: Floats
    value_range: tuple[float, float] = (-1.0, 1.0)
    repeated_rows: int = 0
    user_names: NDArray[Any] | None = None
    """Who they are, where a file says so."""
    labels: NDArray[np.uint8] | None = None
    """Everybody's label of each attribute, a row each, where there are any (`keyveil.segments`)."""

    @classmethod
    def from_pairs(
        cls,
        users: Ints,
        codes: Ints,
        values: Floats,
        *,
        n_users: int,
        names: Sequence[str],
        value_range: tuple[float, float] = (-1.0, 1.0),
    ) -> Population:
        """Pairs in any order, values in [-1, 1]; repeated (user, key) rows are averaged."""
        d = len(names)
        cell, inverse, count = np.unique(users * d + codes, return_inverse=True, return_counts=True)
        if cell.size < users.size:
            values = np.bincount(inverse, weights=values, minlength=cell.size) / count
        else:
            values = values[np.argsort(inverse)]
        owners = cell // d
        return cls(
            names=names,
            offsets=np.concatenate(([0], np.cumsum(np.bincount(owners, minlength=n_users)))),
            codes=cell % d,
            values=values,
            value_range=value_range,
            repeated_rows=int((count[count > 1]).sum()),
        )

    @property
    def n_users(self) -> int:
        """How many users there are, those who hold nothing included."""
        return self.offsets.size - 1

    @property
    def n_keys(self) -> int:
        """How many keys are asked about."""
        return len(self.names)

    @property
    def sizes(self) -> Ints:
        """How many pairs each user holds."""
        return np.diff(self.offsets)

    def typical_size(self) -> int:
        """The 90th percentile of record sizes, at least 1: the papers' rule for the padding length."""
        return max(1, int(np.quantile(self.sizes, 0.9, method="inverted_cdf")))

    def frequency(self) -> Floats:
        """The share of users who hold each key."""
        share: Floats = np.bincount(self.codes, minlength=self.n_keys) / self.n_users
        return share

    def mean(self) -> Floats:
        """The mean value among holders on the scale [-1, 1]; NaN where nobody holds the key."""
        holders = np.bincount(self.codes, minlength=self.n_keys)
        total = np.bincount(self.codes, weights=self.values, minlength=self.n_keys)
        mean: Floats = np.divide(total, holders, out=np.full(self.n_keys, np.nan), where=holders > 0)
        return mean

    def variance(self) -> Floats:
        """The variance of the values among holders on the scale [-1, 1]; NaN where there are none."""
        holders = np.bincount(self.codes, minlength=self.n_keys)
        squares = np.bincount(self.codes, weights=self.values**2, minlength=self.n_keys)
        mean: Floats = np.divide(squares, holders, out=np.full(self.n_keys, np.nan), where=holders > 0)
        return mean - self.mean() ** 2

    def reached(self, edges: Floats) -> Floats:
        """For every key the share of its holders' values at or below each edge; 0 where there are none."""
        place = np.searchsorted(edges, self.values, side="left")
        cells = np.bincount(
            self.codes * (edges.size + 1) + place, minlength=self.n_keys * (edges.size + 1)
        ).reshape(self.n_keys, edges.size + 1)
        below: Floats = np.cumsum(cells, axis=1)[:, :-1] / np.maximum(cells.sum(axis=1, keepdims=True), 1)
        return below

    def quantile(self, q: float) -> Floats:
        """For every key the least value that a part q of its holders' values does not exceed; NaN without."""
        order = np.lexsort((self.values, self.codes))
        ends = np.cumsum(np.bincount(self.codes, minlength=self.n_keys))
        holders = np.diff(ends, prepend=0)
        place = ends - holders + np.maximum(np.ceil(q * holders).astype(np.int64) - 1, 0)
        held = holders > 0
        found = np.full(self.n_keys, np.nan)
        found[held] = self.values[order][place[held]]
        return found

    def take(self, users: Ints) -> Population:
        """Only these users."""
        sizes = self.sizes[users]
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        pairs = np.repeat(self.offsets[users] - offsets[:-1], sizes) + np.arange(offsets[-1])
        return replace(
            self,
            offsets=offsets,
            codes=self.codes[pairs],
            values=self.values[pairs],
            user_names=None if self.user_names is None else self.user_names[users],
            labels=None if self.labels is None else self.labels[users],
        )

    def restrict(self, keys: Ints) -> Population:
        """All users, but only these keys, which get the codes 0, 1, ... in the order given."""
        place = np.full(self.n_keys, -1)
        place[keys] = np.arange(keys.size)
        kept = place[self.codes] >= 0
        users = np.repeat(np.arange(self.n_users), self.sizes)[kept]
        made = Population.from_pairs(
            users,
            place[self.codes[kept]],
            self.values[kept],
            n_users=self.n_users,
            names=[self.names[key] for key in keys],
            value_range=self.value_range,
        )
        return replace(made, user_names=self.user_names, labels=self.labels)

    def keep_pairs(self, pairs: int, rng: np.random.Generator) -> Population:
        """All users, with at most so many of their pairs, drawn at random."""
        users = np.repeat(np.arange(self.n_users), self.sizes)
        order = np.lexsort((rng.random(users.size), users))
        rank = np.arange(users.size) - np.repeat(self.offsets[:-1], self.sizes)
        kept = np.sort(order[rank < pairs])
        sizes = np.minimum(self.sizes, pairs)
        return replace(
            self,
            offsets=np.concatenate(([0], np.cumsum(sizes))),
            codes=self.codes[kept],
            values=self.values[kept],
        )

    def records(self) -> Iterator[Record]:
        """Every user's record, for the slow path through the real client."""
        for start, stop in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            yield Record.of(
                dict(zip(self.codes[start:stop].tolist(), self.values[start:stop].tolist(), strict=True))
            )


def synthetic(
    *, users: int, keys: int, pairs_per_user: int = 1, skew: float = 1.0, seed: int = 0
) -> Population:
    """Power-law popularity (key k has weight 1/(k+1)**skew), values around a mean of each key's own.

    With more than one pair per user, sizes are uniform on 0..pairs_per_user; a key drawn twice by
    one user counts once, so records never exceed `pairs_per_user`.

    >>> p = synthetic(users=100, keys=10, pairs_per_user=3, seed=1)
    >>> p.n_users, p.n_keys, bool(p.sizes.max() <= 3)
    (100, 10, True)
    """
    if users < 1 or keys < 1 or pairs_per_user < 1:
        raise PairsError("a population needs at least one user, one key and one pair per user")
    rng = insecure_generator(seed)
    weights = 1.0 / np.arange(1, keys + 1) ** skew
    sizes = (
        rng.integers(0, pairs_per_user + 1, users) if pairs_per_user > 1 else np.ones(users, dtype=np.int64)
    )
    owners = np.repeat(np.arange(users), sizes)
    drawn = rng.choice(keys, size=owners.size, p=weights / weights.sum())
    centres = rng.uniform(-0.8, 0.8, keys)
    values = np.clip(centres[drawn] + rng.normal(0.0, 0.3, owners.size), -1.0, 1.0)
    return Population.from_pairs(
        owners, drawn, values, n_users=users, names=[f"key-{k}" for k in range(keys)]
    )
