"""What people see: tables, bars, progress. Progress goes to stderr, and only to a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from rich.console import RenderableType

# A pipe has no width; a table must not be folded because of that.
_PIPE_WIDTH = 132


class Advance(Protocol):
    """Moves a progress bar on, and may rename it."""

    def __call__(self, steps: int = 1, label: str | None = None) -> None:
        """Advance by `steps`."""


def honesty(*, alarm: bool, n_tests: int, p: float, what: str) -> str:
    """In one line whether reports are honest noise, as `audit.reports` found; `what` was oddest."""
    if alarm:
        return f"NOT honest noise: {what} (p = {p:.2g})"
    return f"no attack that can be seen ({n_tests} tests, p = {p:.2g})"


def output() -> Console:
    """Standard output, wide enough for a table even in a pipe."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_PIPE_WIDTH)


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Advance]:
    """A progress bar on a terminal, nothing in a pipe; `total` = None where the end is not known."""
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task(label, total=total)

        def advance(steps: int = 1, label: str | None = None) -> None:
            bars.update(task, advance=steps, description=label)

        yield advance


def printable(cell: object) -> str:
    """A cell as text that cannot move the cursor: names are somebody else's."""
    text = "" if cell is None else str(cell)
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[RenderableType]]) -> Table:
    """A plain table; every column but the first is right-aligned."""
    made = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for place, name in enumerate(columns):
        made.add_column(name, justify="left" if place == 0 else "right", no_wrap=True)
    for row in rows:
        made.add_row(*row)
    return made
