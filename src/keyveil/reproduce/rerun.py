"""The papers' evaluations, rerun: figure by figure, resumable, with a page of whatever is done."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from keyveil.errors import PairsError
from keyveil.reproduce.cells import population, solve_figure
from keyveil.reproduce.experiments import PAPERS, Figure, Paper, load
from keyveil.reproduce.pages import Result, write_pages
from keyveil.reproduce.verdicts import judge


def rerun(
    papers: Sequence[str],
    out: Path,
    *,
    data: Path | None = None,
    quick: bool = False,
    progress: Callable[[str], None] = lambda _label: None,
) -> list[Result]:
    """Run, judge and write pages and tables; an interrupted run leaves pages of what is done."""
    chosen = [load(paper).quick() if quick else load(paper) for paper in papers or PAPERS]
    results = [Result(paper=paper) for paper in chosen]
    try:
        for result in results:
            for figure in result.paper.figures:
                _run_figure(result, figure, out / "cache", data, progress)
    finally:
        for result in results:
            figures = {figure.id: figure for figure in result.paper.figures}
            result.verdicts = [
                judge(claim, figures[claim.figure], result.cells.get(claim.figure, {}))
                for claim in result.paper.claims
            ]
            _write_csv(result, out / f"{result.paper.id}.csv")
        write_pages(results, out, quick=quick)
    return results


def count_cells(papers: Sequence[str], *, quick: bool) -> int:
    """How many cells a run has, for a progress bar."""
    chosen: list[Paper] = [load(paper).quick() if quick else load(paper) for paper in papers or PAPERS]
    return sum(len(figure.methods) * len(figure.values) for paper in chosen for figure in paper.figures)


def _run_figure(
    result: Result, figure: Figure, cache: Path, data: Path | None, progress: Callable[[str], None]
) -> None:
    source = result.paper.sources[figure.population]
    try:
        if source.file:
            population(source, data)
    except PairsError as reason:
        result.skipped[figure.id] = str(reason)
        for _ in range(len(figure.methods) * len(figure.values)):
            progress(f"{result.paper.id} {figure.id}")
        return
    cells = result.cells.setdefault(figure.id, {})
    for place, cell in solve_figure(figure, source, cache, data):
        cells[place] = cell
        progress(f"{result.paper.id} {figure.id}")


def _write_csv(result: Result, path: Path) -> None:
    """All cells of a paper in one table."""
    rows: list[dict[str, Any]] = [
        {"figure": figure, "swept": value, **cell}
        for figure, cells in result.cells.items()
        for (_, value), cell in cells.items()
    ]
    columns = list(dict.fromkeys(name for row in rows for name in row if name != "seconds"))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="", extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows
        )
