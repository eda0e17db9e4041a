"""The laws of reports of mechanisms from the literature.

Each function is registered with the table that its name belongs to.
"""

from __future__ import annotations

import numpy as np

from keyveil.mechanisms import Response
from keyveil.mechanisms.literature import Apart, BroadcastIndex, IndexedBoundaryBits
from keyveil.report import ABSENT, MINUS, PLUS
from keyveil.simulate.answers import (
    Answers,
    asked_keys,
    bits_of,
    draw_answers,
    respond,
    rounded_up,
    sampled_pairs,
)
from keyveil.simulate.laws import (
    Cells,
    ask_one_key,
    draw_boundaries,
    draw_counts,
    draw_signs,
    sampled_signs,
    spread_evenly,
    through_oracle,
    two_cells,
)
from keyveil.simulate.population import Ints, Population


@draw_counts.register
def _(mechanism: BroadcastIndex, population: Population, rng: np.random.Generator) -> Cells:
    m, asked = mechanism, ask_one_key(population, rng)
    up, down = draw_signs(asked.codes, asked.values, m.n_keys, rng)
    rest = asked.times - up - down
    heads = rng.binomial(rest, np.array(m.levels, dtype=np.float64) / 2.0**64)
    held_keep, held_flip = m.held_keep / m.words, (m.held - m.held_keep) / m.words
    fake_keep, fake_flip = m.fake_keep / m.words, (m.fake - m.fake_keep) / m.words
    plus, minus = np.zeros_like(up), np.zeros_like(up)
    for signs, keep, flip in ((up, held_keep, held_flip), (heads, fake_keep, fake_flip)):
        kept, flipped = two_cells(rng, signs, keep, flip)
        plus, minus = plus + kept, minus + flipped
    for signs, keep, flip in ((down, held_keep, held_flip), (rest - heads, fake_keep, fake_flip)):
        kept, flipped = two_cells(rng, signs, keep, flip)
        plus, minus = plus + flipped, minus + kept
    return {"plus": plus, "minus": minus, "asked": asked.times}


@draw_counts.register
def _(mechanism: IndexedBoundaryBits, population: Population, rng: np.random.Generator) -> Cells:
    d, bins, asked = mechanism.n_keys, mechanism.bins, ask_one_key(population, rng)
    places = asked.codes * bins + draw_boundaries(asked.values, bins, rng)
    own = np.bincount(places, minlength=d * bins).reshape(d, bins)
    fakes = rng.binomial(asked.times - own.sum(axis=1), float(mechanism.b))
    claimed = rng.binomial(own, float(mechanism.a)) + spread_evenly(rng, fakes, bins)
    held = claimed.sum(axis=1)
    shown = rng.binomial(claimed, float(mechanism.bits.a))
    shown += rng.binomial(held[:, None] - claimed, float(mechanism.bits.b))
    return {"asked": asked.times, "held": held, "bits": shown}


@draw_counts.register
def _(mechanism: Apart, population: Population, rng: np.random.Generator) -> Cells:
    up, down, dummies = sampled_signs(population, mechanism.pairs_per_user, rng)
    heads = rng.binomial(dummies, 0.5)
    p = float(mechanism.sign.p)
    up, down = np.append(up, heads), np.append(down, dummies - heads)
    kept = rng.binomial(up, p)
    positive = kept + rng.binomial(down, 1 - p)
    plus, minus = (through_oracle(mechanism.oracle, own, rng) for own in (positive, up + down - positive))
    d = mechanism.n_keys
    return {"plus": plus[:d], "minus": minus[:d], "asked": np.full(d, population.n_users)}


@draw_answers.register
def _(mechanism: IndexedBoundaryBits, population: Population, rng: np.random.Generator) -> Answers:
    bins, n = mechanism.bins, population.n_users
    index, held, value = asked_keys(population, rng)
    place = np.where(held, draw_boundaries(value, bins, rng), rng.integers(0, bins, n))
    said = rng.random(n) < np.where(held, float(mechanism.a), float(mechanism.b))
    bits = bits_of(mechanism.bits, place, rng) @ (1 << np.arange(bins, dtype=np.int64))
    return ((1 << bins) + 1) * index + np.where(said, 1 + bits, 0)


@draw_answers.register
def _(mechanism: BroadcastIndex, population: Population, rng: np.random.Generator) -> Answers:
    m = mechanism
    index, held, value = asked_keys(population, rng)
    coin = rng.random(index.size) < (np.array(m.levels, dtype=np.float64) / 2.0**64)[index]
    plus = np.where(held, rounded_up(value, rng), coin)
    said = np.where(held, m.held / m.words, m.fake / m.words)
    kept = np.where(held, m.held_keep / m.words, m.fake_keep / m.words)
    draw = rng.random(index.size)
    symbol = np.where(draw >= said, ABSENT, np.where((draw < kept) == plus, PLUS, MINUS))
    return 6 * index + 3 * ~coin + symbol


@draw_answers.register
def _(mechanism: Apart, population: Population, rng: np.random.Generator) -> Answers:
    code, value, real = sampled_pairs(population, mechanism.pairs_per_user, rng)
    symbol, plus = np.full(population.n_users, mechanism.n_keys), rng.random(population.n_users) < 0.5
    symbol[real], plus[real] = code, rounded_up(value, rng)
    shown = plus == (rng.random(plus.size) < float(mechanism.sign.p))
    if isinstance(mechanism.oracle, Response):
        answers: Ints = 2 * respond(mechanism.oracle, symbol, rng) + shown
        return answers
    return np.concatenate([bits_of(mechanism.oracle, symbol, rng), shown[:, None]], axis=1)
