"""Plausible shapes from noisy levels: what a key's own reports say, as far as they say more than all keys do.

A key's levels g (`spread`) are a falling line in noise of known size. Most keys have less to say of their
shape than its picture would need, but all of them together have a lot:

    pooled shape   flat, but for a bridge of unknown size (a random curve that is 0 at both ends)
    key's shape    the pooled one, but for a bridge over it of another size

How large bridges are and how smooth is learnt from the data by their marginal likelihood, and averaged over:
where noise explains all that differs the shape is the pooled one, and the flat one where it explains that.
What comes out is a posterior mean, made to fall (`falling`) within [0, 1]: it is biased as all that is
smoothed, and nothing is concluded from it.

The bridge over a shape with distribution function F has covariance min(F, F') - F F', that of an empirical
distribution function: shapes vary where there are values. A power of it up to 4 is smoother.

[Berger] Berger, Bernardo: Ordered group reference priors, 1989, for averaging over scales; [Robbins]
Robbins: An empirical Bayes approach to statistics, 1956.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.estimate.distribution import Distribution
from keyveil.estimate.spread import Spread, flat_levels

Floats = NDArray[np.float64]

# How smooth bridges may be, as powers; how large, in standard deviations at the middle.
_POWERS = (1.0, 2.0, 3.0, 4.0)
_SIZES = tuple(float(size) for size in 0.01 * 2 ** np.arange(0, 8.5, 0.5))
# How likely it is beforehand that there is none: as likely as any. Without it noise is taken for shapes where
# little is known (flat values, epsilon 0.5, l = 4: distance .021, now .013; all other shapes within 5 %).
_NONE = 0.5
# Keys by which bridges are learnt: those that are known best.
_LEARNT_FROM = 2000
# The size of shared bridges is known after so many rounds of weighing keys by it.
_ROUNDS = 2


class _Bridge(NamedTuple):
    """Random curves over a shape: directions, and for each power and size the variance along them."""

    directions: Floats
    variances: Floats
    prior: Floats
    """The logarithm of how likely each is before anything was heard."""


def shapes(spread: Spread) -> Floats:
    """Every key's levels as they plausibly are: falling, within [0, 1]; a row a key.

    >>> flat = np.linspace(0.9, 0.1, 5)
    >>> one = Spread(frequency=np.ones(1), frequency_variance=np.zeros(1), crossed=np.zeros((1, 5)),
    ...              signed=2 * flat[None] - 1 + 0.02, variance=np.full((1, 5), 0.01))
    >>> shapes(one).round(2).tolist()
    [[0.9, 0.7, 0.5, 0.3, 0.1]]
    """
    flat, heard = flat_levels(spread.levels), spread.is_known
    if not heard.any():
        return np.tile(flat, (heard.size, 1))
    own = spread.of(heard)
    held = np.maximum(own.frequency, np.sqrt(own.frequency_variance))[:, None]
    seen, noise = (1 + own.signed / held) / 2, (own.variance / (4 * held**2)).mean(axis=1)
    pooled, between = flat, 0.0
    for _ in range(_ROUNDS):
        weight = 1 / (noise + between)
        mean = weight @ seen / weight.sum()
        pooled = falling(_settled(mean[None], np.array([1 / weight.sum()]), flat)[0])[0]
        shaped, between = _settled(seen, noise, pooled)
    found = np.tile(pooled, (heard.size, 1))
    found[heard] = falling(shaped)
    return found


def _settled(seen: Floats, noise: Floats, centre: Floats) -> tuple[Floats, float]:
    """Posterior means of rows around a centre, averaged over bridges; and the mean variance of those."""
    bridge = _bridge_over(centre)
    off = (seen - centre) @ bridge.directions
    best = np.argsort(noise)[:_LEARNT_FROM]
    total = bridge.variances[:, None, :] + noise[best][None, :, None]
    likely = bridge.prior - 0.5 * (np.log(total) + off[best] ** 2 / total).sum(axis=(1, 2))
    weights = np.exp(likely - likely.max())
    weights /= weights.sum()
    kept = np.zeros_like(off)
    for weight, variances in zip(weights, bridge.variances, strict=True):
        if weight > 1e-6:
            kept += weight * variances / (variances + noise[:, None])
    shaped = centre + (kept * off) @ bridge.directions.T
    return shaped, float(weights @ bridge.variances.mean(axis=1))


def _bridge_over(centre: Floats) -> _Bridge:
    below = 1 - np.clip(centre, 0.0, 1.0)
    kernel = np.minimum(below[:, None], below) - below[:, None] * below
    values, directions = np.linalg.eigh(kernel)
    values = np.maximum(values, 1e-9)
    rows = [np.zeros_like(values)]
    for power in _POWERS:
        own = values**power
        # As large at its middle as a bridge is at the middle of [0, 1], where its variance is a quarter.
        largest = ((directions**2) @ own).max()
        rows += [size**2 * own / largest for size in _SIZES]
    prior = np.full(len(rows), np.log((1 - _NONE) / (len(rows) - 1)))
    prior[0] = np.log(_NONE)
    return _Bridge(directions, np.array(rows), prior)


def falling(rows: Floats) -> Floats:
    """The nearest rows that never rise (least squares), cut to [0, 1].

    >>> falling(np.array([[0.9, 0.2, 0.6, -0.1]])).round(3).tolist()
    [[0.9, 0.4, 0.4, 0.0]]
    """
    rows = np.atleast_2d(rows)
    size = rows.shape[1]
    total = np.pad(np.cumsum(rows, axis=1), ((0, 0), (1, 0)))
    found = np.full(rows.shape, np.inf)
    for first in range(size):
        # Of all stretches from here on: their averages, and for each place the largest that reaches it.
        mean = (total[:, first + 1 :] - total[:, first : first + 1]) / np.arange(1, size - first + 1)
        reach = np.maximum.accumulate(mean[:, ::-1], axis=1)[:, ::-1]
        found[:, first:] = np.minimum(found[:, first:], reach)
    fallen: Floats = np.clip(found, 0.0, 1.0)
    return fallen


def marked(levels: Floats) -> Distribution:
    """Shares of values by the marks between levels, on the scale [-1, 1]: their mean is the mean of levels.

    >>> marked(np.array([[0.75, 0.25]])).shares.tolist()
    [[0.25, 0.5, 0.25]]
    """
    whole = np.pad(levels, ((0, 0), (1, 1)), constant_values=((0, 0), (1, 0)))
    points = np.linspace(-1.0, 1.0, levels.shape[1] + 1)
    return Distribution(points=points, shares=whole[:, :-1] - whole[:, 1:], steps=("shapes",))
