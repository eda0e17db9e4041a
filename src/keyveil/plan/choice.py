"""Which mechanism, with which padding length: the one whose own moments promise the smallest error.

Three shapes compete, each from its own kernel: `bucket` (noise linear in l; its dial rho moves
precision from means to frequencies), `pckv-grr` (its unhashed member: better where 2 (d + l) symbols
are few), `kvue` or `levels` (one key asked: better where records are dense and the domain small). Errors are
those of the keys that are asked for (`at`), noise and what truncation leaves.

A mean can be no worse than what is known without data. Where both are wanted but even the likely top
keys' means would stay mostly unknown, precision is moved to frequencies, not all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from keyveil.estimate.sizes import SizeLaw, Truncation, slope
from keyveil.mechanisms import KeyValueMechanism, build
from keyveil.mechanisms.oracles import COHORTS
from keyveil.numerics import parse_epsilon
from keyveil.plan.crowd import Crowd

Floats = NDArray[np.float64]

# What is known of a mean without data: it lies in its range.
PRIOR_MEAN_VARIANCE = 1 / 3
TYPICAL_MEAN = 0.5
# Where less than this part of the means' variance would be explained, frequencies come first.
HOPELESS = 0.28
FREQUENCIES_FIRST, FREQUENCIES_ONLY = 0.8, 1.0
# Levels tell means better than signs; they may cost frequencies this much.
DEAR_LEVELS = 1.05
WANTS = ("both", "frequency", "mean")
# Hashes that a collector evaluates in seconds.
MOST_HASHES = 1 << 29


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A mechanism and the squared errors that it promises, averaged over the keys asked for."""

    mechanism: KeyValueMechanism
    truncation: Truncation
    frequency_error: float
    mean_error: float

    def score(self, want: str) -> float:
        """Small is good."""
        if want == "frequency":
            return self.frequency_error
        return self.mean_error if want == "mean" else self.frequency_error * self.mean_error**2


def best(epsilon: object, crowd: Crowd, *, at: Floats, reports: float, want: str = "both") -> Choice:
    """The choice with the smallest predicted error at the frequencies `at` from so many reports."""
    rho = FREQUENCIES_ONLY if want == "frequency" else 0.0
    chosen = _least(options(epsilon, crowd, at=at, reports=reports, rho=rho), want)
    if want == "both" and chosen.mean_error > (1 - HOPELESS) * PRIOR_MEAN_VARIANCE:
        return _least(options(epsilon, crowd, at=at, reports=reports, rho=FREQUENCIES_FIRST), "frequency")
    return chosen


def _least(choices: Iterator[Choice], want: str) -> Choice:
    return min(choices, key=lambda choice: choice.score(want))


def options(
    epsilon: object, crowd: Crowd, *, at: Floats, reports: float, rho: float = 0.0
) -> Iterator[Choice]:
    """Everything that may be chosen."""
    d, budget = crowd.n_keys, parse_epsilon(epsilon)
    for l in lengths(crowd.law):
        cut = Truncation(law=crowd.law, l=l)
        yield promise(_built("bucket", budget, d, l, rho), cut, at, reports)
        yield promise(_built("pckv-grr", budget, d, l), cut, at, reports)
    everything = Truncation(law=crowd.law, l=d)
    signs = promise(_built("kvue", budget, d), everything, at, reports)
    levels = promise(_built("levels", budget, d), everything, at, reports)
    yield levels if levels.frequency_error <= DEAR_LEVELS * signs.frequency_error else signs


@cache
def _built(name: str, epsilon: Fraction, n_keys: int, l: int = 1, rho: float = 0.0) -> KeyValueMechanism:
    """A mechanism, calibrated once: long records take a tenth of a second."""
    more: dict[str, Any] = {"rho": rho, "cohorts": cohorts(n_keys, l)} if name == "bucket" else {}
    built = build(name, epsilon, n_keys=n_keys, pairs_per_user=l, **more)
    return cast(KeyValueMechanism, built)


def promise(mechanism: KeyValueMechanism, truncation: Truncation, at: Floats, reports: float) -> Choice:
    """Squared errors: first-order noise and what truncation leaves; means shrunk to what is known."""
    cut = truncation.share(at)
    grown = slope(truncation.frequency, cut, np.maximum(1e-6, cut / 100))
    spread = mechanism.moments.covariance(cut, TYPICAL_MEAN, mechanism.expected_asked(reports))
    left = truncation.left_out(at)
    # Of keys that nobody holds nothing is told, and of no key's mean where signs are tied.
    told = cut**2 / spread.of_mean(1.0, TYPICAL_MEAN)
    of_mean = 1 / (1 / PRIOR_MEAN_VARIANCE + told)
    return Choice(
        mechanism=mechanism,
        truncation=truncation,
        frequency_error=float(np.mean(spread.frequency * grown**2 + left**2)),
        mean_error=float(np.mean(of_mean)),
    )


def lengths(law: SizeLaw) -> list[int]:
    """Padding lengths worth trying: up to what all but one in a hundred users hold, in steps of a third."""
    reached = np.cumsum(law.shares)
    largest = max(1.0, float(law.sizes[np.searchsorted(reached, 0.99 * reached[-1])]))
    tried = [1, 2, 3, 4]
    while tried[-1] * 1.33 < largest:
        tried.append(round(tried[-1] * 1.33))
    return [l for l in tried if l <= max(1, np.ceil(largest))]


def cohorts(n_keys: int, l: int) -> int:
    """As many public hashes as the noise asks for and a collector can evaluate in seconds.

    Shared collisions weigh less against noise by l squared, so long records need fewer hashes.

    >>> cohorts(100, 1), cohorts(26_744, 1), cohorts(26_744, 100)
    (65536, 8192, 1024)
    """
    wanted = min(COHORTS // l**2, MOST_HASHES // (2 * n_keys))
    return int(max(1 << 10, 1 << max(0, wanted.bit_length() - 1)))
