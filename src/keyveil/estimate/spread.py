"""How a key's values are spread, from reports that say on which side of a public level they lie.

Where values are rounded by a public dither, the reports of its bin j tell of a key's values w, on the scale
[0, 1], which part lies above a level somewhere in the bin: without bias f (2 g_j - 1), where

    g_j    the part of the key's values above a level, averaged over the levels of bin j, of J

So reports that nobody collected for it say J levels of every key, each as they say a mean (`Spread`). What is
linear in values on the grid of bins is known without bias: the mean is the average of all g_j, and

    1 - g_0,  g_0 - g_1,  ...,  g_(J-1)        the shares of values by the J + 1 marks between bins, a value
                                               that lies between two marks counted to both by its nearness

whose mean is the mean of values. Every interval here is of such numbers; nothing that was smoothed has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from keyveil.domain import UNDITHERED
from keyveil.errors import TallyError
from keyveil.estimate.collisions import uncollide
from keyveil.estimate.distribution import bin_points, steps_up
from keyveil.estimate.estimates import estimate
from keyveil.estimate.shares import Shares, unbiased_weights
from keyveil.mechanisms import KeyValueMechanism, UeSw
from keyveil.numerics import CONFIDENCE
from keyveil.tally import Tally

Floats = NDArray[np.float64]

# Of values on the scale [0, 1].
_MOST_VARIANCE = 0.25
# Waves of growing frequency by which a shape is held against a flat one.
_WAVES = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spread:
    """One row a key, one column a level, the lowest first."""

    frequency: Floats
    frequency_variance: Floats
    """Infinite where nothing is known of a key: then everything else is 0."""
    signed: Floats
    """Unbiased for frequency * (2 g - 1)."""
    variance: Floats
    crossed: Floats
    """Between frequency and signed."""
    correlation: Floats | None = None
    """Between the levels of a key; nothing where reports tell one level each."""

    @property
    def levels(self) -> int:
        """How many there are."""
        return int(self.signed.shape[1])

    def of(self, codes: NDArray[np.int64] | NDArray[np.bool_]) -> Spread:
        """The same of some keys."""
        return Spread(
            frequency=self.frequency[codes],
            frequency_variance=self.frequency_variance[codes],
            signed=self.signed[codes],
            variance=self.variance[codes],
            crossed=self.crossed[codes],
            correlation=self.correlation,
        )

    def among(self, keys: Sequence[int], n_keys: int) -> Spread:
        """The same among all keys, of the others of which nothing is known."""
        codes, shape = np.array(keys, dtype=np.int64), (n_keys, self.levels)
        wide = Spread(
            frequency=np.zeros(n_keys),
            frequency_variance=np.full(n_keys, np.inf),
            signed=np.zeros(shape),
            variance=np.zeros(shape),
            crossed=np.zeros(shape),
            correlation=self.correlation,
        )
        for name in ("frequency", "frequency_variance", "signed", "variance", "crossed"):
            getattr(wide, name)[codes] = getattr(self, name)
        return wide

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """Whether anything was heard of each key."""
        found: NDArray[np.bool_] = np.isfinite(self.frequency_variance)
        return found

    def linear(self, weights: Floats, constant: Floats | float = 0.0) -> Shares:
        """Of every key the sums of its levels by these weights, a row each, and a constant.

        A sum whose constant is a key's own has it in a row a key.
        """
        ones = weights.sum(axis=1) + 2 * np.asarray(constant)
        of_signed = self.signed @ weights.T
        with_frequency = self.crossed @ weights.T
        known = self.is_known[:, None]
        own = np.where(known, self.frequency_variance[:, None], 0.0)
        spread = (self._sum_variance(weights) + ones**2 * own + 2 * ones * with_frequency) / 4
        return Shares(
            held=(of_signed + ones * self.frequency[:, None]) / 2,
            frequency=self.frequency[:, None],
            held_variance=np.where(known, spread, np.inf),
            frequency_variance=np.where(known, own, np.inf),
            covariance=(with_frequency + ones * own) / 2,
        )

    def _sum_variance(self, weights: Floats) -> Floats:
        """The variance of sums of `signed` by these weights."""
        if self.correlation is None:
            alone: Floats = self.variance @ (weights**2).T
            return alone
        error = np.sqrt(self.variance)
        pairs = np.einsum("mi,ij,mj->mij", weights, self.correlation, weights).reshape(len(weights), -1)
        together: Floats = (error[:, :, None] * error[:, None, :]).reshape(len(error), -1) @ pairs.T
        return together

    def marks(self) -> Shares:
        """The shares of values by the marks between levels and at both ends.

        >>> one = Spread(frequency=np.ones(1), frequency_variance=np.zeros(1), crossed=np.zeros((1, 2)),
        ...              signed=np.array([[0.5, -0.5]]), variance=np.full((1, 2), 0.01))
        >>> one.marks().share().tolist(), one.band()[0].round(2).tolist()
        ([[0.25, 0.5, 0.25]], [[0.13, 0.33, 0.13]])
        """
        weights = np.eye(self.levels + 1, self.levels, k=-1) - np.eye(self.levels + 1, self.levels)
        return self.linear(weights, np.eye(1, self.levels + 1)[0])

    def band(self, confidence: float = CONFIDENCE) -> tuple[Floats, Floats]:
        """Intervals of a key's shares by the marks that hold for all of them together (Bonferroni)."""
        return self.marks().interval(1 - (1 - confidence) / (self.levels + 1))

    def values_variance(self, confidence: float = CONFIDENCE) -> tuple[Floats, Floats, Floats]:
        """The variance of a key's values on the scale [0, 1], and the ends of its interval.

        The variance is the mean of (w - c)**2 less the square of the mean's distance from c, which is of
        second order where c is the mean that was found: what is left of it is added as far as its own
        interval reaches. The square of a value is 2 w summed over the levels below it; inside a bin a line
        stands for it, which is at most a quarter of a bin's square too high.
        """
        squares = (2 * np.arange(self.levels) + 1) / self.levels**2
        values = np.full(self.levels, 1 / self.levels)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = self.linear(np.vstack([squares, values, squares + values]))
            centre = np.clip(np.nan_to_num(found.share()[:, 1], nan=0.5), 0.0, 1.0)
            around = _around(centre, found)
            low, high = (end[:, 0] for end in around.interval(confidence))
            mean_low, mean_high = (end[:, 1] for end in found.interval(confidence))
        off = np.maximum(mean_high - centre, centre - mean_low) ** 2
        is_told = (low > 0) | (high < 1)
        low = np.where(is_told, np.clip(low - 0.25 / self.levels**2 - off, 0.0, _MOST_VARIANCE), 0.0)
        high = np.where(is_told, np.clip(high, 0.0, _MOST_VARIANCE), _MOST_VARIANCE)
        return np.clip(around.share()[:, 0], 0.0, _MOST_VARIANCE), low, high

    def flat_chance(self) -> Floats:
        """How likely levels that far from those of a flat shape are, if that is what it is.

        Four sums of what differs, by cosines, are held against what noise does to them: a shape that is none
        of noise differs by slow waves.
        """
        flat = flat_levels(self.levels)
        waves = np.cos(np.pi * np.arange(_WAVES)[:, None] * flat)
        found = self.linear(waves, -(waves @ flat))
        with np.errstate(divide="ignore", invalid="ignore"):
            scores = np.abs(found.held) / np.sqrt(found.held_variance)
        most = np.nan_to_num(scores, nan=0.0).max(axis=1)
        single = 2 * (1 - _normal(most))
        return np.asarray(np.minimum(1.0, _WAVES * single))


def _around(centre: Floats, found: Shares) -> Shares:
    """The mean squared distance of a key's values from a place of its own: s - 2 c v + c**2.

    `found` tells squares s, values v, and both added up, from which their covariance follows.
    """
    (s, v, _), (var_s, var_v, var_sum), (cov_s, cov_v, _) = (
        each.T for each in (found.held, found.held_variance, found.covariance)
    )
    frequency, own, c = found.frequency[:, 0], found.frequency_variance[:, 0], centre
    together = (var_sum - var_s - var_v) / 2
    spread = var_s + 4 * c**2 * var_v - 4 * c * together
    with_frequency = cov_s - 2 * c * cov_v
    return Shares(
        held=(s - 2 * c * v + c**2 * frequency)[:, None],
        frequency=frequency[:, None],
        held_variance=np.maximum(spread + c**4 * own + 2 * c**2 * with_frequency, 0.0)[:, None],
        frequency_variance=own[:, None],
        covariance=(with_frequency + c**2 * own)[:, None],
    )


_normal = np.vectorize(NormalDist().cdf, otypes=[float])


def flat_levels(levels: int) -> Floats:
    """Which part of values lies above each level where they are spread evenly."""
    flat: Floats = 1 - (np.arange(levels) + 0.5) / levels
    return flat


def dithered_spread(mechanism: KeyValueMechanism, tally: Tally) -> Spread:
    """What the bins of a tally's dither tell."""
    if tally.dither == UNDITHERED:
        raise TallyError("expected a tally that is kept apart by the dither's bins, got one of no dither")
    whole = uncollide(mechanism, estimate(mechanism, tally.pooled))
    bins = [uncollide(mechanism, estimate(mechanism, each)) for each in tally.apart()]
    share_of = np.array([each.n_reports for each in bins]) / max(tally.n_reports, 1)
    error = np.stack([each.signed_se for each in bins], axis=1)
    return _where_known(
        np.isfinite(whole.frequency_se) & np.isfinite(error).all(axis=1),
        frequency=whole.frequency,
        frequency_variance=whole.frequency_se**2,
        signed=np.stack([each.signed for each in bins], axis=1),
        variance=error**2,
        # A bin's signs covary with its own reports' part of the frequency.
        crossed=np.stack([each.covariance for each in bins], axis=1) * share_of,
    )


def windowed_spread(mechanism: UeSw, tally: Tally, levels: int) -> Spread:
    """The same from noisy values: what an unbiased sum of the reports says of each level."""
    d, l, n = mechanism.n_keys, mechanism.pairs_per_user, max(tally.n_reports, 1)
    outputs = tally.cells["bins"][:d].astype(float)
    above = steps_up(bin_points(mechanism.bins), levels).T
    signs = np.vstack([2 * above - 1, np.ones(mechanism.bins)])
    weights = l * unbiased_weights(mechanism.channel, signs)
    squares = l * unbiased_weights(mechanism.channel, signs**2)
    counts = np.column_stack([n - outputs.sum(axis=1), outputs]) / n
    found, some, every = counts @ weights.T, weights[:-1], weights[-1]
    variance = np.maximum(counts @ (weights**2).T - counts @ squares.T, 0.0) / n
    with_frequency = (counts @ (some * every).T - found[:, :-1]) / n
    together = np.einsum("s,is,js->ij", counts.mean(axis=0), some, some)
    scale = np.sqrt(np.diag(together))
    return _where_known(
        np.full(d, tally.n_reports > 0),
        frequency=found[:, -1],
        frequency_variance=variance[:, -1],
        signed=found[:, :-1],
        variance=variance[:, :-1],
        crossed=with_frequency,
        correlation=together / scale / scale[:, None],
    )


def _where_known(known: NDArray[np.bool_], *, correlation: Floats | None = None, **found: Floats) -> Spread:
    """What was found of the keys of which something is known."""
    held = {
        name: np.where(known if rows.ndim == 1 else known[:, None], rows, 0.0) for name, rows in found.items()
    }
    held["frequency_variance"] = np.where(known, found["frequency_variance"], np.inf)
    return Spread(correlation=correlation, **held)
