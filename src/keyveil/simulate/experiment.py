"""Mechanisms against epsilons on one population, repeated, with standard errors."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from typing import Any

import numpy as np

from keyveil.domain import DITHER_BINS
from keyveil.errors import DomainError, MechanismError, PairsError
from keyveil.estimate import Estimates, step
from keyveil.mechanisms import Mechanism
from keyveil.methods import find_method
from keyveil.numerics import epsilon_above, parse_epsilon
from keyveil.plan import Central
from keyveil.protocols import Dithered, Outcome, Protocol, build_protocol, total_loss
from keyveil.protocols.auto.settings import DISTRIBUTION
from keyveil.release import PUBLISHED
from keyveil.shuffle.best import STEPS
from keyveil.simulate.metrics import Errors, Truth, measure
from keyveil.simulate.play import play
from keyveil.simulate.population import Population, insecure_generator
from keyveil.spreads import ValueSpread


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
    central: Mapping[str, Any] | None = None
    """What was promised where a relay hides reports, and the local epsilon that it allows."""

    def to_fields(self) -> dict[str, Any]:
        """One flat dictionary; standard errors end in `_se`, what is not finite is None."""
        flat = {field.name: getattr(self, field.name) for field in fields(self)}
        errors, spread = asdict(flat.pop("errors")), asdict(flat.pop("standard_errors"))
        flat |= errors | {f"{name}_se": value for name, value in spread.items()}
        flat["w1_top"] = errors["wasserstein_top"]
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
    want: str | None = None,
    subset: float = 0.3,
    twins: int = 1,
    central: Central | None = None,
    progress: Callable[[str], None] = lambda _label: None,
) -> list[Cell]:
    """Every mechanism at every epsilon; a cell's draws depend on the seed and on that cell alone.

    `post` is a named step applied to the raw estimates, or `published`: what each method's paper does.
    `options` go to every method that is built (rounds, bins, top, ...), `want` to those that choose by it;
    with "distribution" distances of distributions are scored. `twins` multiplies the people. With `central`
    every mechanism is asked at the largest local epsilon that a relay allows, up to those of `epsilons`.

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
    for epsilon in epsilons:
        parse_epsilon(epsilon)
    given = dict(options or {})
    want = given.pop("want", want)
    wanted = want == DISTRIBUTION or any(find_method(name)[0].gives_distribution for name in mechanisms)
    setting = _Setting(
        population=population,
        truth=Truth.of(population, distribution=wanted),
        pairs_per_user=population.typical_size() if pairs_per_user is None else pairs_per_user,
        repeats=repeats,
        seed=seed,
        top=min(top, population.n_keys),
        post=post,
        finish=_finisher(post),
        options=given,
        want=want,
        subset=subset,
        twins=twins,
        central=None if central is None else central.checked(),
        progress=progress,
    )
    return [setting.cell(name, epsilon) for name in mechanisms for epsilon in epsilons]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    """What all cells of an experiment share."""

    population: Population
    truth: Truth
    pairs_per_user: int
    repeats: int
    seed: int
    top: int
    post: str
    finish: Callable[[Outcome], Estimates]
    options: Mapping[str, Any]
    want: str | None
    subset: float
    twins: int
    central: Central | None
    progress: Callable[[str], None]

    def cell(self, name: str, epsilon: float) -> Cell:
        """One mechanism at one epsilon."""
        users = self.population.n_users * self.twins
        method = find_method(name)[0]
        known: dict[str, Any] = {"users": users} if method.needs_users else {}
        if method.heeds_want and self.want is not None:
            known |= {"want": self.want, "dithered": True}
        if self.central is not None and method.heeds_want:
            known |= {"promise": self.central.promise(users)}

        def made(budget: object) -> Protocol:
            return build_protocol(
                name,
                budget,
                n_keys=self.population.n_keys,
                pairs_per_user=self.pairs_per_user,
                **known,
                **self.options,
            )

        if self.central is not None and not method.heeds_want:
            epsilon = self._allowed(name, made, self.central, epsilon)
        protocol = made(epsilon)
        if method.tells_signs and self.truth.reached.size:
            # As a campaign is by itself: signs tell distributions, too.
            protocol = Dithered(protocol=protocol, dither=DITHER_BINS)
        started = time.perf_counter()
        runs = [self._run(protocol, name, epsilon, repeat) for repeat in range(self.repeats)]
        exact, promised = epsilon_above(total_loss(protocol.stages())), None
        if self.central is not None:
            epsilon = min(epsilon, math.ceil(STEPS * exact) / STEPS)
            promised = self.central.to_fields(users, epsilon)
        return Cell(
            mechanism=name,
            epsilon=float(epsilon),
            epsilon_exact=exact,
            users=users,
            keys=self.population.n_keys,
            pairs_per_user=self.pairs_per_user,
            repeats=self.repeats,
            post=self.post,
            top=self.top,
            seconds=round(time.perf_counter() - started, 4),
            errors=_over_runs(runs, np.mean),
            standard_errors=_over_runs(runs, _standard_error),
            central=promised,
        )

    def _allowed(
        self, name: str, made: Callable[[object], Protocol], central: Central, at_most: float
    ) -> float:
        """The largest local epsilon at which what one round asks keeps the central promise."""
        if find_method(name)[0].has_several_rounds:
            raise MechanismError(
                f'"{name}" asks a person several times; a central epsilon is for auto and one round'
            )
        budgets: dict[Mechanism, Fraction] = {}

        def asked(budget: Fraction) -> Mechanism:
            (stage,) = made(budget).stages()
            budgets[stage.mechanism] = budget
            return stage.mechanism

        return float(budgets[central.allowance(self.population.n_users * self.twins, at_most)(asked)])

    def _run(self, protocol: Protocol, name: str, epsilon: float, repeat: int) -> Errors:
        rng = insecure_generator(self.seed, zlib.crc32(f"{name} {epsilon}".encode()), repeat)
        outcome = play(protocol, self.population, rng, twins=self.twins)
        errors = measure(
            self.truth,
            self.finish(outcome),
            self.top,
            outcome.distribution,
            subset=self.subset,
            raw=outcome.raw,
            values=ValueSpread.of(outcome.spread, outcome.distribution, outcome.raw, (-1.0, 1.0)),
        )
        self.progress(f"{name} at epsilon {epsilon:g}")
        return errors


def _finisher(post: str) -> Callable[[Outcome], Estimates]:
    if post == PUBLISHED:
        return lambda outcome: outcome.published
    apply = step(post, also=(PUBLISHED,))
    return lambda outcome: apply(outcome.raw)


def _over_runs(runs: list[Errors], reduce: Callable[[Any], Any]) -> Errors:
    """Each number over the runs that have it."""
    numbers = {field.name: [getattr(run, field.name) for run in runs] for field in fields(Errors)}
    there = {name: [value for value in values if not math.isnan(value)] for name, values in numbers.items()}
    return Errors(**{name: float(reduce(values)) if values else math.nan for name, values in there.items()})


def _standard_error(values: list[float]) -> float:
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan
