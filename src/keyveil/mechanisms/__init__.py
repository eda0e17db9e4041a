"""Mechanisms: tables of probabilities and ways to draw from them.

A mechanism is a kernel; what a campaign names is a method (`keyveil.methods`). Rooms by what a report
looks like: `trits` (one a key), `symbol` (a signed key, or an encoder's symbol), `index` (one key in
clear), `hash` (a bucket of a whole record), `value` (a number a key); and `literature`, the papers' own
that we compare with. They share parts: two channels that say what a report tells about one key,
`channel` (a sign) and `value_channel` (a number on a grid), the `oracles`, and `values`, which know no
keys. `moments` says how unsure a signed report leaves a key's frequency and mean. `registry` lists all
kernels, `named` makes one of its name; `integers` shows a mechanism's integers.

Names are fetched when they are used: a device needs one mechanism, and does not wait for the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keyveil.mechanisms.base import (
        Allocation,
        Answer,
        Calibrated,
        KeyValueMechanism,
        Mechanism,
        Parameters,
        Part,
        Witness,
        is_key_value,
    )
    from keyveil.mechanisms.channel import Channel, Exactness, Number
    from keyveil.mechanisms.hash.bucket import Bucket
    from keyveil.mechanisms.hash.prefix_bucket import PrefixBucket
    from keyveil.mechanisms.index.boundary import IndexedBoundary
    from keyveil.mechanisms.index.indexed import SampledIndex
    from keyveil.mechanisms.index.levels import Levels
    from keyveil.mechanisms.integers import describe
    from keyveil.mechanisms.literature import Apart, BroadcastIndex, Harmony, IndexedBoundaryBits
    from keyveil.mechanisms.moments import Covariance, Moments
    from keyveil.mechanisms.oracles import Bits, Hashed, Response, Wave
    from keyveil.mechanisms.registry import REGISTRY, build, find, find_outside, register
    from keyveil.mechanisms.selection import Selection
    from keyveil.mechanisms.symbol.keys_only import (
        EncodedOracle,
        OwnKey,
        OwnSign,
        PopularSize,
        RecordSize,
        SizeClass,
        SubsetSelection,
    )
    from keyveil.mechanisms.symbol.response import SignedResponse
    from keyveil.mechanisms.trits.unary import SignedUnary
    from keyveil.mechanisms.value.ue_sw import UeSw
    from keyveil.mechanisms.value_channel import ValueChannel
    from keyveil.mechanisms.values import Window, WindowResponse

__all__ = [
    "REGISTRY",
    "Allocation",
    "Answer",
    "Apart",
    "Bits",
    "BroadcastIndex",
    "Bucket",
    "Calibrated",
    "Channel",
    "Covariance",
    "EncodedOracle",
    "Exactness",
    "Harmony",
    "Hashed",
    "IndexedBoundary",
    "IndexedBoundaryBits",
    "KeyValueMechanism",
    "Levels",
    "Mechanism",
    "Moments",
    "Number",
    "OwnKey",
    "OwnSign",
    "Parameters",
    "Part",
    "PopularSize",
    "PrefixBucket",
    "RecordSize",
    "Response",
    "SampledIndex",
    "Selection",
    "SignedResponse",
    "SignedUnary",
    "SizeClass",
    "SubsetSelection",
    "UeSw",
    "ValueChannel",
    "Wave",
    "Window",
    "WindowResponse",
    "Witness",
    "build",
    "describe",
    "find",
    "find_outside",
    "is_key_value",
    "register",
]

_HOMES = {
    name: module
    for module, names in {
        "base": (
            "Allocation",
            "Answer",
            "Calibrated",
            "KeyValueMechanism",
            "Mechanism",
            "Parameters",
            "Part",
            "Witness",
            "is_key_value",
        ),
        "channel": ("Channel", "Exactness", "Number"),
        "integers": ("describe",),
        "hash.bucket": ("Bucket",),
        "hash.prefix_bucket": ("PrefixBucket",),
        "index.boundary": ("IndexedBoundary",),
        "index.indexed": ("SampledIndex",),
        "index.levels": ("Levels",),
        "literature": ("Apart", "BroadcastIndex", "Harmony", "IndexedBoundaryBits"),
        "moments": ("Covariance", "Moments"),
        "oracles": ("Bits", "Hashed", "Response", "Wave"),
        "registry": ("REGISTRY", "build", "find", "find_outside", "register"),
        "selection": ("Selection",),
        "symbol.keys_only": (
            "EncodedOracle",
            "OwnKey",
            "OwnSign",
            "PopularSize",
            "RecordSize",
            "SizeClass",
            "SubsetSelection",
        ),
        "symbol.response": ("SignedResponse",),
        "trits.unary": ("SignedUnary",),
        "value.ue_sw": ("UeSw",),
        "value_channel": ("ValueChannel",),
        "values": ("Window", "WindowResponse"),
    }.items()
    for name in names
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(f"keyveil.mechanisms.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'keyveil.mechanisms' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
