"""Every mechanism's answers for many records at once, in the bytes of its layout.

Two ways to draw, the same kernel:

    from words   mechanisms that answer with one symbol take the words that a device takes, a row each,
                 and give the answer that `perturb` gives, bit for bit
    from bytes   unary reports draw their noise in bulk (`noise`) and set the sampled position from a
                 word of its own; the law of each position is that of a whole word

A mechanism without a way of its own is perturbed record by record, by its own `perturb`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from typing import Any

import numpy as np

from keyveil.batch.noise import draw_bits, draw_numbers, draw_trits, split_words
from keyveil.batch.records import Floats, Ints, Mask, Records, levels_of, round_to_plus
from keyveil.batch.stream import Bytes, Stream, draw_words
from keyveil.batch.wide import Words, as_words, high, muldiv
from keyveil.compiled import is_compiled
from keyveil.mechanisms import (
    Bits,
    Bucket,
    Channel,
    EncodedOracle,
    Hashed,
    IndexedBoundary,
    Mechanism,
    OwnKey,
    RecordSize,
    Response,
    SampledIndex,
    SignedResponse,
    SignedUnary,
    SizeClass,
    UeSw,
    ValueChannel,
    Wave,
    WindowResponse,
)
from keyveil.numerics import Words as DeviceWords
from keyveil.report import ABSENT, MINUS, PLUS, Symbol
from keyveil.tally.hashing import bucket_of_many, signed_buckets


def draw_answers(
    mechanism: Mechanism, records: Records, stream: Stream, public: Words | None = None
) -> Bytes:
    """The payload of each record's report, a row each; `public` takes the place of the public word."""
    drawn = payloads_from_bytes(mechanism, records, stream)
    if drawn is not None:
        return drawn
    words = draw_words(stream, len(records), mechanism.n_words)
    if mechanism.public_word is not None:
        assert public is not None, "a mechanism with a public word needs the words of the report ids"
        words[:, mechanism.public_word] = public
    return answers_from_words(mechanism, records, words)


def answers_from_words(mechanism: Mechanism, records: Records, words: Words) -> Bytes:
    """What devices with these words, a row each, would answer, bit for bit."""
    layout = mechanism.layout
    if isinstance(layout, Symbol):
        return pack_symbols(layout, symbols_from_words(mechanism, records, words))
    payloads = b"".join(map(layout.encode, _one_by_one(mechanism, records, words)))
    return np.frombuffer(payloads, dtype=np.uint8).reshape(len(words), layout.n_bytes).copy()


def pack_symbols(layout: Symbol, symbols: Ints) -> Bytes:
    """Symbols in the fewest whole bytes, little endian."""
    return symbols.astype("<i8", copy=False).view(np.uint8).reshape(-1, 8)[:, : layout.n_bytes]


def _one_by_one(mechanism: Mechanism, records: Records, words: Words) -> Iterator[Any]:
    """What the device's own code answers."""
    rows = words.astype("<u8")
    for user in range(len(rows)):
        yield mechanism.perturb(records.record(user), DeviceWords(rows[user].tobytes()))


# --- from bytes ---


@singledispatch
def payloads_from_bytes(mechanism: object, records: Records, stream: Stream) -> Bytes | None:
    """Payloads drawn in bulk, or None where words are drawn."""
    return None


@payloads_from_bytes.register
def _(mechanism: SignedUnary, records: Records, stream: Stream) -> Bytes:
    c = mechanism.channel
    payloads = draw_trits(stream, len(records), mechanism.n_keys, c.fake, 2 * c.fake)
    slot, rounding, word = draw_words(stream, 3, len(records))
    codes, values = records.sample(mechanism.pairs_per_user, slot)
    heard = _hear_own(c, round_to_plus(values, rounding), word)
    users = np.flatnonzero(codes >= 0)
    byte, shift = np.divmod(2 * codes[users], 8)
    kept = payloads[users, byte] & ~(3 << shift)
    payloads[users, byte] = kept | heard[users] << shift
    return payloads


@payloads_from_bytes.register
def _(mechanism: SignedResponse, records: Records, stream: Stream) -> Bytes:
    c, l, n = mechanism.channel, mechanism.pairs_per_user, len(records)
    digits, truths = draw_words(stream, n), (c.keep + c.flip) / 2**64
    if is_compiled(100 * n):
        from keyveil.batch import loops

        symbols, done = np.empty(n, dtype=np.int64), 0
        held = _columns(records)
        while done < n:
            # How many are needed depends on the digits and tails before: drawing more changes no chance.
            tails = draw_words(stream, 64 + int((n - done) * (truths + 1 / 16)))
            done = loops.respond_signed_digits(symbols, digits, tails, done, *held, _kernel(mechanism))
    else:
        slots = as_words(np.maximum(records.sizes, l))
        tails = draw_words(stream, 4 * n)
        whole = split_words(digits, tails, slots, l, c.keep, c.keep + c.flip, c.fake)
        symbols = symbols_from_words(mechanism, records, whole)
    return pack_symbols(mechanism.layout, symbols)


def _columns(records: Records) -> tuple[Ints, Ints, Floats]:
    """Offsets, codes and values, with a code to look at even where nobody holds any."""
    if records.codes.size:
        return records.offsets, records.codes, records.values
    return records.offsets, np.zeros(1, dtype=np.int64), np.zeros(1)


def _kernel(mechanism: SignedResponse) -> tuple[Any, ...]:
    """What compiled loops know of a signed response."""
    c = mechanism.channel
    inverse = min((1 << 64) // c.fake, (1 << 64) - 1)
    words = (np.uint64(each) for each in (c.keep, c.keep + c.flip, c.fake, inverse))
    return (mechanism.n_keys, mechanism.pairs_per_user, *words)


@payloads_from_bytes.register
def _(mechanism: UeSw, records: Records, stream: Stream) -> Bytes:
    c, layout = mechanism.channel, mechanism.layout
    payloads = draw_numbers(stream, len(records), layout.length, c.fake, c.window.n_out, layout.bits)
    slot, dummy, word = draw_words(stream, 3, len(records))
    codes, values = records.sample(mechanism.pairs_per_user, slot)
    padding = mechanism.n_keys + high(dummy, mechanism.pairs_per_user).astype(np.int64)
    levels, full = levels_of(values)
    bins = np.where(full, mechanism.bins - 1, high(levels, mechanism.bins).astype(np.int64))
    is_held = codes >= 0
    heard = _hear_value(c, np.where(is_held, bins, 0), word)
    set_bits(payloads, np.where(is_held, codes, padding) * layout.bits, layout.bits, heard)
    return payloads


@payloads_from_bytes.register
def _(mechanism: EncodedOracle, records: Records, stream: Stream) -> Bytes | None:
    if not isinstance(mechanism.oracle, Bits):
        return None
    symbols = _encode(mechanism.encoder, records, draw_words(stream, len(records)))
    return draw_bits_of(mechanism.oracle, mechanism.oracle.n_symbols, symbols, stream)


def draw_bits_of(oracle: Bits, length: int, symbols: Ints, stream: Stream) -> Bytes:
    """Rows of noisy bits, one shown for each symbol."""
    payloads = draw_bits(stream, symbols.size, length, oracle.other)
    shown = draw_words(stream, symbols.size) < np.uint64(oracle.own)
    set_bits(payloads, symbols, 1, shown.astype(np.int64))
    return payloads


def set_bits(payloads: Bytes, first: Ints, bits: int, numbers: Ints) -> None:
    """Overwrite the number in `bits` bits that begins at bit `first` of each row."""
    users = np.arange(len(payloads))
    for bit in range(bits):
        byte, shift = np.divmod(first + bit, 8)
        kept = payloads[users, byte] & ~(1 << shift)
        payloads[users, byte] = kept | (numbers >> bit & 1) << shift


# --- from words ---


@singledispatch
def symbols_from_words(mechanism: Any, records: Records, words: Words) -> Ints:
    """The symbol that `perturb` answers for each record and row of words; shapes register a faster way."""
    return np.fromiter(_one_by_one(mechanism, records, words), dtype=np.int64, count=len(words))


@symbols_from_words.register
def _(mechanism: SignedResponse, records: Records, words: Words) -> Ints:
    c, l = mechanism.channel, mechanism.pairs_per_user
    if is_compiled(100 * len(records)):
        from keyveil.batch import loops

        held = _columns(records)
        symbols: Ints = loops.respond_signed(*held, words, _kernel(mechanism))
        return symbols
    slot, dummy, rounding, word = words.T
    codes, values = records.sample(l, slot)
    keys = np.where(codes >= 0, codes, mechanism.n_keys + high(dummy, l).astype(np.int64))
    heard = _hear_own(c, round_to_plus(values, rounding), word)
    lies = ((word - np.uint64(c.keep + c.flip)) // np.uint64(c.fake)).astype(np.int64)
    # Lies skip over the truth's two symbols.
    lies += 2 * (lies >= 2 * keys)
    answers: Ints = np.where(heard == ABSENT, lies, 2 * keys + (heard == MINUS))
    return answers


@symbols_from_words.register
def _(mechanism: SampledIndex, records: Records, words: Words) -> Ints:
    choice, rounding, word = words.T
    index = high(choice, mechanism.n_keys).astype(np.int64)
    held, values = records.find(index, mechanism.n_keys)
    own = _hear_own(mechanism.channel, round_to_plus(values, rounding), word)
    symbols: Ints = 3 * index + np.where(held, own, _hear_other(mechanism.channel, word))
    return symbols


@symbols_from_words.register
def _(mechanism: IndexedBoundary, records: Records, words: Words) -> Ints:
    choice, rounding, word = words.T
    index = high(choice, mechanism.n_keys).astype(np.int64)
    held, values = records.find(index, mechanism.n_keys)
    own = _hear_value(mechanism.channel, boundaries_of(values, mechanism.bins, rounding), word)
    cell = (word // np.uint64(mechanism.channel.fake)).astype(np.int64)
    other = np.where(cell < mechanism.channel.window.n_out, 1 + cell, ABSENT)
    symbols: Ints = (mechanism.bins + 1) * index + np.where(held, own, other)
    return symbols


@symbols_from_words.register
def _(mechanism: EncodedOracle, records: Records, words: Words) -> Ints:
    oracle = mechanism.oracle
    symbols = _encode(mechanism.encoder, records, words[:, 0])
    if isinstance(oracle, Hashed):
        cohorts = high(words[:, 1], oracle.cohorts).astype(np.int64)
        buckets = bucket_of_many(cohorts, symbols, oracle.buckets)
        return cohorts * oracle.buckets + respond(oracle.response, buckets, words[:, 2])
    if isinstance(oracle, Wave):
        return _wave(oracle.response, symbols, words[:, 1])
    assert isinstance(oracle, Response)
    return respond(oracle, symbols, words[:, 1])


@symbols_from_words.register
def _(mechanism: Bucket, records: Records, words: Words) -> Ints:
    l, g, n = mechanism.pairs_per_user, mechanism.buckets, len(records)
    cohorts = high(words[:, 0], mechanism.cohorts).astype(np.int64)
    codes, values = _kept(records, l, words[:, 1 : 1 + l])
    rounding = words[:, 1 + l : 1 + 2 * l]
    plus, minus = signed_buckets(mechanism, cohorts[:, None], np.maximum(codes, 0))
    hashed = np.where(round_to_plus(values, rounding), plus, minus)
    owned = np.sort(np.where(codes >= 0, hashed, high(rounding, g).astype(np.int64)), axis=1)
    # Distinct ones first, ascending; places behind them hold g, which is no bucket.
    owned[:, 1:][owned[:, 1:] == owned[:, :-1]] = g
    owned.sort(axis=1)
    n_owned = (owned < g).sum(axis=1)
    word, sizes = words[:, -1], [0] + [mechanism.own(j) if j <= g else 0 for j in range(1, l + 1)]
    own = as_words(sizes)[n_owned]
    mine = own * n_owned.astype(np.uint64)
    is_own = word < mine
    place = (word // np.maximum(own, np.uint64(1))).astype(np.int64)
    own_bucket = owned[np.arange(n), np.where(is_own, place, 0)]
    everything = n_owned == g
    # Where no other bucket is left the rest is empty; any divisor will do there.
    rest = np.where(is_own | everything, np.uint64(1), np.uint64(0) - mine)
    beyond = np.where(is_own | everything, np.uint64(0), word - mine)
    other = muldiv(beyond, g - n_owned, rest).astype(np.int64)
    for taken in owned.T:
        other += taken <= other
    return cohorts * g + np.where(
        everything, high(word, g).astype(np.int64), np.where(is_own, own_bucket, other)
    )


def _kept(records: Records, l: int, words: Words) -> tuple[Ints, Floats]:
    """Codes and values of at most l pairs each, a row each; code -1 where a dummy stands."""
    n, sizes = len(records), records.sizes
    order = np.arange(records.codes.size)
    long = np.flatnonzero(sizes > l)
    for draw in range(l if long.size else 0):
        # Fisher and Yates, one draw of all long records at a time.
        here = records.offsets[long] + draw
        there = here + high(words[long, draw], sizes[long] - draw).astype(np.int64)
        order[here], order[there] = order[there], order[here]
    codes, values = np.full((n, l), -1), np.zeros((n, l))
    kept = np.minimum(sizes, l)
    users = np.repeat(np.arange(n), kept)
    column = np.arange(users.size) - np.repeat(np.cumsum(kept) - kept, kept)
    pairs = order[records.offsets[users] + column] if users.size else order[:0]
    codes[users, column], values[users, column] = records.codes[pairs], records.values[pairs]
    return codes, values


# --- one position, one symbol ---


def _hear_own(c: Channel, plus: Mask, word: Words) -> Ints:
    right, wrong = np.where(plus, PLUS, MINUS), np.where(plus, MINUS, PLUS)
    return np.where(
        word < np.uint64(c.keep), right, np.where(word < np.uint64(c.keep + c.flip), wrong, ABSENT)
    )


def _hear_other(c: Channel, word: Words) -> Ints:
    return np.where(word < np.uint64(c.fake), PLUS, np.where(word < np.uint64(2 * c.fake), MINUS, ABSENT))


def _hear_value(c: ValueChannel, bins: Ints, word: Words) -> Ints:
    window, near = c.window, np.uint64(c.near * c.window.width)
    inside = window.step * bins + (word // np.uint64(c.near)).astype(np.int64)
    place = ((word - near) // np.uint64(c.far)).astype(np.int64)
    outside = np.where(place < window.step * bins, place, place + window.width)
    far = np.where(place < window.n_out - window.width, 1 + outside, ABSENT)
    return np.where(word < near, 1 + inside, far)


def boundaries_of(values: Floats, bins: int, words: Words) -> Ints:
    """One of the two boundaries around each value, as `round_to_boundary` chooses it."""
    levels, full = levels_of(values)
    below, rest = high(levels, bins - 1).astype(np.int64), levels * np.uint64(bins - 1)
    return np.where(full, bins - 1, below + (words < rest))


def respond(oracle: Response, symbols: Ints, word: Words) -> Ints:
    """Randomized response for each symbol."""
    lies = ((word - np.uint64(oracle.keep)) // np.uint64(oracle.lie)).astype(np.int64)
    return np.where(word < np.uint64(oracle.keep), symbols, lies + (lies >= symbols))


def _wave(response: WindowResponse, symbols: Ints, word: Words) -> Ints:
    window, near = response.window, np.uint64(response.near * response.window.width)
    start = window.step * symbols
    place = ((word - near) // np.uint64(response.far)).astype(np.int64)
    place = np.minimum(place, window.n_out - window.width - 1)
    inside = start + (word // np.uint64(response.near)).astype(np.int64)
    return np.where(word < near, inside, np.where(place < start, place, place + window.width))


@singledispatch
def _encode(encoder: Any, records: Records, words: Words) -> Ints:
    """The symbol that an encoder draws for each record."""
    symbols = (encoder.draw(records.record(user), int(word), 64) for user, word in enumerate(words))
    return np.fromiter(symbols, dtype=np.int64, count=len(records))


@_encode.register
def _(encoder: OwnKey, records: Records, words: Words) -> Ints:
    codes, _ = records.sample(1, words)
    return np.where(codes >= 0, codes, encoder.n_keys)


@_encode.register
def _(encoder: RecordSize, records: Records, words: Words) -> Ints:
    return np.minimum(records.sizes, encoder.largest)


@_encode.register
def _(encoder: SizeClass, records: Records, words: Words) -> Ints:
    return np.searchsorted(np.array(encoder.starts), records.sizes, side="right") - 1
