"""What a relay is planned or simulated for: --central, --delta, --batch, --honest."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from keyveil.errors import BudgetError

if TYPE_CHECKING:
    from keyveil.plan import Central

# The chance that a central promise leaves aside where nothing is said.
DELTA = 1e-8

_OPTIONS = (
    click.option(
        "--central",
        type=float,
        metavar="E",
        help="What a collector may learn of a person where a relay hides reports: --epsilon is then the most "
        "that a report tells by itself, and may be left out.",
    ),
    click.option("--delta", type=float, help="The chance that --central leaves aside; 1e-8 if left out."),
    click.option(
        "--batch", type=int, help="How many reports the relay forwards at once, at least; four fifths of all."
    ),
    click.option("--honest", type=float, help="The share of a batch that is taken to be honest; 0.5."),
)


def central_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The four options."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def promised(
    central: float | None, delta: float | None, batch: int | None, honest: float | None
) -> Central | None:
    """What a relay is to keep, if there is one."""
    from keyveil.plan import Central

    if central is None:
        if (delta, batch, honest) != (None, None, None):
            raise BudgetError("--delta, --batch and --honest say more of --central E: say that, too")
        return None
    share = {} if honest is None else {"honest": honest}
    return Central(epsilon=central, delta=DELTA if delta is None else delta, batch=batch, **share).checked()
