"""Populations for breakdowns: users in segments that differ, keys held together, and crossed keys."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from keyveil.batch import Records
from keyveil.batch import crossed as cross_records
from keyveil.domain import Crossing
from keyveil.errors import PairsError
from keyveil.simulate.population import Floats, Ints, Population, insecure_generator


def crossed(population: Population, crossing: Crossing, labels: Ints | None = None) -> Population:
    """The same people with the records that devices make of theirs (`domain.crossing`).

    >>> from keyveil.domain import Pairs
    >>> people = with_tastes(users=9, keys=4, pairs_per_user=2, tastes=2)
    >>> crossed(people, Pairs.among(range(4))).sizes.tolist()
    [4, 4, 4, 4, 4, 4, 4, 4, 4]
    """
    held = Records(offsets=population.offsets, codes=population.codes, values=population.values)
    made = cross_records(held, crossing, labels)
    names = crossing.names(tuple(population.names))
    return replace(population, names=names, offsets=made.offsets, codes=made.codes, values=made.values)


def in_segments(
    *, shares: Floats, frequency: Floats, mean: Floats, users: int, seed: int = 0
) -> tuple[Population, Ints]:
    """Users of segments with these shares, who hold keys independently, and each user's segment.

    `frequency` and `mean` are tables of segments by keys; values are an end of the range or the other.

    >>> people, labels = in_segments(shares=np.array([0.5, 0.5]), frequency=np.array([[0.9], [0.1]]),
    ...                              mean=np.zeros((2, 1)), users=1000, seed=1)
    >>> np.bincount(labels).tolist(), np.bincount(labels, people.sizes).tolist()
    ([507, 493], [466.0, 42.0])
    """
    rng = insecure_generator(seed)
    labels = rng.choice(len(shares), users, p=shares / shares.sum())
    owners, codes, values = [], [], []
    for segment, (held, high) in enumerate(zip(frequency, (1 + mean) / 2, strict=True)):
        own = np.flatnonzero(labels == segment)
        for code, share in enumerate(held):
            # As many holders as chance makes, drawn among the segment's users: no table of users by keys.
            holders = rng.choice(own, rng.binomial(own.size, share), replace=False, shuffle=False)
            owners.append(holders)
            codes.append(np.full(holders.size, code))
            values.append(np.where(rng.random(holders.size) < high[code], 1.0, -1.0))
    people = Population.from_pairs(
        np.concatenate(owners),
        np.concatenate(codes),
        np.concatenate(values),
        n_users=users,
        names=[f"key-{code}" for code in range(frequency.shape[1])],
    )
    return people, labels


def with_tastes(
    *, users: int, keys: int, pairs_per_user: int, tastes: int, strength: float = 4.0, seed: int = 0
) -> Population:
    """Users of one taste each, who hold just `pairs_per_user` keys, those of their taste likelier.

    Key k is of taste k modulo `tastes`, and `strength` times as popular among those; else keys are of
    Zipf's popularity. So keys of one taste are held together more often than by chance, others less.

    >>> people = with_tastes(users=100, keys=12, pairs_per_user=3, tastes=3, seed=1)
    >>> people.sizes.min(), people.sizes.max()
    (np.int64(3), np.int64(3))
    """
    if not 1 <= pairs_per_user <= keys:
        raise PairsError(f"expected 1 to {keys} pairs a user, got {pairs_per_user}")
    rng = insecure_generator(seed)
    taste = rng.integers(0, tastes, users)
    weights = 1 / np.arange(1, keys + 1) ** 0.5
    # The keys with the largest of weighted random numbers: a draw without replacement.
    liked = np.where(np.arange(keys)[None, :] % tastes == np.arange(tastes)[:, None], strength, 1.0) * weights
    drawn = np.log(liked)[taste] + rng.gumbel(size=(users, keys))
    codes = np.argpartition(-drawn, pairs_per_user - 1, axis=1)[:, :pairs_per_user].ravel()
    owners = np.repeat(np.arange(users), pairs_per_user)
    values = np.clip(0.5 * np.cos(codes + taste[owners]) + rng.normal(0, 0.3, codes.size), -1.0, 1.0)
    return Population.from_pairs(
        owners, codes, values, n_users=users, names=[f"key-{code}" for code in range(keys)]
    )
