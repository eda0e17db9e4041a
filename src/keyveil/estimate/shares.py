"""Which share of a key's values lies where, with intervals that cover.

Smoothed distributions look well and cover nothing: their bias has no standard error. Here a share is
a linear function of the counts and so unbiased. For a set of value bins let t be 1 on it and 0 off it,
and weigh the symbols of a report (outputs, and silence) by weights g with

    sum over symbols of g * Pr[symbol | sampled, bin i] = t_i,    the same sum for a key not sampled = 0.

Then l times the mean weight of n reports is unbiased for f F, the share of users who hold the key with
a value in the set, when records have at most l pairs. Of all such g the one with the least variance
for a rare key is taken. Users are independent, and a user's mean weight, times l, is 0 or 1; hence

    n variance(f F) = l**2 * mean of g**2 - f F     (and the like for covariances),

which the tally estimates without bias. All bins together give f; F is a ratio, its interval Fieller's.
The price of no bias is width: the window is undone bin by bin, so a collector who wants intervals asks
for few bins (bench/distributions.py measures coverage and width).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.errors import MechanismError, TallyError
from keyveil.estimate.distribution import bin_points
from keyveil.estimate.estimates import fieller
from keyveil.mechanisms import UeSw, ValueChannel
from keyveil.mechanisms.channel import share
from keyveil.numerics import CONFIDENCE, two_sided_z
from keyveil.tally import Tally

Floats = NDArray[np.float64]

# The quartile points of the value range.
QUARTERS = (-0.5, 0.0, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shares:
    """One row a key, one column a set of bins; `held` is unbiased for frequency * share."""

    held: Floats
    frequency: Floats
    held_variance: Floats
    frequency_variance: Floats
    covariance: Floats

    def share(self) -> Floats:
        """The share of a key's values in each set; consistent, NaN where the frequency is not positive."""
        known = self.frequency > 0
        return np.where(known, self.held / np.where(known, self.frequency, 1.0), np.nan)

    def interval(self, confidence: float = CONFIDENCE) -> tuple[Floats, Floats]:
        """Fieller's interval of each share within [0, 1]; all of it where the key may be held by nobody."""
        variances = self.held_variance, self.frequency_variance, self.covariance
        return fieller(self.held, self.frequency, variances, two_sided_z(confidence), (0.0, 1.0))


def below(values: tuple[float, ...], bins: int) -> Floats:
    """The sets of bins below each value, which must be an edge of bins of [-1, 1].

    A value on the edge itself falls into the bin above it.

    >>> below((0.0,), 4).tolist()
    [[1.0, 1.0, 0.0, 0.0]]
    """
    for value in values:
        if not ((value + 1) / 2 * bins).is_integer():
            raise MechanismError(f"{value} is no edge of {bins} bins; ask for more bins or another value")
    upper = np.arange(1, bins + 1) / bins * 2 - 1
    return (upper <= np.array(values)[:, None]).astype(float)


def in_parts(parts: int, bins: int) -> Floats:
    """Equal parts of [-1, 1] as sets of bins; `parts` must divide their number.

    >>> in_parts(2, 4).tolist()
    [[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]
    """
    if parts < 1 or bins % parts:
        raise MechanismError(f"{bins} bins cannot be put into {parts} equal parts")
    return np.repeat(np.eye(parts), bins // parts, axis=1)


def unbiased_weights(channel: ValueChannel, sets: Floats) -> Floats:
    """The weights g of each set: one row a set, one column a symbol, silence first."""
    words, symbols = channel.words, range(channel.window.n_out + 1)
    other = np.array([float(channel.other(symbol)) for symbol in symbols])
    near = [[channel.window.is_near(i, s - 1) for s in symbols] for i in range(channel.window.n_in)]
    own = np.where(near, channel.near / words, channel.far / words)
    own[:, 0] = channel.own_absent / words
    excess = own - other
    # Least sum of other * g**2 with excess @ g = t; rows of `excess` sum to 0, so `other` gives g mean 0.
    weights: Floats = np.linalg.solve((excess / other) @ excess.T, sets.T).T @ (excess / other)
    return weights


class Signed(NamedTuple):
    """Unbiased for frequency * mean, and how it varies: by itself, and with the unbiased frequency."""

    signed: Floats
    variance: Floats
    covariance: Floats


def value_means(mechanism: UeSw, tally: Tally) -> Signed:
    """The same for means: t_i is the value that bin i stands for, and a user's mean weight that value or 0.

    What is taken off the mean square is then the mean square of values, which weights of their own tell. The
    window is undone along a line only, so many bins cost no width here.

    >>> from keyveil.mechanisms import build
    >>> from keyveil.simulate import draw_tally, insecure_generator, synthetic
    >>> m, people = build("ue-sw", 4, n_keys=2, bins=64), synthetic(users=100_000, keys=2, seed=1)
    >>> found = value_means(m, draw_tally(m, people, insecure_generator(2)))
    >>> truth = people.frequency() * people.mean()
    >>> bool((abs(found.signed - truth) < 4 * np.sqrt(found.variance)).all())
    True
    """
    outputs = tally.cells["bins"][: mechanism.n_keys].astype(float)
    n, l = max(tally.n_reports, 1), mechanism.pairs_per_user
    points = bin_points(mechanism.bins)
    values, squares = l * unbiased_weights(mechanism.channel, np.vstack([points, points**2]))
    heard = l * share(float(mechanism.a), float(mechanism.b), np.array([0.0, 1.0]), 1.0)

    def mean_of(weights: Floats) -> Floats:
        """Of all reports; what is not heard is silence."""
        sums: Floats = weights[0] + outputs @ (weights[1:] - weights[0]) / n
        return sums

    signed = mean_of(values)
    variance = np.maximum(mean_of(values**2) - mean_of(squares), 0.0) / n
    held = np.where(np.arange(values.size) > 0, heard[1], heard[0])
    return Signed(signed, variance, (mean_of(values * held) - signed) / n)


def value_shares(mechanism: UeSw, tally: Tally, sets: Floats) -> Shares:
    """Shares of every key's values in sets of bins, from a tally of UE-SW.

    >>> from keyveil.mechanisms import build
    >>> from keyveil.simulate import draw_tally, insecure_generator, synthetic
    >>> m = build("ue-sw:extremal", 4, n_keys=2, bins=8)
    >>> people = synthetic(users=100_000, keys=2, seed=1)
    >>> tally = draw_tally(m, people, insecure_generator(2))
    >>> low, high = value_shares(m, tally, below((0.0,), 8)).interval()
    >>> truth = people.reached(np.array([0.0]))
    >>> bool(((low < truth) & (truth < high)).all()), bool((high - low).max() < 0.1)
    (True, True)
    """
    outputs = tally.cells["bins"][: mechanism.n_keys].astype(float)
    if outputs.shape != (mechanism.n_keys, mechanism.channel.window.n_out):
        raise TallyError(f"expected a tally of {mechanism.n_keys} keys and the mechanism's outputs")
    n, l = max(tally.n_reports, 1), mechanism.pairs_per_user
    counts = np.column_stack([tally.n_reports - outputs.sum(axis=1), outputs]) / n
    weights = unbiased_weights(mechanism.channel, np.vstack([sets, np.ones(mechanism.bins)])) * l
    found = counts @ weights.T
    held, frequency = found[:, :-1], found[:, -1:]
    some, every = weights[:-1], weights[-1]

    def variance(squares: Floats, mean: Floats) -> Floats:
        spread: Floats = np.maximum(counts @ squares.T - mean, 0.0) / n
        return spread

    return Shares(
        held=held,
        frequency=frequency,
        held_variance=variance(some**2, held),
        frequency_variance=variance(every[None] ** 2, frequency),
        covariance=(counts @ (some * every).T - held) / n,
    )
