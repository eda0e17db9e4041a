"""From a tally to unbiased numbers with standard errors.

    frequency   unbiased; may lie outside [0, 1]
    signed      unbiased for frequency * mean; the two linear parts everything else is made of
    mean        signed / frequency on the scale [-1, 1]; consistent, undefined (NaN) where frequency <= 0

Standard errors plug the estimate into the mechanism's own variance. A key that no report could
speak of has frequency 0 and an infinite standard error: nothing is known of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from keyveil.errors import MechanismError, TallyError
from keyveil.estimate.influence import Lever, Pull, lever
from keyveil.mechanisms import KeyValueMechanism, Moments
from keyveil.mechanisms.moments import Covariance
from keyveil.numerics import CONFIDENCE, two_sided_z
from keyveil.tally import Tally

Floats = NDArray[np.float64]


class Hidden(Protocol):
    """How much of every key cutting records may hide."""

    def most(self, share: Floats) -> Floats:
        """At most so much is hidden of a key of which this share is heard."""

    def part(self, share: Floats) -> Floats:
        """At most this part of a key's holders was not heard, where this share or more was."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimates:
    """Per-key estimates on the scale [-1, 1], and the names of the steps that shaped them."""

    n_reports: int
    asked: NDArray[np.int64]
    frequency: Floats
    frequency_se: Floats
    signed: Floats
    signed_se: Floats
    covariance: Floats
    """Between frequency and signed."""
    mean: Floats
    mean_se: Floats
    steps: tuple[str, ...] = ()
    moments: Moments | None = None
    """What is left unknown of a key, where the mechanism tells signed keys."""
    lever: Pull | None = None
    """What one report can do to a key, where the estimator is linear in reports."""
    frequency_top: Floats | None = None
    """Frequencies for a table of the top keys, where they are estimated apart."""
    means_are_biased: bool = False
    """Whether the means miss the truth by more than noise, so that no standard error covers it."""
    coarseness: float = 0.0
    """How far a mean may lie from the one that was estimated because devices rounded values to bins."""
    unbiased: Estimates | None = None
    """The estimates without bias that these come from, where they are others; intervals are of those."""
    means_apart: bool = False
    """Whether each mean has its own interval of 95 %, whatever chance says of others: so it was once."""
    unheard: Hidden | None = None
    """What cutting records may hide of a key, where the unbiased estimates are about cut ones."""

    @property
    def heard(self) -> Estimates:
        """The unbiased estimates: about cut records, where records were cut."""
        return self if self.unbiased is None else self.unbiased

    def frequency_interval(self, confidence: float = CONFIDENCE) -> tuple[Floats, Floats]:
        """Wald interval around the unbiased frequency; not cut to [0, 1].

        Where records were cut it reaches further up, by all that may be hidden.
        """
        if self.unheard is None:
            reach = two_sided_z(confidence) * self.frequency_se
            return self.frequency - reach, self.frequency + reach
        low, high = self.heard.frequency_interval(confidence)
        return low, high + self.unheard.most(high)

    def mean_interval(self, confidence: float = CONFIDENCE) -> tuple[Floats, Floats]:
        """Intervals within [-1, 1], or all of it; of those that say more at most 5 % miss (`confidence`).

        Whether a key's interval says anything depends on chance, and chance that makes a rare key look
        common makes its interval wrong. So the more keys there are of which nothing can be said, the surer
        each statement must be: r statements about d keys are made at the level 1 - r 5 % / d, where r is
        the largest number for which so many can be made. Where all are made, that is 95 % for each.

        [Benjamini] Benjamini, Yekutieli: False Discovery Rate-Adjusted Multiple Confidence Intervals for
        Selected Parameters, Journal of the American Statistical Association 2005.
        """
        if self.means_apart:
            return self.mean_interval_alone(confidence)
        stated = keys = max(1, int(np.isfinite(self.heard.frequency_se).sum()))
        while True:
            low, high = self.mean_interval_alone(1 - (1 - confidence) * stated / keys)
            count = int(((low > -1) | (high < 1)).sum())
            if count >= stated or not count:
                return low, high
            stated = count

    def mean_interval_alone(self, confidence: float = CONFIDENCE) -> tuple[Floats, Floats]:
        """Fieller's interval within [-1, 1]: every mean m for which signed - m frequency may be 0.

        Where the frequency itself may be 0 that set is unbounded, and the whole range is given; so
        it is for biased means, which no standard error covers. Both ends allow for coarse bins, and for
        the values of holders who may not have been heard.
        """
        if self.unbiased is not None:
            return self._with_unheard(*self.unbiased.mean_interval_alone(confidence), confidence)
        if self.means_are_biased:
            return np.full_like(self.mean, -1.0), np.full_like(self.mean, 1.0)
        variances = self.signed_se**2, self.frequency_se**2, self.covariance
        low, high = fieller(self.signed, self.frequency, variances, two_sided_z(confidence), (-1.0, 1.0))
        return np.maximum(low - self.coarseness, -1.0), np.minimum(high + self.coarseness, 1.0)

    def _with_unheard(self, low: Floats, high: Floats, confidence: float) -> tuple[Floats, Floats]:
        """Intervals of means of those heard, with any values of the others."""
        part = self.unheard_part(confidence)
        return (1 - part) * low - part, (1 - part) * high + part

    def unheard_part(self, confidence: float = CONFIDENCE) -> Floats:
        """Which part of each key's holders may not have been heard, because records were cut."""
        if self.unheard is None:
            return np.zeros(self.frequency.size)
        return self.unheard.part(self.heard.frequency_interval(confidence)[0])

    def told_within(self, group: float) -> Estimates:
        """These estimates as those of a round that only a part of all users answers."""
        return self if not isinstance(self.lever, Lever) else replace(self, lever=self.lever.within(group))

    def after(self, step: str, *, frequency: Floats, mean: Floats) -> Estimates:
        """These estimates with a post-processing step's point values; errors stay the raw ones'."""
        return replace(self, frequency=frequency, mean=mean, steps=(*self.steps, step))


def estimate(mechanism: KeyValueMechanism, tally: Tally) -> Estimates:
    """Unbiased frequencies and consistent means of every key.

    >>> from keyveil.mechanisms import build
    >>> m = build("pckv-ue", 4, n_keys=1)
    >>> e = estimate(m, Tally.of(question="q", n_reports=100, plus=[48], minus=[2], asked=[100]))
    >>> bool(0.9 < e.frequency[0] < 1.1 and 0.9 < e.mean[0] < 1.0)
    True
    """
    if tally.asked.size != mechanism.n_keys:
        raise TallyError(f"expected a tally of {mechanism.n_keys} keys, got {tally.asked.size}")
    heard = tally.asked > 0
    asked = np.maximum(tally.asked, 1)
    users = max(tally.n_reports, 2)
    frequency, signed = mechanism.debias(*_signs(tally), asked)
    frequency, signed = np.where(heard, frequency, 0.0), np.where(heard, signed, 0.0)
    variance = mechanism.variance(np.clip(frequency, 0.0, 1.0), asked, users)
    mean = mean_of(signed, frequency)
    spread = mechanism.moments.covariance(np.clip(frequency, 0.0, 1.0), plausible(mean), asked)
    return Estimates(
        n_reports=tally.n_reports,
        asked=tally.asked,
        frequency=frequency,
        frequency_se=np.where(heard, np.sqrt(np.maximum(variance, 0.0)), np.inf),
        signed=signed,
        signed_se=np.where(heard, np.sqrt(spread.signed), np.inf),
        covariance=np.where(heard, spread.crossed, 0.0),
        mean=mean,
        mean_se=mean_error(mean, frequency, spread),
        moments=mechanism.moments,
        lever=_pull(mechanism),
    )


def mean_of(signed: Floats, frequency: Floats) -> Floats:
    """Signed / frequency; NaN where the frequency is not positive."""
    held = frequency > 0
    return np.where(held, signed / np.where(held, frequency, 1.0), np.nan)


def plausible(mean: Floats) -> Floats:
    """Within the range of means; the middle where there is none."""
    return np.clip(np.nan_to_num(mean), -1.0, 1.0)


def mean_error(mean: Floats, frequency: Floats, spread: Covariance) -> Floats:
    """First-order standard error of a mean; infinite where the frequency is not positive."""
    held = frequency > 0
    variance = spread.of_mean(np.where(held, np.minimum(frequency, 1.0), 1.0), plausible(mean))
    return np.where(held, np.sqrt(np.maximum(variance, 0.0)), np.inf)


def _pull(mechanism: KeyValueMechanism) -> Lever | None:
    """The lever of a mechanism; a shape from elsewhere that registers none has no bound to print."""
    try:
        return lever(mechanism)
    except MechanismError:
        return None


def _signs(tally: Tally) -> tuple[Floats, Floats]:
    """Reports for + and for -; a level between counts for both, by where it lies."""
    if "bins" not in tally.cells:
        return tally.plus.astype(float), tally.minus.astype(float)
    heard = tally.cells["bins"].astype(float)
    up = np.linspace(0.0, 1.0, heard.shape[1])
    return heard @ up, heard @ (1 - up)


def fieller(
    top: Floats,
    bottom: Floats,
    variances: tuple[Floats, Floats, Floats],
    z: float | Floats,
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
