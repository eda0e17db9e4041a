"""A guess at who will answer: how many people, how many pairs they hold, how skewed the keys are.

Where there are data the crowd carries what was counted in them (`counted`), and nothing else is guessed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from keyveil.errors import DomainError
from keyveil.estimate.sizes import SizeLaw
from keyveil.plan.strata import Strata, stratum_starts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Ranks at which frequencies are evaluated where there are more keys: what lies between is alike.
MOST_RANKS = 2000
# Key means spread evenly so far around the middle: ratings and shares of time keep off the ends.
WIDEST_MEAN = 0.6
# Successive multiples of the golden section spread evenly over [0, 1), however many there are.
_GOLDEN = 0.6180339887
# Quantiles that a lognormal law is made of: the last is what one user in eight thousand exceeds.
_POINTS = 4000


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
    means: tuple[float, float] = (-WIDEST_MEAN, WIDEST_MEAN)
    """Between these the means of keys spread evenly, on the scale [-1, 1]."""
    taste: float = 0.0
    """How much more skewed the keys of the longest records are, as a part of the skew; negative for less."""
    growth: float = 0.0
    """How much larger values are in records that are e times as long."""
    counted: Strata | None = None
    """What was counted in data, the most frequent key first: then nothing but `users` is a guess."""

    def __post_init__(self) -> None:
        if self.users < 1 or self.n_keys < 1:
            raise DomainError(
                f"a plan needs at least one user and one key, got {self.users} and {self.n_keys}"
            )
        if not 0 <= self.skew < math.inf:
            raise DomainError(f"skew must be a number from 0 on, got {self.skew:g}")
        if self.counted is not None and self.counted.held.shape[1] != self.n_keys:
            raise DomainError(f"expected data of {self.n_keys} keys, got {self.counted.held.shape[1]}")

    @property
    def usual_size(self) -> int:
        """How many pairs nine users in ten hold at most: what a campaign declares."""
        reached = np.cumsum(self.law.shares)
        place = min(int(np.searchsorted(reached, 0.9 * reached[-1] - 1e-12)), reached.size - 1)
        return min(self.n_keys, max(1, math.ceil(float(self.law.sizes[place]))))

    @cached_property
    def ranks(self) -> Floats:
        """The ranks that stand for all keys: all of them, or a sample denser at the top."""
        if self.n_keys <= MOST_RANKS or self.counted is not None:
            return np.arange(1.0, self.n_keys + 1)
        return np.unique(np.geomspace(1, self.n_keys, MOST_RANKS).round())

    @cached_property
    def counts(self) -> Floats:
        """How many keys each rank stands for."""
        return np.diff(np.concatenate([[0.5], self._between, [self.n_keys + 0.5]]))

    @property
    def _between(self) -> Floats:
        return (self.ranks[1:] + self.ranks[:-1]) / 2

    @cached_property
    def strata(self) -> Strata:
        """Who holds the keys of these ranks, by how much they hold: as counted, or as guessed."""
        if self.counted is not None:
            return self.counted
        sizes, shares = self.law.sizes, self.law.shares
        held = shares[:, None] * self._chances(self._weights())
        drift = self.growth * np.log(np.maximum(sizes, 1.0) / max(self.law.mean, 1.0))
        means = np.clip(self.mean_at(self.ranks) + drift[:, None], -1.0, 1.0)
        return Strata(sizes=sizes, shares=shares, held=held, signed=held * means)

    def _weights(self) -> Floats:
        """How popular each rank is with users of each size."""
        shares = self.law.shares
        # How long a stratum's records are among all: 0 for the shortest, 1 for the longest.
        place = np.cumsum(shares) - shares / 2
        skew = np.maximum(0.0, self.skew * (1 + self.taste * (2 * place - 1)))
        weight: Floats = self.ranks ** -skew[:, None] if self.taste else self.ranks[None, :] ** -self.skew
        return weight / (weight @ self.counts)[:, None]

    def _chances(self, weight: Floats) -> Floats:
        """How likely a user of each size holds each rank; all together they hold what the law says."""
        sizes, shares = self.law.sizes, self.law.shares
        if sizes[shares > 0].max(initial=0.0) <= 1:
            return sizes[:, None] * weight
        low, high = 0.1, 1e6
        for _ in range(60):
            middle = float(np.sqrt(low * high))
            held = -np.expm1(-middle * weight * sizes[:, None])
            if shares @ held @ self.counts < min(self.law.mean, 0.999 * self.n_keys):
                low = middle
            else:
                high = middle
        return held

    @cached_property
    def frequency(self) -> Floats:
        """The share of users who hold the key of each rank."""
        return self.strata.frequency

    def at_ranks(self, ranks: Floats) -> Floats:
        """The frequencies of the keys of these ranks."""
        return np.interp(ranks, self.ranks, self.frequency)

    def mean_at(self, ranks: Floats) -> Floats:
        """The means that are guessed: neither the top nor the bottom has only high or only low ones."""
        low, high = self.means
        return low + (high - low) * np.modf(0.5 + (ranks - 1) * _GOLDEN)[0]

    def keys(self, count: int) -> Strata:
        """Of the `count` most frequent keys, one column each."""
        return self.strata.columns(np.searchsorted(self._between, np.arange(1.0, count + 1)))


def even_sizes(most: int) -> SizeLaw:
    """Sizes that spread evenly from 1 to the most that a user holds.

    >>> even_sizes(4).mean
    2.5
    """
    return _in_strata(np.arange(1, most + 1), np.full(most, 1 / most))


def tailed_sizes(usual: int, sigma: float, most: int) -> SizeLaw:
    """Lognormal sizes: nine users in ten hold at most `usual`, nobody more than `most`, and none nothing.

    >>> law = tailed_sizes(30, 1.2, 1000)
    >>> round(float(law.shares[law.sizes <= 30].sum()), 1), bool(100 < law.sizes.max() <= 1000)
    (0.9, True)
    """
    places = (np.arange(_POINTS) + 0.5) / _POINTS
    z = np.array([NormalDist().inv_cdf(float(place)) for place in places])
    usual_z = NormalDist().inv_cdf(0.9)
    drawn = np.clip(np.rint(usual * np.exp(sigma * (z - usual_z))), 1, most).astype(np.int64)
    return _in_strata(drawn, np.full(_POINTS, 1 / _POINTS))


def _in_strata(sizes: Ints, shares: Floats) -> SizeLaw:
    """The same users in as few classes as a cut can tell apart."""
    starts = stratum_starts(int(sizes.max()))
    stratum = np.searchsorted(starts, sizes, side="right") - 1
    share = np.bincount(stratum, weights=shares, minlength=starts.size)
    total = np.bincount(stratum, weights=shares * sizes, minlength=starts.size)
    here = share > 0
    return SizeLaw(sizes=total[here] / share[here], shares=share[here].astype(float))
