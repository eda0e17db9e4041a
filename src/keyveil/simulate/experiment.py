"""Mechanisms against epsilons on one population, repeated, with standard errors."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from keyveil.errors import DomainError, PairsError
from keyveil.estimate import Estimates, step
from keyveil.methods import find_method
from keyveil.numerics import epsilon_above, parse_epsilon
from keyveil.protocols import Outcome, build_protocol, total_loss
from keyveil.release import PUBLISHED
from keyveil.simulate.metrics import Errors, Truth, measure
from keyveil.simulate.play import play
from keyveil.simulate.population import Population, insecure_generator


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One mechanism at one epsilon: mean errors over the repeats and their standard errors."""

    mechanism: str
    epsilon: float
    epsilon_exact: float
    users: int
    keys: int
    pairs_per_user: int
    repeats: int
    post: str
    top: int
    seconds: float
    errors: Errors
    standard_errors: Errors

    def to_fields(self) -> dict[str, Any]:
        """One flat dictionary; standard errors end in `_se`, what is not finite is None."""
        flat = {field.name: getattr(self, field.name) for field in fields(self)}
        errors, spread = asdict(flat.pop("errors")), asdict(flat.pop("standard_errors"))
        flat |= errors | {f"{name}_se": value for name, value in spread.items()}
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in flat.items()
        }


def run(
    population: Population,
    mechanisms: Sequence[str],
    epsilons: Sequence[float],
    *,
    pairs_per_user: int | None = None,
    repeats: int = 5,
    seed: int = 0,
    top: int = 50,
    post: str = PUBLISHED,
    options: Mapping[str, Any] | None = None,
    subset: float = 0.3,
    twins: int = 1,
    progress: Callable[[str], None] = lambda _label: None,
) -> list[Cell]:
    """Every mechanism at every epsilon; a cell's draws depend on the seed and on that cell alone.

    `post` is a named step applied to the raw estimates, or `published`: what each method's paper does.
    `options` go to every method that is built (rounds, bins, top, ...). `twins` multiplies the people.

    >>> from keyveil.simulate import synthetic
    >>> cells = run(synthetic(users=1000, keys=5), ["ks-ue"], [1.0, 2.0], repeats=2)
    >>> [(cell.mechanism, cell.epsilon) for cell in cells]
    [('ks-ue', 1.0), ('ks-ue', 2.0)]
    """
    if repeats < 1:
        raise DomainError(f"repeats must be at least 1, got {repeats}")
    if top < 1:
        raise DomainError(f"top must be at least 1, got {top}")
    if population.codes.size == 0:
        raise PairsError("nobody in this population holds a pair; there is no mean to estimate")
    if pairs_per_user is None:
        pairs_per_user = population.typical_size()
    finish = _finisher(post)
    for epsilon in epsilons:
        parse_epsilon(epsilon)
    wanted = any(find_method(name)[0].gives_distribution for name in mechanisms)
    truth, top = Truth.of(population, distribution=wanted), min(top, population.n_keys)
    cells = []
    for name in mechanisms:
        for epsilon in epsilons:
            known: dict[str, Any] = (
                {"users": population.n_users * twins} if find_method(name)[0].needs_users else {}
            )
            protocol = build_protocol(
                name,
                epsilon,
                n_keys=population.n_keys,
                pairs_per_user=pairs_per_user,
                **known,
                **(options or {}),
            )
            started = time.perf_counter()
            runs = []
            for repeat in range(repeats):
                rng = insecure_generator(seed, zlib.crc32(f"{name} {epsilon}".encode()), repeat)
                outcome = play(protocol, population, rng, twins=twins)
                runs.append(measure(truth, finish(outcome), top, outcome.distribution, subset=subset))
                progress(f"{name} at epsilon {epsilon:g}")
            cells.append(
                Cell(
                    mechanism=name,
                    epsilon=float(epsilon),
                    epsilon_exact=epsilon_above(total_loss(protocol.stages())),
                    users=population.n_users * twins,
                    keys=population.n_keys,
                    pairs_per_user=pairs_per_user,
                    repeats=repeats,
                    post=post,
                    top=top,
                    seconds=round(time.perf_counter() - started, 4),
                    errors=_over_runs(runs, np.mean),
                    standard_errors=_over_runs(runs, _standard_error),
                )
            )
    return cells


def _finisher(post: str) -> Callable[[Outcome], Estimates]:
    if post == PUBLISHED:
        return lambda outcome: outcome.published
    apply = step(post, also=(PUBLISHED,))
    return lambda outcome: apply(outcome.raw)


def _over_runs(runs: list[Errors], reduce: Callable[[Any], Any]) -> Errors:
    return Errors(
        **{field.name: float(reduce([getattr(run, field.name) for run in runs])) for field in fields(Errors)}
    )


def _standard_error(values: list[float]) -> float:
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan
