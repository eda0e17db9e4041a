"""`keyveil plan`: what a collection will be able to say, before a single report is collected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from keyveil.errors import PlanError

if TYPE_CHECKING:
    from keyveil.audit import Shuffled
    from keyveil.plan import Plan


@click.command()
@click.option("--users", type=click.IntRange(min=1), help="How many people will answer.")
@click.option("--keys", required=True, type=click.IntRange(min=1), help="How many keys are asked about.")
@click.option("--epsilon", help="The privacy budget of each of them.")
@click.option(
    "--pairs-per-user",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="The most pairs a user holds; sizes are taken to spread evenly from 1 to it.",
)
@click.option("--skew", default="zipf:1.0", show_default=True, help="Key number r is r**-skew as popular.")
@click.option(
    "--want",
    type=click.Choice(["frequency", "mean", "distribution"]),
    default="frequency",
    show_default=True,
    help="What is to be known best.",
)
@click.option("--error", type=float, help="The root mean squared error that is wanted.")
@click.option("--at-frequency", type=float, help="Errors of a key this frequent, not of all (or top) keys.")
@click.option(
    "--top", type=click.IntRange(min=1), default=50, show_default=True, help="How many keys make the top."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option(
    "--plot", type=click.Path(path_type=Path, dir_okay=False), help="Write errors against users as SVG."
)
def plan(
    users: int | None,
    keys: int,
    epsilon: str | None,
    pairs_per_user: int,
    skew: str,
    want: str,
    error: float | None,
    at_frequency: float | None,
    top: int,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Predict errors and choose a mechanism; of --users, --epsilon and --error one may be left out.

    Errors are of the unbiased numbers; `auto` shrinks them and does better where keys are many.
    """
    import numpy as np

    from keyveil.estimate.sizes import SizeLaw
    from keyveil.numerics import parse_epsilon
    from keyveil.plan import Crowd, make_plan

    budget = None if epsilon is None else float(parse_epsilon(epsilon, where="--epsilon"))
    most = min(pairs_per_user, keys)
    law = SizeLaw(sizes=np.arange(1.0, most + 1), shares=np.full(most, 1 / most))
    crowd = Crowd(users=users or 1, n_keys=keys, law=law, skew=_parse_skew(skew))
    made = make_plan(crowd, epsilon=budget, users=users, error=error, want=want, at=at_frequency, top=top)
    if plot is not None:
        from keyveil.plan.plot import write_curves

        write_curves(made, crowd, plot, at=at_frequency, top=top)
        click.echo(f"wrote {plot}", err=True)
    if as_json:
        click.echo(json.dumps({**made.to_fields(), "shuffled": _shuffled(made, keys)._asdict()}, indent=2))
    else:
        _print(made, keys)


def _parse_skew(text: str) -> float:
    kind, _, number = text.partition(":")
    try:
        if kind != "zipf":
            raise ValueError
        return float(number)
    except ValueError:
        raise PlanError(f'--skew must read "zipf:NUMBER", as zipf:1.0, got {text!r}') from None


def _shuffled(made: Plan, keys: int) -> Shuffled:
    """What is left of the choice's epsilon where reports are anonymised and shuffled."""
    from keyveil.audit import shuffled
    from keyveil.mechanisms import build

    first = made.choice
    mechanism = build(
        first.mechanism, first.epsilon, n_keys=keys, pairs_per_user=first.pairs_per_user, **first.options
    )
    return shuffled(mechanism, max(2, first.users))


def _print(made: Plan, keys: int) -> None:
    from keyveil.cli.console import output, table
    from keyveil.plan.predict import labelled

    columns = (
        "mechanism",
        "l",
        "frequency error",
        "mean error" if made.want != "distribution" else "share error",
        "detectable",
        "top found",
        "bits a report",
    )
    rows = [
        (
            labelled(each.mechanism, each.options),
            str(each.pairs_per_user),
            f"{each.frequency_rmse:.3g}",
            _or_dash(each.mean_rmse if made.want != "distribution" else each.share_rmse),
            f"{each.detectable_frequency:.3g}",
            f"{each.precision_top:.0%}",
            str(each.bits_per_report),
        )
        for each in made.candidates
    ]
    first = made.choice
    title = f"{first.users:,} users at epsilon {first.epsilon:g}; best for {made.want} first"
    output().print(table(title, columns, rows))
    for sentence in made.words:
        output().print(f"- {sentence}")
    hidden = _shuffled(made, keys)
    output().print(
        f"- if reports are anonymised and shuffled among all users: central epsilon {hidden.best:.2g} "
        f"at delta {hidden.delta:g} (any mechanism of this epsilon: {hidden.by_clones:.2g})"
    )


def _or_dash(value: float) -> str:
    return "-" if value != value else f"{value:.3g}"
