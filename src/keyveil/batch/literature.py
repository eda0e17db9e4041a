"""Noise in bulk for mechanisms from the literature.

Each function is registered with the table that its name belongs to.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keyveil.batch.answers import (
    boundaries_of,
    draw_bits_of,
    payloads_from_bytes,
    respond,
    set_bits,
    symbols_from_words,
)
from keyveil.batch.records import Ints, Records, round_to_plus
from keyveil.batch.stream import Bytes, Stream, draw_words
from keyveil.batch.wide import Words, as_words, bits_across, high
from keyveil.mechanisms import Bits, Response
from keyveil.mechanisms.literature import Apart, BroadcastIndex, IndexedBoundaryBits
from keyveil.report import ABSENT, MINUS, PLUS


@payloads_from_bytes.register
def _(mechanism: Apart, records: Records, stream: Stream) -> Bytes | None:
    if not isinstance(mechanism.oracle, Bits):
        return None
    codes, plus = _apart(mechanism, records, draw_words(stream, len(records), 3))
    payloads = draw_bits_of(mechanism.oracle, mechanism.oracle.n_symbols + 1, codes, stream)
    set_bits(payloads, np.full(len(records), mechanism.oracle.n_symbols), 1, plus.astype(np.int64))
    return payloads


@symbols_from_words.register
def _(mechanism: BroadcastIndex, records: Records, words: Words) -> Ints:
    choice, toss, rounding, word = words.T
    index = high(choice, mechanism.n_keys).astype(np.int64)
    full = 1 << mechanism.word_bits
    levels = as_words([level % full for level in mechanism.levels])[index]
    coin = (toss < levels) | np.array([level == full for level in mechanism.levels])[index]
    held, values = records.find(index, mechanism.n_keys)
    plus = np.where(held, round_to_plus(values, rounding), coin)
    said = word < np.where(held, np.uint64(mechanism.held), np.uint64(mechanism.fake))
    kept = word < np.where(held, np.uint64(mechanism.held_keep), np.uint64(mechanism.fake_keep))
    symbols: Ints = 6 * index + np.where(coin, 0, 3)
    symbols += np.where(said, np.where(kept == plus, PLUS, MINUS), ABSENT)
    return symbols


@symbols_from_words.register
def _(mechanism: IndexedBoundaryBits, records: Records, words: Words) -> Ints:
    choice, boundary, word = words[:, :3].T
    bins, bits = mechanism.bins, mechanism.bits
    index = high(choice, mechanism.n_keys).astype(np.int64)
    held, values = records.find(index, mechanism.n_keys)
    place = np.where(held, boundaries_of(values, bins, boundary), high(boundary, bins).astype(np.int64))
    fake = (1 << mechanism.word_bits) - mechanism.held
    said = word < np.where(held, np.uint64(mechanism.held), np.uint64(fake))
    numbers = bits_across(words[:, 3:])
    own = np.arange(bins) == place[:, None]
    shown = numbers < np.where(own, np.uint64(bits.own), np.uint64(bits.other))
    pattern = (shown.astype(np.int64) << np.arange(bins)).sum(axis=1)
    return ((1 << bins) + 1) * index + np.where(said, 1 + pattern, 0)


@symbols_from_words.register
def _(mechanism: Apart, records: Records, words: Words) -> Ints:
    assert isinstance(mechanism.oracle, Response), "bits are no symbol"
    codes, plus = _apart(mechanism, records, words[:, :3])
    return 2 * respond(mechanism.oracle, codes, words[:, 3]) + plus


def _apart(mechanism: Apart, records: Records, words: Words) -> tuple[Ints, NDArray[np.bool_]]:
    """The sampled key or dummy, and the noisy sign."""
    slot, rounding, word = words.T
    codes, values = records.sample(mechanism.pairs_per_user, slot)
    plus = round_to_plus(values, rounding) == (word < np.uint64(mechanism.sign.keep))
    return np.where(codes >= 0, codes, mechanism.n_keys), plus
