"""Draws against an exact law: the joint law of a small tally, and a chi-square distance from it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from keyveil.domain import Record
from keyveil.mechanisms import Answer, Mechanism
from keyveil.tally import Tally, count

# Five standard errors: a right sampler fails one fixed seed in three million.
Z = 5.0

Cell = tuple[int, ...]


def tally_law(mechanism: Mechanism, records: Sequence[Record]) -> dict[Cell, Fraction]:
    """The joint law of all cells of a tally, over all reports of all users."""
    joint: dict[Cell, Fraction] = {tally_cell(count(mechanism, [], question="q")): Fraction(1)}
    for record in records:
        one: dict[Cell, Fraction] = defaultdict(Fraction)
        for answer in mechanism.answers():
            one[answer_cell(mechanism, answer)] += mechanism.probability(answer, record)
        grown: dict[Cell, Fraction] = defaultdict(Fraction)
        for before, chance in joint.items():
            for cell, step in one.items():
                grown[tuple(map(sum, zip(before, cell, strict=True)))] += chance * step
        joint = grown
    return joint


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
    for cell, chance in sorted(law.items(), key=lambda item: item[1]):
        pooled_expected += float(chance) * total
        pooled_seen += seen[cell]
        if pooled_expected >= 10:
            statistic += (pooled_seen - pooled_expected) ** 2 / pooled_expected
            cells += 1
            pooled_expected = pooled_seen = 0.0
    freedom = max(cells - 1, 1)
    return (statistic - freedom) / math.sqrt(2 * freedom)
