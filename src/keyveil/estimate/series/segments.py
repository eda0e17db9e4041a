"""A level that stays, drifts or jumps: the exact posterior of every wave's level, over all keys at once.

A key's waves fall into segments. Within one the level is x_t = x_(t-1) + w_t, w_t ~ N(0, drift**2), and is
heard as y_t ~ N(x_t, s_t**2) with s_t known. Between two waves a segment ends with chance `chance`, and the
level is drawn anew from N(mean of the key, reach**2). Segments are independent given their ends, so the sum
over all 2**(W-1) ways to cut W waves is exact, by recursions over the last segment's start:

    E(a, b)   evidence of y_a..y_b as one segment      the Kalman filter, from every start at once
    F(b)      = sum over a of F(a-1) E(a, b)           the waves until b, a segment ending there
    B(a)      = sum over b of E(a, b) B(b+1)           the waves from a, a segment starting there
    P(a, b)   = F(a-1) E(a, b) B(b+1) / F(W-1)         the posterior of a segment

and a wave's level is the mixture of the smoothed levels of the segments that hold it. Nothing is smeared
over a jump: segments that the data contradict have no weight.

`reach` is a multiple of the key's typical standard error of a wave; `drift` one of the geometric mean of
that error and the key's level, as some crowds drift by a part of each key and others by as much for all.
Both are on a grid that is the same for all keys. How likely each place of it is, keys as popular learn
together (empirical Bayes), and each key then has its own posterior over the grid.

[Barry] Barry, Hartigan: Product Partition Models for Change Point Problems, Annals of Statistics 1992.
[Fearnhead] Fearnhead: Exact and Efficient Bayesian Inference for Multiple Changepoint Problems, 2006.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.estimate.estimates import Floats
from keyveil.estimate.series.observations import Observations

Ints = NDArray[np.int64]

# Elements of the largest array that is held at once.
_BLOCK = 1 << 22
# What is less likely than this, of one key, is left out; together they weigh less than one percent.
_LEAST = 1e-4
_ROUNDS = 300
_LOG_2_PI = float(np.log(2 * np.pi))


class Motion(NamedTuple):
    """One place of the grid: how a key may move."""

    drift: float
    """Standard deviation of a wave's drift, in geometric means of the key's error and level."""
    chance: float
    """Of a jump between two waves."""
    reach: float
    """Standard deviation of levels around the key's mean, in standard errors of a wave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """All motions that are tried.

    >>> len(Grid().motions)
    25
    """

    drifts: tuple[float, ...] = (0.0, 0.04, 0.12, 0.36, 1.2)
    """Less than .04 moves a rare key by a fifth of an error in 26 waves; at 1.2 little is smoothed."""
    chances: tuple[float, ...] = (0.02, 0.2)
    reaches: tuple[float, ...] = (1.0, 5.0)
    """Where the chance of a jump is 0, the largest: then it is no statement."""
    alike: float = 0.7
    """Keys whose popularity differs by this factor's logarithm (2) learn from each other as neighbours."""
    prior_still: float = 0.3
    """So many keys that stand still are counted beside those that are heard, and fewer of all others."""

    @property
    def filters(self) -> tuple[tuple[float, float], ...]:
        """Each drift with each reach: what the evidence of a segment depends on."""
        return tuple(product(self.drifts, self.reaches))

    @property
    def motions(self) -> tuple[Motion, ...]:
        """Every drift, still and with jumps."""
        jumps = [(0.0, self.reaches[-1]), *product(self.chances, self.reaches)]
        return tuple(Motion(drift, *jump) for drift, jump in product(self.drifts, jumps))

    @property
    def filter_of(self) -> Ints:
        """Which filter each motion is heard through."""
        places = {pair: place for place, pair in enumerate(self.filters)}
        return np.array([places[motion.drift, motion.reach] for motion in self.motions])


GRID = Grid()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Levels:
    """The posterior of every wave's level, and of each key's motion."""

    estimate: Floats
    variance: Floats
    motions: Floats
    """Keys by motions."""


def levels(seen: Observations, grid: Grid = GRID) -> Levels:
    """Means and variances of all levels; NaN for keys that were never heard."""
    known_keys = np.flatnonzero(seen.heard.any(axis=0))
    evidence = np.empty((known_keys.size, len(grid.motions)))
    for part in _parts(seen, known_keys.size, grid):
        chunk = _Chunk(seen.only(known_keys[part]), grid)
        evidence[part] = (chunk.forward()[-1] + chunk.known_mean()).T
    popularity = np.log(np.maximum(_middle(seen.only(known_keys)) / seen.unit[known_keys], 1.0))
    weights = _weights(evidence, popularity, grid)
    estimate, variance = np.full((2, seen.n_waves, seen.n_keys), np.nan)
    motions = np.full((seen.n_keys, len(grid.motions)), np.nan)
    for part in _parts(seen, known_keys.size, grid):
        keys = known_keys[part]
        motions[keys] = _posterior(evidence[part], weights[part])
        estimate[:, keys], variance[:, keys] = _Chunk(seen.only(keys), grid).moments(motions[keys])
    return Levels(estimate=estimate, variance=variance, motions=motions)


def _parts(seen: Observations, n_keys: int, grid: Grid) -> Iterator[slice]:
    """Keys in parts whose segments fit into memory."""
    size = max(1, _BLOCK // (seen.n_waves**2 * len(grid.filters)))
    for start in range(0, n_keys, size):
        yield slice(start, start + size)


def _weights(evidence: Floats, popularity: Floats, grid: Grid) -> Floats:
    """How likely each motion is for each key: the weights that make series of keys as popular likeliest."""
    room = np.rint(popularity / grid.alike).astype(np.int64)
    rooms = np.arange(room.max(initial=0) + 1)
    near = np.exp(-((rooms[:, None] - rooms) ** 2) / 2)
    belongs = (room == rooms[:, None]).astype(float)
    weights = np.full((rooms.size, evidence.shape[1]), 1 / evidence.shape[1])
    prior = np.full(weights.shape[1], grid.prior_still / weights.shape[1])
    prior[0] = grid.prior_still
    for _ in range(_ROUNDS):
        shares = near @ (belongs @ _posterior(evidence, weights[room])) + prior
        weights = shares / shares.sum(axis=1, keepdims=True)
    return weights[room]


def _middle(seen: Observations) -> Floats:
    """Each key's mean over waves, the surer ones weighing more."""
    value = np.where(seen.heard, seen.estimate, 0.0)
    middle: Floats = (value * seen.precision).sum(axis=0) / seen.precision.sum(axis=0)
    return middle


def _posterior(evidence: Floats, weights: Floats) -> Floats:
    law = np.exp(evidence - evidence.max(axis=1, keepdims=True)) * weights
    posterior: Floats = law / law.sum(axis=1, keepdims=True)
    return posterior


class _Chunk:
    """Some keys, with the evidence of each of their segments under each filter."""

    def __init__(self, seen: Observations, grid: Grid) -> None:
        self.grid, self.precision = grid, seen.precision
        # Everything in the key's own unit, around its mean.
        self.unit, self.middle = seen.unit, _middle(seen)
        self.value = np.where(seen.heard, seen.estimate - self.middle, 0.0) / self.unit
        self.precision = self.precision * self.unit**2
        drift, self.reach = (np.array(column)[:, None] ** 2 for column in zip(*grid.filters, strict=True))
        self.drift = drift * np.maximum(self.middle / self.unit, 1.0)
        motions = np.array(grid.motions)
        with np.errstate(divide="ignore"):
            self.ends, self.goes_on = np.log(motions[:, 1])[:, None], np.log1p(-motions[:, 1])[:, None]
        self.evidence = self._evidence()

    def _evidence(self) -> Floats:
        """Log-densities by start, end, filter and key; ends before their start are not filled."""
        waves, keys = self.value.shape
        found = np.zeros((waves, waves, self.reach.size, keys))
        mean, variance, law = np.zeros((3, waves, self.reach.size, keys))
        variance += self.reach
        for t in range(waves):
            past = slice(0, t + 1)
            variance[:t] += self.drift
            known = self.precision[t] * variance[past]
            off = self.value[t] - mean[past]
            heard = self.precision[t] > 0
            # In units where the noise is 1; a wave that was not heard says nothing.
            law[past] -= np.where(
                heard,
                (self.precision[t] * off**2 / (1 + known) + np.log1p(known) + self._own_law(t)) / 2,
                0.0,
            )
            mean[past] += known / (1 + known) * off
            variance[past] /= 1 + known
            found[past, t] = law[past]
        return found

    def _own_law(self, t: int) -> Floats:
        return _LOG_2_PI - np.log(np.where(self.precision[t] > 0, self.precision[t], 1.0))

    def known_mean(self) -> Floats:
        """What a first level gains because levels are drawn around the very mean of what was heard.

        A narrower reach would look likelier for every key. Of a level that stays, the gain is exactly this.
        """
        reach = np.array([motion.reach for motion in self.grid.motions])[:, None]
        gain: Floats = np.log1p(reach**2 * self.precision.sum(axis=0)) / 2
        return gain

    def forward(self) -> Floats:
        """F by last wave, motion and key."""
        waves, through = self.value.shape[0], self.grid.filter_of
        found = np.empty((waves, self.ends.size, self.value.shape[1]))
        for b in range(waves):
            before = np.concatenate([np.zeros_like(found[:1]), found[:b] + self.ends])
            stays = self.goes_on * np.arange(b, -1, -1)[:, None, None] if b else 0.0
            found[b] = _log_sum(before + self.evidence[: b + 1, b][:, through] + stays)
        return found

    def backward(self) -> Floats:
        """B by first wave, motion and key."""
        waves, through = self.value.shape[0], self.grid.filter_of
        found = np.empty((waves, self.ends.size, self.value.shape[1]))
        for a in range(waves - 1, -1, -1):
            after = np.concatenate([found[a + 1 :] + self.ends, np.zeros_like(found[:1])])
            stays = self.goes_on * np.arange(waves - a)[:, None, None]
            found[a] = _log_sum(after + self.evidence[a, a:][:, through] + stays)
        return found

    def moments(self, motions: Floats) -> tuple[Floats, Floats]:
        """Means and variances of the mixture of all segments, by wave and key."""
        waves, keys = self.value.shape
        likely = self._segments(motions)
        mean, variance = self._smooth(likely)
        first, second, weight = np.zeros((3, waves, keys))
        for t in range(waves):
            holds = (likely.start <= t) & (t <= likely.end)
            key, share = likely.key[holds], likely.share[holds]
            weight[t] = np.bincount(key, share, keys)
            first[t] = np.bincount(key, share * mean[t, holds], keys)
            second[t] = np.bincount(key, share * (variance[t, holds] + mean[t, holds] ** 2), keys)
        first, second = first / weight, second / weight
        return self.middle + self.unit * first, self.unit**2 * (second - first**2)

    def _segments(self, motions: Floats) -> _Segments:
        """Every segment of every key that is likely, under each filter."""
        waves, through = self.value.shape[0], self.grid.filter_of
        forward, backward = self.forward(), self.backward()
        with np.errstate(divide="ignore"):
            known = np.log(motions.T) - forward[-1]
        found: list[tuple[Floats, Ints, int, Ints, Ints]] = []
        for a in range(waves):
            before = known if a == 0 else known + forward[a - 1] + self.ends
            after = np.concatenate([backward[a + 1 :] + self.ends, np.zeros_like(backward[:1])])
            stays = self.goes_on * np.arange(waves - a)[:, None, None]
            by_motion = np.exp(before + self.evidence[a, a:][:, through] + stays + after)
            share = np.zeros((waves - a, self.reach.size, self.value.shape[1]))
            for motion, place in enumerate(through):
                share[:, place] += by_motion[:, motion]
            length, place, key = np.nonzero(share > _LEAST)
            found.append((share[length, place, key], key, a, a + length, place))
        return _Segments(
            share=np.concatenate([each[0] for each in found]),
            key=np.concatenate([each[1] for each in found]),
            start=np.concatenate([np.full(each[1].size, each[2]) for each in found]),
            end=np.concatenate([each[3] for each in found]),
            through=np.concatenate([each[4] for each in found]),
        )

    def _smooth(self, likely: _Segments) -> tuple[Floats, Floats]:
        """The Kalman filter and the smoother back, in each segment; waves beyond its ends mean nothing."""
        waves, drift = self.value.shape[0], self.drift[likely.through, likely.key]
        means, variances = np.zeros((2, waves, likely.key.size))
        mean, variance = np.zeros(likely.key.size), np.zeros(likely.key.size)
        for t in range(waves):
            starts = likely.start == t
            mean = np.where(starts, 0.0, mean)
            variance = np.where(starts, self.reach[likely.through, 0], variance + drift)
            known = self.precision[t, likely.key] * variance
            mean = mean + known / (1 + known) * (self.value[t, likely.key] - mean)
            variance = variance / (1 + known)
            means[t], variances[t] = mean, variance
        for t in range(waves - 2, -1, -1):
            inside = (likely.start <= t) & (t < likely.end)
            gain = np.where(inside, variances[t] / (variances[t] + np.where(inside, drift, 1.0)), 0.0)
            ahead = variances[t] + drift
            means[t] += gain * (means[t + 1] - means[t])
            variances[t] += gain**2 * (variances[t + 1] - ahead)
        return means, variances


class _Segments(NamedTuple):
    """Segments of keys, one a row."""

    share: Floats
    key: Ints
    start: Ints
    end: Ints
    through: Ints


def _log_sum(laws: Floats) -> Floats:
    """Over the first axis."""
    most = laws.max(axis=0)
    total: Floats = most + np.log(np.exp(laws - most).sum(axis=0))
    return total
