"""Verdicts: what a paper claims, against what was measured here.

`below`: at every point (or only those the claim is about) each method of `lower` is compared with each
of `upper`. The claim holds if no point contradicts it by more than two standard errors and at least
half of them support it by more than two; it does not hold otherwise.

`theory`: measured errors of methods with a theory curve lie within three standard errors of it; to be
asked only of figures without clipping.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keyveil.reproduce.experiments import Claim, Figure

HOLDS, CORRECTED, FAILS, SKIPPED = "holds", "holds with correction", "does not hold", "skipped"

# Contradictions that are named one by one.
SHOWN = 3

Cells = dict[tuple[str, float], dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimVerdict:
    """A claim's fate and the numbers behind it."""

    claim: Claim
    fate: str
    evidence: str


def total(verdicts: Sequence[ClaimVerdict]) -> dict[str, int]:
    """How many claims met each fate, those that none met left out.

    >>> claim = Claim(text="t", figure="f", metric="m")
    >>> total([ClaimVerdict(claim=claim, fate=fate, evidence="") for fate in (FAILS, HOLDS, HOLDS)])
    {'holds': 2, 'does not hold': 1}
    """
    met = Counter(verdict.fate for verdict in verdicts)
    return {fate: met[fate] for fate in (HOLDS, CORRECTED, FAILS, SKIPPED) if met[fate]}


def judge(claim: Claim, figure: Figure, cells: Cells) -> ClaimVerdict:
    """The verdict on one claim."""
    if not cells:
        return ClaimVerdict(claim=claim, fate=SKIPPED, evidence="its figure was not run")
    evidence, holds = (_theory if claim.kind == "theory" else _below)(claim, figure, cells)
    fate = (CORRECTED if claim.correction else HOLDS) if holds else FAILS
    return ClaimVerdict(claim=claim, fate=fate, evidence=evidence)


def _below(claim: Claim, figure: Figure, cells: Cells) -> tuple[str, bool]:
    support, compared = 0, 0
    ratios: list[float] = []
    against: list[str] = []
    for value in claim.only or figure.values:
        for low in claim.lower:
            for high in claim.upper:
                one, other = cells.get((low, value)), cells.get((high, value))
                if one is None or other is None:
                    continue
                compared += 1
                gap = other[claim.metric] - one[claim.metric]
                error = math.hypot(*(cell.get(f"{claim.metric}_se") or 0.0 for cell in (one, other)))
                support += gap > 2 * error
                if gap < -2 * error:
                    against.append(f"{low} over {high} at {value:g}")
                if other[claim.metric] > 0:
                    ratios.append(one[claim.metric] / other[claim.metric])
    if not compared:
        return "nothing to compare", False
    # A ratio says something of errors, nothing of a correlation that may be 0.
    spread = (
        f"ratio {min(ratios):.3g} to {max(ratios):.3g}; " if ratios and claim.metric != "correlation" else ""
    )
    contrary = f", {len(against)} against ({'; '.join(against[:SHOWN])}{', ...' * (len(against) > SHOWN)})"
    evidence = f"{spread}{support} of {compared} comparisons clearly for it{contrary if against else ''}"
    return evidence, not against and 2 * support >= compared


def _theory(claim: Claim, figure: Figure, cells: Cells) -> tuple[str, bool]:
    inside = compared = 0
    worst = 0.0
    for cell in cells.values():
        expected, error = cell.get(f"{claim.metric}_theory"), cell.get(f"{claim.metric}_se")
        if expected is None or not error:
            continue
        compared += 1
        z = abs(cell[claim.metric] - expected) / error
        worst = max(worst, z)
        inside += z <= 3
    return (
        f"{inside} of {compared} within three standard errors, farthest {worst:.1f}",
        inside == compared > 0,
    )
