"""Pairs of keys: how many hold both, how much more often than by chance, and how the one tells the other.

With f_a, f_b, f_ab the shares of users who hold a key, another, and both:

    P(A and B) = f_ab,      lift = f_ab / (f_a f_b),      P(B | A) = f_ab / f_a

A pair has two codes, one with the value of either key, and f_ab is the mean of their two estimates. What the
estimates of two codes have in common is known (`mechanisms.moments`), since it is known who holds both: those
who hold the pair. People are drawn by chance too, so what they alone would differ by is added to the noise:
"lift 1" is said of where they come from.

Intervals of ratios are Fieller's: every ratio r for which f_ab - r f_a f_b may be 0. The product's error is
of first order, so nothing is said of pairs of keys that do not lie well above 0 themselves.

    towards chance    an empirical-Bayes estimate of f_ab: all pairs together show how far lifts are from 1,
                      and each is pulled towards f_a f_b by that. It has no interval; the raw one's stays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keyveil.domain import Pairs
from keyveil.estimate.breakdowns.cells import loudest_report, reach
from keyveil.estimate.breakdowns.private import moments_of
from keyveil.estimate.breakdowns.shrunk import SPREADS, mixing
from keyveil.estimate.estimates import Estimates, Floats, fieller
from keyveil.estimate.series.observations import CLEAR_OF_ZERO
from keyveil.numerics import CONFIDENCE, two_sided_z

TOWARDS_CHANCE = "towards chance"
Interval = tuple[Floats, Floats]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Together:
    """What is known of every pair of a crossing; shares, not cut to where they can be."""

    crossing: Pairs
    n_reports: int
    both: Floats
    """The share of users who hold both keys."""
    first: Floats
    """The share who hold the pair's first key, and its second."""
    second: Floats
    variance: Floats
    """By pair, the 3 x 3 covariance of both, first and second."""
    skewness: Floats
    """At most so skew is the law of `both`."""

    @property
    def standard_error(self) -> Floats:
        """Of `both`."""
        error: Floats = np.sqrt(self.variance[:, 0, 0])
        return error

    @property
    def clear(self) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Where both keys lie well above 0."""
        rows = ((self.first, 1), (self.second, 2))
        first, second = (share > CLEAR_OF_ZERO * np.sqrt(self.variance[:, at, at]) for share, at in rows)
        return np.logical_and(first, second)

    @property
    def chance(self) -> Floats:
        """The share who would hold both if the one said nothing of the other."""
        return self.first * self.second

    @property
    def lift(self) -> Floats:
        """How many times as many hold both as by chance; NaN where a key is too rare to say."""
        unknown = np.full(self.both.size, np.nan)
        lift: Floats = np.divide(self.both, self.chance, out=unknown, where=self.clear)
        return lift

    def interval(self, confidence: float = CONFIDENCE, *, together: bool = False) -> Interval:
        """Of the share who hold both: of each pair alone, or of all of them `together`."""
        far = self._z(confidence, together) * self.standard_error
        return self.both - far, self.both + far

    def lift_interval(self, confidence: float = CONFIDENCE, *, together: bool = False) -> Interval:
        """Of lifts, from 0 on; all there is where a key is too rare to say."""
        of_product = np.stack([np.zeros_like(self.first), self.second, self.first], axis=1)
        of_both = np.broadcast_to([1.0, 0.0, 0.0], of_product.shape)
        return self._ratio(self.chance, of_both, of_product, self._z(confidence, together), np.inf)

    def given(self, key: int) -> tuple[Floats, Floats, Floats]:
        """P(the other | this one) of every pair, and its interval; `key` is a pair's first (0) or second."""
        whole = self.second if key else self.first
        of_both = np.broadcast_to([1.0, 0.0, 0.0], (whole.size, 3))
        of_whole = np.broadcast_to(np.eye(3)[1 + key], of_both.shape)
        low, high = self._ratio(whole, of_both, of_whole, self._z(CONFIDENCE, False), 1.0)
        share = np.divide(self.both, whole, out=np.full(whole.size, np.nan), where=self.clear)
        return share, low, high

    def surely(self, false_alarms: float = 1 - CONFIDENCE) -> Floats:
        """1 where a pair is surely held more often than by chance, -1 where less, 0 else; of all together."""
        low, high = self.lift_interval(1 - false_alarms, together=True)
        sure: Floats = (low > 1).astype(float) - (high < 1)
        return sure

    def towards_chance(self) -> Floats:
        """The share who hold both, pulled towards what chance would make it; never below 0."""
        chance = np.clip(self.chance, 0.0, 1.0)
        noise = self.variance[:, 0, 0]
        unit = np.maximum(chance, np.sqrt(noise))
        apart = (np.array(SPREADS)[:, None] * unit) ** 2
        total = noise + apart
        likely = -((self.both - chance) ** 2) / (2 * total) - np.log(total) / 2
        _, belief = mixing(likely, np.ones(chance.size, dtype=np.bool_))
        pulled: Floats = (belief * (chance + apart / total * (self.both - chance))).sum(axis=0)
        return np.maximum(pulled, 0.0)

    def _z(self, confidence: float, together: bool) -> Floats:
        statements = max(self.both.size, 1) if together else 1
        return reach(self.skewness, two_sided_z(1 - (1 - confidence) / statements))

    def _ratio(self, bottom: Floats, top: Floats, slope: Floats, z: Floats, most: float) -> Interval:
        """Fieller's interval of `both` by what depends on the three shares with this slope."""
        variances = (
            np.einsum("pi,pij,pj->p", top, self.variance, top),
            np.einsum("pi,pij,pj->p", slope, self.variance, slope),
            np.einsum("pi,pij,pj->p", top, self.variance, slope),
        )
        low, high = fieller(self.both, bottom, variances, z, (0.0, most))
        return np.where(self.clear, low, 0.0), np.where(self.clear, high, most)


def pairs_together(raw: Estimates, crossing: Pairs) -> Together:
    """What unbiased estimates of a crossing's codes say of its pairs."""
    keys = {key: code for code, key in enumerate(crossing.keys)}
    first, second = (np.array([keys[pair[place]] for pair in crossing.held]) for place in (0, 1))
    one = len(keys) + 2 * np.arange(len(crossing.held))
    f, noise, n = raw.frequency, raw.frequency_se**2, max(raw.n_reports, 1)
    both = (f[one] + f[one + 1]) / 2
    held, a, b = (np.clip(share, 0.0, 1.0) for share in (both, f[first], f[second]))
    # Who holds the pair holds both keys, and nobody else holds two of these codes.
    moments = moments_of(raw)

    def common(x: Floats, y: Floats) -> Floats:
        rivals: Floats = moments.apart**2 + moments.apart * (x + y) + moments.together * held
        return -rivals / n

    drawn = 0.0 if moments.drawn else 1.0 / n
    variance = np.empty((both.size, 3, 3))
    variance[:, 0, 0] = (noise[one] + noise[one + 1] + 2 * common(held, held)) / 4 + drawn * held * (1 - held)
    variance[:, 1, 1] = noise[first] + drawn * a * (1 - a)
    variance[:, 2, 2] = noise[second] + drawn * b * (1 - b)
    variance[:, 0, 1] = variance[:, 1, 0] = common(held, a) + drawn * held * (1 - a)
    variance[:, 0, 2] = variance[:, 2, 0] = common(held, b) + drawn * held * (1 - b)
    variance[:, 1, 2] = variance[:, 2, 1] = common(a, b) + drawn * (held - a * b)
    return Together(
        crossing=crossing,
        n_reports=raw.n_reports,
        both=both,
        first=f[first],
        second=f[second],
        variance=variance,
        skewness=loudest_report(raw) / n / np.sqrt(variance[:, 0, 0]),
    )
