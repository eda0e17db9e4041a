"""Mechanisms: tables of probabilities and ways to draw from them.

`channel` is what all share; `unary`, `response` and `indexed` are the three shapes of a report;
the remaining files are the papers' mechanisms, each a shape and a calibration.
"""

from keyveil.mechanisms.base import Allocation, Answer, Mechanism, Witness
from keyveil.mechanisms.channel import Channel, Exactness, Number
from keyveil.mechanisms.indexed import SampledIndex
from keyveil.mechanisms.registry import REGISTRY, build, find
from keyveil.mechanisms.response import SignedResponse
from keyveil.mechanisms.unary import SignedUnary

__all__ = [
    "REGISTRY",
    "Allocation",
    "Answer",
    "Channel",
    "Exactness",
    "Mechanism",
    "Number",
    "SampledIndex",
    "SignedResponse",
    "SignedUnary",
    "Witness",
    "build",
    "find",
]
