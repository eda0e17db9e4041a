"""`keyveil reproduce`: the papers' tables and figures, ours beside theirs."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import click

from keyveil.errors import MechanismError


@click.command()
@click.argument("papers", nargs=-1, metavar="[PAPER]...")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Where pages go."
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Folder with the real data sets.",
)
@click.option("--quick", is_flag=True, help="Fewer points, repeats and people: two minutes.")
def reproduce(papers: tuple[str, ...], out: Path, data: Path | None, quick: bool) -> None:
    """Rerun the papers' experiments (pckv, privkv, kskv, ue-sw, em; all if none is named).

    Results are kept under OUT/cache and taken from there; an interrupted run goes on where it was.
    """
    from keyveil.cli.console import output, progress, table
    from keyveil.reproduce import PAPERS, count_cells, rerun

    for paper in papers:
        if paper not in PAPERS:
            raise MechanismError(f'unknown paper "{paper}"; expected {", ".join(PAPERS)}')
    started = time.perf_counter()
    with progress("rerunning", count_cells(papers, quick=quick)) as advance:
        results = rerun(papers, out, data=data, quick=quick, progress=lambda label: advance(label=label))
    rows = [
        (
            result.paper.id,
            str(sum(len(cells) for cells in result.cells.values())),
            str(len(result.skipped)),
            ", ".join(f"{n} {fate}" for fate, n in Counter(v.fate for v in result.verdicts).items()),
        )
        for result in results
    ]
    output().print(table("", ("paper", "cells", "figures skipped", "claims"), rows, prose=[3]))
    click.echo(f"{out / 'index.html'}  ({time.perf_counter() - started:.0f} s)")
