"""Fieller's interval for a ratio of two unbiased numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def fieller(
    top: Floats,
    bottom: Floats,
    variances: tuple[Floats, Floats, Floats],
    z: float,
    within: tuple[float, float],
) -> tuple[Floats, Floats]:
    """Every ratio r in the range `within` for which top - r bottom may be 0, z standard errors allowed.

    `variances` are those of top and bottom and their covariance. Where bottom itself may be 0 the set
    is unbounded, and the whole range is given.

    >>> variances = np.array([0.01]), np.array([0.01]), np.array([0.0])
    >>> low, high = fieller(np.array([1.0]), np.array([2.0]), variances, 1, (0, 1))
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.445], [0.557])
    """
    of_top, of_bottom, crossed = variances
    with np.errstate(invalid="ignore"):
        square = bottom**2 - z**2 * of_bottom
        middle = bottom * top - z**2 * crossed
        rest = top**2 - z**2 * of_top
        inside = middle**2 - square * rest
        known = (square > 0) & (bottom > 0) & (inside >= 0)
        reach = np.sqrt(np.where(known, inside, 0.0))
        square = np.where(known, square, 1.0)
        low = np.where(known, np.clip((middle - reach) / square, *within), within[0])
        high = np.where(known, np.clip((middle + reach) / square, *within), within[1])
    return low, high
