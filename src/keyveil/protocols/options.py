"""Options of a method as people write them: `rounds=5`, `bins=32`, `smooth=false`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from keyveil.errors import MechanismError


def parse_options(settings: Iterable[str]) -> dict[str, Any]:
    """Names and values; whole numbers, numbers, true and false are read as such.

    >>> parse_options(("rounds=5", "cost=0.1", "smooth=false"))
    {'rounds': 5, 'cost': 0.1, 'smooth': False}
    """
    parsed: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name:
            raise MechanismError(f"an option is written NAME=VALUE, got {setting!r}")
        parsed[name.strip().replace("-", "_")] = _read(text.strip())
    return parsed


def _read(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
