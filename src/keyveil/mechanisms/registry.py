"""Mechanisms by id: the one list of kernels.

An id's kernel never changes; a new kernel is a new id. `pckv-ue:naive` names a mechanism and an
allocation other than its default. What campaigns ask for is a method, which says what is made of a
mechanism's reports: `keyveil.methods`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from keyveil.errors import MechanismError
from keyveil.mechanisms.base import Allocation, Calibrated, Mechanism
from keyveil.mechanisms.hash.bucket import Bucket
from keyveil.mechanisms.index.kvue import KvUe
from keyveil.mechanisms.index.levels import Levels
from keyveil.mechanisms.literature import (
    BroadcastIndex,
    IndexedBoundaryBits,
    KrrHarmony,
    OueHarmony,
    PrivKv,
    PrivKvmStarBoundary,
    PrivKvSplit,
    RapporHarmony,
)
from keyveil.mechanisms.symbol.encoded import (
    OwnSignResponse,
    PopularSizeResponse,
    RecordSizeBits,
    RecordSizeResponse,
    SizeClassResponse,
    SizeClassWave,
)
from keyveil.mechanisms.symbol.keys_only import Grr, Olh, Oue, SubsetSelection
from keyveil.mechanisms.symbol.pckv_grr import PckvGrr
from keyveil.mechanisms.trits.ks_ue import KsUe
from keyveil.mechanisms.trits.pckv_ue import PckvUe
from keyveil.mechanisms.value.ue_sw import UeSw
from keyveil.numerics import WORD_BITS

_CLASSES: tuple[type[Calibrated], ...] = (
    PrivKv,
    BroadcastIndex,
    PrivKvmStarBoundary,
    IndexedBoundaryBits,
    KvUe,
    PckvUe,
    PckvGrr,
    KsUe,
    UeSw,
    Grr,
    Oue,
    Olh,
    SubsetSelection,
    KrrHarmony,
    RapporHarmony,
    OueHarmony,
    Bucket,
    Levels,
)

REGISTRY: Mapping[str, type[Calibrated]] = MappingProxyType({cls.id: cls for cls in _CLASSES})

# Beside those that are asked for by name, the mechanisms of single rounds: whatever a round may name.
NAMED: Mapping[str, type[Calibrated]] = MappingProxyType(
    {
        **REGISTRY,
        **{
            cls.id: cls
            for cls in (
                PrivKvSplit,
                RecordSizeResponse,
                RecordSizeBits,
                SizeClassResponse,
                SizeClassWave,
                OwnSignResponse,
                PopularSizeResponse,
            )
        },
    }
)


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
