"""`keyveil simulate --open`: what a search would have found of keys that nobody listed."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import click

from keyveil.errors import DomainError

if TYPE_CHECKING:
    from keyveil.simulate.population import Population


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
