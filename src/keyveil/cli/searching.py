"""Keys that nobody listed: `keyveil simulate --open` searches data for them, `keyveil plan --open` says first
which popularity will be found.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from keyveil.errors import DomainError, PlanError

if TYPE_CHECKING:
    from keyveil.plan.searching import Search
    from keyveil.simulate.population import Population

# What a plan of a search heeds; all else is said of keys that are listed.
_PLANNED = ("is_open", "longest", "popularity", "users", "epsilon", "pairs_per_user", "value_range", "unit")
_SAID_OPEN = ("longest", "popularity")


def search_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--open` of `keyveil plan`, and what goes with it."""
    for option in (
        click.option(
            "--popularity",
            type=float,
            metavar="SHARE",
            help="With --open, the share of users that hold the rarest key which is to be found; leave out "
            "--users or --epsilon.",
        ),
        click.option(
            "--longest",
            type=int,
            default=96,
            show_default=True,
            help="With --open, how many bits of a key are said.",
        ),
        click.option("--open", "is_open", is_flag=True, help="Plan a search for keys that nobody listed."),
    ):
        command = option(command)
    return command


def check_said(context: click.Context, is_open: bool) -> None:
    """Refuse options that do not go with a search, or with nothing else."""
    options = {option.name: option.opts[-1] for option in context.command.params}
    said = {name for name in options if context.get_parameter_source(name) is not ParameterSource.DEFAULT}
    if is_open and (others := sorted(options[name] for name in said - {*_PLANNED, "as_json", "write"})):
        raise PlanError(f"--open plans a search for keys that nobody listed; leave out {', '.join(others)}")
    if not is_open and (lost := [options[name] for name in _SAID_OPEN if name in said]):
        raise PlanError(f"--open is missing, a search for keys that nobody listed, for {', '.join(lost)}")


def plan_search(
    *,
    users: int | None,
    epsilon: str | None,
    pairs_per_user: int,
    longest: int,
    popularity: float | None,
    as_json: bool,
) -> Search:
    """Work out what a search will find, and say it; what is left out follows from the popularity."""
    from keyveil.domain import TextCode
    from keyveil.numerics import parse_epsilon
    from keyveil.plan.popularity import beside, fewest_users, least_epsilon
    from keyveil.plan.searching import Search

    TextCode(longest=longest)
    budget = None if epsilon is None else parse_epsilon(epsilon, where="--epsilon")
    if (users, budget).count(None) > (popularity is not None):
        raise PlanError("say --users and --epsilon, or one of them and --popularity")
    if users is None:
        assert popularity is not None
        found = fewest_users(popularity, epsilon=budget, longest=longest, pairs_per_user=pairs_per_user)
    elif budget is None:
        assert popularity is not None
        found = least_epsilon(popularity, users=users, longest=longest, pairs_per_user=pairs_per_user)
    else:
        found = Search.of(epsilon=budget, longest=longest, pairs_per_user=pairs_per_user, users=users)
    others = beside(found)
    if as_json:
        levels = [
            {"bits": level.bits, "step": level.step, "share": float(level.share)} for level in found.levels()
        ]
        said = {
            **_planned(found),
            "pairs_per_user": pairs_per_user,
            "longest": longest,
            "popularity": popularity,
            "kept": found.kept,
            "levels": levels,
            "beside": [_planned(each) for each in others],
        }
        click.echo(json.dumps(said, indent=2))
    else:
        _print_plan(found, others, popularity)
    return found


def _planned(search: Search) -> dict[str, Any]:
    """What a search finds; nulls where it finds nothing."""
    least = search.detectable()
    return {
        "users": search.users,
        "epsilon": float(search.epsilon),
        "detectable": least if least <= 1 else None,
        "frequency_error": search.error(least) if least <= 1 else None,
        "rounds": len(search.levels()) + 1,
        "measuring_share": float(search.left),
    }


def _print_plan(found: Search, others: list[Search], popularity: float | None) -> None:
    from keyveil.cli.console import output, table
    from keyveil.client import Caps
    from keyveil.plan.searching import FALSE_SHARE, FOUND
    from keyveil.plan.solve import guess_in_words

    columns = ("users", "epsilon", "found if held by", "its error", "levels", "users that measure")
    rows = [
        (
            f"{each.users:,}",
            f"{float(each.epsilon):g}",
            *_least(each),
            str(len(each.levels())),
            f"{float(each.left):.1%}",
        )
        for each in (found, *others)
    ]
    title = f"a search for keys of {found.longest} bits that nobody listed"
    console, epsilon = output(), float(found.epsilon)
    console.print(table(title, columns, rows))
    bits = ", ".join(str(level.bits) for level in found.levels())
    cap = Caps().campaign
    for sentence in (
        *_against(found, popularity),
        f"found: with a chance of {100 * FOUND:.0f} % or more, if so many users answer; of the keys that are "
        f"published at most {100 * FALSE_SHARE:.0f} % are false, on average",
        f"levels ask for the first {bits} bits, a group of users each, and keep at most {found.kept} "
        "beginnings; who is left measures what was found",
        f"every user answers one round, for at most {found.pairs_per_user} of the keys that it holds, with "
        f"the whole of epsilon {epsilon:g}",
        guess_in_words(epsilon),
        "a code that was learnt on public names takes about half the bits of plain text: plan with --longest "
        "of such a code if there is one",
    ):
        console.print(f"- {sentence}")
    if epsilon > cap:
        console.print(
            f"- a device tells one campaign at most epsilon {cap:g}: for this one an application says "
            f"Reporter(..., caps=Caps(campaign={math.ceil(epsilon)})), and why"
        )


def _least(search: Search) -> tuple[str, str]:
    least = search.detectable()
    return (f"{least:.2%}", f"{search.error(least):.2%}") if least <= 1 else ("nothing", "-")


def _against(found: Search, popularity: float | None) -> list[str]:
    """Whether what is wanted is found, where it is said what that is."""
    if popularity is None:
        return []
    asked = f"{found.users:,} users at epsilon {float(found.epsilon):g}"
    if found.detectable() <= popularity:
        return [f"{asked} are enough for keys that {100 * popularity:.3g} % of them hold"]
    return [
        f"{asked} do not find keys that {100 * popularity:.3g} % of them hold; leave out --users or "
        "--epsilon to see how many it takes, or how large an epsilon"
    ]


def simulate_search(
    population: Population,
    epsilons: list[float],
    *,
    longest: int,
    pairs_per_user: int | None,
    repeats: int,
    seed: int,
    top: int,
    as_json: bool,
) -> None:
    """Search as often as wanted at each budget, and print how much of the most popular keys was found.

    Keys are said as plain bytes; a key that is longer than its bits counts as found by its beginning.
    """
    if repeats < 1 or top < 1:
        raise DomainError(f"repeats and top must be at least 1, got {repeats} and {top}")
    cells = [
        _cell(population, epsilon, longest, pairs_per_user or population.typical_size(), repeats, seed, top)
        for epsilon in epsilons
    ]
    if as_json:
        click.echo(json.dumps(cells, indent=2, ensure_ascii=False))
        return
    from keyveil.cli.console import output, table

    shown = ("epsilon", f"recall top {top}", f"F1 top {top}", "false", "would be found", "seconds")
    rows = [
        (
            f"{cell['epsilon']:g}",
            f"{cell['recall_top']:.3g}",
            f"{cell['f1_top']:.3g}",
            f"{cell['false_discoveries']:.3g}",
            f"{cell['detectable']:.2%}",
            f"{cell['seconds']:.2f}",
        )
        for cell in cells
    ]
    title = f"{population.n_users:,} users, keys that nobody listed, {longest} bits, {repeats} repeats"
    output().print(table(title, shown, rows))


def _cell(
    population: Population, epsilon: float, longest: int, l: int, repeats: int, seed: int, top: int
) -> dict[str, Any]:
    """What was found at one budget, over all repeats; the keys of the first."""
    import numpy as np

    from keyveil.domain import TextCode
    from keyveil.protocols import build_protocol
    from keyveil.protocols.unknown import OpenKeys
    from keyveil.simulate import insecure_generator
    from keyveil.simulate.unknown import search

    code = TextCode(longest=longest)
    shown = [code.name(code.number(name)) for name in population.names]
    order = np.argsort(-population.frequency(), kind="stable")
    popular = {shown[place] for place in order[:top]}
    protocol = build_protocol(
        "open", epsilon, n_keys=1 << longest, pairs_per_user=l, users=population.n_users, code=code
    )
    assert isinstance(protocol, OpenKeys)
    started, runs = time.perf_counter(), []
    for repeat in range(repeats):
        outcome = search(protocol, protocol, population, insecure_generator(seed, repeat))
        assert outcome.found is not None
        ranked = np.argsort(-outcome.raw.frequency[:-1], kind="stable")
        keys = [outcome.found.keys[place] for place in ranked]
        hits = len(popular & set(keys))
        best = popular & set(keys[:top])
        runs.append(
            {
                "found": keys,
                "recall_top": hits / len(popular),
                "f1_top": 2 * len(best) / (len(popular) + min(top, len(keys))),
                "false_discoveries": len(set(keys) - set(shown)),
                "detectable": outcome.found.detectable,
            }
        )
    numbers = ("recall_top", "f1_top", "false_discoveries", "detectable")
    return {
        "mechanism": "open",
        "epsilon": epsilon,
        "users": population.n_users,
        "keys": population.n_keys,
        "pairs_per_user": l,
        "repeats": repeats,
        "top": top,
        "found": runs[0]["found"],
        **{name: float(np.mean([run[name] for run in runs])) for name in numbers},
        "seconds": round(time.perf_counter() - started, 4),
    }
