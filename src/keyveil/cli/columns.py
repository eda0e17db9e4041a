"""Options of the commands that read people's own tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from keyveil.campaign import Campaign
    from keyveil.simulate.pairs import Reading

F = TypeVar("F", bound=Callable[..., Any])

# Those of `simulate.pairs`, which is not imported for a command's help.
_COMBINES = ("mean", "sum", "last", "max")


def column_options(command: F) -> F:
    """Which columns say who, what and how much, and what becomes of rows that repeat a (user, key)."""
    for option in (
        click.option(
            "--combine",
            type=click.Choice(_COMBINES),
            default="mean",
            show_default=True,
            help="What rows that repeat a (user, key) become.",
        ),
        click.option("--value", "value_column", metavar="COLUMN", help="How much; found if left out."),
        click.option("--key", "key_column", metavar="COLUMN", help="What; found if left out."),
        click.option("--user", "user_column", metavar="COLUMN", help="Who; found if left out."),
    ):
        command = option(command)
    return command


skip_option = click.option(
    "--skip", is_flag=True, help="Leave out, and count, rows that lack a user, a key or a number."
)


def read_own(
    path: Path,
    *,
    user_column: str | None,
    key_column: str | None,
    value_column: str | None,
    combine: str,
    **how: Any,
) -> Reading:
    """The people in a table of somebody's own; `how` goes to `read_file`."""
    from keyveil.simulate.pairs import Columns, read_file

    columns = Columns(user=user_column, key=key_column, value=value_column)
    return read_file(path, columns, combine=combine, **how)


def read_for(campaign: Campaign, path: Path, **columns: Any) -> Reading:
    """The people in a table, as a campaign asks about them; what had to be settled is said.

    Columns that are called like the campaign's attributes say what everybody is.
    """
    low, high = campaign.domain.value_range
    how = {"value_range": (low, high), "clamp": True, "segments": campaign.segments, **columns}
    reading = read_own(path, **how).as_asked(campaign.domain)
    tell(reading.settled())
    return reading


def tell(sentences: list[str]) -> None:
    """Say what was read, or settled."""
    for sentence in sentences:
        click.echo(sentence, err=True)
