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
from keyveil.mechanisms.apart import Apart
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.boundary_bits import IndexedBoundaryBits
from keyveil.mechanisms.broadcast import BroadcastIndex
from keyveil.mechanisms.bucket import Bucket
from keyveil.mechanisms.channel import Channel
from keyveil.mechanisms.indexed import SampledIndex
from keyveil.mechanisms.keys_only import EncodedOracle, OwnKey, OwnSign, PopularSize, RecordSize, SizeClass
from keyveil.mechanisms.oracles import Bits, Hashed, Response, Wave
from keyveil.mechanisms.privkvm_star import IndexedBoundary
from keyveil.mechanisms.response import SignedResponse
from keyveil.mechanisms.ue_sw import UeSw
from keyveil.mechanisms.unary import SignedUnary
from keyveil.mechanisms.value_channel import ValueChannel
from keyveil.mechanisms.values import Harmony, Window
from keyveil.numerics import WORD_BITS

Description = dict[str, Any]


def describe(mechanism: Mechanism) -> Description:
    """The public parameters of a mechanism.

    >>> from keyveil.mechanisms.kvue import KvUe
    >>> describe(KvUe.for_epsilon(1, n_keys=10))["channel"]["flip"]
    '3909631671945742413'
    """
    if mechanism.word_bits != WORD_BITS:
        raise MechanismError(f"devices draw words of {WORD_BITS} bits, got {mechanism.word_bits}")
    return _describe(mechanism)


@singledispatch
def _describe(part: object) -> Description:
    raise TypeError(f"no description of {type(part).__name__}; register one")


@_describe.register
def _(part: SignedUnary) -> Description:
    return {"shape": "signed-unary", **_size(part), "channel": _describe(part.channel)}


@_describe.register
def _(part: SignedResponse) -> Description:
    return {"shape": "signed-response", **_size(part), "channel": _describe(part.channel)}


@_describe.register
def _(part: SampledIndex) -> Description:
    return {"shape": "sampled-index", "n_keys": part.n_keys, "channel": _describe(part.channel)}


@_describe.register
def _(part: UeSw) -> Description:
    return {"shape": "unary-values", **_size(part), "channel": _describe(part.channel)}


@_describe.register
def _(part: IndexedBoundary) -> Description:
    return {"shape": "indexed-boundary", "n_keys": part.n_keys, "channel": _describe(part.channel)}


@_describe.register
def _(part: IndexedBoundaryBits) -> Description:
    return {
        "shape": "indexed-boundary-bits",
        "n_keys": part.n_keys,
        "held": str(part.held),
        "bits": _describe(part.bits),
    }


@_describe.register
def _(part: BroadcastIndex) -> Description:
    return {
        "shape": "broadcast-index",
        "n_keys": part.n_keys,
        **_words(part, "held", "held_keep", "fake", "fake_keep"),
        "levels": list(map(str, part.levels)),
    }


@_describe.register
def _(part: Bucket) -> Description:
    sizes = {"buckets": part.buckets, "tie": part.tie, "cohorts": part.cohorts}
    return {"shape": "bucket", **_size(part), **sizes, **_words(part, "low", "high")}


@_describe.register
def _(part: Apart) -> Description:
    return {
        "shape": "apart",
        **_size(part),
        "oracle": _describe(part.oracle),
        "sign": _describe(part.sign),
    }


@_describe.register
def _(part: EncodedOracle) -> Description:
    return {
        "shape": "encoded-oracle",
        "encoder": _describe(part.encoder),
        "oracle": _describe(part.oracle),
    }


# --- encoders ---


@_describe.register
def _(part: OwnKey) -> Description:
    return {"shape": "own-key", "n_keys": part.n_keys}


@_describe.register
def _(part: RecordSize) -> Description:
    return {"shape": "record-size", "n_keys": part.n_keys, "largest": part.largest}


@_describe.register
def _(part: SizeClass) -> Description:
    return {"shape": "size-class", "n_keys": part.n_keys, "starts": list(part.starts)}


@_describe.register
def _(part: OwnSign) -> Description:
    return {"shape": "own-sign", "n_keys": part.n_keys}


@_describe.register
def _(part: PopularSize) -> Description:
    return {
        "shape": "popular-size",
        "n_keys": part.n_keys,
        "popular": list(part.popular),
        "most": part.most,
        "starts": list(part.starts),
    }


# --- oracles ---


@_describe.register
def _(part: Response) -> Description:
    return {"shape": "response", "n_symbols": part.n_symbols, **_words(part, "lie")}


@_describe.register
def _(part: Bits) -> Description:
    return {"shape": "bits", "n_symbols": part.n_symbols, **_words(part, "own", "other")}


@_describe.register
def _(part: Hashed) -> Description:
    return {
        "shape": "hashed",
        "n_symbols": part.n_symbols,
        "cohorts": part.cohorts,
        "response": _describe(part.response),
    }


@_describe.register
def _(part: Wave) -> Description:
    response = part.response
    return {"shape": "wave", "window": _describe(response.window), **_words(response, "near", "far")}


# --- channels ---


@_describe.register
def _(part: Channel) -> Description:
    return _words(part, "keep", "flip", "fake")


@_describe.register
def _(part: ValueChannel) -> Description:
    return {"window": _describe(part.window), **_words(part, "near", "far", "fake")}


@_describe.register
def _(part: Window) -> Description:
    return {"n_in": part.n_in, "width": part.width, "step": part.step}


@_describe.register
def _(part: Harmony) -> Description:
    return _words(part, "keep")


def _size(part: Any) -> Description:
    return {"n_keys": part.n_keys, "pairs_per_user": part.pairs_per_user}


def _words(part: Any, *names: str) -> dict[str, str]:
    return {name: str(getattr(part, name)) for name in names}
