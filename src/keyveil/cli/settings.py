"""Options that several commands share.

`--set NAME=VALUE`: options of a method, such as rounds=5, bins=32 or top=10. `--token`: who asks a
collector; better given as KEYVEIL_TOKEN, because other users of a machine see arguments. `--want`: what is to
be known best.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

set_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the method, such as rounds=5.",
)


def want_option(default: str) -> Callable[[F], F]:
    """--want, with what is usual for the command."""
    return click.option(
        "--want",
        type=click.Choice(["frequency", "mean", "distribution"]),
        default=default,
        show_default=True,
        help="What is to be known best.",
    )


token_option = click.option(
    "--token",
    envvar="KEYVEIL_TOKEN",
    metavar="TOKEN",
    help="A token of the collector; KEYVEIL_TOKEN in the environment if left out.",
)
