"""Value distributions from noisy histograms.

A key's reports fall into n_out output numbers. Of those heard, a share `fake` came from users who
had not sampled the key, spread evenly; the rest came through the window: an input bin i shows in its
window with chance `near` each and elsewhere with chance `far` each. So the heard outputs follow

    (1 - fake) * (M P) + fake / n_out,

P being the distribution on n_in bins. `expectation_maximisation` maximises that likelihood; products
with M are running sums, so an iteration over k keys costs O(k n_out) time and about six arrays of
that size; keys are taken `KEYS_AT_ONCE` at a time, which bounds memory by 48 KEYS_AT_ONCE n_out bytes
whatever the number of keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from keyveil.compiled import is_compiled_alike
from keyveil.mechanisms import ValueChannel, Window

Floats = NDArray[np.float64]

ITERATIONS = 300
JOINT_ITERATIONS = 600
TOLERANCE = 1e-5
KEYS_AT_ONCE = 1024
# What an output costs numpy in an iteration, in passes over it.
_STEPS = 30


def project(values: Floats, total: float) -> Floats:
    """The nearest non-negative numbers that sum to `total` (Euclidean; exact, by sorting).

    >>> project(np.array([0.5, 0.3, -0.2]), 1.0).round(3).tolist()
    [0.6, 0.4, 0.0]
    >>> project(np.array([0.5, -0.2]), 0.0).tolist()
    [0.0, 0.0]
    """
    if total <= 0:
        return np.zeros_like(values)
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, values.size + 1)
    shift = float(excess[np.flatnonzero(ordered > excess)[-1]])
    return np.maximum(values - shift, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Distribution:
    """One distribution a key over equal bins (or marked points) of the value range [-1, 1].

    Rows of keys about which nothing is known are NaN. `points` are the values the bins stand for, each for
    all that is nearer to it than to the others; `steps` say what was done beside counting.
    """

    points: Floats
    shares: Floats
    steps: tuple[str, ...] = ()

    def mean(self) -> Floats:
        """Mean of each key's values."""
        return self.shares @ self.points

    def variance(self) -> Floats:
        """Variance of each key's values, between bins."""
        mean: Floats = self.shares @ self.points**2 - self.mean() ** 2
        return np.maximum(mean, 0.0)

    def quantile(self, q: float) -> Floats:
        """The value below which a share q lies, linear inside the bin that holds it.

        >>> d = Distribution(points=np.array([-0.5, 0.5]), shares=np.array([[0.5, 0.5]]))
        >>> d.quantile(0.25).tolist(), d.quantile(0.5).tolist()
        ([-0.5], [0.0])
        """
        known = np.isfinite(self.shares.sum(axis=1))
        shares = np.where(known[:, None], self.shares, 1.0 / self.points.size)
        reached, ends = np.cumsum(shares, axis=1), self._ends()
        place = np.minimum((reached < q).sum(axis=1), self.points.size - 1)
        rows = np.arange(len(shares))
        inside = shares[rows, place]
        part = np.where(
            inside > 0, (q - (reached[rows, place] - inside)) / np.where(inside > 0, inside, 1), 0.5
        )
        found = ends[place] + np.clip(part, 0, 1) * (ends[place + 1] - ends[place])
        return np.where(known, found, np.nan)

    def reached(self, edges: Floats) -> Floats:
        """The share of each key's values at or below each edge, linear inside a bin."""
        ends = self._ends()
        whole = np.pad(np.cumsum(self.shares, axis=1), ((0, 0), (1, 0)))
        place = np.clip(np.searchsorted(ends, edges, side="right") - 1, 0, self.points.size - 1)
        part = (edges - ends[place]) / (ends[place + 1] - ends[place])
        reached: Floats = whole[:, place] + part * self.shares[:, place]
        return reached

    def _ends(self) -> Floats:
        """Where bins begin and end: halfway between the values they stand for."""
        return np.concatenate([[-1.0], (self.points[1:] + self.points[:-1]) / 2, [1.0]])

    def above(self, levels: int) -> Floats:
        """Which part of each key's values lies above each of equal bins of [-1, 1], on average over the bin.

        >>> d = Distribution(points=np.array([-1.0, 0.0, 1.0]), shares=np.array([[0.25, 0.5, 0.25]]))
        >>> d.above(2).tolist()
        [[0.75, 0.25]]
        """
        found: Floats = self.shares @ steps_up(self.points, levels)
        return found

    def coarse(self, bins: int) -> Distribution:
        """Neighbouring bins added up; `bins` must divide their number."""
        size = self.points.size // bins
        return Distribution(
            points=self.points.reshape(bins, size).mean(axis=1),
            shares=self.shares.reshape(len(self.shares), bins, size).sum(axis=2),
        )


def wasserstein(one: Floats, other: Floats, width: float) -> Floats:
    """Wasserstein distance of each pair of histograms over bins of equal width, in the value's unit.

    >>> wasserstein(np.array([[0.5, 0, 0.5]]), np.array([[0, 1, 0]]), 1.0).tolist()
    [1.0]
    """
    apart: Floats = np.abs(np.cumsum(one - other, axis=-1)).sum(axis=-1) * width
    return apart


def steps_up(points: Floats, levels: int) -> Floats:
    """Which part of each of equal bins of [-1, 1] lies below each point: one row a point.

    >>> steps_up(np.array([-0.5, 1.0]), 2).tolist()
    [[0.5, 0.0], [1.0, 1.0]]
    """
    parts: Floats = np.clip((points[:, None] + 1) / 2 * levels - np.arange(levels), 0.0, 1.0)
    return parts


def bin_points(bins: int) -> Floats:
    """The middles of equal bins of [-1, 1]."""
    return (np.arange(bins) + 0.5) / bins * 2.0 - 1.0


def fake_share(channel: ValueChannel, sampled: Floats) -> Floats:
    """Which part of what is heard of a key is fake, when a share `sampled` of those asked sampled it."""
    a, b = float(channel.a), float(channel.b)
    fakes = (1 - sampled) * b
    return fakes / (fakes + sampled * a)


class Windowed(Protocol):
    """Whatever tells near outputs oftener than far ones."""

    @property
    def window(self) -> Window:
        """Which outputs are near."""

    @property
    def near(self) -> int:
        """Words for a near output."""

    @property
    def far(self) -> int:
        """Words for a far output."""


def expectation_maximisation(
    channel: Windowed,
    outputs: Floats,
    fake: Floats,
    *,
    smooth: bool = True,
    iterations: int = ITERATIONS,
    tolerance: float = TOLERANCE,
) -> Floats:
    """Distributions on the input bins from output counts, the fakes inside the likelihood.

    `outputs` has one row a key, `fake` the share of fakes in it. With `smooth` each step ends with a
    (1/4, 1/2, 1/4) average of neighbours (EMS), which a noisy histogram needs. A key stops moving
    when no bin changes by more than `tolerance`, all do after `iterations`. Keys of which nothing was
    heard are NaN.
    """
    rows = []
    for start in range(0, len(outputs), KEYS_AT_ONCE):
        part = slice(start, start + KEYS_AT_ONCE)
        rows.append(_em(channel, outputs[part], fake[part], smooth, iterations, tolerance))
    return np.concatenate(rows) if rows else np.empty((0, channel.window.n_in))


def joint_maximisation(
    channel: ValueChannel,
    outputs: Floats,
    n_reports: int,
    sampled: Floats,
    *,
    smooth: bool = True,
    iterations: int = JOINT_ITERATIONS,
) -> tuple[Floats, Floats]:
    """Who sampled which key and what values they had, from the whole likelihood: silence counts too.

    `outputs` has one row for every key and dummy, `sampled` the shares of users to start from. A rare
    key's share is often noisier than its outputs are informative, so that taking it for given, as
    `expectation_maximisation` does, bends the key's distribution; here both move together. Every user
    sampled one row, so shares are scaled back to sum to one after each step. Returns the shares of
    users and the distributions on the input bins.
    """
    window, words = channel.window, channel.words
    near, far, fake = channel.near / words, channel.far / words, channel.fake / words
    silent = n_reports - outputs.sum(axis=1, keepdims=True)
    # From exactly 0 no share could grow.
    users = ((sampled + 1 / len(sampled)) / (sampled + 1 / len(sampled)).sum())[:, None]
    shares = np.full((len(outputs), window.n_in), 1.0 / window.n_in)
    for _ in range(iterations):
        for start in range(0, len(outputs), KEYS_AT_ONCE):
            part = slice(start, start + KEYS_AT_ONCE)
            own, now = users[part], shares[part]
            law = (1 - own) * fake + own * (far + (near - far) * _spread(now, window))
            ratio = outputs[part] / law
            kept = silent[part] / ((1 - own) * channel.other_absent + own * channel.own_absent)
            gain = far * ratio.sum(axis=1, keepdims=True) + kept * channel.own_absent
            then = now * (gain + (near - far) * _gather(ratio, window))
            total = then.sum(axis=1, keepdims=True)
            shares[part] = _smooth(then / total) if smooth else then / total
            users[part] = own * total
        users /= users.sum()
    return users[:, 0], shares


def subtract_fakes(outputs: Floats, expected_fakes: Floats) -> Floats:
    """The paper's way: take the expected fakes off every output count and cut at 0."""
    left: Floats = np.maximum(outputs - expected_fakes[:, None] / outputs.shape[1], 0.0)
    return left


def _em(
    channel: Windowed, outputs: Floats, fake: Floats, smooth: bool, iterations: int, tolerance: float
) -> Floats:
    window = channel.window
    heard = channel.near * window.width + channel.far * (window.n_out - window.width)
    near, far = channel.near / heard, channel.far / heard
    if is_compiled_alike(_STEPS * iterations * outputs.size):
        from keyveil.estimate import loops

        found: Floats = loops.maximise(
            outputs, fake, near, far, window.n_in, window.width, window.step, smooth, iterations, tolerance
        )
        return found
    shares = np.full((len(outputs), window.n_in), 1.0 / window.n_in)
    moving = np.flatnonzero(outputs.sum(axis=1) > 0)
    for _ in range(iterations):
        now, seen, lies = shares[moving], outputs[moving], fake[moving, None]
        law = (1 - lies) * (far + (near - far) * _spread(now, window)) + lies / window.n_out
        ratio = seen / law
        then = now * (far * ratio.sum(axis=1, keepdims=True) + (near - far) * _gather(ratio, window))
        then /= then.sum(axis=1, keepdims=True)
        if smooth:
            then = _smooth(then)
        shares[moving] = then
        moving = moving[np.abs(then - now).max(axis=1) > tolerance]
        if moving.size == 0:
            break
    shares[outputs.sum(axis=1) == 0] = np.nan
    return shares


def _spread(inputs: Floats, window: Window) -> Floats:
    """For every output, the sum of the inputs whose window holds it."""
    total = _summed(inputs)
    outputs = np.arange(window.n_out)
    last = np.minimum(outputs // window.step, window.n_in - 1)
    first = np.maximum(-(-(outputs - window.width + 1) // window.step), 0)
    spread: Floats = total[:, last + 1] - total[:, first]
    return spread


def _gather(outputs: Floats, window: Window) -> Floats:
    """For every input, the sum of the outputs in its window."""
    total = _summed(outputs)
    start = window.step * np.arange(window.n_in)
    gathered: Floats = total[:, start + window.width] - total[:, start]
    return gathered


def _summed(rows: Floats) -> Floats:
    """Sums of the first 0, 1, ... entries of every row; `np.pad` takes longer than all the rest of a step."""
    total = np.zeros((len(rows), rows.shape[1] + 1))
    np.cumsum(rows, axis=1, out=total[:, 1:])
    return total


def _smooth(shares: Floats) -> Floats:
    """Average with the neighbours; ends keep what they would lose."""
    padded = np.pad(shares, ((0, 0), (1, 1)), mode="edge")
    return padded[:, :-2] / 4 + padded[:, 1:-1] / 2 + padded[:, 2:] / 4
