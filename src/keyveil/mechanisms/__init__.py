"""Mechanisms: tables of probabilities and ways to draw from them.

A mechanism is a kernel; what a campaign names is a method (`keyveil.methods`). Rooms by what a report
looks like: `trits` (one a key), `symbol` (a signed key, or an encoder's symbol), `index` (one key in
clear), `hash` (a bucket of a whole record), `value` (a number a key); and `literature`, the papers' own
that we compare with. They share parts: two channels that say what a report tells about one key,
`channel` (a sign) and `value_channel` (a number on a grid), the `oracles`, and `values`, which know no
keys. `moments` says how unsure a signed report leaves a key's frequency and mean. `registry` lists all
kernels, `named` makes one of its name, `device` the report that is sent; `describe` shows a mechanism's
integers.
"""

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
from keyveil.mechanisms.describe import describe
from keyveil.mechanisms.hash.bucket import Bucket
from keyveil.mechanisms.index.boundary import IndexedBoundary
from keyveil.mechanisms.index.indexed import SampledIndex
from keyveil.mechanisms.index.levels import Levels
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
    "RecordSize",
    "Response",
    "SampledIndex",
    "Selection",
    "SignedResponse",
    "SignedUnary",
    "SizeClass",
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
