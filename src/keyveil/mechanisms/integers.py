"""A mechanism as integers: what its calibration came to, for people and for other languages to compare.

    {"shape": ..., the shape's fields}

Fields are those of the Python class, nested values nested. Counts of words may exceed what a JSON
number holds exactly in every language, so they are decimal text (`keep`, `flip`, `fake`, ...); sizes
are numbers. Words have 64 bits; a mechanism of shorter ones, as tests use them, is not described.

Nobody reads these integers back: a device calibrates its own (`named`).
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from keyveil.errors import MechanismError
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.channel import Channel
from keyveil.mechanisms.hash.bucket import Bucket
from keyveil.mechanisms.hash.prefix_bucket import PrefixBucket
from keyveil.mechanisms.index.boundary import IndexedBoundary
from keyveil.mechanisms.index.indexed import SampledIndex
from keyveil.mechanisms.oracles import Bits, Hashed, Response, Wave
from keyveil.mechanisms.selection import Selection
from keyveil.mechanisms.symbol.keys_only import (
    EncodedOracle,
    OwnKey,
    OwnSign,
    PopularSize,
    RecordSize,
    SizeClass,
)
from keyveil.mechanisms.symbol.response import SignedResponse
from keyveil.mechanisms.trits.unary import SignedUnary
from keyveil.mechanisms.value.ue_sw import UeSw
from keyveil.mechanisms.value_channel import ValueChannel
from keyveil.mechanisms.values import Window
from keyveil.numerics import WORD_BITS

Description = dict[str, Any]


def describe(mechanism: Mechanism) -> Description:
    """The public parameters of a mechanism.

    >>> from keyveil.mechanisms.index.kvue import KvUe
    >>> describe(KvUe.for_epsilon(1, n_keys=10))["channel"]["flip"]
    '3909631671945742413'
    """
    if mechanism.word_bits != WORD_BITS:
        raise MechanismError(f"devices draw words of {WORD_BITS} bits, got {mechanism.word_bits}")
    return describe_part(mechanism)


@singledispatch
def describe_part(part: object) -> Description:
    """The integers of a mechanism or of a part of one; shapes register theirs."""
    raise TypeError(f"no description of {type(part).__name__}; register one")


@describe_part.register
def _(part: SignedUnary) -> Description:
    return {"shape": "signed-unary", **sizes_of(part), "channel": describe_part(part.channel)}


@describe_part.register
def _(part: SignedResponse) -> Description:
    return {"shape": "signed-response", **sizes_of(part), "channel": describe_part(part.channel)}


@describe_part.register
def _(part: SampledIndex) -> Description:
    return {"shape": "sampled-index", "n_keys": part.n_keys, "channel": describe_part(part.channel)}


@describe_part.register
def _(part: UeSw) -> Description:
    return {"shape": "unary-values", **sizes_of(part), "channel": describe_part(part.channel)}


@describe_part.register
def _(part: IndexedBoundary) -> Description:
    return {"shape": "indexed-boundary", "n_keys": part.n_keys, "channel": describe_part(part.channel)}


@describe_part.register
def _(part: Bucket) -> Description:
    sizes = {"buckets": part.buckets, "tie": part.tie, "cohorts": part.cohorts}
    return {"shape": "bucket", **sizes_of(part), **sizes, **words_of(part, "low", "high")}


@describe_part.register
def _(part: PrefixBucket) -> Description:
    prefix = {"longest": part.longest, "bits": part.bits, "step": part.step}
    sizes = {"pairs_per_user": part.pairs_per_user, "buckets": part.buckets, "cohorts": part.cohorts}
    return {"shape": "prefix-bucket", **prefix, **sizes, **words_of(part, "low", "high")}


@describe_part.register
def _(part: EncodedOracle) -> Description:
    return {
        "shape": "encoded-oracle",
        "encoder": describe_part(part.encoder),
        "oracle": describe_part(part.oracle),
    }


# --- encoders ---


@describe_part.register
def _(part: OwnKey) -> Description:
    return {"shape": "own-key", "n_keys": part.n_keys}


@describe_part.register
def _(part: RecordSize) -> Description:
    return {"shape": "record-size", "n_keys": part.n_keys, "largest": part.largest}


@describe_part.register
def _(part: SizeClass) -> Description:
    return {"shape": "size-class", "n_keys": part.n_keys, "starts": list(part.starts)}


@describe_part.register
def _(part: OwnSign) -> Description:
    return {"shape": "own-sign", "n_keys": part.n_keys}


@describe_part.register
def _(part: PopularSize) -> Description:
    return {
        "shape": "popular-size",
        "n_keys": part.n_keys,
        "popular": list(part.popular),
        "most": part.most,
        "starts": list(part.starts),
    }


# --- oracles ---


@describe_part.register
def _(part: Response) -> Description:
    return {"shape": "response", "n_symbols": part.n_symbols, **words_of(part, "lie")}


@describe_part.register
def _(part: Bits) -> Description:
    return {"shape": "bits", "n_symbols": part.n_symbols, **words_of(part, "own", "other")}


@describe_part.register
def _(part: Selection) -> Description:
    sizes = {"n_symbols": part.n_symbols, "chosen": part.chosen}
    return {"shape": "selection", **sizes, **words_of(part, "lie")}


@describe_part.register
def _(part: Hashed) -> Description:
    return {
        "shape": "hashed",
        "n_symbols": part.n_symbols,
        "cohorts": part.cohorts,
        "response": describe_part(part.response),
    }


@describe_part.register
def _(part: Wave) -> Description:
    response = part.response
    return {"shape": "wave", "window": describe_part(response.window), **words_of(response, "near", "far")}


# --- channels ---


@describe_part.register
def _(part: Channel) -> Description:
    return words_of(part, "keep", "flip", "fake")


@describe_part.register
def _(part: ValueChannel) -> Description:
    return {"window": describe_part(part.window), **words_of(part, "near", "far", "fake")}


@describe_part.register
def _(part: Window) -> Description:
    return {"n_in": part.n_in, "width": part.width, "step": part.step}


def sizes_of(part: Any) -> Description:
    """The sizes of a mechanism that pads."""
    return {"n_keys": part.n_keys, "pairs_per_user": part.pairs_per_user}


def words_of(part: Any, *names: str) -> dict[str, str]:
    """Counts of words, as text."""
    return {name: str(getattr(part, name)) for name in names}
