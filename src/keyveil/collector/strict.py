"""JSON and TOML read strictly: repeated names, numbers that are none and lone surrogates are refused."""

from __future__ import annotations

import json
import tomllib
from typing import Any, TypeVar

import msgspec

from keyveil.collector.problems import Problem

T = TypeVar("T")


def parse_json(body: bytes, code: str = "bad-request") -> Any:
    """The value of a JSON text.

    >>> parse_json(b'{"a": 1, "a": 2}')
    Traceback (most recent call last):
        ...
    keyveil.collector.problems.Problem: the body is not JSON as it must be: a name is repeated
    """
    try:
        text = body.decode("utf-8")
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_refuse)
        # A lone surrogate is no text: it could be neither hashed nor stored.
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        said = str(error) if isinstance(error, _Strict) else type(error).__name__
        raise Problem(code, f"the body is not JSON as it must be: {said}") from None
    return value


def parse_toml(body: bytes) -> Any:
    """The table of a TOML text."""
    try:
        return tomllib.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise Problem("bad-request", "the body is not TOML") from None


def convert(value: Any, kind: type[T]) -> T:
    """A value of a message's type, or a refusal that names the field."""
    try:
        return msgspec.convert(value, type=kind, strict=True)
    except (msgspec.ValidationError, RecursionError) as error:
        raise Problem("bad-request", str(error)[:300]) from None


class _Strict(ValueError):
    pass


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _Strict("a name is repeated")
    return made


def _refuse(_: str) -> Any:
    raise _Strict("NaN and infinities are no numbers")
