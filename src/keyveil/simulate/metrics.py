"""How far estimates are from the truth.

Keys that nobody holds have no mean and are left out of mean errors. `top` means the truly most
frequent keys, ties to the lower code; precision and NCR compare them with the estimated top.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from keyveil.estimate import Distribution, Estimates
from keyveil.simulate.population import Floats, Ints, Population, insecure_generator
from keyveil.spreads import ValueSpread


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """One run's distances from the truth; means on the scale [-1, 1]."""

    frequency_mse: float
    mean_mse: float
    frequency_mse_top: float
    mean_mse_top: float
    mean_mae: float
    frequency_mae: float
    frequency_relative_error_top: float
    subset_mse: float
    """Squared error of the total frequency of random subsets of the keys, over twenty fixed subsets."""
    precision_top: float
    ncr_top: float
    correlation: float
    """Pearson correlation of estimated frequency and mean, over held keys."""
    correlation_truth: float
    wasserstein: float
    """Mean Wasserstein distance of value distributions over held keys, values scaled to [0, 1]."""
    wasserstein_top: float
    variance_mse: float
    frequency_coverage: float = math.nan
    """The part of the top keys whose printed interval of the frequency holds the truth; NaN without any."""
    mean_coverage: float = math.nan
    mean_coverage_informative: float = math.nan
    """The same of means, and of those whose interval is shorter than the whole range."""
    median_coverage: float = math.nan
    """The same of medians, where reports tell how values are spread."""


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Truth:
    """What a run is measured against; computed once a population."""

    frequency: Floats
    mean: Floats
    variance: Floats
    reached: Floats
    """Share of each key's values at or below the inner edges of a fine grid; empty if not asked for."""
    median: Floats = field(default_factory=lambda: np.empty(0))
    """Of each key's values, NaN without any; empty if not asked for."""

    @classmethod
    def of(cls, population: Population, *, distribution: bool = False) -> Truth:
        """The truth about a population."""
        return cls(
            frequency=population.frequency(),
            mean=population.mean(),
            variance=population.variance(),
            reached=population.reached(EDGES) if distribution else np.empty((0, 0)),
            median=population.quantile(0.5) if distribution else np.empty(0),
        )


# Inner edges of the grid on which distributions are compared: [-1, 1] in 256 equal parts.
EDGES = np.linspace(-1, 1, 257)[1:-1]


def measure(
    truth: Truth,
    estimates: Estimates,
    top: int,
    distribution: Distribution | None = None,
    *,
    subset: float = 0.3,
    raw: Estimates | None = None,
    values: ValueSpread | None = None,
) -> Errors:
    """The errors of one run; an undefined estimate of a mean counts as 0, the middle of the range.

    `subset` is the share of keys in the subsets whose total frequency is scored. `raw` are the estimates
    whose intervals are printed, where it is to be seen how often they hold the truth; `values` the same.
    """
    frequency, mean = truth.frequency, truth.mean
    off = estimates.frequency - frequency
    guessed_mean = np.nan_to_num(estimates.mean, nan=0.0)
    mean_off = guessed_mean - mean
    best = top_keys(frequency, top)
    shown = estimates.frequency if estimates.frequency_top is None else estimates.frequency_top
    guess, off_top = top_keys(shown, top), shown - frequency
    held_best = best[frequency[best] > 0]
    held = np.flatnonzero(frequency > 0)
    apart, apart_top, variance = _distances(truth, distribution, held, held_best)
    of_frequency, of_mean, of_informative = _coverage(truth, raw, best, held_best)
    return Errors(
        frequency_mse=float(np.mean(off**2)),
        mean_mse=float(np.nanmean(mean_off**2)),
        frequency_mse_top=float(np.mean(off_top[best] ** 2)),
        mean_mse_top=float(np.mean(mean_off[held_best] ** 2)),
        mean_mae=float(np.nanmean(np.abs(mean_off))),
        frequency_mae=float(np.mean(np.abs(off))),
        frequency_relative_error_top=float(np.mean(np.abs(off_top[held_best]) / frequency[held_best])),
        subset_mse=_subset_mse(off, subset),
        precision_top=np.intersect1d(best, guess).size / top,
        ncr_top=ncr(best, guess),
        correlation=_pearson(estimates.frequency[held], guessed_mean[held]),
        correlation_truth=_pearson(frequency[held], mean[held]),
        wasserstein=apart,
        wasserstein_top=apart_top,
        variance_mse=variance,
        frequency_coverage=of_frequency,
        mean_coverage=of_mean,
        mean_coverage_informative=of_informative,
        median_coverage=_median_coverage(truth, values, held_best),
    )


def _coverage(truth: Truth, raw: Estimates | None, best: Ints, held_best: Ints) -> tuple[float, float, float]:
    """How often intervals of the top keys hold the truth: frequencies, means, means that say something."""
    if raw is None:
        return math.nan, math.nan, math.nan
    low, high = raw.frequency_interval()
    is_held = (low <= truth.frequency) & (truth.frequency <= high)
    given = best[np.isfinite(high - low)[best]]
    low, high = raw.mean_interval()
    is_mean_held = (low <= truth.mean) & (truth.mean <= high)
    informative = held_best[((low > -1) | (high < 1))[held_best]]
    return _part(is_held[given]), _part(is_mean_held[held_best]), _part(is_mean_held[informative])


def _part(found: NDArray[np.bool_]) -> float:
    return float(found.mean()) if found.size else math.nan


def _median_coverage(truth: Truth, values: ValueSpread | None, held_best: Ints) -> float:
    if values is None or truth.median.size == 0:
        return math.nan
    found = values.quantile(0.5, held_best)
    median = truth.median[held_best]
    return _part((found.low <= median) & (median <= found.high))


def _distances(
    truth: Truth, distribution: Distribution | None, held: Ints, best: Ints
) -> tuple[float, float, float]:
    """Wasserstein distance over all held and the top keys, and the error of variances; NaN without either.

    A key whose distribution is undefined counts as uniform.
    """
    if distribution is None or truth.reached.size == 0:
        return math.nan, math.nan, math.nan
    known = np.isfinite(distribution.shares.sum(axis=1))
    guessed = np.where(known[:, None], distribution.reached(EDGES), (EDGES + 1) / 2)
    apart = np.abs(guessed - truth.reached).sum(axis=1) / (EDGES.size + 1)
    variance = np.where(known, distribution.variance(), 1 / 3)
    return (
        float(apart[held].mean()),
        float(apart[best].mean()),
        float(np.mean((variance[held] - truth.variance[held]) ** 2)),
    )


def _subset_mse(off: Floats, subset: float) -> float:
    rng = insecure_generator(off.size)
    size = max(1, round(subset * off.size))
    return float(np.mean([off[rng.permutation(off.size)[:size]].sum() ** 2 for _ in range(20)]))


def _pearson(one: Floats, other: Floats) -> float:
    if one.size < 2 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return math.nan
    return float(np.corrcoef(one, other)[0, 1])
