"""Several rounds as a pure state machine: (round, tally) -> next round or outcome."""

from keyveil.protocols.base import History, Outcome, Rounds, protocol_name, split_groups, total_loss
from keyveil.protocols.issued import IssuedIds
from keyveil.protocols.ks_grr import KsGrr
from keyveil.protocols.one_round import OneRound, PrivKvEm, PrivKvMle, UnarySquareWave
from keyveil.protocols.options import parse_options
from keyveil.protocols.privkvm import PrivKvm, PrivKvmPlus, PrivKvmVirtual
from keyveil.protocols.registry import METHODS, Method, build_protocol, find_method
from keyveil.protocols.replay import replay
from keyveil.protocols.star import PrivKvmStar
from keyveil.rounds import EVERYBODY, Round

__all__ = [
    "EVERYBODY",
    "METHODS",
    "History",
    "IssuedIds",
    "KsGrr",
    "Method",
    "OneRound",
    "Outcome",
    "PrivKvEm",
    "PrivKvMle",
    "PrivKvm",
    "PrivKvmPlus",
    "PrivKvmStar",
    "PrivKvmVirtual",
    "Round",
    "Rounds",
    "UnarySquareWave",
    "build_protocol",
    "find_method",
    "parse_options",
    "protocol_name",
    "replay",
    "split_groups",
    "total_loss",
]
