"""Draws against an exact law: the joint law of a small tally, and a chi-square distance from it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from operator import add, itemgetter

import numpy as np

from keyveil.domain import Record
from keyveil.mechanisms import Answer, Mechanism
from keyveil.tally import Tally, count

# Five standard errors: a right sampler fails one fixed seed in three million.
Z = 5.0

Cell = tuple[int, ...]


def tally_law(mechanism: Mechanism, records: Sequence[Record]) -> dict[Cell, Fraction]:
    """The joint law of all cells of a tally, over all reports of all users."""
    answers = [(answer, answer_cell(mechanism, answer)) for answer in mechanism.answers()]
    joint, whole = {tally_cell(count(mechanism, [], question="q")): 1}, 1
    for record in records:
        one: dict[Cell, Fraction] = defaultdict(Fraction)
        for answer, cell in answers:
            one[cell] += mechanism.probability(answer, record)
        # Chances as whole numbers of one unit: products and sums without a common divisor to look for.
        units = math.lcm(*(chance.denominator for chance in one.values()))
        steps = [(cell, chance.numerator * (units // chance.denominator)) for cell, chance in one.items()]
        grown: dict[Cell, int] = defaultdict(int)
        for before, ways in joint.items():
            for cell, step in steps:
                grown[tuple(map(add, before, cell))] += ways * step
        joint, whole = grown, whole * units
    return {cell: Fraction(ways, whole) for cell, ways in joint.items()}


def answer_cell(mechanism: Mechanism, answer: Answer) -> Cell:
    """The tally of one answer, by the mechanism's own `ticks`."""
    cells = {name: np.zeros_like(counts) for name, counts in count(mechanism, [], question="q").cells.items()}
    for name, place in mechanism.ticks(answer):
        cells[name][place] += 1
    return tally_cell(Tally.of(question="q", n_reports=1, **cells))


def tally_cell(tally: Tally) -> Cell:
    """All cells of a tally in one tuple, by name."""
    return tuple(n for _, counts in sorted(tally.cells.items()) for n in counts.ravel().tolist())


def chi_square_z(law: dict[Cell, Fraction], draws: Iterable[Cell]) -> float:
    """How many standard errors the chi-square statistic lies above its mean; infinite for the impossible.

    Cells with fewer than ten expected draws are pooled, rarest first.

    >>> chi_square_z({(0,): Fraction(1, 2), (1,): Fraction(1, 2)}, [(0,), (1,)] * 500)
    -0.7071067811865475
    """
    seen = Counter(draws)
    if any(cell not in law for cell in seen):
        return math.inf
    total = sum(seen.values())
    statistic, cells = 0.0, 0
    pooled_expected = pooled_seen = 0.0
    for cell, chance in sorted(((cell, float(chance)) for cell, chance in law.items()), key=itemgetter(1)):
        pooled_expected += chance * total
        pooled_seen += seen[cell]
        if pooled_expected >= 10:
            statistic += (pooled_seen - pooled_expected) ** 2 / pooled_expected
            cells += 1
            pooled_expected = pooled_seen = 0.0
    freedom = max(cells - 1, 1)
    return (statistic - freedom) / math.sqrt(2 * freedom)
