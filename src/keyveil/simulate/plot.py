"""Results on disk: the cells as JSON, and one SVG a metric."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from keyveil.palette import COLOURS, MARKERS
from keyveil.simulate.experiment import Cell

PLOTS = {
    "frequency_mse": "mean squared error of frequency, all keys",
    "mean_mse": "mean squared error of means, all keys",
    "frequency_mse_top": "mean squared error of frequency, top keys",
    "mean_mse_top": "mean squared error of means, top keys",
    "precision_top": "share of the top keys found",
}


def write_results(cells: Sequence[Cell], folder: Path, *, source: str) -> list[Path]:
    """Write `cells.json` and the plots; returns what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / "cells.json"]
    written[0].write_text(json.dumps([cell.to_fields() for cell in cells], indent=2) + "\n", encoding="utf-8")
    for metric, label in PLOTS.items():
        path = folder / f"{metric}.svg"
        # A fixed salt and no date: the same cells make the same bytes.
        with mpl.rc_context({"svg.hashsalt": "keyveil", "svg.fonttype": "none"}):
            _figure(cells, metric, label, source).savefig(path, metadata={"Date": None})
        written.append(path)
    return written


def _figure(cells: Sequence[Cell], metric: str, label: str, source: str) -> Figure:
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.subplots()
    names = list(dict.fromkeys(cell.mechanism for cell in cells))
    for place, name in enumerate(names):
        mine = sorted((cell for cell in cells if cell.mechanism == name), key=lambda cell: cell.epsilon)
        axes.errorbar(
            [cell.epsilon for cell in mine],
            [getattr(cell.errors, metric) for cell in mine],
            yerr=[1.96 * getattr(cell.standard_errors, metric) for cell in mine],
            label=name,
            color=COLOURS[place % len(COLOURS)],
            marker=MARKERS[place % len(MARKERS)],
            capsize=3,
        )
    axes.set_xscale("log", base=2)
    epsilons = sorted({cell.epsilon for cell in cells})
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.minorticks_off()
    axes.set_xlabel("epsilon")
    axes.set_ylabel(label)
    if "mse" in metric:
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    first = cells[0]
    axes.set_title(
        f"{source}: {first.users:,} users, {first.keys:,} keys, l = {first.pairs_per_user}, "
        f"post: {first.post}, 95 % over {first.repeats} repeats",
        fontsize=9,
        loc="left",
    )
    return figure
