"""Every method a person can ask for, by id: a mechanism, its rounds, and what is made of them.

`pckv-ue:naive` names a method and an allocation other than its default.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from keyveil.errors import MechanismError, ProtocolError
from keyveil.mechanisms import REGISTRY, build
from keyveil.numerics import parse_epsilon
from keyveil.protocols.auto import TUNINGS, Auto
from keyveil.protocols.base import Rounds
from keyveil.protocols.ks_grr import KsGrr
from keyveil.protocols.one_round import (
    KeysAndValuesApart,
    KeysOnly,
    OneRound,
    PrivKvEm,
    PrivKvMle,
    UnarySquareWave,
)
from keyveil.protocols.privkvm import PrivKvm, PrivKvmPlus, PrivKvmVirtual
from keyveil.protocols.star import PrivKvmStar
from keyveil.rounds import ONE_ROUND

Factory = Callable[..., Rounds]


@dataclass(frozen=True, slots=True)
class Method:
    """How to build a protocol, what it does in one line, and which allocations its name may ask for."""

    what: str
    build: Factory
    allocations: tuple[str, ...] = ()
    gives_distribution: bool = False
    needs_users: bool = False
    """Whether it makes a difference how many users are expected."""
    protocols: tuple[str, ...] = (ONE_ROUND,)
    """What rounds say of the protocol that opened them: its versions, the newest last."""


def _one_round(name: str, protocol: type[OneRound] = OneRound) -> Factory:
    def make(
        epsilon: object, *, n_keys: int, pairs_per_user: int, allocation: str = "", **options: Any
    ) -> Rounds:
        mechanism = build(
            f"{name}:{allocation}" if allocation else name,
            epsilon,
            n_keys=n_keys,
            pairs_per_user=pairs_per_user,
            **{
                key: options.pop(key)
                for key in ("bins", "half_width", "cohorts", "buckets", "rho")
                if key in options
            },
        )
        return protocol(mechanism=mechanism, **options)

    return make


def _rounds(protocol: Callable[..., Rounds], *, padded: bool = False) -> Factory:
    def make(
        epsilon: object, *, n_keys: int, pairs_per_user: int, allocation: str = "", **options: Any
    ) -> Rounds:
        if padded:
            options["pairs_per_user"] = pairs_per_user
        return protocol(epsilon=epsilon, n_keys=n_keys, **options)

    return make


def _planned(epsilon: object, *, allocation: str = "", users: int = 100_000, **options: Any) -> Rounds:
    return Auto(epsilon=parse_epsilon(epsilon), users=users, **options)


def _allocations(name: str) -> tuple[str, ...]:
    return tuple(allocation.value for allocation in REGISTRY[name].allocations)


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "privkv": Method("an index, held or not, a sign", _one_round("privkv"), _allocations("privkv")),
        "privkvm": Method(
            "c rounds; non-holders speak for the last mean", _rounds(PrivKvm), protocols=("privkvm/1",)
        ),
        "privkvm-plus": Method(
            "rounds that spend half of what is left until means settle",
            _rounds(PrivKvmPlus),
            protocols=("privkvm-plus/1",),
        ),
        "privkvm-virtual": Method(
            "real rounds, then predicted ones", _rounds(PrivKvmVirtual), protocols=("privkvm-virtual/1",)
        ),
        "privkv-em": Method("PrivKV's reports, four-state EM as published", _one_round("privkv", PrivKvEm)),
        "privkv-mle": Method(
            "PrivKV's reports, exact three-state likelihood", _one_round("privkv", PrivKvMle)
        ),
        "privkvm-star": Method(
            "values as boundaries; all keys, then the heavy ones",
            _rounds(PrivKvmStar),
            gives_distribution=True,
            protocols=("privkvm-star/1",),
        ),
        "kvue": Method("an index, absent or + or - at once", _one_round("kvue"), _allocations("kvue")),
        "pckv-ue": Method("one noisy trit per key", _one_round("pckv-ue"), _allocations("pckv-ue")),
        "pckv-grr": Method("one signed key, amplified", _one_round("pckv-grr"), _allocations("pckv-grr")),
        "ks-ue": Method(
            "one noisy trit per key, rarer wrong signs", _one_round("ks-ue"), _allocations("ks-ue")
        ),
        "ks-grr": Method(
            "candidates by hashing, then signed keys among them",
            _rounds(KsGrr, padded=True),
            protocols=("ks-grr/1",),
        ),
        "ue-sw": Method(
            "one noisy value per key; whole distributions",
            _one_round("ue-sw", UnarySquareWave),
            _allocations("ue-sw"),
            gives_distribution=True,
        ),
        "bucket": Method("whole records hashed to a few buckets, one told", _one_round("bucket")),
        "levels": Method("an index, absent or a level of the value at once", _one_round("levels")),
        "auto": Method(
            "the planner's choice for what the sizes turn out to be",
            _planned,
            needs_users=True,
            protocols=tuple(f"auto/{version}" for version in sorted(TUNINGS)),
        ),
        "krr-harmony": Method(
            "baseline: key by randomized response, sign apart", _one_round("krr-harmony", KeysAndValuesApart)
        ),
        "rappor-harmony": Method(
            "baseline: symmetric bits, sign apart", _one_round("rappor-harmony", KeysAndValuesApart)
        ),
        "oue-harmony": Method(
            "baseline: optimised bits, sign apart", _one_round("oue-harmony", KeysAndValuesApart)
        ),
        "grr": Method("keys only: randomized response", _one_round("grr", KeysOnly)),
        "oue": Method("keys only: optimised bits", _one_round("oue", KeysOnly)),
        "olh": Method("keys only: a hash and randomized response", _one_round("olh", KeysOnly)),
    }
)


def find_method(name: str) -> tuple[Method, str]:
    """The method behind a name, and the allocation that the name asks for."""
    method_id, _, allocation = name.partition(":")
    if method_id not in METHODS:
        near = difflib.get_close_matches(method_id, METHODS, n=1, cutoff=0.5)
        hint = f'did you mean "{near[0]}"?' if near else f"known are {', '.join(METHODS)}"
        raise MechanismError(f'unknown mechanism "{method_id}"; {hint}')
    method = METHODS[method_id]
    if allocation and allocation not in method.allocations:
        known = ", ".join(method.allocations) or "only its own"
        raise MechanismError(f'"{method_id}" has no allocation "{allocation}"; expected {known}')
    return method, allocation


def build_protocol(
    name: str,
    epsilon: object,
    *,
    n_keys: int,
    pairs_per_user: int = 1,
    version: str | None = None,
    **options: Any,
) -> Rounds:
    """The protocol called `name` at `epsilon`; the newest, or the version that a round says opened it.

    >>> build_protocol("privkvm", 1.0, n_keys=10, rounds=4).start("campaign").purpose
    'frequencies and first means'
    >>> build_protocol("privkmv", 1.0, n_keys=10)
    Traceback (most recent call last):
        ...
    keyveil.errors.MechanismError: unknown mechanism "privkmv"; did you mean "privkv"?
    """
    method, allocation = find_method(name)
    if version is not None and version not in method.protocols:
        raise ProtocolError(
            f'"{name}" is continued as {", ".join(method.protocols)} here, got a round of "{version[:60]}"; '
            "run the keyveil that opened it, or a newer one"
        )
    if version is not None and len(method.protocols) > 1:
        options["version"] = int(version.rpartition("/")[2])
    try:
        return method.build(
            epsilon, n_keys=n_keys, pairs_per_user=pairs_per_user, allocation=allocation, **options
        )
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise
        raise MechanismError(f'"{name}" has no such option: {str(error).rpartition(" ")[2]}') from None
