"""Draws against an exact law: the joint law of a small tally, and a chi-square distance from it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction

from keyveil.domain import Record
from keyveil.mechanisms import Mechanism
from keyveil.report import MINUS, PLUS
from keyveil.tally import Tally

# Five standard errors: a right sampler fails one fixed seed in three million.
Z = 5.0

Cell = tuple[int, ...]


def tally_law(mechanism: Mechanism, records: Sequence[Record]) -> dict[Cell, Fraction]:
    """The joint law of (plus, minus, asked) of every key, over all reports of all users."""
    codes = range(mechanism.n_keys)
    joint: dict[Cell, Fraction] = {(0,) * (3 * mechanism.n_keys): Fraction(1)}
    for record in records:
        one: dict[Cell, Fraction] = defaultdict(Fraction)
        for answer in mechanism.answers():
            views = [mechanism.view(answer, code) for code in codes]
            cell = tuple(int(n) for view in views for n in (view == PLUS, view == MINUS, view is not None))
            one[cell] += mechanism.probability(answer, record)
        grown: dict[Cell, Fraction] = defaultdict(Fraction)
        for before, chance in joint.items():
            for cell, step in one.items():
                grown[tuple(map(sum, zip(before, cell, strict=True)))] += chance * step
        joint = grown
    return joint


def tally_cell(tally: Tally) -> Cell:
    """A tally as a cell of `tally_law`."""
    columns = zip(tally.plus, tally.minus, tally.asked, strict=True)
    return tuple(int(n) for counts in columns for n in counts)


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
