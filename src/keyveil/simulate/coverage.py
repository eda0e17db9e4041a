"""How often printed intervals hold the truth: one fixed population, many collections.

Only the noise, and what a protocol draws of its users, changes from one collection to the next. Frequencies
must be covered as often as promised, neither less nor more. Means may be covered more often: `Moments`
takes the smallest E[v**2] that a mean allows (and `levels` counts values between two levels as if they lay
at the ends), and where the frequency itself may be 0 the whole range is given.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keyveil.protocols import Protocol
from keyveil.simulate.play import play
from keyveil.simulate.population import Floats, Population


class Coverage(NamedTuple):
    """Per key: the share of given intervals that cover, and of mean intervals shorter than the range."""

    frequency: Floats
    mean: Floats
    known: Floats


def coverage(
    protocol: Protocol,
    population: Population,
    rng: np.random.Generator,
    *,
    runs: int,
    stretch: float = 1.0,
) -> Coverage:
    """Over `runs` collections from users who hold no more pairs than the protocol hears.

    `stretch` makes every interval longer or shorter, to see that the measurement would notice.

    >>> from keyveil.protocols import build_protocol
    >>> from keyveil.simulate import insecure_generator, synthetic
    >>> found = coverage(build_protocol("kvue", 1, n_keys=2), synthetic(users=500, keys=2),
    ...                  insecure_generator(1), runs=200)
    >>> bool((abs(found.frequency - 0.95) < 0.05).all())
    True
    """
    frequency, mean = population.frequency(), population.mean()
    given, covered = np.zeros(population.n_keys), np.zeros((3, population.n_keys))
    for _ in range(runs):
        raw = play(protocol, population, rng).raw
        low, high = raw.frequency_interval()
        # A key that no report could speak of has no interval.
        bounded = np.isfinite(high - low)
        given += bounded
        covered[0] += bounded & (np.abs(raw.frequency - frequency) <= stretch * (high - low) / 2)
        low, high = raw.mean_interval()
        covered[1] += np.abs(mean - (low + high) / 2) <= stretch * (high - low) / 2
        covered[2] += (low > -1) | (high < 1)
    return Coverage(covered[0] / np.maximum(given, 1), covered[1] / runs, covered[2] / runs)
