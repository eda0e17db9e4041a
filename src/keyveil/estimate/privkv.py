"""Estimators of the PrivKV papers, for tallies of (plus, minus, asked) per key.

Letters: a = Pr["held" | holder], b = 1 - a for others, p = Pr[sign kept], x = 2p - 1. All functions
take arrays with one entry a key.

[PrivKV] Ye, Hu, Meng, Zheng, IEEE S&P 2019. [EM] the EM estimation paper; its four hidden states are
not identified by three outputs, see `em4`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ETA = 1e-7
MAX_ITERATIONS = 10_000


def heard_mean(plus: Floats, minus: Floats, p: float, previous: Floats) -> Floats:
    """The paper's mean of a round: signs debiased and cut, non-holders' signs among them.

    Biased towards what non-holders say: its expectation is (f a m + (1 - f) b fake) / (f a + (1 - f) b).
    Where nobody said "held", the previous mean stays.

    >>> heard_mean(np.array([75.0]), np.array([25.0]), 0.75, np.zeros(1)).tolist()
    [1.0]
    """
    heard = plus + minus
    up = np.clip(((p - 1) * heard + plus) / (2 * p - 1), 0, heard)
    down = np.clip(((p - 1) * heard + minus) / (2 * p - 1), 0, heard)
    return np.where(heard > 0, (up - down) / np.maximum(heard, 1), previous)


def heard_mean_se(mean: Floats, heard: Floats, p: float) -> Floats:
    """Standard error of `heard_mean` around its own expectation; says nothing of its bias."""
    x = 2 * p - 1
    return np.sqrt(np.maximum(1 - (x * mean) ** 2, 0) / (x * x * np.maximum(heard, 1)))


def contraction(frequency: Floats, a: float) -> Floats:
    """How much of its start a round's mean keeps: the share of non-holders among those heard."""
    fakes = (1 - frequency) * (1 - a)
    return fakes / (frequency * a + fakes)


def virtual_mean(real: Floats, before: Floats, frequency: Floats, a: float, iterations: int) -> Floats:
    """The mean after `iterations` further rounds like the last one, predicted instead of asked for.

    A round maps a mean m' to th m' + (1 - th) m; from the last real round's m' = `before` and its
    outcome `real`, the limit (real - th before) / (1 - th) is known, and every virtual round leaves
    th of the distance to it. Endless iterations from a start of 0 are the debiased mean.

    >>> virtual_mean(np.array([0.3]), np.array([0.0]), np.array([0.5]), 0.5, 40).round(6).tolist()
    [0.6]
    """
    th = contraction(frequency, a)
    limit = (real - th * before) / np.maximum(1 - th, 1e-12)
    return np.clip(limit + th**iterations * (real - limit), -1.0, 1.0)


class SignedShares(NamedTuple):
    """Shares of holders with + and with -."""

    plus: Floats
    minus: Floats

    @property
    def frequency(self) -> Floats:
        """The share of holders."""
        return self.plus + self.minus

    @property
    def mean(self) -> Floats:
        """Their mean sign; NaN where there are none."""
        held = self.frequency > 0
        return np.where(held, (self.plus - self.minus) / np.where(held, self.frequency, 1.0), np.nan)


def em4(
    plus: Floats,
    minus: Floats,
    asked: Floats,
    *,
    a: float,
    p: float,
    eta: float = ETA,
    max_iterations: int = MAX_ITERATIONS,
    start: tuple[float, float, float, float] = (0.25, 0.25, 0.25, 0.25),
) -> SignedShares:
    """EM over four hidden states, holders and non-holders each with a sign, as published.

    The frequency converges to the clipped debiased one. The mean is not identified: a whole set of
    means has the same likelihood, and which one is returned depends on `start`; from the uniform
    start it is shrunk towards 0. Stops when no state moves by more than `eta`, or after
    `max_iterations`; both change the answer.
    """
    b = 1 - a
    kernel = np.array(
        [
            [a * p, a * (1 - p), b],
            [a * (1 - p), a * p, b],
            [b * p, b * (1 - p), a],
            [b * (1 - p), b * p, a],
        ]
    )
    total = np.maximum(asked, 1)
    seen = np.stack([plus, minus, asked - plus - minus], axis=1) / total[:, None]
    theta = np.tile(np.array(start), (plus.size, 1))
    moving = np.flatnonzero(asked > 0)
    for _ in range(max_iterations):
        now = theta[moving]
        then = now * ((seen[moving] / (now @ kernel)) @ kernel.T)
        theta[moving] = then
        moving = moving[np.abs(then - now).max(axis=1) > eta]
        if moving.size == 0:
            break
    return SignedShares(theta[:, 0], theta[:, 1])


def mle3(plus: Floats, minus: Floats, asked: Floats, *, a: float, p: float) -> SignedShares:
    """The exact likelihood over three states, + holders, - holders, non-holders with a coin's sign.

    Identified. Inside the triangle it is the debiased estimate; outside, the best point of the
    triangle's three edges, each found by bisection of a concave derivative.
    """
    b, x = 1 - a, 2 * p - 1
    rows = np.array([[a * p, a * (1 - p), b], [a * (1 - p), a * p, b], [b / 2, b / 2, a]])
    total = np.maximum(asked, 1)
    frequency = ((plus + minus) / total - b) / (a - b)
    signed = (plus - minus) / (total * a * x)
    up, down = (frequency + signed) / 2, (frequency - signed) / 2
    outside = np.flatnonzero((np.minimum(up, down) < 0) | (frequency > 1))
    counts = np.stack([plus, minus, asked - plus - minus], axis=1)[outside]
    best = np.full(outside.size, -np.inf)
    for first, second in ((0, 1), (0, 2), (1, 2)):
        place = _best_on_edge(counts, rows[first], rows[second])
        law = (1 - place)[:, None] * rows[first] + place[:, None] * rows[second]
        likelihood = (counts * np.log(law)).sum(axis=1)
        better = likelihood > best
        best = np.where(better, likelihood, best)
        share = np.zeros((outside.size, 3))
        share[:, first], share[:, second] = 1 - place, place
        up[outside] = np.where(better, share[:, 0], up[outside])
        down[outside] = np.where(better, share[:, 1], down[outside])
    heard = asked > 0
    return SignedShares(np.where(heard, up, 0.0), np.where(heard, down, 0.0))


def _best_on_edge(counts: Floats, first: Floats, second: Floats) -> Floats:
    """The maximiser over u in [0, 1] of sum c log((1 - u) first + u second)."""
    low, high = np.zeros(len(counts)), np.ones(len(counts))
    slope = second - first
    for _ in range(60):
        middle = (low + high) / 2
        rising = (counts * slope / (first + middle[:, None] * slope)).sum(axis=1) > 0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    return (low + high) / 2
