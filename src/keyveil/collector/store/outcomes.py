"""The outcome of a finished campaign as bytes: a line of JSON, the arrays behind it, a checksum.

What was found is stored, not found again: a later version may estimate otherwise, and a release that was
read must stay what it was. Arrays are kept bit for bit, equal ones once; numbers in the JSON come back as
they were. The classes below and their fields are the format: whoever renames one writes a new VERSION
and reads the old.
"""

from __future__ import annotations

import json
import math
import zlib
from dataclasses import dataclass, fields, is_dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.collector.store.base import OutcomeRow
from keyveil.errors import StoreError
from keyveil.estimate import Distribution, Estimates, Spread
from keyveil.estimate.influence import Lever, Levers, Statement, TransformedLever
from keyveil.estimate.sizes import SizeAnswers, SizeLaw, Truncation, Unheard
from keyveil.estimate.whole import EitherUnheard, Truncations
from keyveil.mechanisms import Moments
from keyveil.protocols import Found, Outcome

VERSION = 4
_LISTED: dict[str, dict[str, Any]] = {"Outcome": {"found": None}}
_WITHOUT_SPREAD: dict[str, dict[str, Any]] = {
    "Outcome": {"found": None, "spread": None},
    "Distribution": {"steps": ()},
}
# What older formats left unsaid of a kind, because it was so of all.
BEFORE: dict[int, dict[str, dict[str, Any]]] = {
    1: {"Estimates": {"means_apart": True}, **_WITHOUT_SPREAD},
    2: _WITHOUT_SPREAD,
    3: _LISTED,
    VERSION: {},
}
# By the names that stored outcomes know; a class that is renamed keeps the name of its kind.
KINDS: dict[str, type[Any]] = {
    "Outcome": Outcome,
    "Found": Found,
    "Estimates": Estimates,
    "Distribution": Distribution,
    "Spread": Spread,
    "Moments": Moments,
    "Lever": Lever,
    "Levers": Levers,
    "Said": Statement,
    "Bent": TransformedLever,
    "Truncation": Truncation,
    "Truncations": Truncations,
    "SizeLaw": SizeLaw,
    "SizeAnswers": SizeAnswers,
    "Unheard": Unheard,
    "EitherUnheard": EitherUnheard,
}
_KIND_OF = {kind: name for name, kind in KINDS.items()}
_DTYPES = {"f": "<f8", "i": "<i8", "b": "|b1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What a finished campaign found, and the epsilon that its rounds really cost together."""

    outcome: Outcome
    epsilon_exact: float


def pack_outcome(finished: Finished) -> OutcomeRow:
    """What `unpack_outcome` reads."""
    arrays: dict[tuple[str, tuple[int, ...], bytes], int] = {}
    said = {
        "epsilon_exact": finished.epsilon_exact,
        "outcome": _to_json(finished.outcome, arrays),
        "arrays": [[dtype, shape] for dtype, shape, _ in arrays],
    }
    body = b"".join((json.dumps(said, allow_nan=False).encode(), b"\n", *(data for _, _, data in arrays)))
    return OutcomeRow(version=VERSION, body=zlib.crc32(body).to_bytes(4, "little") + body)


def unpack_outcome(row: OutcomeRow, *, campaign: str) -> Finished:
    """What `pack_outcome` wrote, or a refusal where a byte has changed."""
    if row.version not in BEFORE:
        raise StoreError(
            f"the outcome of campaign {campaign[:12]} is stored in format {row.version}, this keyveil reads "
            f"formats up to {VERSION}; install the keyveil that wrote it or a newer one"
        )
    body = row.body
    if len(body) < 4 or zlib.crc32(body[4:]).to_bytes(4, "little") != body[:4]:
        raise StoreError(
            f"the stored outcome of campaign {campaign[:12]} is damaged: its checksum does not match",
            damaged=True,
        )
    head, _, data = body[4:].partition(b"\n")
    try:
        said = json.loads(head)
        outcome = _from_json(said["outcome"], _arrays(said["arrays"], data), BEFORE[row.version])
        return Finished(outcome=outcome, epsilon_exact=said["epsilon_exact"])
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"the stored outcome of campaign {campaign[:12]} cannot be read here: {error}; "
            "run the keyveil that finished the campaign"
        ) from None


def _to_json(value: Any, arrays: dict[tuple[str, tuple[int, ...], bytes], int]) -> Any:
    """JSON for a value: objects name their class, arrays their place, tuples and odd numbers themselves."""
    if isinstance(value, np.ndarray):
        packed = value.astype(_DTYPES[value.dtype.kind])
        return {"array": arrays.setdefault((packed.dtype.str, value.shape, packed.tobytes()), len(arrays))}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    names = _names(type(value))
    if names is not None:
        return {
            "kind": _KIND_OF[type(value)],
            "fields": {name: _to_json(getattr(value, name), arrays) for name in names},
        }
    if isinstance(value, tuple):
        return {"tuple": [_to_json(each, arrays) for each in value]}
    raise StoreError(f"an outcome with a {type(value).__name__} in it cannot be stored")


def _from_json(said: Any, arrays: list[NDArray[Any]], unsaid: dict[str, dict[str, Any]]) -> Any:
    if not isinstance(said, dict):
        return said
    if "array" in said:
        return arrays[said["array"]]
    if "float" in said:
        return float(said["float"])
    if "tuple" in said:
        return tuple(_from_json(each, arrays, unsaid) for each in said["tuple"])
    kind, fields_said = said["kind"], said["fields"].items()
    known = {name: _from_json(each, arrays, unsaid) for name, each in fields_said}
    return KINDS[kind](**unsaid.get(kind, {}), **known)


def _names(kind: type[Any]) -> tuple[str, ...] | None:
    """The fields of a class that is part of the format."""
    if kind not in _KIND_OF:
        return None
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else kind._fields


def _arrays(heads: list[tuple[str, list[int]]], data: bytes) -> list[NDArray[Any]]:
    sizes = [math.prod(shape) * np.dtype(dtype).itemsize for dtype, shape in heads]
    ends = pairwise(accumulate(sizes, initial=0))
    found = []
    for (dtype, shape), (low, high) in zip(heads, ends, strict=True):
        found.append(np.frombuffer(data[low:high], dtype=dtype).reshape(shape).copy())
        found[-1].setflags(write=False)
    return found
