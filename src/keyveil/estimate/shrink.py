"""shrink: what the keys together say about each of them (empirical Bayes).

One key's estimate is noise around its frequency; a thousand keys show how frequencies are spread.
That spread, the prior, is estimated from the estimates themselves and every key is pulled towards
what is plausible given its own estimate:

    f_k  ~  G                    any distribution on a grid, by maximum likelihood (EM), smoothed in log f,
                                 tilted so that d E[f] is the known or estimated total
    m_k  ~  N(mu, tau**2)        mu ~ N(0, 0.4**2), anchored by the value group where there is one
    (f, S) estimates | f_k, m_k  Gaussian with the mechanism's own covariance (`Moments`)

The value group tells the mean of one pair of each user: of popular keys' values, therefore, which one key
that everybody holds may be alone. So it is not mu that its answer is compared with, but what one pair a user
comes to on average, keys that tell their own means by those, all others by mu.

The posterior mean of f serves all keys; it is too timid for the largest. `frequency_top` is the Bayes
rule for a loss that counts keys by how surely they belong to the top t: w(f) = 1/(1 + (tau_t/f)**8)
with tau_t the t-th largest frequency under G. Use it for a table of the top and for nothing else. Where
no key stands out (many keys, much noise) the tail of G is not learnt and both are the same.

Where estimates are of truncated shares (records cut to l pairs), the posterior is over frequencies
all the same: the likelihood knows what truncation makes of each.

Shrunken numbers have no intervals: those stay with the unbiased estimates, because an interval from
G is wrong for just those keys that people look at.

[NPMLE] Kiefer and Wolfowitz 1956; Koenker and Mizera 2014 for its use here.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.errors import MechanismError
from keyveil.estimate.estimates import Estimates
from keyveil.estimate.sizes import SizeLaw, Truncation
from keyveil.mechanisms import Moments

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrinking:
    """The tuned numbers of `shrink`; `bench/tuning.py` shows what each of them changes."""

    step: float = 0.35
    """The grid's step, in standard errors of a rare key: estimates tell no finer places apart."""
    fewest: int = 12
    """The grid has at least so many places, where noise is as large as all there is."""
    largest_grid: int = 600
    """It has about this many where noise is small: keys by places is the size of every array here."""
    iterations: int = 150
    """Steps of expectation-maximisation; it stops before the spread falls apart into single places."""
    bandwidth: float = 0.2
    """How far the spread is smoothed, in log f."""
    most_keys: int = 3000
    """The centre and spread of means are fitted on so many keys, the most frequent: the rest say little."""
    centre: float = 0.4
    """How far the centre of means typically lies from the middle of [-1, 1]: few values crowd at an end."""
    spread: float = 0.3
    """How far means of keys typically lie from their centre, on [-1, 1]: the scale of what tau may be."""
    dense: float = 0.1
    """Where the mean frequency is above this, keys that everybody holds are likely."""
    sharp: int = 8
    """How sharply the loss of `frequency_top` sets the top apart."""
    concentrated: float = 0.0125
    """Where the likeliest members of the top are not even this likely, nothing sets the top apart;"""
    likelier: float = 1.5
    """nor where they are not this many times as likely as any key is: never where the top is half of all."""
    spreads: tuple[float, ...] = (0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.45, 0.7, 1.0)
    """What tau may be: steps of about a half, since the likelihood hardly tells finer ones apart."""


SHRINKING = Shrinking()


class Anchor(NamedTuple):
    """Where means lie on the whole, from users who gave a value and nothing else."""

    mean: float
    error: float
    law: SizeLaw | None = None
    """How many pairs they chose one from; where that is not known, all of it speaks of the centre."""

    def weights(self, frequency: Floats) -> Floats:
        """The share of answers that each key of these frequencies is behind; others are behind the rest."""
        if self.law is None:
            return np.zeros_like(frequency)
        holders = float(self.law.shares[self.law.sizes > 0].sum())
        behind = Truncation(law=self.law, l=1).share(np.clip(frequency, 0.0, 1.0)) / max(holders, 1e-9)
        return behind / max(1.0, float(behind.sum()))


class Total(NamedTuple):
    """What frequencies sum to: pairs per user."""

    value: float
    error: float


NO_ANCHOR = Anchor(0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """Unbiased estimates of every key from one round, and what they are estimates of."""

    frequency: Floats
    signed: Floats
    asked: Floats
    moments: Moments
    truncation: Truncation

    @classmethod
    def of(cls, raw: Estimates, truncation: Truncation) -> Evidence:
        """What signed reports say; others are refused."""
        if raw.moments is None:
            raise MechanismError("shrink needs signed reports; use none, clip or project for this mechanism")
        return cls(
            frequency=raw.frequency,
            signed=raw.signed,
            asked=np.maximum(raw.asked, 1).astype(float),
            moments=raw.moments,
            truncation=truncation,
        )

    def only(self, keys: NDArray[np.int64]) -> Evidence:
        """Of some keys."""
        return replace(self, frequency=self.frequency[keys], signed=self.signed[keys], asked=self.asked[keys])

    def total(self, other: Total | None) -> float:
        """What frequencies sum to: the estimates' own sum and another's, weighed by their errors."""
        sizes = self.truncation.law
        whole = max(sizes.mean, 1e-9) / max(sizes.kept(self.truncation.l), 1e-9)
        own = float(self.frequency.sum()) * whole
        if other is None:
            return max(own, 0.0)
        noise = self.moments.covariance(np.clip(self.frequency, 0, 1), 0.0, self.asked).frequency
        variance = float(np.sum(noise)) * whole**2
        weight = variance / (variance + other.error**2)
        return max(0.0, (1 - weight) * own + weight * other.value)

    def law(self, grid: Floats) -> Floats:
        """The log-density of each key's frequency estimate at each frequency of the grid."""
        share = self.truncation.share(grid)
        variance = self.moments.covariance(share, 0.0, self.asked[:, None]).frequency
        return _normal(self.frequency[:, None] - share, variance)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prior:
    """How the frequencies of all keys are spread."""

    grid: Floats
    weights: Floats

    def on(self, grid: Floats) -> Floats:
        """The same spread on another grid, 0 keeping its own."""
        density = np.interp(grid[1:], self.grid[1:], self.weights[1:] / _widths(self.grid[1:]), right=0.0)
        spread = density * _widths(grid[1:])
        rest = 1 - self.weights[0]
        weights: Floats = np.concatenate([self.weights[:1], rest * spread / max(spread.sum(), 1e-300)])
        return weights

    def threshold(self, top: int, n_keys: int) -> float:
        """The top-th largest of n_keys frequencies."""
        above = np.cumsum(self.weights[::-1])[::-1] * n_keys
        return float(self.grid[max(1, int(np.flatnonzero(above >= min(top, above[0])).max()))])


class Earlier(NamedTuple):
    """A round about all keys, the spread that it found, and the keys that are asked again."""

    evidence: Evidence
    prior: Prior
    keys: NDArray[np.int64]

    @property
    def rest(self) -> NDArray[np.int64]:
        """The keys that are not asked again."""
        return np.delete(np.arange(self.evidence.frequency.size), self.keys)

    def believe(self, prior: Prior) -> Floats:
        """Where the rest are, on this round's own grid: a row of shares for each key."""
        grid = self.prior.grid
        return _shares(self.evidence.only(self.rest).law(grid) + _log(prior.on(grid)))

    def settled(self, grid: Floats) -> Floats:
        """How many of the rest are at each place of another grid."""
        places = Prior(grid=self.prior.grid, weights=self.believe(self.prior).mean(axis=0))
        return self.rest.size * places.on(grid)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shrunk:
    """Posterior means; `centre` and `tau` say what the keys' means turned out to share."""

    frequency: Floats
    frequency_top: Floats
    mean: Floats
    in_top: Floats
    """The chance that a key is at least as frequent as the last of the top."""
    centre: float
    tau: float
    prior: Prior


def shrink(
    evidence: Evidence,
    *,
    total: Total | None = None,
    anchor: Anchor = NO_ANCHOR,
    top: int = 50,
    prior: Prior | None = None,
    earlier: Earlier | None = None,
    tuning: Shrinking = SHRINKING,
) -> Shrunk:
    """Posterior means of every key's frequency and mean.

    `total` is what frequencies sum to, from elsewhere; `prior` replaces the spread that would be learnt.
    After an `earlier` round the keys asked again are judged by both rounds, the rest by the first, and
    all by the spread that both found.
    """
    grid = _grid(evidence, tuning)
    law, settled, whole = evidence.law(grid), np.zeros(grid.size), evidence
    if earlier is not None:
        whole = earlier.evidence
        law = law + whole.only(earlier.keys).law(grid)
        settled = earlier.settled(grid) if earlier.rest.size else settled
    if prior is None:
        mean = whole.total(total) / whole.frequency.size
        likeliest = _mixing(law, settled, tuning.iterations)
        weights = _smooth(likeliest, grid, tuning.bandwidth, dense=mean > tuning.dense)
        prior = Prior(grid=grid, weights=_tilt(weights, grid, mean))
    law = law + _log(prior.on(grid))
    signs = _Signs(evidence, grid, None if earlier is None else earlier.evidence.only(earlier.keys))
    centre, tau = _fit(signs, law, anchor, tuning)
    of_signs, means = signs.believe(centre, tau)
    held = _shares((law + of_signs)[:, 1:])
    mean_of = np.clip((held * means[:, 1:]).sum(axis=1), -1.0, 1.0)
    threshold = prior.threshold(top, whole.frequency.size)
    summaries = _summaries(_shares(law + of_signs), grid, threshold, tuning.sharp)
    if earlier is not None:
        again, summaries = summaries, np.empty((len(summaries), whole.frequency.size))
        summaries[:, earlier.keys] = again
        summaries[:, earlier.rest] = _summaries(
            earlier.believe(prior), earlier.prior.grid, threshold, tuning.sharp
        )
        again_mean, mean_of = mean_of, np.full(whole.frequency.size, centre)
        mean_of[earlier.keys] = again_mean
    frequency, frequency_top, in_top = summaries
    least = max(tuning.concentrated, tuning.likelier * top / in_top.size)
    concentrated = bool(np.sort(in_top)[-top:].mean() >= least)
    return Shrunk(
        frequency=frequency,
        frequency_top=frequency_top if concentrated else frequency,
        mean=mean_of,
        in_top=in_top,
        centre=centre,
        tau=tau,
        prior=prior,
    )


def _summaries(belief: Floats, grid: Floats, threshold: float, sharp: int) -> Floats:
    """Three rows: the mean frequency, that of a loss for the top, and the chance to be in the top."""
    weight = belief / (1 + (threshold / np.maximum(grid, 1e-12)) ** sharp)
    in_top = belief[:, grid >= threshold].sum(axis=1)
    return np.array([belief @ grid, (weight @ grid) / np.maximum(weight.sum(axis=1), 1e-300), in_top])


# --- the prior of frequencies ---


def _grid(evidence: Evidence, tuning: Shrinking) -> Floats:
    """0 and steps of a fraction of the noise, longer ones where the grid would grow too large.

    Among longer steps the estimates themselves are places too: little noise moves no key far.
    """
    noise = float(np.sqrt(evidence.moments.frequency_noise / np.median(evidence.asked)))
    # Two standard errors above the largest estimate: the frequency behind it hardly lies further off.
    largest = max(float(evidence.frequency.max(initial=0.0)) + 2 * noise, 4 * noise)
    step, reach = (float(x) for x in evidence.truncation.frequency(np.array([tuning.step * noise, largest])))
    reach = min(1.0, reach)
    count, most = max(tuning.fewest, int(reach / step) + 2), tuning.largest_grid
    if count <= most:
        return np.linspace(0.0, reach, count)
    even = np.arange(most // 2) * step
    own = np.sort(evidence.truncation.frequency(evidence.frequency))
    own = own[(own > even[-1]) & (own < reach)]
    own = own[:: 1 + own.size // most]
    return np.unique(np.concatenate([even, np.geomspace(even[-1] + step, reach, most // 2), own]))


def _widths(grid: Floats) -> Floats:
    return np.gradient(grid) if grid.size > 1 else np.ones(grid.size)


def _normal(off: Floats, variance: Floats) -> Floats:
    """The log-density, but for a constant, of an estimate that is `off` its mean."""
    density: Floats = -(off**2) / (2 * variance) - np.log(variance) / 2
    return density


def _log(weights: Floats) -> Floats:
    return np.log(np.maximum(weights, 1e-300))


def _shares(law: Floats) -> Floats:
    """Log-weights as shares of each row's sum."""
    weights = np.exp(law - law.max(axis=1, keepdims=True))
    shares: Floats = weights / weights.sum(axis=1, keepdims=True)
    return shares


def _mixing(law: Floats, settled: Floats, iterations: int) -> Floats:
    """The mixing weights that make all estimates together likeliest; `settled` keys stay where they are."""
    law = np.exp(law - law.max(axis=1, keepdims=True))
    prior = np.full(law.shape[1], 1.0 / law.shape[1])
    for _ in range(iterations):
        # Two products of a matrix and a vector; no array of keys by grid is made.
        prior = settled + prior * ((1.0 / np.maximum(law @ prior, 1e-300)) @ law)
        prior /= prior.sum()
    return prior


def _smooth(prior: Floats, grid: Floats, bandwidth: float, *, dense: bool) -> Floats:
    """Neighbours in log f share their weight; keys of nobody and, in dense records, of everybody do not."""
    inner = slice(1, -1 if dense and grid[-1] >= 1 and grid.size > 2 else None)
    places = np.log(grid[inner])
    kernel = np.exp(-((places[:, None] - places) ** 2) / (2 * bandwidth**2))
    kernel *= _widths(grid[inner])[:, None]
    smooth = prior.copy()
    smooth[inner] = (kernel / kernel.sum(axis=0)) @ prior[inner]
    weights: Floats = smooth / smooth.sum()
    return weights


def _tilt(prior: Floats, grid: Floats, mean: float) -> Floats:
    """The nearest prior (in relative entropy) whose mean is known."""
    if not grid[0] < mean < grid[-1]:
        return prior
    low, high = -60.0 / grid[-1], 60.0 / grid[-1]
    scale = 1.0
    while scale < 1e6:
        ends = [_tilted(prior, grid, slope * scale) @ grid for slope in (low, high)]
        if ends[0] <= mean <= ends[1]:
            break
        scale *= 4
    low, high = low * scale, high * scale
    for _ in range(100):
        middle = (low + high) / 2
        if _tilted(prior, grid, middle) @ grid < mean:
            low = middle
        else:
            high = middle
    return _tilted(prior, grid, (low + high) / 2)


def _tilted(prior: Floats, grid: Floats, slope: float) -> Floats:
    exponent = slope * grid
    weights = prior * np.exp(exponent - exponent.max())
    tilted: Floats = weights / weights.sum()
    return tilted


# --- the prior of means ---


class _Signs:
    """Signed shares given frequencies on the grid."""

    def __init__(self, evidence: Evidence, grid: Floats, before: Evidence | None = None) -> None:
        self.evidence, self.grid = evidence, grid
        self.share = evidence.truncation.share(grid)
        # What the same keys' signs said before, if they said anything.
        tells = before is not None and np.isfinite(before.moments.signed_noise)
        self.before = _Signs(before, grid) if before is not None and tells else None

    def only(self, keys: NDArray[np.int64]) -> _Signs:
        before = None if self.before is None else self.before.evidence.only(keys)
        return _Signs(self.evidence.only(keys), self.grid, before)

    def _parts(self, centre: float) -> tuple[Floats, Floats]:
        """What the centre leaves unexplained of the signed share, and the variance of its noise."""
        seen = self.evidence
        spread = seen.moments.covariance(self.share, centre, seen.asked[:, None])
        slope = spread.crossed / spread.frequency
        left = seen.signed[:, None] - self.share * centre - slope * (seen.frequency[:, None] - self.share)
        return left, spread.signed - slope * spread.crossed

    def moments_of(self, centre: float, tau: float) -> tuple[Floats, Floats, Floats]:
        """Log-densities of the signed share, and means and errors of m before its range is known."""
        law, middle, spread = self._believe(centre, tau)
        return law, np.clip(middle, -1.0, 1.0), np.zeros_like(middle) if spread is None else spread

    def believe(self, centre: float, tau: float) -> tuple[Floats, Floats]:
        """Log-densities of the signed share and posterior means of m, keys by grid."""
        law, middle, spread = self._believe(centre, tau)
        return law, middle if spread is None else _mean_within_range(middle, spread)

    def _believe(self, centre: float, tau: float) -> tuple[Floats, Floats, Floats | None]:
        """Log-densities, and the posteriors of m before they are cut to [-1, 1]; None if they are points."""
        if not np.isfinite(self.evidence.moments.signed_noise):
            shape = self.evidence.frequency.size, self.grid.size
            return np.zeros(shape), np.full(shape, centre), None
        left, noise = self._parts(centre)
        total = noise + (self.share * tau) ** 2
        law = _normal(left, total)
        if tau == 0:
            if self.before is not None:
                law = law + _normal(*self.before._parts(centre))
            return law, np.full(law.shape, centre), None
        middle = centre + self.share * tau**2 / total * left
        spread = tau * np.sqrt(noise / total)
        if self.before is not None:
            left, noise = self.before._parts(centre)
            left = left - self.before.share * (middle - centre)
            total = noise + (self.before.share * spread) ** 2
            law = law + _normal(left, total)
            middle = middle + self.before.share * spread**2 / total * left
            spread = spread * np.sqrt(noise / total)
        whole = _within_range(np.full(1, centre), np.full(1, tau))
        return law + np.log(_within_range(middle, spread) / whole), middle, spread


def _within_range(middle: Floats, spread: Floats) -> Floats:
    """How much of a normal distribution lies in [-1, 1]."""
    inside: Floats = _reached((1 - middle) / spread) - _reached((-1 - middle) / spread)
    return np.maximum(inside, 1e-12)


def _mean_within_range(middle: Floats, spread: Floats) -> Floats:
    """The mean of the part of a normal distribution that lies in [-1, 1]."""
    low, high = (-1 - middle) / spread, (1 - middle) / spread
    shift = (np.exp(-(low**2) / 2) - np.exp(-(high**2) / 2)) / np.sqrt(2 * np.pi)
    mean: Floats = middle + spread * shift / _within_range(middle, spread)
    return np.clip(mean, -1.0, 1.0)


def _reached(z: Floats) -> Floats:
    """The normal distribution function, to 1e-7 (Abramowitz and Stegun 26.2.17)."""
    t = 1 / (1 + 0.2316419 * np.abs(z))
    tail = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    series = np.polyval([1.330274429, -1.821255978, 1.781477937, -0.356563782, 0.319381530, 0.0], t)
    reached: Floats = np.where(z > 0, 1 - tail * series, tail * series)
    return reached


def _fit(signs: _Signs, law: Floats, anchor: Anchor, tuning: Shrinking) -> tuple[float, float]:
    """The centre and spread of means that the keys and the value group together find likeliest.

    The centre is looked for at nine places of the whole range, or within two errors of the anchor if that is
    all that is known of it, and twice more at nine between neighbours: to .03, or an eighteenth of those
    errors, so what is missed adds less than .001 to the square of a mean's error.
    """
    keys = np.argsort(-signs.evidence.frequency)[: tuning.most_keys]
    few, known = signs.only(keys), law[keys]
    weights = anchor.weights(_shares(known) @ few.grid)

    def likelihood(centre: float, tau: float) -> float:
        density, means, spread = few.moments_of(centre, tau)
        joint = known + density
        best = joint.max(axis=1, keepdims=True)
        chances = np.exp(joint - best)
        total = chances.sum(axis=1)
        fit = (best[:, 0] + np.log(total)).sum() - (
            (centre / tuning.centre) ** 2 + (tau / tuning.spread) ** 2
        ) / 2
        own = (chances * means).sum(axis=1) / total
        doubt = (chances * spread**2).sum(axis=1) / total
        expected = weights @ own + (1 - weights.sum()) * centre
        variance = anchor.error**2 + weights**2 @ doubt
        return float(fit - (anchor.mean - expected) ** 2 / variance / 2 - math.log(variance) / 2)

    around = np.linspace(-1, 1, 9)
    start, reach = (0.0, 1.0) if tuning.centre < math.inf else (anchor.mean, min(2 * anchor.error, 1.0))
    # Both at once first: a centre outside with a wide spread looks much like the right ones.
    pairs = itertools.product(np.clip(start + reach * around, -1, 1).tolist(), tuning.spreads[::2])
    centre, tau = max(pairs, key=lambda pair: likelihood(*pair))
    for _ in range(2):
        tau = max(tuning.spreads, key=lambda each: likelihood(centre, each))
        reach /= 3
        tried = np.clip(centre + reach * around, -1, 1)
        centre = max(tried.tolist(), key=lambda each: likelihood(each, tau))
    return centre, tau
