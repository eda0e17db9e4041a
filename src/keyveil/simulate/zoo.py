"""Populations that nobody tuned to: each is there to catch one way of being wrong and sure of it.

Every animal has dials, because a default that is tuned to one setting of them is caught by another. Users
hold different keys, values lie in [-1, 1], and everything follows from the seed. Drawing takes time by the
number of pairs.

    dominant      nearly everybody holds one key; the others must not drown in its collisions, nor in its mean
    head-heavy    who holds much holds what everybody holds: cutting records costs popular keys most
    niche         who holds much holds what nobody else does: cutting costs rare keys most
    clusters      tastes come in groups: keys are held together, or not at all
    by-length     values grow with the length of a record: a cut moves means
    bimodal       values lie at both ends: a mean says little, its variance is large
    uniform       all keys are equally popular: there is no top to find
    dense         records hold most of a small domain
    long          lengths of records are lognormal: the tail is long, and few have it
    tiny          two thousand people: noise is as large as all there is
    large         millions, one pair each: what does not average out is seen
    correlated    popular keys have high values, rare ones low: shrinking means to a centre is wrong
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from keyveil.errors import PairsError
from keyveil.simulate.population import Floats, Ints, Population, insecure_generator

# How far values lie from their key's mean, and keys' means from 0, unless a population is about just that.
_AROUND, _MEANS = 0.25, 0.4


class Animal(NamedTuple):
    """A population of the zoo: how it is made, and how large it usually is."""

    make: Callable[..., Population]
    users: int
    keys: int

    @property
    def catches(self) -> str:
        """In one line, what it is there for."""
        return (self.make.__doc__ or "").partition("\n")[0]


def dominant(*, users: int, keys: int, seed: int = 0, share: float = 0.9, others: float = 2.0) -> Population:
    """Nearly everybody holds one key: its collisions, and its mean, must not become everybody's.

    >>> crowd = dominant(users=2000, keys=20, seed=1)
    >>> bool(abs(crowd.frequency()[0] - 0.9) < 0.05), crowd.n_keys
    (True, 20)
    """
    rng = insecure_generator(seed)
    owners, codes = _draw(rng, rng.poisson(others, users), _popularity(keys - 1, 1.0))
    holders = np.flatnonzero(rng.random(users) < share)
    owners, codes = np.concatenate([owners, holders]), np.concatenate([codes + 1, np.zeros_like(holders)])
    means = rng.uniform(-_MEANS, 0.0, keys)
    means[0] = 0.8
    return _population(rng, users, keys, owners, codes, means)


def head_heavy(
    *, users: int, keys: int, seed: int = 0, length: float = 6.0, tail: float = 1.0, tilt: float = 0.6
) -> Population:
    """Who holds much holds what everybody holds: cutting records costs popular keys most."""
    return _tilted(users, keys, seed, length, tail, light=1.0 - tilt, heavy=1.0 + tilt)


def niche(
    *, users: int, keys: int, seed: int = 0, length: float = 6.0, tail: float = 1.0, tilt: float = 0.6
) -> Population:
    """Who holds much holds what nobody else does: cutting records costs rare keys most."""
    return _tilted(users, keys, seed, length, tail, light=1.0 + tilt, heavy=1.0 - tilt)


def clusters(
    *, users: int, keys: int, seed: int = 0, groups: int = 8, loyal: float = 0.85, length: float = 4.0
) -> Population:
    """Tastes come in groups: keys are held together or not at all."""
    rng = insecure_generator(seed)
    sizes = 1 + rng.poisson(length - 1, users)
    owners = np.repeat(np.arange(users), sizes)
    group = rng.integers(0, groups, users)[owners]
    own = rng.random(owners.size) < loyal
    per_group = max(1, keys // groups)
    inside = _pick(rng, owners.size, _popularity(per_group, 1.0)) * groups + group
    codes = np.where(own, np.minimum(inside, keys - 1), _pick(rng, owners.size, _popularity(keys, 0.5)))
    owners, codes = _once(owners, codes, keys)
    return _population(rng, users, keys, owners, codes, rng.uniform(-_MEANS, _MEANS, keys))


def by_length(
    *, users: int, keys: int, seed: int = 0, length: float = 6.0, tail: float = 1.0, pull: float = 0.3
) -> Population:
    """Values grow with the length of a record: what a cut leaves has another mean."""
    rng = insecure_generator(seed)
    sizes = _lengths(rng, users, length, tail, keys)
    owners, codes = _draw(rng, sizes, _popularity(keys, 1.0))
    means = rng.uniform(-0.5, 0.0, keys)
    shift = pull * np.log(np.maximum(sizes, 1) / length)[owners]
    return _population(rng, users, keys, owners, codes, means, shift)


def bimodal(*, users: int, keys: int, seed: int = 0, length: float = 3.0, end: float = 0.95) -> Population:
    """Values lie at both ends: a mean says little of them, and its variance is as large as it can be."""
    rng = insecure_generator(seed)
    owners, codes = _draw(rng, 1 + rng.poisson(length - 1, users), _popularity(keys, 1.0))
    up = rng.random(owners.size) < rng.uniform(0.1, 0.9, keys)[codes]
    return _of(users, keys, owners, codes, np.where(up, end, -end))


def uniform(*, users: int, keys: int, seed: int = 0, length: float = 1.0) -> Population:
    """All keys are equally popular: there is no top, and what looks like one is noise."""
    rng = insecure_generator(seed)
    sizes = np.ones(users, dtype=np.int64) if length <= 1 else 1 + rng.poisson(length - 1, users)
    owners, codes = _draw(rng, sizes, _popularity(keys, 0.0))
    return _population(rng, users, keys, owners, codes, rng.uniform(-0.8, 0.8, keys))


def dense(*, users: int, keys: int, seed: int = 0, least: float = 0.4, most: float = 0.95) -> Population:
    """Records hold most of a small domain: what is asked about one key beats what is padded."""
    rng = insecure_generator(seed)
    held = rng.random((users, keys)) < rng.uniform(least, most, keys)
    owners, codes = np.nonzero(held)
    return _population(rng, users, keys, owners, codes, rng.uniform(-_MEANS, _MEANS, keys))


def long(
    *, users: int, keys: int, seed: int = 0, length: float = 30.0, tail: float = 1.2, skew: float = 0.8
) -> Population:
    """Lengths are lognormal: a few hold very much, and what is declared about them is wrong."""
    rng = insecure_generator(seed)
    owners, codes = _draw(rng, _lengths(rng, users, length, tail, keys), _popularity(keys, skew))
    return _population(rng, users, keys, owners, codes, rng.uniform(-_MEANS, _MEANS, keys))


def tiny(*, users: int, keys: int, seed: int = 0, length: float = 2.0) -> Population:
    """Few people: noise is as large as all there is, and what is made of it must not pretend."""
    rng = insecure_generator(seed)
    owners, codes = _draw(rng, 1 + rng.poisson(length - 1, users), _popularity(keys, 1.0))
    return _population(rng, users, keys, owners, codes, rng.uniform(-0.8, 0.8, keys))


def large(*, users: int, keys: int, seed: int = 0, skew: float = 1.1) -> Population:
    """Many people, one pair each: what does not average out is all that is left."""
    rng = insecure_generator(seed)
    codes = _pick(rng, users, _popularity(keys, skew))
    return _population(rng, users, keys, np.arange(users), codes, rng.uniform(-_MEANS, _MEANS, keys))


def correlated(*, users: int, keys: int, seed: int = 0, length: float = 3.0, span: float = 0.8) -> Population:
    """Popular keys have high values and rare ones low: a common centre is wrong for both."""
    rng = insecure_generator(seed)
    owners, codes = _draw(rng, 1 + rng.poisson(length - 1, users), _popularity(keys, 1.0))
    return _population(rng, users, keys, owners, codes, np.linspace(span, -span, keys))


ZOO: Mapping[str, Animal] = MappingProxyType(
    {
        "dominant": Animal(dominant, 100_000, 100),
        "head-heavy": Animal(head_heavy, 100_000, 400),
        "niche": Animal(niche, 100_000, 400),
        "clusters": Animal(clusters, 100_000, 200),
        "by-length": Animal(by_length, 100_000, 200),
        "bimodal": Animal(bimodal, 100_000, 100),
        "uniform": Animal(uniform, 100_000, 100),
        "dense": Animal(dense, 100_000, 20),
        "long": Animal(long, 50_000, 1000),
        "tiny": Animal(tiny, 2_000, 50),
        "large": Animal(large, 2_000_000, 200),
        "correlated": Animal(correlated, 100_000, 100),
    }
)


def make(name: str, *, users: int | None = None, seed: int = 0, **dials: float) -> Population:
    """The animal called `name`, as large as it usually is unless it is said otherwise.

    >>> make("tiny", seed=3).n_users
    2000
    """
    if name not in ZOO:
        raise PairsError(f"the zoo has {', '.join(ZOO)}, got {name!r}")
    animal = ZOO[name]
    keys = int(dials.pop("keys", animal.keys))
    return animal.make(users=users or animal.users, keys=keys, seed=seed, **dials)


# --- how they are drawn ---


def _popularity(keys: int, skew: float) -> Floats:
    """Chances of keys, the most popular first."""
    weights: Floats = np.arange(1.0, keys + 1) ** -skew
    return weights / float(weights.sum())


def _pick(rng: np.random.Generator, count: int, chances: Floats) -> Ints:
    """So many keys by their chances."""
    return np.minimum(np.searchsorted(np.cumsum(chances), rng.random(count)), chances.size - 1)


def _lengths(rng: np.random.Generator, users: int, length: float, tail: float, keys: int) -> Ints:
    """Lognormal lengths whose median is `length`, none below 1 and none above half of the keys."""
    drawn = np.rint(length * np.exp(tail * rng.standard_normal(users)))
    return np.clip(drawn, 1, max(1, keys // 2)).astype(np.int64)


def _draw(rng: np.random.Generator, sizes: Ints, chances: Floats) -> tuple[Ints, Ints]:
    """Owners and codes: about so many different keys a user; a key that is drawn twice counts once."""
    owners = np.repeat(np.arange(sizes.size), sizes)
    return _once(owners, _pick(rng, owners.size, chances), chances.size)


def _once(owners: Ints, codes: Ints, keys: int) -> tuple[Ints, Ints]:
    cells = np.unique(owners * keys + codes)
    return cells // keys, cells % keys


def _tilted(
    users: int, keys: int, seed: int, length: float, tail: float, *, light: float, heavy: float
) -> Population:
    """Short records draw keys by one skew, long ones by another, those between by both."""
    rng = insecure_generator(seed)
    sizes = _lengths(rng, users, length, tail, keys)
    owners = np.repeat(np.arange(users), sizes)
    # How heavy a user is: 0 for the shortest records, 1 for the longest.
    rank = np.argsort(np.argsort(sizes, kind="stable"), kind="stable") / max(users - 1, 1)
    is_heavy = rng.random(owners.size) < rank[owners]
    codes = np.where(
        is_heavy,
        _pick(rng, owners.size, _popularity(keys, heavy)),
        _pick(rng, owners.size, _popularity(keys, light)),
    )
    owners, codes = _once(owners, codes, keys)
    return _population(rng, users, keys, owners, codes, rng.uniform(-_MEANS, _MEANS, keys))


def _population(
    rng: np.random.Generator,
    users: int,
    keys: int,
    owners: Ints,
    codes: Ints,
    means: Floats,
    shift: Floats | float = 0.0,
) -> Population:
    """Values around the means of their keys."""
    values = means[codes] + shift + rng.normal(0.0, _AROUND, codes.size)
    return _of(users, keys, owners, codes, np.clip(values, -1.0, 1.0))


def _of(users: int, keys: int, owners: Ints, codes: Ints, values: Floats) -> Population:
    names = [f"key-{code}" for code in range(keys)]
    return Population.from_pairs(owners, codes, values, n_users=users, names=names)
