"""Populations of the papers: their synthetic ones, stand-ins for what cannot be had, published files.

Synthetic populations follow the papers' definitions; where a paper gives none (how values spread
around a key's mean), every value is its key's mean. A *stand-in* has the published number of users and
keys and a law of record sizes like the published one, and says so in its name; it is not the data.

Published files are read in the formats their owners give them out: MovieLens 10M (`ratings.dat`,
user::movie::rating::time) and 20M (`ratings.csv`), Amazon ratings (CSV without a header: user, item,
rating, time), ModCloth and RentTheRunway (JSON lines, possibly gzipped).
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.errors import PairsError
from keyveil.simulate.population import Floats, Ints, Population, insecure_generator

# --- synthetic, as the papers define them ---


def pckv_uniform(*, users: int = 1_000_000, keys: int = 100, seed: int = 1) -> Population:
    """[PCKV] section 6: one pair a user, keys and the keys' means uniform.

    >>> p = pckv_uniform(users=1000, keys=10)
    >>> p.n_users, p.n_keys, set(p.sizes.tolist())
    (1000, 10, {1})
    """
    rng = insecure_generator(seed)
    return _one_pair_each(rng.integers(0, keys, users), rng.uniform(-1, 1, keys))


def pckv_gaussian(*, users: int = 1_000_000, keys: int = 100, seed: int = 1) -> Population:
    """[PCKV] section 6: keys from N(0, 50), means from N(0, 1), both cut to their domains."""
    rng = insecure_generator(seed)
    drawn = _until(users, lambda n: np.floor(rng.normal(0, 50, n)), lambda x: (x >= 0) & (x < keys))
    means = _until(keys, lambda n: rng.normal(0, 1, n), lambda x: np.abs(x) <= 1)
    return _one_pair_each(drawn.astype(np.int64), means)


def em_gaussian(*, users: int = 100_000, keys: int = 50, seed: int = 1) -> Population:
    """[EM] section 4.2: key k is held with chance exp(-(k - d/2)**2 / 200), its mean 2 f - 1."""
    place = np.arange(1, keys + 1)
    return _held_independently(users, np.exp(-((place - keys / 2) ** 2) / 200), seed)


def em_power_law(*, users: int = 100_000, keys: int = 50, seed: int = 1) -> Population:
    """[EM] section 4.2: f = (1 + 0.1 x)**-1.1 at x = 100 k/d; the printed moments fit no simple x."""
    return _held_independently(users, (1 + 0.1 * 100 * np.arange(1, keys + 1) / keys) ** -1.1, seed)


def em_linear(*, users: int = 100_000, keys: int = 50, seed: int = 1) -> Population:
    """[EM] section 4.2: f = k/d."""
    return _held_independently(users, np.arange(1, keys + 1) / keys, seed)


# --- stand-ins ---


def movie_like(*, users: int = 138_493, keys: int = 26_744, seed: int = 1) -> Population:
    """A stand-in for MovieLens 20M: as many users and keys, about 140 pairs a user, heavy-tailed.

    Calibrated to what is known of such crowds: 10, 50 and 90 % of the users hold at most 28, 68 and 293
    pairs; 37 % hold the top key, and the frequencies of the top 50 have a variance of 0.0023; their
    means lie 0.44 above the middle of the scale with a variance of 0.016.
    """
    rng = insecure_generator(seed)
    sizes = np.minimum(20 + rng.lognormal(np.log(50), 1.45, users), keys / 4).astype(np.int64)
    return _popular_keys(rng, sizes, 1 / (np.arange(keys) + 41.0) ** 1.08, centre=0.44, spread=0.155)


def amazon_like(*, users: int = 1_210_271, keys: int = 249_274, seed: int = 1) -> Population:
    """A stand-in for Amazon Beauty: as many users and keys, 1.67 pairs a user, most of them with one."""
    rng = insecure_generator(seed)
    sizes = np.minimum(rng.geometric(0.6, users), 400)
    return _popular_keys(rng, sizes, 1 / (np.arange(keys) + 40.0) ** 0.85, centre=0.4, spread=0.25)


SYNTHETIC: Mapping[str, Callable[..., Population]] = MappingProxyType(
    {
        "pckv-uniform": pckv_uniform,
        "pckv-gaussian": pckv_gaussian,
        "em-gaussian": em_gaussian,
        "em-power-law": em_power_law,
        "em-linear": em_linear,
        "movie-like": movie_like,
        "amazon-like": amazon_like,
    }
)


def _one_pair_each(codes: Ints, means: Floats) -> Population:
    offsets = np.arange(codes.size + 1)
    return Population(names=_names(means.size), offsets=offsets, codes=codes, values=means[codes])


def _held_independently(users: int, frequency: Floats, seed: int) -> Population:
    holds = insecure_generator(seed).random((users, frequency.size)) < frequency
    codes = np.nonzero(holds)[1]
    return Population(
        names=_names(frequency.size),
        offsets=np.concatenate(([0], np.cumsum(holds.sum(axis=1)))),
        codes=codes,
        values=2 * frequency[codes] - 1,
    )


def _popular_keys(
    rng: np.random.Generator, sizes: Ints, weights: Floats, *, centre: float, spread: float
) -> Population:
    """Users with about these many different keys, drawn by weight; values in ten steps around key means."""
    owners = np.repeat(np.arange(sizes.size), sizes)
    reached = np.cumsum(weights / weights.sum())
    codes = np.minimum(np.searchsorted(reached, rng.random(owners.size)), weights.size - 1)
    cells = np.unique(owners * weights.size + codes)
    owners, codes = cells // weights.size, cells % weights.size
    centres = rng.normal(centre, spread, weights.size)
    values = np.clip(np.round((centres[codes] + rng.normal(0, 0.4, codes.size)) * 4.5) / 4.5, -1, 1)
    offsets = np.concatenate(([0], np.cumsum(np.bincount(owners, minlength=sizes.size))))
    return Population(names=_names(weights.size), offsets=offsets, codes=codes, values=values)


def _until(wanted: int, draw: Callable[[int], Floats], fits: Callable[[Floats], NDArray[np.bool_]]) -> Floats:
    """Draws until enough of them fit."""
    kept = np.empty(0)
    while kept.size < wanted:
        drawn = draw(2 * (wanted - kept.size) + 16)
        kept = np.concatenate([kept, drawn[fits(drawn)]])
    return kept[:wanted]


def _names(keys: int) -> list[str]:
    return [f"key-{code}" for code in range(keys)]


# --- published files ---


def read_published(path: str | Path) -> Population:
    """The population in a published file, by its name; values span the file's own rating scale."""
    path = Path(path)
    if not path.is_file():
        raise PairsError(f"expected a published ratings file, found none at {path}")
    name = path.name.removesuffix(".gz")
    for ending, read in _READERS.items():
        if name.endswith(ending):
            rows = list(read(path))
            break
    else:
        raise PairsError(f"{path.name} is no format known here; expected {', '.join(_READERS)}")
    if not rows:
        raise PairsError(f"{path.name} holds no rating")
    users, keys, ratings = (np.array(column) for column in zip(*rows, strict=True))
    user_names, owners = np.unique(users, return_inverse=True)
    key_names, codes = np.unique(keys, return_inverse=True)
    low, high = float(ratings.min()), float(ratings.max())
    if low == high:
        low, high = low - 1, high + 1
    return Population.from_pairs(
        owners,
        codes,
        2 * (ratings.astype(float) - low) / (high - low) - 1,
        n_users=user_names.size,
        names=key_names.tolist(),
        value_range=(low, high),
    )


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    opener: Any = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, line.rstrip("\n")


def _separated(separator: str, *, header: bool) -> Callable[[Path], Iterator[tuple[str, str, float]]]:
    def read(path: Path) -> Iterator[tuple[str, str, float]]:
        for number, line in _lines(path):
            if header and number == 1:
                continue
            cells = line.split(separator)
            try:
                yield cells[0], cells[1], float(cells[2])
            except (IndexError, ValueError):
                raise PairsError(
                    f"{path.name} line {number}: expected user{separator}item{separator}rating"
                ) from None

    return read


def _json_lines(rating: str) -> Callable[[Path], Iterator[tuple[str, str, float]]]:
    def read(path: Path) -> Iterator[tuple[str, str, float]]:
        for number, line in _lines(path):
            try:
                row = json.loads(line)
                if row.get(rating) is not None:
                    yield str(row["user_id"]), str(row["item_id"]), float(row[rating])
            except (json.JSONDecodeError, KeyError, TypeError, ValueError):
                raise PairsError(
                    f'{path.name} line {number}: expected JSON with user_id, item_id and "{rating}"'
                ) from None

    return read


# By the ending of the published file's name, most telling first.
_READERS: dict[str, Callable[[Path], Iterator[tuple[str, str, float]]]] = {
    "renttherunway_final_data.json": _json_lines("rating"),
    "modcloth_final_data.json": _json_lines("quality"),
    "ratings.dat": _separated("::", header=False),
    "ratings.csv": _separated(",", header=True),
    "ratings_Beauty.csv": _separated(",", header=False),
}
