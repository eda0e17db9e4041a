"""One chart for all: keys with their frequencies and means, intervals on every number, the truth if known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from keyveil.palette import COLOURS

Floats = NDArray[np.float64]

_LONGEST_LABEL = 28
# Inches around the lines of a chart, and for each of them.
_AROUND, _LINE = 1.2, 0.32


def draw(
    rows: Sequence[Mapping[str, Any]],
    *,
    value_range: tuple[float, float],
    unit: str | None = None,
    truth: Sequence[tuple[float, float | None]] | None = None,
) -> Figure:
    """Frequencies on the left, means on the right, a line a key; `truth` has both of each key.

    Rows are those of a release. A mean of which nothing is known has no bar.
    """
    figure = Figure(figsize=(11, _AROUND + _LINE * len(rows)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    places = np.arange(len(rows))[::-1]
    _bars(
        left,
        places,
        [
            tuple(100 * _number(row[name]) for name in ("frequency", "frequency_low", "frequency_high"))
            for row in rows
        ],
        None if truth is None else [100 * share for share, _ in truth],
    )
    known = [at for at, row in enumerate(rows) if row["mean"] is not None]
    _bars(
        right,
        places[known],
        [tuple(rows[at][name] for name in ("mean", "mean_low", "mean_high")) for at in known],
        None if truth is None else [np.nan if (mean := truth[at][1]) is None else mean for at in known],
    )
    left.set_yticks(places, [_label(row.get("name", row["key"])) for row in rows])
    left.set(xlabel="% of people", title="How many hold it")
    right.set(xlabel=unit or "mean value", title="How much, among those who do", xlim=value_range)
    for axes in (left, right):
        axes.grid(axis="x", alpha=0.3)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(left=False)
    if rows:
        left.legend(frameon=False, fontsize=8, loc="lower right")
    return figure


def draw_distribution(
    marks: Floats,
    shares: Floats,
    band: tuple[Floats, Floats],
    median: tuple[float, float, float],
    *,
    title: str,
    unit: str | None = None,
) -> Figure:
    """Shares of values by marks in their band, and below them the median in its interval."""
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    width = 0.8 * float(np.min(np.diff(marks)))
    low, high = (100 * end for end in band)
    said = "95 % band, for all shares together"
    axes.bar(marks, 100 * shares, width, color=COLOURS[0], alpha=0.8, label="share of values")
    axes.vlines(marks, low, high, color=COLOURS[0], alpha=0.4, linewidth=5, label=said)
    below = -0.06 * float(np.max(high, initial=1.0))
    axes.hlines(below, *median[1:], color=COLOURS[1], linewidth=4, alpha=0.5)
    axes.plot(median[0], below, "o", color=COLOURS[1], markersize=5, label="median, 95 % interval")
    axes.set(xlabel=unit or "value", ylabel="% of values", title=_label(title))
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    return figure


def _bars(axes: Any, places: Any, found: Sequence[tuple[float, ...]], truth: Sequence[float] | None) -> None:
    if not found:
        return
    middle, low, high = np.array(found).T
    axes.hlines(places, low, high, color=COLOURS[0], alpha=0.4, linewidth=5, label="95 % interval")
    axes.plot(middle, places, "o", color=COLOURS[0], markersize=5, label="found")
    if truth is not None:
        axes.plot(truth, places, "|", color=COLOURS[1], markersize=13, markeredgewidth=2.5, label="truth")


def _number(cell: float | None) -> float:
    """What is not known is not drawn."""
    return np.nan if cell is None else cell


def _label(key: str) -> str:
    """A key's name, cut in the middle so that both ends are seen; a dollar sign is no formula.

    >>> _label("a" * 20 + "b" * 20)
    'aaaaaaaaaaaaaaaa\u2026bbbbbbbbbbb'
    """
    short = key if len(key) <= _LONGEST_LABEL else f"{key[:16]}\u2026{key[-11:]}"
    return short.replace("$", r"\$")
