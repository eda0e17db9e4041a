"""From a method's name to its protocol.

What there is to ask for, `keyveil.methods` says; here are the classes that do it, each found by what it
says of itself: which reading of one round's tally it is, or which method's rounds it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from keyveil.errors import MechanismError, ProtocolError
from keyveil.mechanisms import build
from keyveil.methods import MECHANISM_OPTIONS, find_method
from keyveil.protocols.auto import Auto, tuning
from keyveil.protocols.base import Protocol
from keyveil.protocols.ks_grr import KsGrr
from keyveil.protocols.literature.one_round import KeysAndValuesApart, PrivKvEm, PrivKvMle
from keyveil.protocols.literature.privkvm import PrivKvm, PrivKvmPlus, PrivKvmVirtual
from keyveil.protocols.literature.star import PrivKvmStar
from keyveil.protocols.one_round import KeysOnly, OneRound, UnarySquareWave
from keyveil.protocols.unknown import OpenKeys
from keyveil.rounds import ONE_ROUND

# Where a campaign does not say how many will answer.
EXPECTED_USERS = 100_000

_READINGS: Mapping[str, type[OneRound]] = MappingProxyType(
    {
        cls.reading: cls
        for cls in (OneRound, KeysOnly, KeysAndValuesApart, PrivKvEm, PrivKvMle, UnarySquareWave)
    }
)
_SEVERAL_ROUNDS: Mapping[str, Any] = MappingProxyType(
    {cls.id: cls for cls in (PrivKvm, PrivKvmPlus, PrivKvmVirtual, PrivKvmStar, KsGrr, Auto, OpenKeys)}
)


def versions(name: str) -> tuple[str, ...]:
    """What rounds say of the protocol that opened them: the versions of a method's, the newest last.

    >>> versions("kvue"), versions("privkvm")
    (('one-round/1',), ('privkvm/1',))
    """
    method_id = name.partition(":")[0]
    if not find_method(name)[0].has_several_rounds:
        return (ONE_ROUND,)
    protocol = _SEVERAL_ROUNDS[method_id]
    numbers = sorted(tuning.TUNINGS) if protocol is Auto else [protocol.version]
    return tuple(f"{protocol.id}/{number}" for number in numbers)


def build_protocol(
    name: str,
    epsilon: object,
    *,
    n_keys: int,
    pairs_per_user: int = 1,
    version: str | None = None,
    **options: Any,
) -> Protocol:
    """The protocol called `name` at `epsilon`; the newest, or the version that a round says opened it.

    >>> build_protocol("privkvm", 1.0, n_keys=10, rounds=4).start("campaign").purpose
    'frequencies and first means'
    >>> build_protocol("privkmv", 1.0, n_keys=10)
    Traceback (most recent call last):
        ...
    keyveil.errors.MechanismError: unknown mechanism "privkmv"; did you mean "privkv"?
    """
    known = versions(name)
    if version is not None and version not in known:
        raise ProtocolError(
            f'"{name}" is continued as {", ".join(known)} here, got a round of "{version[:60]}"; '
            "run the keyveil that opened it, or a newer one"
        )
    if version is not None and _SEVERAL_ROUNDS.get(name.partition(":")[0]) is Auto:
        options["version"] = int(version.rpartition("/")[2])
    try:
        if find_method(name)[0].has_several_rounds:
            return _several_rounds(name, epsilon, n_keys, pairs_per_user, options)
        return _one_round(name, epsilon, n_keys, pairs_per_user, options)
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise
        raise MechanismError(f'"{name}" has no such option: {str(error).rpartition(" ")[2]}') from None


def _one_round(
    name: str, epsilon: object, n_keys: int, pairs_per_user: int, options: dict[str, Any]
) -> Protocol:
    method, allocation = find_method(name)
    mechanism = build(
        f"{method.mechanism}:{allocation}" if allocation else f"{method.mechanism}",
        epsilon,
        n_keys=n_keys,
        pairs_per_user=pairs_per_user,
        **{key: options.pop(key) for key in MECHANISM_OPTIONS if key in options},
    )
    return _READINGS[method.reading](mechanism=mechanism, **options)


def _several_rounds(
    name: str, epsilon: object, n_keys: int, pairs_per_user: int, options: dict[str, Any]
) -> Protocol:
    protocol = _SEVERAL_ROUNDS[name.partition(":")[0]]
    if protocol is OpenKeys and "code" not in options:
        raise MechanismError(
            '"open" searches for keys that nobody listed; it needs a campaign with keys = "open"'
        )
    if find_method(name)[0].needs_users:
        options.setdefault("users", EXPECTED_USERS)
    if "pairs_per_user" in {field.name for field in fields(protocol)}:
        options["pairs_per_user"] = pairs_per_user
    if options.get("promise") is not None:
        options.setdefault("version", tuning.PROMISED)
    made: Protocol = protocol(epsilon=epsilon, n_keys=n_keys, **options)
    return made
