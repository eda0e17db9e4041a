"""Pages: one self-contained HTML file a paper and an index, with inline SVG and no outside assets."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import matplotlib as mpl
from markupsafe import Markup
from matplotlib.figure import Figure as Canvas

from keyveil.palette import COLOURS, MARKERS
from keyveil.reproduce.experiments import Figure, Paper
from keyveil.reproduce.verdicts import Cells, ClaimVerdict, total

AXES = {
    "epsilon": "epsilon",
    "keys": "number of keys",
    "users": "number of users",
    "pairs_per_user": "padding length",
    "top": "size of the top",
    "subset": "share of keys in the subset",
    "key": "key",
    "mean": "estimated mean, [-1, 1]",
    "mean_g": "g",
    "mean_h": "h",
    "epsilon_exact": "epsilon of the kernel",
    "frequency_mse": "MSE of frequency",
    "mean_mse": "MSE of means",
    "frequency_mse_top": "MSE of frequency, top keys",
    "mean_mse_top": "MSE of means, top keys",
    "mean_mae": "absolute error of means",
    "frequency_mae": "absolute error of frequency",
    "frequency_relative_error_top": "relative error of frequency, top keys",
    "precision_top": "share of the top keys found",
    "ncr_top": "NCR of the top keys",
    "subset_mse": "MSE of subset frequency",
    "wasserstein": "Wasserstein distance",
    "variance_mse": "MSE of variances",
    "correlation": "correlation of frequency and mean",
}
# Printed tables, and ours beside them, are in this unit.
_UNIT = 1e-4
# What stands for a page's own ink while a plot is drawn: no curve has it.
_INK = "#010203"
_LINEAR = ("precision_top", "ncr_top", "correlation", "epsilon_exact", "mean")


@dataclass(slots=True, kw_only=True)
class Result:
    """A paper's evaluation as far as it was run."""

    paper: Paper
    cells: dict[str, Cells] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    verdicts: list[ClaimVerdict] = field(default_factory=list)


def write_pages(results: list[Result], folder: Path, *, quick: bool) -> list[Path]:
    """One page a paper and the index; returns what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = jinja2.Environment(
        loader=jinja2.PackageLoader("keyveil.reproduce", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    written = []
    for result in results:
        figures = [_shown(result, figure) for figure in result.paper.figures]
        page = pages.get_template("paper.html").render(
            paper=result.paper,
            verdicts=result.verdicts,
            totals=total(result.verdicts),
            figures=figures,
            quick=quick,
        )
        written.append(folder / f"{result.paper.id}.html")
        written[-1].write_text(page, encoding="utf-8")
    index = pages.get_template("index.html").render(
        results=[(result, total(result.verdicts)) for result in results],
        totals=total([verdict for result in results for verdict in result.verdicts]),
        quick=quick,
    )
    written.append(folder / "index.html")
    written[-1].write_text(index, encoding="utf-8")
    return written


def _shown(result: Result, figure: Figure) -> dict[str, Any]:
    cells = result.cells.get(figure.id, {})
    return {
        "figure": figure,
        "source": result.paper.sources[figure.population].label,
        "skipped": result.skipped.get(figure.id, ""),
        "plots": [] if not cells else [_plot(figure, metric, cells) for metric in figure.metrics],
        "table": _table(figure, cells) if figure.printed and cells else None,
    }


def _plot(figure: Figure, metric: str, cells: Cells) -> dict[str, Any]:
    """An inline SVG and the words that stand for it."""
    with mpl.rc_context(
        {
            "text.color": _INK,
            "axes.labelcolor": _INK,
            "axes.edgecolor": _INK,
            "xtick.color": _INK,
            "ytick.color": _INK,
            "grid.color": _INK,
            "svg.hashsalt": f"keyveil {figure.id} {metric}",
            "svg.fonttype": "none",
        }
    ):
        svg = _themed(_drawn(figure, metric, cells))
    return {"svg": Markup(svg), "alt": _in_words(figure, metric, cells)}  # noqa: S704


def _drawn(figure: Figure, metric: str, cells: Cells) -> Canvas:
    """Every method's curve with its bars, theory dashed, the paper's own points hollow."""
    canvas = Canvas(figsize=(5.6, 3.9), layout="constrained")
    axes = canvas.subplots()
    for place, method in enumerate(figure.methods):
        found = [(value, cells[method, value]) for value in figure.values if (method, value) in cells]
        found = [(value, cell) for value, cell in found if cell.get(metric) is not None]
        if not found:
            continue
        colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
        if method in figure.printed and metric == figure.metrics[0]:
            printed = [_UNIT * number for number in figure.printed[method]]
            axes.plot(figure.values, printed, marker, color=colour, markerfacecolor="none", markersize=9)
        axes.errorbar(
            [value for value, _ in found],
            [cell[metric] for _, cell in found],
            yerr=[1.96 * (cell.get(f"{metric}_se") or 0.0) for _, cell in found],
            label=method,
            color=colour,
            marker=marker,
            capsize=3,
        )
        theory = [(value, cell.get(f"{metric}_theory")) for value, cell in found]
        if any(expected is not None for _, expected in theory):
            axes.plot(*zip(*theory, strict=True), color=colour, linestyle="--", linewidth=1)
    truth = [(value, cells[place, value]["mean_truth"]) for place, value in cells if metric == "mean"]
    if truth:
        axes.plot(*zip(*sorted(set(truth)), strict=True), color=_INK, linewidth=1, label="truth")
    if metric not in _LINEAR and axes.lines:
        axes.set_yscale("log")
    if figure.sweep in ("users", "keys") and len(figure.values) > 1:
        axes.set_xscale("log")
    axes.set_xlabel(AXES[figure.sweep])
    axes.set_ylabel(AXES.get(metric, metric))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    return canvas


def _themed(canvas: Canvas) -> str:
    """The plot as SVG whose colours are the page's: it follows the theme."""
    out = io.StringIO()
    canvas.savefig(out, format="svg", metadata={"Date": None}, transparent=True)
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor")
    for place, colour in enumerate(COLOURS):
        svg = svg.replace(colour.lower(), f"var(--curve-{place})")
    return svg


def _in_words(figure: Figure, metric: str, cells: Cells) -> str:
    """The first and last point of every curve, for those who do not see the plot."""
    first, last = figure.values[0], figure.values[-1]
    parts = []
    for method in figure.methods:
        ends = [cells.get((method, value), {}).get(metric) for value in (first, last)]
        if all(end is not None for end in ends):
            parts.append(f"{method} from {ends[0]:.3g} to {ends[1]:.3g}")
    name = AXES.get(metric, metric)
    return f"{name} against {AXES[figure.sweep]}, from {first:g} to {last:g}: {'; '.join(parts)}."


def _table(figure: Figure, cells: Cells) -> dict[str, Any]:
    """Ours and the printed numbers side by side, for the first metric, in the papers' unit."""
    metric = figure.metrics[0]
    rows = []
    for place, value in enumerate(figure.values):
        ours = [_number(cells.get((method, value), {}), metric) for method in figure.methods]
        rows.append((f"{value:g}", [*ours, *(f"{row[place]:g}" for row in figure.printed.values())]))
    return {"head": [*figure.methods, *(f"paper: {label}" for label in figure.printed)], "rows": rows}


def _number(cell: dict[str, Any], metric: str) -> str:
    value, error = cell.get(metric), cell.get(f"{metric}_se")
    if value is None:
        return "-"
    said = f"{value / _UNIT:.4g}"
    return said if error is None or math.isnan(error) else f"{said} ± {error / _UNIT:.2g}"
