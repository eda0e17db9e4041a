"""Several rounds as a pure state machine: (round, tally) -> next round or outcome."""

from keyveil.protocols.base import History, Outcome, Protocol, protocol_name, split_groups, total_loss
from keyveil.protocols.dithered import Dithered
from keyveil.protocols.issued import IssuedIds
from keyveil.protocols.ks_grr import KsGrr
from keyveil.protocols.labelled import Labelled
from keyveil.protocols.literature.one_round import PrivKvEm, PrivKvMle
from keyveil.protocols.literature.privkvm import PrivKvm, PrivKvmPlus, PrivKvmVirtual
from keyveil.protocols.literature.star import PrivKvmStar
from keyveil.protocols.one_round import OneRound, UnarySquareWave
from keyveil.protocols.options import parse_options
from keyveil.protocols.registry import build_protocol, versions
from keyveil.protocols.replay import replay
from keyveil.rounds import EVERYBODY, Round
from keyveil.shuffle import Promise

__all__ = [
    "EVERYBODY",
    "Dithered",
    "History",
    "IssuedIds",
    "KsGrr",
    "Labelled",
    "OneRound",
    "Outcome",
    "PrivKvEm",
    "PrivKvMle",
    "PrivKvm",
    "PrivKvmPlus",
    "PrivKvmStar",
    "PrivKvmVirtual",
    "Promise",
    "Protocol",
    "Round",
    "UnarySquareWave",
    "build_protocol",
    "parse_options",
    "protocol_name",
    "replay",
    "split_groups",
    "total_loss",
    "versions",
]
