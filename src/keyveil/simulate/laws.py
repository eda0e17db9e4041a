"""Tallies of whole populations, drawn from their exact law in O(n + d).

Given which signed key every user sampled, the counts of a tally are sums of independent draws, so
they can be drawn at once instead of report by report:

    SignedUnary      given the sampled keys, all trits of all reports are independent: per key, three
                     multinomials (sampled with +, with -, not sampled)
    SignedResponse   a report is its own symbol with chance keep - fake, its flipped one with chance
                     flip - fake, else uniform over all 2 (d + l): binomials and one multinomial.
                     Counts of different keys are dependent; never draw them apart.
    SampledIndex     the index is drawn per user, because how often each key is asked is one
                     multinomial; then three multinomials per key

The slow path, `perturb_all`, sends every record through the mechanism's own `perturb`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch

import numpy as np

from keyveil.mechanisms import Channel, Mechanism, SampledIndex, SignedResponse, SignedUnary
from keyveil.numerics import Entropy
from keyveil.simulate.population import Floats, Ints, Population
from keyveil.tally import Tally

PlusMinusAsked = tuple[Ints, Ints, Ints]


def draw_tally(mechanism: Mechanism, population: Population, rng: np.random.Generator) -> Tally:
    """One tally of the whole population, from its exact law."""
    plus, minus, asked = draw_counts(mechanism, population, rng)
    return Tally(question="simulation", n_reports=population.n_users, plus=plus, minus=minus, asked=asked)


def perturb_all(mechanism: Mechanism, population: Population, entropy: Entropy) -> Iterator[bytes]:
    """Every user's answer in its byte form, by the code that runs on a device."""
    for record in population.records():
        yield mechanism.layout.encode(mechanism.perturb(record, entropy(mechanism.n_words)))


@singledispatch
def draw_counts(mechanism: object, population: Population, rng: np.random.Generator) -> PlusMinusAsked:
    """Counts of PLUS, MINUS and asked per key; every shape of report registers its own law."""
    raise TypeError(f"no tally law for {type(mechanism).__name__}; register draw_counts for it")


@draw_counts.register
def _(mechanism: SignedUnary, population: Population, rng: np.random.Generator) -> PlusMinusAsked:
    up, down, _ = _sample_signs(population, mechanism.pairs_per_user, rng)
    rest = population.n_users - up - down
    plus, minus = _through_channel(mechanism.channel, up, down, rest, rng)
    return plus, minus, np.full(mechanism.n_keys, population.n_users)


@draw_counts.register
def _(mechanism: SignedResponse, population: Population, rng: np.random.Generator) -> PlusMinusAsked:
    c, d = mechanism.channel, mechanism.n_keys
    up, down, dummies = _sample_signs(population, mechanism.pairs_per_user, rng)
    stay, flip = (c.keep - c.fake) / c.words, (c.flip - c.fake) / c.words
    up_kept, up_flipped = _two_cells(rng, up, stay, flip)
    down_kept, down_flipped = _two_cells(rng, down, stay, flip)
    dummies_told = rng.binomial(dummies, stay + flip)
    told = int((up_kept + up_flipped + down_kept + down_flipped).sum()) + dummies_told
    symbols = 2 * mechanism.n_padded
    noise = rng.multinomial(population.n_users - told, np.full(symbols, 1.0 / symbols))[: 2 * d]
    return (
        up_kept + down_flipped + noise[0::2],
        down_kept + up_flipped + noise[1::2],
        np.full(d, population.n_users),
    )


@draw_counts.register
def _(mechanism: SampledIndex, population: Population, rng: np.random.Generator) -> PlusMinusAsked:
    d, n = mechanism.n_keys, population.n_users
    index = rng.integers(0, d, n)
    owners = np.repeat(np.arange(n), population.sizes)
    cells = owners * d + population.codes
    wanted = np.arange(n) * d + index
    found = np.searchsorted(cells, wanted)
    held = found < cells.size
    held[held] = cells[found[held]] == wanted[held]
    up, down = _signs(index[held], population.values[found[held]], d, rng)
    asked = np.bincount(index, minlength=d)
    plus, minus = _through_channel(mechanism.channel, up, down, asked - up - down, rng)
    return plus, minus, asked


def _sample_signs(
    population: Population, pairs_per_user: int, rng: np.random.Generator
) -> tuple[Ints, Ints, int]:
    """How many users sampled each key with + and with -, and how many sampled a dummy."""
    sizes = population.sizes
    slot = rng.integers(0, np.maximum(sizes, pairs_per_user))
    real = slot < sizes
    pair = population.offsets[:-1][real] + slot[real]
    up, down = _signs(population.codes[pair], population.values[pair], population.n_keys, rng)
    return up, down, int((~real).sum())


def _signs(codes: Ints, values: Floats, d: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """How many of the pairs round to + and to -, per key."""
    positive = rng.random(codes.size) * 2.0 - 1.0 < values
    up = np.bincount(codes[positive], minlength=d)
    return up, np.bincount(codes, minlength=d) - up


def _through_channel(
    channel: Channel, up: Ints, down: Ints, rest: Ints, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """PLUS and MINUS counts when `up`, `down`, `rest` users sampled the key with +, with -, or not."""
    keep, flip, fake = (count / channel.words for count in (channel.keep, channel.flip, channel.fake))
    up_kept, up_flipped = _two_cells(rng, up, keep, flip)
    down_kept, down_flipped = _two_cells(rng, down, keep, flip)
    fake_up, fake_down = _two_cells(rng, rest, fake, fake)
    return up_kept + down_flipped + fake_up, down_kept + up_flipped + fake_down


def _two_cells(rng: np.random.Generator, trials: Ints, first: float, second: float) -> tuple[Ints, Ints]:
    """The first two counts of a multinomial, as nested binomials."""
    hits = rng.binomial(trials, first)
    return hits, rng.binomial(trials - hits, min(1.0, second / (1.0 - first)))
