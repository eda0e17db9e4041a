"""Every user's answer at once, as numbers: what `perturb` draws one by one, from its exact law.

`laws` draws tallies, which is faster where nobody looks at single reports. Whoever does (tests of the noise,
attacks that hide among reports) needs the reports themselves; 100,000 of 100 positions take a second.
"""

from __future__ import annotations

from functools import partial, singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.mechanisms import (
    Bits,
    Bucket,
    EncodedOracle,
    Hashed,
    IndexedBoundary,
    OwnKey,
    Response,
    SampledIndex,
    Selection,
    SignedResponse,
    SignedUnary,
    UeSw,
)
from keyveil.report import ABSENT, MINUS, PLUS
from keyveil.simulate.laws import draw_boundaries, owned_buckets, reported_buckets
from keyveil.simulate.population import Floats, Ints, Population
from keyveil.tally.hashing import bucket_of_many, signed_buckets

Answers = NDArray[Any]
Bools = NDArray[np.bool_]

# Random numbers drawn at once for unary reports.
_DRAWS = 1 << 22


@singledispatch
def draw_answers(mechanism: object, population: Population, rng: np.random.Generator) -> Answers:
    """One answer a user: a row of positions, or one number; every shape of report registers its own."""
    raise TypeError(f"no law of answers for {type(mechanism).__name__}; register draw_answers for it")


@draw_answers.register
def _(mechanism: SignedUnary, population: Population, rng: np.random.Generator) -> Answers:
    c, n = mechanism.channel, population.n_users
    code, value, real = sampled_pairs(population, mechanism.pairs_per_user, rng)
    answers = _positions(rng, n, mechanism.n_keys, c.fake / c.words, MINUS)
    sign = np.where(rounded_up(value, rng), PLUS, MINUS)
    draw = rng.random(code.size)
    kept, said = draw < c.keep / c.words, draw < (c.keep + c.flip) / c.words
    own = np.where(said, np.where(kept, sign, PLUS + MINUS - sign), ABSENT)
    answers[np.flatnonzero(real), code] = own
    return answers


@draw_answers.register
def _(mechanism: UeSw, population: Population, rng: np.random.Generator) -> Answers:
    channel, n, l = mechanism.channel, population.n_users, mechanism.pairs_per_user
    window = channel.window
    code, value, real = sampled_pairs(population, l, rng)
    place, bins = mechanism.n_keys + rng.integers(0, l, n), np.zeros(n, dtype=np.int64)
    place[real] = code
    bins[real] = np.minimum(((value + 1) / 2 * mechanism.bins).astype(np.int64), mechanism.bins - 1)
    answers = _positions(rng, n, mechanism.n_padded, channel.fake / channel.words, window.n_out)
    # Near outputs first, then far ones in order, then silence: as `hear_own` reads a word.
    draw = rng.random(n) * channel.words
    near = (draw // channel.near).astype(np.int64)
    far = ((draw - channel.near * window.width) // channel.far).astype(np.int64)
    start = window.step * bins
    outside = np.where(far < start, far, far + window.width)
    own = np.where(near < window.width, start + near, outside) + 1
    own[far >= window.n_out - window.width] = ABSENT
    answers[np.arange(n), place] = own
    return answers


@draw_answers.register
def _(mechanism: SignedResponse, population: Population, rng: np.random.Generator) -> Answers:
    c, n, l, d = mechanism.channel, population.n_users, mechanism.pairs_per_user, mechanism.n_keys
    code, value, real = sampled_pairs(population, l, rng)
    key, plus = d + rng.integers(0, l, n), rng.random(n) < 0.5
    key[real], plus[real] = code, rounded_up(value, rng)
    draw = rng.random(n)
    kept, said = draw < c.keep / c.words, draw < (c.keep + c.flip) / c.words
    lie = rng.integers(0, 2 * (mechanism.n_padded - 1), n)
    lie += 2 * (lie >= 2 * key)
    return np.where(said, 2 * key + (plus != kept), lie)


@draw_answers.register
def _(mechanism: SampledIndex, population: Population, rng: np.random.Generator) -> Answers:
    c = mechanism.channel
    index, held, value = asked_keys(population, rng)
    sign = np.where(rounded_up(value, rng), PLUS, MINUS)
    draw = rng.random(index.size)
    keep, flip, fake = (words / c.words for words in (c.keep, c.flip, c.fake))
    own = np.where(draw < keep, sign, np.where(draw < keep + flip, PLUS + MINUS - sign, ABSENT))
    other = np.where(draw < fake, PLUS, np.where(draw < 2 * fake, MINUS, ABSENT))
    return 3 * index + np.where(held, own, other)


@draw_answers.register
def _(mechanism: IndexedBoundary, population: Population, rng: np.random.Generator) -> Answers:
    channel, bins = mechanism.channel, mechanism.bins
    index, held, value = asked_keys(population, rng)
    draw = rng.random(index.size) * channel.words
    place = draw_boundaries(value, bins, rng)
    far = ((draw - channel.near) // channel.far).astype(np.int64)
    own = np.where(draw < channel.near, place, far + (far >= place)) + 1
    own[far >= bins - 1] = ABSENT
    other = (draw // channel.fake).astype(np.int64) + 1
    other[other > bins] = ABSENT
    return (bins + 1) * index + np.where(held, own, other)


@draw_answers.register
def _(mechanism: Bucket, population: Population, rng: np.random.Generator) -> Answers:
    users = np.arange(population.n_users)
    cohorts = rng.integers(0, mechanism.cohorts, users.size)
    hashed = partial(signed_buckets, mechanism)
    owned = owned_buckets(mechanism, population, users, cohorts, rng, hashed)
    return cohorts * mechanism.buckets + reported_buckets(mechanism, owned, rng)


@draw_answers.register
def _(mechanism: EncodedOracle, population: Population, rng: np.random.Generator) -> Answers:
    if not isinstance(mechanism.encoder, OwnKey):
        raise TypeError(f"no law of answers for {type(mechanism.encoder).__name__}")
    code, _, real = sampled_pairs(population, 1, rng)
    symbol = np.full(population.n_users, mechanism.n_keys)
    symbol[real] = code
    oracle = mechanism.oracle
    if isinstance(oracle, Hashed):
        cohorts = rng.integers(0, oracle.cohorts, symbol.size)
        bucket = bucket_of_many(cohorts, symbol, oracle.buckets)
        return cohorts * oracle.buckets + respond(oracle.response, bucket, rng)
    if isinstance(oracle, Response):
        return respond(oracle, symbol, rng)
    if isinstance(oracle, Selection):
        return sets_of(oracle, symbol, rng)
    assert isinstance(oracle, Bits)
    return bits_of(oracle, symbol, rng)


def sampled_pairs(population: Population, l: int, rng: np.random.Generator) -> tuple[Ints, Floats, Bools]:
    """Codes and values of the pairs that were sampled, and which users sampled one rather than a dummy."""
    slot = rng.integers(0, np.maximum(population.sizes, l))
    real = slot < population.sizes
    pair = population.offsets[:-1][real] + slot[real]
    return population.codes[pair], population.values[pair], real


def asked_keys(population: Population, rng: np.random.Generator) -> tuple[Ints, Bools, Floats]:
    """Every user's index, whether they hold its key, and with which value (0 if not)."""
    d, n = population.n_keys, population.n_users
    index = rng.integers(0, d, n)
    owners = np.repeat(np.arange(n), population.sizes)
    cells = owners * d + population.codes
    place = np.minimum(np.searchsorted(cells, np.arange(n) * d + index), cells.size - 1)
    held = cells[place] == np.arange(n) * d + index if cells.size else np.zeros(n, dtype=bool)
    return index, held, np.where(held, population.values[place] if cells.size else 0.0, 0.0)


def rounded_up(value: Floats, rng: np.random.Generator) -> Bools:
    """Whether a value is rounded to +."""
    plus: Bools = rng.random(value.size) * 2.0 - 1.0 < value
    return plus


def _positions(rng: np.random.Generator, n: int, size: int, fake: float, outputs: int) -> Answers:
    """What is said of positions that nobody sampled: each of the outputs with chance `fake`, else nothing."""
    answers = np.empty((n, size), dtype=np.uint8 if outputs < 255 else np.int64)
    rows = max(1, _DRAWS // size)
    for start in range(0, n, rows):
        drawn = rng.random((min(n, start + rows) - start, size), dtype=np.float32)
        if outputs == 2:
            # The same as below in a fifth of the time: 1, then 2, then nothing.
            said = 2 * (drawn < np.float32(2 * fake)).view(np.uint8)
            answers[start : start + rows] = said - (drawn < np.float32(fake)).view(np.uint8)
            continue
        symbol = (drawn * np.float32(1 / fake)).astype(np.int32) + 1
        symbol[symbol > outputs] = ABSENT
        answers[start : start + rows] = symbol
    return answers


def bits_of(oracle: Bits, symbol: Ints, rng: np.random.Generator) -> Answers:
    """A row of noisy bits for each symbol."""
    bits = (rng.random((symbol.size, oracle.n_symbols), dtype=np.float32) < float(oracle.b)).astype(np.uint8)
    bits[np.arange(symbol.size), symbol] = rng.random(symbol.size) < float(oracle.a)
    return bits


def sets_of(oracle: Selection, symbol: Ints, rng: np.random.Generator) -> Answers:
    """A noisy set for each symbol, as bits."""
    turn = rng.random((symbol.size, oracle.n_symbols))
    own = rng.random(symbol.size) < float(oracle.a)
    turn[np.arange(symbol.size), symbol] = np.where(own, -1.0, 2.0)
    return first_in_turn(turn, oracle.chosen)


def first_in_turn(turn: Floats, chosen: int) -> Answers:
    """Bits of the places of each row whose turn comes first, so many of them.

    >>> first_in_turn(np.array([[0.5, 0.1, 0.9]]), 2).tolist()
    [[1, 1, 0]]
    """
    bits = np.zeros(turn.shape, dtype=np.uint8)
    np.put_along_axis(bits, np.argpartition(turn, chosen - 1, axis=1)[:, :chosen], 1, axis=1)
    return bits


def respond(oracle: Response, symbol: Ints, rng: np.random.Generator) -> Ints:
    """Randomized response for each symbol."""
    lie = rng.integers(0, oracle.n_symbols - 1, symbol.size)
    lie += lie >= symbol
    return np.where(rng.random(symbol.size) < float(oracle.a), symbol, lie)
