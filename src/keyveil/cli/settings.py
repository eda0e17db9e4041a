"""`--set NAME=VALUE`: options of a method, such as rounds=5, bins=32 or top=10."""

from __future__ import annotations

from typing import Any

import click

from keyveil.errors import MechanismError

set_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the method, such as rounds=5.",
)


def parse_settings(settings: tuple[str, ...]) -> dict[str, Any]:
    """Names and values; whole numbers, numbers, true and false are read as such.

    >>> parse_settings(("rounds=5", "cost=0.1", "smooth=false"))
    {'rounds': 5, 'cost': 0.1, 'smooth': False}
    """
    parsed: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name:
            raise MechanismError(f"--set expects NAME=VALUE, got {setting!r}")
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
