"""Mechanisms: tables of probabilities and ways to draw from them.

Two channels say what a report tells about one key: `channel` (a sign) and `value_channel` (a number
on a grid). `unary`, `response` and `indexed` are the shapes of a signed report; `pckv_ue`, `ks_ue`,
`pckv_grr`, `privkv` and `kvue` are calibrations of them. `ue_sw`, `privkvm_star` and `boundary_bits`
report values, `broadcast` is a later round of PrivKVM, `keys_only` asks about keys by one of the
`oracles`, `bucket` hashes whole records, `apart` holds the baselines that perturb keys and values
apart, `values` the value mechanisms without keys, `encoded` the small questions of single rounds.
`moments` says how unsure a signed report leaves a key's frequency and mean. `named` makes a mechanism of
its name, `device` the report that is sent; `describe` shows a mechanism's integers.
"""

from keyveil.mechanisms.apart import Apart
from keyveil.mechanisms.base import (
    Allocation,
    Answer,
    Calibrated,
    KeyValueMechanism,
    Mechanism,
    Parameters,
    Part,
    Witness,
)
from keyveil.mechanisms.boundary_bits import IndexedBoundaryBits
from keyveil.mechanisms.broadcast import BroadcastIndex
from keyveil.mechanisms.bucket import Bucket
from keyveil.mechanisms.channel import Channel, Exactness, Number
from keyveil.mechanisms.describe import describe
from keyveil.mechanisms.device import make_report
from keyveil.mechanisms.indexed import SampledIndex
from keyveil.mechanisms.keys_only import EncodedOracle, OwnKey, OwnSign, PopularSize, RecordSize, SizeClass
from keyveil.mechanisms.levels import Levels
from keyveil.mechanisms.moments import Covariance, Moments
from keyveil.mechanisms.oracles import Bits, Hashed, Response, Wave
from keyveil.mechanisms.privkvm_star import IndexedBoundary
from keyveil.mechanisms.registry import REGISTRY, SAME_REPORTS, SEVERAL_ROUNDS, build, find
from keyveil.mechanisms.response import SignedResponse
from keyveil.mechanisms.ue_sw import UeSw
from keyveil.mechanisms.unary import SignedUnary
from keyveil.mechanisms.value_channel import ValueChannel
from keyveil.mechanisms.values import Harmony, Window, WindowResponse

__all__ = [
    "REGISTRY",
    "SAME_REPORTS",
    "SEVERAL_ROUNDS",
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
    "make_report",
]
