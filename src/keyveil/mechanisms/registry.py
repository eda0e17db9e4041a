"""Mechanisms by id.

An id's kernel never changes; a new kernel is a new id. `pckv-ue:naive` names a mechanism and an
allocation other than its default.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from keyveil.errors import MechanismError
from keyveil.mechanisms.apart import KrrHarmony, OueHarmony, RapporHarmony
from keyveil.mechanisms.base import Allocation, Calibrated, Mechanism
from keyveil.mechanisms.boundary_bits import IndexedBoundaryBits
from keyveil.mechanisms.broadcast import BroadcastIndex
from keyveil.mechanisms.bucket import Bucket
from keyveil.mechanisms.keys_only import Grr, Olh, Oue
from keyveil.mechanisms.ks_ue import KsUe
from keyveil.mechanisms.kvue import KvUe
from keyveil.mechanisms.levels import Levels
from keyveil.mechanisms.pckv_grr import PckvGrr
from keyveil.mechanisms.pckv_ue import PckvUe
from keyveil.mechanisms.privkv import PrivKv
from keyveil.mechanisms.privkvm_star import IndexedBoundary
from keyveil.mechanisms.ue_sw import UeSw
from keyveil.numerics import WORD_BITS

_CLASSES: tuple[type[Calibrated], ...] = (
    PrivKv,
    BroadcastIndex,
    IndexedBoundary,
    IndexedBoundaryBits,
    KvUe,
    PckvUe,
    PckvGrr,
    KsUe,
    UeSw,
    Grr,
    Oue,
    Olh,
    KrrHarmony,
    RapporHarmony,
    OueHarmony,
    Bucket,
    Levels,
)

REGISTRY: Mapping[str, type[Calibrated]] = MappingProxyType({cls.id: cls for cls in _CLASSES})

# Methods that are another estimator over a mechanism's reports.
SAME_REPORTS: Mapping[str, str] = MappingProxyType({"privkv-em": "privkv", "privkv-mle": "privkv"})

# Methods whose rounds follow from each other; devices learn each from the collector.
SEVERAL_ROUNDS = ("privkvm", "privkvm-plus", "privkvm-virtual", "privkvm-star", "ks-grr", "auto")


def build(
    name: str,
    epsilon: object,
    *,
    n_keys: int,
    pairs_per_user: int = 1,
    word_bits: int = WORD_BITS,
    **options: Any,
) -> Mechanism:
    """The mechanism called `name` at `epsilon`.

    >>> build("pckv-ue", 1.0, n_keys=10).n_keys
    10
    >>> build("pckv-eu", 1.0, n_keys=10)
    Traceback (most recent call last):
        ...
    keyveil.errors.MechanismError: unknown mechanism "pckv-eu"; did you mean "pckv-ue"?
    """
    cls, allocation = find(name)
    return cls.for_epsilon(
        epsilon,
        n_keys=n_keys,
        pairs_per_user=pairs_per_user,
        allocation=allocation,
        word_bits=word_bits,
        **options,
    )


def find(name: str) -> tuple[type[Calibrated], Allocation | None]:
    """The class behind a name, and the allocation the name asks for."""
    mechanism_id, colon, wanted = name.partition(":")
    if mechanism_id not in REGISTRY:
        near = difflib.get_close_matches(mechanism_id, REGISTRY, n=1, cutoff=0.5)
        hint = f'did you mean "{near[0]}"?' if near else f"known are {', '.join(REGISTRY)}"
        raise MechanismError(f'unknown mechanism "{mechanism_id}"; {hint}')
    cls = REGISTRY[mechanism_id]
    if not colon:
        return cls, None
    for allocation in cls.allocations:
        if allocation.value == wanted:
            return cls, allocation
    known = ", ".join(allocation.value for allocation in cls.allocations)
    raise MechanismError(f'"{mechanism_id}" has no allocation "{wanted}"; expected one of {known}')
