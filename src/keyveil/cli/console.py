"""What people see: tables, bars, progress. Progress goes to stderr, and only to a terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, RenderableType, RenderResult

# A pipe has no width; a table must not be folded because of that.
_PIPE_WIDTH = 132
# Blanks between two columns; a width that no cell has.
_GAP, _ANY_WIDTH = 2, 10_000


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


@dataclass(frozen=True, slots=True)
class Fitted:
    """A table in as many pieces as it takes to fit the screen, each with the first column.

    Numbers are never cut, and what they are is never cut either; prose folds.

    >>> wide = Fitted("", ("of", "first", "second"), (("all", "12345678", "87654321"),))
    >>> Console(width=15).print(wide)
    of      first
    all  12345678
    of     second
    all  87654321
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[RenderableType]]
    prose: Collection[int] = ()
    """Columns of words, which stand left and may fold."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The pieces, one below the other."""
        room = options.max_width
        first, *widths = (self._width(place, console, options) for place in range(len(self.columns)))
        # A long name is cut before a number is.
        least = min(first, room // 3)
        piece: dict[int, int] = {}
        for place, width in enumerate(widths, 1):
            if piece and least + _beside(piece.values()) + _GAP + width > room:
                yield self._piece(piece, min(first, room - _beside(piece.values())))
                piece = {}
            piece[place] = width
        yield self._piece(piece, min(first, max(least, room - _beside(piece.values()))))

    def _width(self, place: int, console: Console, options: ConsoleOptions) -> int:
        """How wide a column must be: as its widest cell, or for prose as its longest word."""
        cells = [Text(self.columns[place]), *(row[place] for row in self.rows)]
        measured = [Measurement.get(console, options.update(max_width=_ANY_WIDTH), cell) for cell in cells]
        return max(each.minimum if place in self.prose else each.maximum for each in measured)

    def _piece(self, widths: Mapping[int, int], first: int) -> Table:
        title = self.title if 1 in widths else None
        made = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
        made.add_column(self.columns[0], no_wrap=True, width=first)
        for place, width in widths.items():
            if place in self.prose:
                made.add_column(self.columns[place])
            else:
                made.add_column(self.columns[place], justify="right", no_wrap=True, width=width)
        for row in self.rows:
            made.add_row(row[0], *(row[place] for place in widths))
        return made


def _beside(widths: Collection[int]) -> int:
    """How much room columns take beside the first."""
    return sum(widths) + _GAP * len(widths)


def table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[RenderableType]], prose: Collection[int] = ()
) -> Fitted:
    """A plain table; every column but the first, and those of prose, is right-aligned."""
    return Fitted(title, columns, rows, prose)
