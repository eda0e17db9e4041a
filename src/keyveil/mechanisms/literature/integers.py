"""The integers of mechanisms from the literature."""

from __future__ import annotations

from keyveil.mechanisms.integers import Description, describe_part, sizes_of, words_of
from keyveil.mechanisms.literature.apart import Apart
from keyveil.mechanisms.literature.boundary_bits import IndexedBoundaryBits
from keyveil.mechanisms.literature.broadcast import BroadcastIndex
from keyveil.mechanisms.literature.harmony import Harmony


@describe_part.register
def _(part: IndexedBoundaryBits) -> Description:
    return {
        "shape": "indexed-boundary-bits",
        "n_keys": part.n_keys,
        "held": str(part.held),
        "bits": describe_part(part.bits),
    }


@describe_part.register
def _(part: BroadcastIndex) -> Description:
    return {
        "shape": "broadcast-index",
        "n_keys": part.n_keys,
        **words_of(part, "held", "held_keep", "fake", "fake_keep"),
        "levels": list(map(str, part.levels)),
    }


@describe_part.register
def _(part: Apart) -> Description:
    return {
        "shape": "apart",
        **sizes_of(part),
        "oracle": describe_part(part.oracle),
        "sign": describe_part(part.sign),
    }


@describe_part.register
def _(part: Harmony) -> Description:
    return words_of(part, "keep")
