"""Who holds what, by how much they hold: what cutting records does to keys and means follows from it.

Users of about one size are a stratum. Of every stratum it is known which part of all users holds each key
there, and the sum of their values. A record of s pairs cut to l keeps each with chance min(1, l/s): of key k

    F_k = sum_s min(1, l/s) held[s, k]      is left of its frequency, and
    S_k = sum_s min(1, l/s) signed[s, k]    of its frequency times its mean.

Nothing is assumed: long records may hold what short ones do not, and values may grow with length. What a plan
guesses is written as strata (`Crowd.strata`), and what data hold is counted into them (`Strata.count`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.estimate.sizes import SizeLaw

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Sizes up to this one are strata of their own: what a cut keeps depends most on small ones.
_EXACT = 12
# Above it each stratum begins this much later: what a cut keeps of its sizes differs by no more.
_WIDER = 0.12


class Kept(NamedTuple):
    """What is left of keys when records are cut; the same of many users or of few."""

    share: Floats
    signed: Floats
    square: Floats
    """The mean over users of the squared chance that the key is kept: for how samples of users differ."""

    @property
    def mean(self) -> Floats:
        """Of the values that are left; 0 where none is."""
        return _ratio(self.signed, self.share)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Strata:
    """Sizes, the share of users of each, and what they hold: one row a stratum, one column a key.

    >>> strata = Strata.count(np.array([1, 2]), np.array([0, 0, 1]), np.array([0.5, -0.5, 1.0]), n_keys=2)
    >>> strata.frequency.tolist(), strata.mean.tolist()
    ([1.0, 0.5], [0.0, 1.0])
    >>> strata.kept(1).share.tolist()
    [0.75, 0.25]
    """

    sizes: Floats
    shares: Floats
    held: Floats
    """Users of this size who hold the key, as a part of all users."""
    signed: Floats
    """The sum of their values, on [-1, 1], over the number of all users."""

    @classmethod
    def count(cls, sizes: Ints, codes: Ints, values: Floats, *, n_keys: int) -> Strata:
        """Of known records, the pairs of one user after those of another."""
        starts = stratum_starts(int(sizes.max(initial=0)))
        stratum = np.searchsorted(starts, sizes, side="right") - 1
        cells = np.repeat(stratum, sizes) * n_keys + codes
        users, shape = sizes.size, (starts.size, n_keys)
        number = np.bincount(stratum, minlength=starts.size)
        total = np.bincount(stratum, weights=sizes, minlength=starts.size)
        here = number > 0
        return cls(
            sizes=total[here] / number[here],
            shares=number[here] / users,
            held=np.bincount(cells, minlength=starts.size * n_keys).reshape(shape)[here] / users,
            signed=np.bincount(cells, weights=values, minlength=starts.size * n_keys).reshape(shape)[here]
            / users,
        )

    @property
    def law(self) -> SizeLaw:
        """How many pairs users hold."""
        return SizeLaw(sizes=self.sizes, shares=self.shares)

    @property
    def frequency(self) -> Floats:
        """The share of users who hold each key."""
        frequency: Floats = self.held.sum(axis=0)
        return frequency

    @property
    def mean(self) -> Floats:
        """Of each key's values; 0 where nobody holds it."""
        return _ratio(self.signed.sum(axis=0), self.frequency)

    def kept(self, l: int) -> Kept:
        """What is left when records are cut to l pairs."""
        chance = np.minimum(1.0, l / np.maximum(self.sizes, 1.0))
        return Kept(chance @ self.held, chance @ self.signed, chance**2 @ self.held)

    def columns(self, keys: Ints) -> Strata:
        """These keys, in this order; sizes stay those of whole records."""
        return Strata(
            sizes=self.sizes, shares=self.shares, held=self.held[:, keys], signed=self.signed[:, keys]
        )

    def only(self, keys: Ints) -> Strata:
        """All users with nothing but these keys, by how many of them they hold.

        Each of s pairs (of the keys, if they are fewer) is among them with the stratum's own chance, whatever
        the others are.
        """
        sizes = np.rint(self.sizes).astype(int)
        among = self.columns(keys)
        # Nobody holds more of them than there are.
        tries = np.minimum(sizes, keys.size)
        inside = among.held.sum(axis=1) / np.maximum(self.shares * tries, 1e-300)
        chance = np.where(tries > 0, np.minimum(inside, 1.0), 0.0)
        most = int(tries.max(initial=0))
        users = np.array([_binomial(s, q, most) for s, q in zip(tries, chance, strict=True)])
        # Whoever holds one of the keys holds that one and some of the others.
        others = np.array([_binomial(max(s - 1, 0), q, most) for s, q in zip(tries, chance, strict=True)])
        holders = np.concatenate([np.zeros((sizes.size, 1)), others[:, :-1]], axis=1)
        holders[:, -1] += others[:, -1]
        starts = stratum_starts(most)
        stratum = np.searchsorted(starts, np.arange(most + 1), side="right") - 1
        into = np.zeros((most + 1, starts.size))
        into[np.arange(most + 1), stratum] = 1.0
        shares = self.shares @ users @ into
        total = self.shares @ (users * np.arange(most + 1)) @ into
        moved = (holders @ into).T
        return Strata(
            sizes=np.where(shares > 0, _ratio(total, shares), starts.astype(float)),
            shares=shares,
            held=moved @ among.held,
            signed=moved @ among.signed,
        )


def stratum_starts(largest: int) -> Ints:
    """Where strata start: every small size, then steps of an eighth.

    >>> stratum_starts(20).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 17, 19]
    """
    starts = list(range(min(largest, _EXACT) + 1))
    while (
        starts[-1] >= _EXACT and (start := max(starts[-1] + 1, round(starts[-1] * (1 + _WIDER)))) <= largest
    ):
        starts.append(start)
    return np.array(starts)


def _ratio(above: Floats, below: Floats) -> Floats:
    """Above over below; 0 where below is 0."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def _binomial(n: int, chance: float, most: int) -> Floats:
    """How likely 0, 1, ..., `most` of n are; what is more counts as `most`.

    >>> _binomial(3, 0.5, 2).round(6).tolist()
    [0.125, 0.375, 0.5]
    """
    chances = np.zeros(max(n, most) + 1)
    if chance <= 0 or chance >= 1:
        chances[n if chance >= 1 else 0] = 1.0
    else:
        k = np.arange(n + 1)
        logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1.0, n + 1)))])
        chances[: n + 1] = np.exp(
            logs[n] - logs - logs[::-1] + k * np.log(chance) + (n - k) * np.log1p(-chance)
        )
    chances[most] = chances[most:].sum()
    return chances[: most + 1]
