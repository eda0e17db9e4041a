"""`keyveil simulate`: what a collection would have found, on data whose truth is known."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyveil.cli.columns import column_options, read_own, skip_option, tell
from keyveil.cli.promising import central_options, promised
from keyveil.cli.settings import set_option
from keyveil.errors import BudgetError, DomainError, MechanismError
from keyveil.methods import WANTS

if TYPE_CHECKING:
    from keyveil.segments import Segments
    from keyveil.simulate import Cell
    from keyveil.simulate.population import Population


@click.command()
@click.argument("pairs", type=click.Path(path_type=Path))
@click.option(
    "--mechanism", required=True, help="One or more ids, separated by commas (see keyveil mechanisms)."
)
@click.option("--epsilon", help="One or more budgets, separated by commas.")
@click.option(
    "--pairs-per-user", type=int, help="The padding length l; the 90th percentile of sizes if left out."
)
@click.option("--repeats", type=int, default=5, show_default=True, help="Independent runs a cell.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Repeats the same draws."
)
@click.option("--top", type=int, default=50, show_default=True, help="How many top keys to score apart.")
@click.option("--value-range", help="LO,HI; the data's own extremes if left out.")
@click.option("--clamp", is_flag=True, help="Move values outside --value-range to its ends.")
@click.option(
    "--post", default="published", show_default=True, help="published (each paper's own), clip or none."
)
@set_option
@click.option(
    "--want",
    type=click.Choice(WANTS),
    help="What is to be known best, for auto; with distribution, how values are spread is scored.",
)
@click.option(
    "--segment",
    metavar="COLUMN",
    help="Score the users of every value of this column by themselves, as a breakdown has them.",
)
@central_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Write results and SVG plots here."
)
@column_options
@skip_option
def simulate(
    pairs: Path,
    mechanism: str,
    epsilon: str | None,
    pairs_per_user: int | None,
    repeats: int,
    seed: int,
    top: int,
    value_range: str | None,
    clamp: bool,
    post: str,
    settings: tuple[str, ...],
    want: str | None,
    segment: str | None,
    as_json: bool,
    out: Path | None,
    central: float | None,
    delta: float | None,
    batch: int | None,
    honest: float | None,
    **columns: Any,
) -> None:
    """Run mechanisms on the users in PAIRS (CSV, JSON lines or Parquet) and score them.

    Errors of means are on the scale [-1, 1]; keys nobody holds are left out of them.
    """
    from keyveil.cli.console import progress
    from keyveil.numerics import parse_epsilon
    from keyveil.protocols import parse_options
    from keyveil.simulate import run
    from keyveil.simulate.pairs import segments_in

    names = split(mechanism)
    if not names:
        raise MechanismError("--mechanism must name at least one mechanism")
    hidden = promised(central, delta, batch, honest)
    epsilons = [float(parse_epsilon(text, where="--epsilon")) for text in split(epsilon or "")]
    if hidden is not None and epsilon is None:
        from keyveil.plan.central import LARGEST_LOCAL

        epsilons = [LARGEST_LOCAL]
    if not epsilons:
        raise BudgetError("--epsilon must give at least one budget")
    if segment is not None and out is not None:
        raise DomainError("--out draws one crowd; leave it out beside --segment, or take --json")
    apart = None if segment is None else segments_in(pairs, segment)
    how = {"value_range": parse_range(value_range), "clamp": clamp, "segments": apart, **columns}
    reading = read_own(pairs, **how)
    tell(reading.settled())
    parts = {None: reading.population} if apart is None else _parts(reading.population, apart)
    typical = reading.population.typical_size() if pairs_per_user is None else pairs_per_user
    found: list[tuple[str | None, Cell]] = []
    with progress("simulating", len(parts) * len(names) * len(epsilons) * max(repeats, 1)) as advance:
        for value, population in parts.items():
            cells = run(
                population,
                names,
                epsilons,
                pairs_per_user=typical,
                repeats=repeats,
                seed=seed,
                top=top,
                post=post,
                options=parse_options(settings),
                want=want,
                central=hidden,
                progress=lambda label: advance(label=label),
            )
            found += [(value, cell) for cell in cells]
    if out is not None:
        from keyveil.simulate.plot import write_results

        for path in write_results([cell for _, cell in found], out, source=pairs.name):
            click.echo(f"wrote {path}", err=True)
    if as_json:
        rows = [cell.to_fields() | ({} if value is None else {"segment": value}) for value, cell in found]
        click.echo(json.dumps(rows, indent=2))
    else:
        for value in parts:
            _print([cell for of, cell in found if of == value], value)


def _parts(population: Population, apart: Segments) -> dict[str | None, Population]:
    """The users of every value of the only attribute, where any of them holds anything."""
    import numpy as np

    assert population.labels is not None
    (name,) = apart.names
    parts: dict[str | None, Population] = {}
    for label, value in enumerate(apart.values(name)):
        part = population.take(np.flatnonzero(population.labels[:, 0] == label))
        if part.codes.size:
            parts[value] = part
    return parts


def split(text: str) -> list[str]:
    """The words between commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def parse_range(text: str | None) -> tuple[float, float] | None:
    """The two ends in "LO,HI"."""
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise DomainError(f"--value-range must be two numbers LO,HI, got {text!r}") from None
    if not low < high < float("inf") or low == float("-inf"):
        raise DomainError(f"--value-range must be finite with LO below HI, got {text!r}")
    return low, high


def _print(cells: list[Cell], segment: str | None = None) -> None:
    from keyveil.cli.console import output, printable, table

    first, whose = cells[0], "" if segment is None else f"{printable(segment)}: "
    title = (
        f"{whose}{first.users:,} users, {first.keys:,} keys, l = {first.pairs_per_user}, post: {first.post}, "
        f"{first.repeats} repeats; value ± standard error"
    )
    shown = ["frequency_mse", "mean_mse", "frequency_mse_top", "mean_mse_top", "precision_top", "ncr_top"]
    if any(not math.isnan(cell.errors.wasserstein) for cell in cells):
        shown += ["wasserstein", "wasserstein_top"]
    columns = (
        "mechanism",
        "epsilon",
        *(name.replace("_top", f" top {first.top}") for name in shown),
        "seconds",
    )
    rows = [
        (
            cell.mechanism,
            f"{cell.epsilon:g}",
            *(_with_error(getattr(cell.errors, name), getattr(cell.standard_errors, name)) for name in shown),
            f"{cell.seconds:.2f}",
        )
        for cell in cells
    ]
    output().print(table(title, columns, rows))


def _with_error(value: float, error: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:.3g}" if math.isnan(error) else f"{value:.3g} ±{error:.1g}"
