"""Mechanisms by id: the one list of kernels.

An id's kernel never changes; a new kernel is a new id. `pckv-ue:naive` names a mechanism and an
allocation other than its default. What campaigns ask for is a method, which says what is made of a
mechanism's reports: `keyveil.methods`.

Other packages add mechanisms of the same shapes of report: by an entry point of the group
`keyveil.mechanisms`, whose name is the id, for whoever names it in a campaign file or a command; or by
`register`, which an application calls that answers such a campaign. No collector's word loads anything.
`keyveil.testing.check_mechanism` says whether one keeps what it promises.

A class is imported when it is asked for: a device answers with one of them, and starts sooner.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from keyveil.errors import MechanismError
from keyveil.mechanisms.base import Allocation, Calibrated, Calibration, Mechanism
from keyveil.numerics import WORD_BITS


class Kernels(Mapping[str, type[Calibrated]]):
    """Classes by id, each imported when it is asked for."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = places

    def __getitem__(self, mechanism_id: str) -> type[Calibrated]:
        module, _, name = self._places[mechanism_id].partition(":")
        found: type[Calibrated] = getattr(import_module(f"keyveil.mechanisms.{module}"), name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, mechanism_id: object) -> bool:
        return mechanism_id in self._places


_ASKED_FOR: Mapping[str, str] = MappingProxyType(
    {
        "privkv": "literature.privkv:PrivKv",
        "privkv-broadcast": "literature.broadcast:BroadcastIndex",
        "privkvm-star": "literature.privkvm_star:PrivKvmStarBoundary",
        "privkvm-star-oue": "literature.boundary_bits:IndexedBoundaryBits",
        "kvue": "index.kvue:KvUe",
        "pckv-ue": "trits.pckv_ue:PckvUe",
        "pckv-grr": "symbol.pckv_grr:PckvGrr",
        "ks-ue": "trits.ks_ue:KsUe",
        "ue-sw": "value.ue_sw:UeSw",
        "grr": "symbol.keys_only:Grr",
        "oue": "symbol.keys_only:Oue",
        "olh": "symbol.keys_only:Olh",
        "subset": "symbol.keys_only:SubsetSelection",
        "krr-harmony": "literature.apart:KrrHarmony",
        "rappor-harmony": "literature.apart:RapporHarmony",
        "oue-harmony": "literature.apart:OueHarmony",
        "bucket": "hash.bucket:Bucket",
        "levels": "index.levels:Levels",
    }
)
_OF_SINGLE_ROUNDS: Mapping[str, str] = MappingProxyType(
    {
        "privkv-split": "literature.privkv:PrivKvSplit",
        "record-size": "symbol.encoded:RecordSizeResponse",
        "record-size-bits": "symbol.encoded:RecordSizeBits",
        "size-class": "symbol.encoded:SizeClassResponse",
        "size-class-wave": "symbol.encoded:SizeClassWave",
        "own-sign": "symbol.encoded:OwnSignResponse",
        "popular-size": "symbol.encoded:PopularSizeResponse",
        "prefix-bucket": "hash.prefix_bucket:PrefixBucket",
    }
)
REGISTRY = Kernels(_ASKED_FOR)
# Beside those that are asked for by name, the mechanisms of single rounds: whatever a round may name.
NAMED = Kernels({**_ASKED_FOR, **_OF_SINGLE_ROUNDS})

_OUTSIDE: dict[str, type[Calibrated]] = {}
_ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def register(cls: type[Calibrated]) -> type[Calibrated]:
    """Make a mechanism of another package known in this process, by its id."""
    is_mechanism = isinstance(cls, type) and issubclass(cls, Calibration)
    if not is_mechanism or not _ID.fullmatch(getattr(cls, "id", "")):
        raise MechanismError(
            f"expected a subclass of keyveil.mechanisms' shapes with an id such as my-own, got {cls!r:.80}"
        )
    if cls.id in NAMED or _OUTSIDE.get(cls.id, cls) is not cls:
        raise MechanismError(f'"{cls.id}" is the id of another mechanism; choose one that is free')
    _OUTSIDE[cls.id] = cls
    return cls


def find_outside(mechanism_id: str) -> type[Calibrated] | None:
    """The mechanism of another package that was registered, or that has an entry point of this name."""
    if mechanism_id in _OUTSIDE or not _ID.fullmatch(mechanism_id):
        return _OUTSIDE.get(mechanism_id)
    # Reads what is installed, which takes a while: only for a name that is not known otherwise.
    from importlib.metadata import entry_points

    for point in entry_points(group="keyveil.mechanisms", name=mechanism_id):
        try:
            found = point.load()
        except Exception as error:
            raise MechanismError(
                f'"{mechanism_id}" comes from {point.value}, which cannot be loaded: {type(error).__name__}'
            ) from None
        if getattr(found, "id", None) != mechanism_id:
            raise MechanismError(f'the entry point "{mechanism_id}" ({point.value}) has another id')
        return register(found)
    return None


def named_class(mechanism_id: str) -> type[Calibrated] | None:
    """The class that a round's mechanism is an instance of, if it is known in this process."""
    return NAMED.get(mechanism_id) or _OUTSIDE.get(mechanism_id)


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
    cls = REGISTRY.get(mechanism_id) or find_outside(mechanism_id)
    if cls is None:
        import difflib

        near = difflib.get_close_matches(mechanism_id, REGISTRY, n=1, cutoff=0.5)
        hint = f'did you mean "{near[0]}"?' if near else f"known are {', '.join(REGISTRY)}"
        raise MechanismError(f'unknown mechanism "{mechanism_id}"; {hint}')
    if not colon:
        return cls, None
    for allocation in cls.allocations:
        if allocation.value == wanted:
            return cls, allocation
    known = ", ".join(allocation.value for allocation in cls.allocations)
    raise MechanismError(f'"{mechanism_id}" has no allocation "{wanted}"; expected one of {known}')
