"""A mechanism against the papers' on one population: how much better, and whether its intervals hold.

Every paper's mechanism plays at its own best padding length, found by trying them on this very population and
scored by what it does best there: no collector could know that, so it is a hard opponent. A gain is the
ratio of squared errors, theirs over ours: above 1 is better.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from keyveil.estimate.sizes import SizeLaw
from keyveil.plan import lengths
from keyveil.simulate.experiment import Cell, run
from keyveil.simulate.population import Population

# The papers' mechanisms of one round: those that pad records, and those that ask about one key.
PADDED, UNPADDED = ("pckv-ue", "pckv-grr", "ks-ue"), ("kvue", "privkv")
SCORED = ("frequency_mse", "frequency_mse_top", "mean_mse_top")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Gains over the best of the papers, the errors of those gains, and how often intervals hold."""

    population: str
    mechanism: str
    epsilon: float
    users: int
    keys: int
    frequency_gain: float
    frequency_gain_top: float
    mean_gain_top: float
    frequency_gain_se: float
    frequency_gain_top_se: float
    mean_gain_top_se: float
    frequency_coverage: float
    mean_coverage: float
    mean_coverage_informative: float
    opponents: str
    """Which they were, in the order of the gains."""

    def to_fields(self) -> dict[str, Any]:
        """For JSON; what is not finite is None."""
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in asdict(self).items()
        }


def referee(
    name: str,
    population: Population,
    mechanism: str,
    epsilon: float,
    *,
    repeats: int = 5,
    seed: int = 0,
    top: int = 50,
    progress: Callable[[str], None] = lambda _label: None,
) -> Verdict:
    """One mechanism on one population at one epsilon.

    >>> from keyveil.simulate.zoo import make
    >>> verdict = referee("tiny", make("tiny"), "pckv-grr", 4.0, repeats=2)
    >>> verdict.frequency_gain <= 1
    True
    """
    (ours,) = run(population, [mechanism], [epsilon], repeats=repeats, seed=seed, top=top)
    progress(f"{name}: {mechanism} at epsilon {epsilon:g}")
    theirs = _opponents(population, epsilon, repeats, seed, top)
    best = [_least(theirs, of) for of in SCORED]
    gains = [_gain(ours, cell, of) for cell, of in zip(best, SCORED, strict=True)]
    return Verdict(
        population=name,
        mechanism=mechanism,
        epsilon=epsilon,
        users=ours.users,
        keys=ours.keys,
        frequency_gain=gains[0][0],
        frequency_gain_top=gains[1][0],
        mean_gain_top=gains[2][0],
        frequency_gain_se=gains[0][1],
        frequency_gain_top_se=gains[1][1],
        mean_gain_top_se=gains[2][1],
        frequency_coverage=ours.errors.frequency_coverage,
        mean_coverage=ours.errors.mean_coverage,
        mean_coverage_informative=ours.errors.mean_coverage_informative,
        opponents=", ".join(f"{cell.mechanism} l={cell.pairs_per_user}" for cell in best),
    )


def _opponents(population: Population, epsilon: float, repeats: int, seed: int, top: int) -> list[Cell]:
    """Every paper's mechanism at every padding length worth trying."""
    law = SizeLaw.of(population.sizes)
    cells = run(population, UNPADDED, [epsilon], pairs_per_user=1, repeats=repeats, seed=seed, top=top)
    for l in lengths(law):
        cells += run(population, PADDED, [epsilon], pairs_per_user=l, repeats=repeats, seed=seed, top=top)
    return cells


def _least(cells: list[Cell], of: str) -> Cell:
    return min(cells, key=lambda cell: float(getattr(cell.errors, of)))


def _gain(ours: Cell, theirs: Cell, of: str) -> tuple[float, float]:
    """Their error over ours, and the standard error of that, to first order."""
    top, bottom = getattr(theirs.errors, of), getattr(ours.errors, of)
    if not bottom > 0:
        return math.nan, math.nan
    spread = [
        getattr(cell.standard_errors, of) / value
        for cell, value in ((theirs, top), (ours, bottom))
        if value > 0
    ]
    return top / bottom, top / bottom * math.hypot(*spread)
