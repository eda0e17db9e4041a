"""From a delta at every epsilon to the smallest epsilon at a delta."""

from __future__ import annotations

import math
from collections.abc import Callable

from keyveil.errors import BudgetError

DELTA = 1e-6

# Chance that is given away outside the ranges that are summed; it is added to delta.
CUT = 1e-15
# The search ends when epsilon is known to this part of itself; the upper end is returned.
PRECISION = 1e-5


def smallest(delta_at: Callable[[float], float], local: float, delta: float) -> float:
    """The epsilon below which `delta_at` exceeds delta, from above."""
    from scipy.optimize import brentq

    def excess(epsilon: float) -> float:
        return math.log(delta_at(epsilon) / delta)

    low = local * 1e-6
    if excess(low) <= 0:
        return low
    if excess(local) > 0:
        return local
    return min(local, (1 + 2 * PRECISION) * float(brentq(excess, low, local, rtol=PRECISION)))


def check(local: float, users: int, delta: float) -> None:
    """Refuse a question that has no answer."""
    if not 0 < local < math.inf:
        raise BudgetError(f"the local epsilon must be positive and finite, got {local:g}")
    if users < 2:
        raise BudgetError(f"nobody hides among {users} reports; expected two users or more")
    if not 0 < delta < 1:
        raise BudgetError(f"delta must lie between 0 and 1, got {delta:g}")
