"""`keyveil zoo`: mechanisms on populations that nobody tuned to."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from keyveil.cli.simulate import split

if TYPE_CHECKING:
    from keyveil.simulate.referee import Verdict


@click.command()
@click.argument("animals", nargs=-1, metavar="[ANIMAL]...")
@click.option("--mechanism", default="auto", show_default=True, help="One or more ids, separated by commas.")
@click.option(
    "--epsilon", default="0.5,1,2,4", show_default=True, help="One or more budgets, separated by commas."
)
@click.option(
    "--users", type=click.IntRange(min=1), help="How many people; each animal's own number if left out."
)
@click.option(
    "--repeats", type=click.IntRange(min=1), default=5, show_default=True, help="Independent runs a cell."
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Repeats the same draws."
)
@click.option(
    "--list", "only_lists", is_flag=True, help="Say what there is, and what each is there to catch."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def zoo(
    animals: tuple[str, ...],
    mechanism: str,
    epsilon: str,
    users: int | None,
    repeats: int,
    seed: int,
    only_lists: bool,
    as_json: bool,
) -> None:
    """Run mechanisms over the zoo's populations (all if none is named): gains and coverage.

    A gain is the squared error of the best of the papers' mechanisms, at its own best padding length, over
    this one's: above 1 is better. Intervals are to hold the truth in 95 % of cases.
    """
    from keyveil.cli.console import progress
    from keyveil.numerics import parse_epsilon
    from keyveil.simulate.referee import referee
    from keyveil.simulate.zoo import ZOO, make

    if only_lists:
        for name, animal in ZOO.items():
            click.echo(f"{name:12} {animal.users:>9,} users {animal.keys:>5,} keys  {animal.catches}")
        return
    named = animals or tuple(ZOO)
    crowds = {name: make(name, users=users, seed=seed) for name in named}
    epsilons = [float(parse_epsilon(text, where="--epsilon")) for text in split(epsilon)]
    mechanisms = split(mechanism)
    found = []
    with progress("refereeing", len(named) * len(mechanisms) * len(epsilons)) as advance:
        for name, crowd in crowds.items():
            for each in mechanisms:
                for budget in epsilons:
                    found.append(referee(name, crowd, each, budget, repeats=repeats, seed=seed))
                    advance(label=f"{name}: {each} at epsilon {budget:g}")
    if as_json:
        click.echo(json.dumps([verdict.to_fields() for verdict in found], indent=2))
    else:
        _print(found)


def _print(found: list[Verdict]) -> None:
    from keyveil.cli.console import output, table

    rows = [
        (
            each.population,
            each.mechanism,
            f"{each.epsilon:g}",
            f"{each.users:,}",
            *(
                f"{gain:.2f} \u00b1{error:.2f}" if gain == gain else "-"
                for gain, error in (
                    (each.frequency_gain, each.frequency_gain_se),
                    (each.frequency_gain_top, each.frequency_gain_top_se),
                    (each.mean_gain_top, each.mean_gain_top_se),
                )
            ),
            *(
                f"{100 * part:.0f} %" if part == part else "-"
                for part in (each.frequency_coverage, each.mean_coverage, each.mean_coverage_informative)
            ),
        )
        for each in found
    ]
    columns = (
        "population",
        "mechanism",
        "epsilon",
        "users",
        "frequency gain",
        "top 50",
        "mean top 50",
        "covered",
        "means",
        "informative",
    )
    output().print(table("Gains over the best of the papers, value \u00b1 standard error", columns, rows))
