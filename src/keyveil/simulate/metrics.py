"""How far estimates are from the truth.

Keys that nobody holds have no mean and are left out of mean errors. `top` means the truly most
frequent keys, ties to the lower code; precision and NCR compare them with the estimated top.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keyveil.estimate import Estimates
from keyveil.simulate.population import Floats, Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """One run's distances from the truth; means on the scale [-1, 1]."""

    frequency_mse: float
    mean_mse: float
    frequency_mse_top: float
    mean_mse_top: float
    frequency_mae: float
    frequency_relative_error_top: float
    precision_top: float
    ncr_top: float


def top_keys(frequency: Floats, top: int) -> Ints:
    """The codes of the `top` largest frequencies, largest first, ties to the lower code.

    >>> top_keys(np.array([0.1, 0.3, 0.3, 0.2]), 3).tolist()
    [1, 2, 3]
    """
    return np.argsort(-frequency, kind="stable")[:top]


def ncr(truth: Ints, guess: Ints) -> float:
    """Normalised cumulative rank: the true top-t's r-th key is worth t - r + 1 points.

    >>> ncr(np.array([7, 3]), np.array([3, 7])), round(ncr(np.array([7, 3]), np.array([3, 9])), 3)
    (1.0, 0.333)
    """
    t = truth.size
    worth = {int(code): t - rank for rank, code in enumerate(truth)}
    return sum(worth.get(int(code), 0) for code in guess) / (t * (t + 1) / 2)


def measure(frequency: Floats, mean: Floats, estimates: Estimates, top: int) -> Errors:
    """The errors of one run; an undefined estimate of a mean counts as 0, the middle of the range."""
    off = estimates.frequency - frequency
    mean_off = np.nan_to_num(estimates.mean, nan=0.0) - mean
    best = top_keys(frequency, top)
    guess = top_keys(estimates.frequency, top)
    held_best = best[frequency[best] > 0]
    return Errors(
        frequency_mse=float(np.mean(off**2)),
        mean_mse=float(np.nanmean(mean_off**2)),
        frequency_mse_top=float(np.mean(off[best] ** 2)),
        mean_mse_top=float(np.mean(mean_off[held_best] ** 2)),
        frequency_mae=float(np.mean(np.abs(off))),
        frequency_relative_error_top=float(np.mean(np.abs(off[held_best]) / frequency[held_best])),
        precision_top=np.intersect1d(best, guess).size / top,
        ncr_top=ncr(best, guess),
    )
