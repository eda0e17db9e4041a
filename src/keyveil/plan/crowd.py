"""A guess at who will answer: how many people, how many pairs they hold, how skewed the keys are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from keyveil.errors import DomainError
from keyveil.estimate.sizes import SizeLaw

Floats = NDArray[np.float64]

# Ranks at which frequencies are evaluated where there are more keys: what lies between is alike.
MOST_RANKS = 2000


@dataclass(frozen=True, kw_only=True, eq=False)
class Crowd:
    """Users who hold key number r with weight r**-skew, in records of known sizes.

    >>> crowd = Crowd(users=1000, n_keys=3, law=SizeLaw.exactly(1), skew=1.0)
    >>> crowd.frequency.round(3).tolist()
    [0.545, 0.273, 0.182]
    """

    users: int
    n_keys: int
    law: SizeLaw
    skew: float = 1.0

    def __post_init__(self) -> None:
        if self.users < 1 or self.n_keys < 1:
            raise DomainError(
                f"a plan needs at least one user and one key, got {self.users} and {self.n_keys}"
            )
        if not 0 <= self.skew < math.inf:
            raise DomainError(f"skew must be a number from 0 on, got {self.skew:g}")

    @cached_property
    def ranks(self) -> Floats:
        """The ranks that stand for all keys: all of them, or a sample denser at the top."""
        if self.n_keys <= MOST_RANKS:
            return np.arange(1.0, self.n_keys + 1)
        return np.unique(np.geomspace(1, self.n_keys, MOST_RANKS).round())

    @cached_property
    def counts(self) -> Floats:
        """How many keys each rank stands for."""
        edges = np.concatenate([[0.5], (self.ranks[1:] + self.ranks[:-1]) / 2, [self.n_keys + 0.5]])
        return np.diff(edges)

    @cached_property
    def frequency(self) -> Floats:
        """The share of users who hold the key of each rank."""
        weight = self.ranks**-self.skew
        weight /= weight @ self.counts
        sizes, shares = self.law.sizes, self.law.shares
        if sizes[shares > 0].max(initial=0.0) <= 1:
            return weight * self.law.mean
        low, high = 0.1, 1e6
        for _ in range(60):
            middle = float(np.sqrt(low * high))
            held = -np.expm1(-middle * weight[:, None] * sizes) @ shares
            if held @ self.counts < min(self.law.mean, 0.999 * self.n_keys):
                low = middle
            else:
                high = middle
        return held

    def at_ranks(self, ranks: Floats) -> Floats:
        """The frequencies of the keys of these ranks."""
        return np.interp(ranks, self.ranks, self.frequency)
