"""Tallies of whole populations, drawn from their exact law in O(n + d).

Given which symbol every user sampled, the counts of a tally are sums of independent draws, so they
can be drawn at once instead of report by report:

    unary reports     given the samples, all positions of all reports are independent: per key, one
                      multinomial for each thing a user may have sampled
    one symbol        a report is its own symbol with some chance, else uniform over all: binomials
                      and one multinomial. Counts of different keys are dependent; never draw them apart.
    sampled index     the index is drawn per user, because how often each key is asked is one
                      multinomial; then as unary, per key
    bucket            a real hash, real buckets: n l hashes, and 2 d a cohort
    subset            given the samples, users who have as many symbols still to name are alike: symbol by
                      symbol, one binomial for each such number. O(n + d w)
    hashed            with ideal hashing supports are those of a unary encoding; drawn that way

The slow path, `perturb_all`, sends every record through the mechanism's own `perturb`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial, singledispatch
from typing import NamedTuple

import numpy as np

from keyveil.domain import UNDITHERED
from keyveil.mechanisms import (
    Bits,
    Bucket,
    Channel,
    EncodedOracle,
    Hashed,
    IndexedBoundary,
    Mechanism,
    OwnKey,
    OwnSign,
    PopularSize,
    PrefixBucket,
    RecordSize,
    Response,
    SampledIndex,
    Selection,
    SignedResponse,
    SignedUnary,
    SizeClass,
    UeSw,
    ValueChannel,
    Wave,
)
from keyveil.mechanisms.hash.owned import OwnedBuckets
from keyveil.mechanisms.oracles import Oracle
from keyveil.numerics import Entropy
from keyveil.simulate.population import Floats, Ints, Population
from keyveil.tally import Tally
from keyveil.tally.dither import rows_of
from keyveil.tally.hashing import dithered_supports, signed_buckets, signed_supports
from keyveil.tally.prefixes import Prefixes, buckets_of

Cells = dict[str, Ints]
# From cohorts and codes to the buckets of either sign.
Hash = Callable[[Ints, Ints], tuple[Ints, Ints]]

# Pairs and dummies hashed at once.
_BALLS = 1 << 21


def draw_tally(
    mechanism: Mechanism,
    population: Population,
    rng: np.random.Generator,
    *,
    question: str = "simulation",
    dither: int = UNDITHERED,
) -> Tally:
    """One tally of the whole population, from its exact law."""
    if dither == UNDITHERED:
        cells = draw_counts(mechanism, population, rng)
    else:
        cells = draw_apart(mechanism, population, rng, dither)
    return Tally.of(question=question, n_reports=population.n_users, **cells)


@singledispatch
def draw_apart(mechanism: object, population: Population, rng: np.random.Generator, dither: int) -> Cells:
    """The cells of a dithered tally: every bin is a collection of its own, of `stretched` values."""
    return rows_of(mechanism, [draw_counts(mechanism, part, rng) for part in _parts(population, rng, dither)])


def _parts(population: Population, rng: np.random.Generator, dither: int) -> Iterator[Population]:
    """The users whose report's id gives each bin, with the values that their signs have the mean of."""
    bins = rng.integers(0, dither, population.n_users)
    for place in range(dither):
        part = population.take(np.flatnonzero(bins == place))
        yield replace(part, values=stretched(part.values, place, dither))


def stretched(values: Floats, place: int, dither: int) -> Floats:
    """What signs say of values on average where the word that rounds them lies in one bin.

    >>> stretched(np.array([-1.0, 0.25, 1.0]), 2, 4).tolist()
    [-1.0, 0.0, 1.0]
    """
    share = np.clip(dither * (values + 1) / 2 - place, 0.0, 1.0)
    return 2 * share - 1


def perturb_all(mechanism: Mechanism, population: Population, entropy: Entropy) -> Iterator[bytes]:
    """Every user's answer in its byte form, by the code that runs on a device."""
    for record in population.records():
        yield mechanism.layout.encode(mechanism.perturb(record, entropy(mechanism.n_words)))


@singledispatch
def draw_counts(mechanism: object, population: Population, rng: np.random.Generator) -> Cells:
    """The cells of a tally; every shape of report registers its own law."""
    raise TypeError(f"no tally law for {type(mechanism).__name__}; register draw_counts for it")


# --- signs ---


@draw_counts.register
def _(mechanism: SignedUnary, population: Population, rng: np.random.Generator) -> Cells:
    up, down, _ = sampled_signs(population, mechanism.pairs_per_user, rng)
    plus, minus = _through_channel(mechanism.channel, up, down, population.n_users - up - down, rng)
    return {"plus": plus, "minus": minus, "asked": np.full(mechanism.n_keys, population.n_users)}


@draw_counts.register
def _(mechanism: SignedResponse, population: Population, rng: np.random.Generator) -> Cells:
    c, d = mechanism.channel, mechanism.n_keys
    up, down, dummies = sampled_signs(population, mechanism.pairs_per_user, rng)
    stay, flip = (c.keep - c.fake) / c.words, (c.flip - c.fake) / c.words
    up_kept, up_flipped = two_cells(rng, up, stay, flip)
    down_kept, down_flipped = two_cells(rng, down, stay, flip)
    dummies_reported = rng.binomial(dummies, stay + flip)
    own = int((up_kept + up_flipped + down_kept + down_flipped).sum()) + dummies_reported
    noise = spread_evenly(rng, population.n_users - own, 2 * mechanism.n_padded)[: 2 * d]
    return {
        "plus": up_kept + down_flipped + noise[0::2],
        "minus": down_kept + up_flipped + noise[1::2],
        "asked": np.full(d, population.n_users),
    }


@draw_counts.register
def _(mechanism: SampledIndex, population: Population, rng: np.random.Generator) -> Cells:
    asked = ask_one_key(population, rng)
    up, down = draw_signs(asked.codes, asked.values, mechanism.n_keys, rng)
    plus, minus = _through_channel(mechanism.channel, up, down, asked.times - up - down, rng)
    return {"plus": plus, "minus": minus, "asked": asked.times}


@draw_counts.register
def _(mechanism: Bucket, population: Population, rng: np.random.Generator) -> Cells:
    plus, minus = signed_supports(
        mechanism, _reported_symbols(mechanism, population, rng, partial(signed_buckets, mechanism))
    )
    return {"plus": plus, "minus": minus, "asked": np.full(mechanism.n_keys, population.n_users)}


@draw_counts.register
def _(mechanism: PrefixBucket, population: Population, rng: np.random.Generator) -> Cells:
    return draw_prefixes(mechanism, population, range(mechanism.n_keys), rng)


def draw_prefixes(
    mechanism: PrefixBucket, population: Population, numbers: Sequence[int], rng: np.random.Generator
) -> Cells:
    """The cells of a tally of prefixes of keys that are these numbers."""
    cut = mechanism.longest - mechanism.bits
    ranks = {prefix: rank for rank, prefix in enumerate(dict.fromkeys(number >> cut for number in numbers))}
    asked = Prefixes.of(mechanism, tuple(ranks))
    rank_of = np.array([ranks[number >> cut] for number in numbers])

    def hashed(cohorts: Ints, codes: Ints) -> tuple[Ints, Ints]:
        found = buckets_of(mechanism, cohorts, asked.take(codes))
        return found, found

    heard = _distinct(population, rank_of[population.codes])
    symbols = _reported_symbols(mechanism, heard, rng, hashed)
    return {"support": np.bincount(symbols, minlength=mechanism.layout.size).astype(np.int64)}


def _distinct(population: Population, prefixes: Ints) -> Population:
    """The users with prefixes for keys, each once."""
    users = np.repeat(np.arange(population.n_users), population.sizes)
    order = np.lexsort((prefixes, users))
    users, prefixes = users[order], prefixes[order]
    fresh = np.ones(users.size, dtype=np.bool_)
    fresh[1:] = (users[1:] != users[:-1]) | (prefixes[1:] != prefixes[:-1])
    sizes = np.bincount(users[fresh], minlength=population.n_users)
    return replace(
        population,
        codes=prefixes[fresh],
        values=np.zeros(int(fresh.sum())),
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
    )


@draw_apart.register
def _(mechanism: Bucket, population: Population, rng: np.random.Generator, dither: int) -> Cells:
    hashed = partial(signed_buckets, mechanism)
    symbols = [_reported_symbols(mechanism, part, rng, hashed) for part in _parts(population, rng, dither)]
    sizes = np.array([some.size for some in symbols])
    bins = np.repeat(np.arange(dither), sizes)
    plus, minus = dithered_supports(mechanism, bins, np.concatenate(symbols), None, dither)
    return {"plus": plus, "minus": minus, "asked": sizes[:, None]}


def _reported_symbols(
    m: OwnedBuckets, population: Population, rng: np.random.Generator, hashed: Hash
) -> Ints:
    """Every user's answer: a cohort and a bucket."""
    n, symbols = population.n_users, [np.zeros(0, dtype=np.int64)]
    block = max(1, _BALLS // m.pairs_per_user)
    for start in range(0, n, block):
        users = np.arange(start, min(n, start + block))
        cohorts = rng.integers(0, m.cohorts, users.size)
        owned = owned_buckets(m, population, users, cohorts, rng, hashed)
        symbols.append(cohorts * m.buckets + reported_buckets(m, owned, rng))
    return np.concatenate(symbols)


def owned_buckets(
    m: OwnedBuckets,
    population: Population,
    users: Ints,
    cohorts: Ints,
    rng: np.random.Generator,
    hashed: Hash,
) -> Ints:
    """The buckets of l pairs or dummies of each user, sorted."""
    l, sizes = m.pairs_per_user, population.sizes[users]
    owned = rng.integers(0, m.buckets, (users.size, l))
    first, last = population.offsets[users[0]], population.offsets[users[-1] + 1]
    row = np.repeat(np.arange(users.size), sizes)
    place = np.arange(last - first) - np.repeat(population.offsets[users] - first, sizes)
    if sizes.max(initial=0) > l:
        shuffled = np.empty_like(place)
        shuffled[np.argsort(row + rng.random(row.size))] = place
        place = shuffled
    kept = place < l
    row, place = row[kept], place[kept]
    codes, values = (part[first:last][kept] for part in (population.codes, population.values))
    up, down = hashed(cohorts[row], codes)
    owned[row, place] = np.where(rng.random(codes.size) * 2.0 - 1.0 < values, up, down)
    owned.sort(axis=1)
    return owned


def reported_buckets(m: OwnedBuckets, owned: Ints, rng: np.random.Generator) -> Ints:
    """One bucket a user: an own one with the chance of its kernel, else any other."""
    fresh = np.ones(owned.shape, dtype=bool)
    fresh[:, 1:] = owned[:, 1:] != owned[:, :-1]
    rank = np.cumsum(fresh, axis=1)
    count = rank[:, -1]
    own = np.array([j * m.own(j) / m.words for j in range(1, min(m.pairs_per_user, m.buckets) + 1)])
    if own.size == m.buckets:
        own[-1] = 1.0
    truthful = rng.random(count.size) < own[count - 1]
    wanted = 1 + (rng.random(count.size) * count).astype(np.int64)
    reported: Ints = owned[np.arange(count.size), (rank < wanted[:, None]).sum(axis=1)]
    lying = np.flatnonzero(~truthful)
    while lying.size:
        reported[lying] = rng.integers(0, m.buckets, lying.size)
        lying = lying[(owned[lying] == reported[lying, None]).any(axis=1)]
    return reported


# --- values on a grid ---


@draw_counts.register
def _(mechanism: UeSw, population: Population, rng: np.random.Generator) -> Cells:
    l, n, d = mechanism.pairs_per_user, population.n_users, mechanism.n_keys
    pair, dummies = _sampled_pairs(population, l, rng)
    bins = np.minimum(
        ((population.values[pair] + 1) / 2 * mechanism.bins).astype(np.int64), mechanism.bins - 1
    )
    places = np.concatenate([population.codes[pair], d + rng.integers(0, l, dummies)])
    bins = np.concatenate([bins, np.zeros(dummies, dtype=np.int64)])
    rest = n - np.bincount(places, minlength=mechanism.n_padded)
    return {"bins": _through_value_channel(mechanism.channel, places, bins, rest, rng)}


@draw_counts.register
def _(mechanism: IndexedBoundary, population: Population, rng: np.random.Generator) -> Cells:
    asked = ask_one_key(population, rng)
    bins = draw_boundaries(asked.values, mechanism.bins, rng)
    rest = asked.times - np.bincount(asked.codes, minlength=mechanism.n_keys)
    return {
        "bins": _through_value_channel(mechanism.channel, asked.codes, bins, rest, rng),
        "asked": asked.times,
    }


def draw_boundaries(values: Floats, bins: int, rng: np.random.Generator) -> Ints:
    """Every value at one of its two neighbouring boundaries."""
    exact = (values + 1) / 2 * (bins - 1)
    below = np.floor(exact)
    return (below + (rng.random(exact.size) < exact - below)).astype(np.int64)


# --- keys alone, and keys apart from values ---


@draw_counts.register
def _(mechanism: EncodedOracle, population: Population, rng: np.random.Generator) -> Cells:
    return draw_supports(mechanism.oracle, draw_symbols(mechanism.encoder, population, rng), rng)


def draw_supports(oracle: Oracle | Wave, own: Ints, rng: np.random.Generator) -> Cells:
    """The cells of an oracle's tally when own[s] users have symbol s."""
    if isinstance(oracle, Wave):
        rows = (oracle.response.row(symbol) for symbol in range(own.size))
        drawn = [rng.multinomial(count, np.array(row, float)) for count, row in zip(own, rows, strict=True)]
        return {"outputs": np.sum(drawn, axis=0)}
    return {"support": through_oracle(oracle, own, rng)}


@singledispatch
def draw_symbols(encoder: object, population: Population, rng: np.random.Generator) -> Ints:
    """How many users have each symbol of an encoder."""
    raise TypeError(f"no symbol law for {type(encoder).__name__}; register draw_symbols for it")


@draw_symbols.register
def _(encoder: OwnKey, population: Population, rng: np.random.Generator) -> Ints:
    pair, nothing = _sampled_pairs(population, 1, rng)
    return np.append(np.bincount(population.codes[pair], minlength=encoder.n_keys), nothing)


@draw_symbols.register
def _(encoder: RecordSize, population: Population, rng: np.random.Generator) -> Ints:
    return np.bincount(np.minimum(population.sizes, encoder.largest), minlength=encoder.n_symbols)


@draw_symbols.register
def _(encoder: SizeClass, population: Population, rng: np.random.Generator) -> Ints:
    return np.bincount(_classes(encoder.starts, population.sizes) - 1, minlength=encoder.n_symbols)


@draw_symbols.register
def _(encoder: OwnSign, population: Population, rng: np.random.Generator) -> Ints:
    pair, nothing = _sampled_pairs(population, 1, rng)
    plus = int((rng.random(pair.size) * 2.0 - 1.0 < population.values[pair]).sum())
    return np.array([nothing, plus, pair.size - plus])


@draw_symbols.register
def _(encoder: PopularSize, population: Population, rng: np.random.Generator) -> Ints:
    popular = np.zeros(population.n_keys, dtype=bool)
    popular[list(encoder.popular)] = True
    owners = np.repeat(np.arange(population.n_users), population.sizes)
    held = np.bincount(owners[popular[population.codes]], minlength=population.n_users)
    spoken = rng.random(held.size) * encoder.most < held
    symbols = np.where(spoken, _classes(encoder.starts, population.sizes), 0)
    return np.bincount(symbols, minlength=encoder.n_symbols)


def _classes(starts: tuple[int, ...], sizes: Ints) -> Ints:
    """Which class each size falls into, counted from 1."""
    return np.searchsorted(np.array(starts), sizes, side="right")


def through_oracle(oracle: Oracle, own: Ints, rng: np.random.Generator) -> Ints:
    """Supports when own[s] users have symbol s."""
    a, b = float(oracle.a), float(oracle.b)
    if isinstance(oracle, Response):
        kept = rng.binomial(own, a - b)
        return kept + spread_evenly(rng, int(own.sum() - kept.sum()), own.size)
    if isinstance(oracle, Selection):
        return _through_selection(oracle, own, rng)
    if not isinstance(oracle, Bits | Hashed):
        raise TypeError(f"no law of supports for {type(oracle).__name__}; add one to through_oracle")
    supported: Ints = rng.binomial(own, a) + rng.binomial(own.sum() - own, b)
    return supported


def _through_selection(oracle: Selection, own: Ints, rng: np.random.Generator) -> Ints:
    """The same where every report names w of d symbols.

    A report is any set, or, with the chance that makes up for what is missing to a, one that holds the own
    symbol. Users are counted by how many symbols they have still to name: `later` those whose own symbol
    is certain and has not come yet, `rest` all others.
    """
    d, w = oracle.n_symbols, oracle.chosen
    certain = rng.binomial(own, float((d * oracle.a - w) / (d - w)))
    needs, supported = np.arange(w + 1), certain.copy()
    later, rest = np.zeros(w + 1, dtype=np.int64), np.zeros(w + 1, dtype=np.int64)
    later[w - 1], rest[w] = certain.sum(), own.sum() - certain.sum()
    for symbol in range(d):
        # Nothing so far depended on who of them has this symbol.
        here = rng.multivariate_hypergeometric(later, certain[symbol])
        later -= here
        for users, among in ((later, d - symbol - 1), (rest, d - symbol)):
            named = rng.binomial(users, np.minimum(needs / max(among, 1), 1.0))
            users -= named
            users[:-1] += named[1:]
            supported[symbol] += named.sum()
        rest += here
    return supported


# --- who says what about which key ---


class _AskedKeys(NamedTuple):
    """How often each key was asked, and the codes and values of those who hold what they were asked."""

    times: Ints
    codes: Ints
    values: Floats


def ask_one_key(population: Population, rng: np.random.Generator) -> _AskedKeys:
    """Every user draws an index; all look it up at once, halving their own sorted codes."""
    d, codes = population.n_keys, population.codes
    index = rng.integers(0, d, population.n_users)
    low, high = population.offsets[:-1].copy(), population.offsets[1:].copy()
    for _ in range(int(population.sizes.max(initial=0)).bit_length()):
        middle = (low + high) // 2
        after = (low < high) & (codes[np.minimum(middle, codes.size - 1)] < index)
        low, high = np.where(after, middle + 1, low), np.where(after, high, middle)
    held = low < population.offsets[1:]
    held[held] = codes[low[held]] == index[held]
    return _AskedKeys(np.bincount(index, minlength=d), index[held], population.values[low[held]])


def _sampled_pairs(population: Population, l: int, rng: np.random.Generator) -> tuple[Ints, int]:
    """The pair that each user sampled, and how many sampled a dummy."""
    sizes = population.sizes
    slot = rng.integers(0, np.maximum(sizes, l))
    real = slot < sizes
    return population.offsets[:-1][real] + slot[real], int((~real).sum())


def sampled_signs(population: Population, l: int, rng: np.random.Generator) -> tuple[Ints, Ints, int]:
    """How many users sampled each key with + and with -, and how many sampled a dummy."""
    pair, dummies = _sampled_pairs(population, l, rng)
    up, down = draw_signs(population.codes[pair], population.values[pair], population.n_keys, rng)
    return up, down, dummies


def draw_signs(codes: Ints, values: Floats, d: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """How many of the pairs round to + and to -, per key."""
    positive = rng.random(codes.size) * 2.0 - 1.0 < values
    up = np.bincount(codes[positive], minlength=d)
    return up, np.bincount(codes, minlength=d) - up


# --- what becomes of it ---


def _through_channel(
    channel: Channel, up: Ints, down: Ints, rest: Ints, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """PLUS and MINUS counts when `up`, `down`, `rest` users sampled the key with +, with -, or not."""
    keep, flip, fake = (count / channel.words for count in (channel.keep, channel.flip, channel.fake))
    up_kept, up_flipped = two_cells(rng, up, keep, flip)
    down_kept, down_flipped = two_cells(rng, down, keep, flip)
    fake_up, fake_down = two_cells(rng, rest, fake, fake)
    return up_kept + down_flipped + fake_up, down_kept + up_flipped + fake_down


def _through_value_channel(
    channel: ValueChannel, places: Ints, bins: Ints, rest: Ints, rng: np.random.Generator
) -> Ints:
    """Output counts per place when users hold `bins` at `places` and `rest` did not sample a place.

    A sampled value is `near` with an excess of near - far over the window, else uniform or silent.
    """
    window, words = channel.window, channel.words
    excess = window.width * (channel.near - channel.far) / words
    in_window = rng.random(places.size) < excess
    outputs = window.step * bins[in_window] + rng.integers(0, window.width, int(in_window.sum()))
    cells = np.bincount(places[in_window] * window.n_out + outputs, minlength=rest.size * window.n_out)
    elsewhere = np.bincount(places[~in_window], minlength=rest.size)
    uniform = rng.binomial(elsewhere, window.n_out * channel.far / words / (1 - excess))
    uniform += rng.binomial(rest, window.n_out * channel.fake / words)
    return cells.reshape(rest.size, window.n_out) + spread_evenly(rng, uniform, window.n_out)


def two_cells(rng: np.random.Generator, trials: Ints, first: float, second: float) -> tuple[Ints, Ints]:
    """The first two counts of a multinomial, as nested binomials."""
    hits = rng.binomial(trials, first)
    return hits, rng.binomial(trials - hits, min(1.0, second / (1.0 - first)))


def spread_evenly(rng: np.random.Generator, trials: int | Ints, cells: int) -> Ints:
    """Trials spread evenly over cells."""
    return rng.multinomial(trials, np.full(cells, 1.0 / cells))
