"""From cut records back to whole ones.

Where records are cut to l pairs, what is estimated without bias is the share of users whose cut record
holds a key. The size model (`sizes`) tells the frequency behind it. `untruncate` takes estimates and their
errors through the model, and adds to the error what the model may miss: intervals are about the users
that there are, and not too short because a formula was trusted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from keyveil.estimate.estimates import Estimates
from keyveil.estimate.influence import TransformedLever
from keyveil.estimate.sizes import UNMODELLED, Truncation, slope

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Truncations:
    """Two rounds that cut differently: `first` asked about the keys in `here`, `second` about all others."""

    here: NDArray[np.bool_]
    first: Truncation
    second: Truncation

    def share(self, frequency: Floats) -> Floats:
        """The truncated share of every key's frequency."""
        return np.where(self.here, self.first.share(frequency), self.second.share(frequency))

    def frequency(self, share: Floats) -> Floats:
        """The frequency behind every key's truncated share."""
        return np.where(self.here, self.first.frequency(share), self.second.frequency(share))

    def left_out(self, frequency: Floats, unmodelled: float = UNMODELLED) -> Floats:
        """The error that is likely to stay."""
        first, second = (cut.left_out(frequency, unmodelled) for cut in (self.first, self.second))
        return np.where(self.here, first, second)


def untruncate(raw: Estimates, cut: Truncation | Truncations, unmodelled: float = UNMODELLED) -> Estimates:
    """What unbiased estimates about cut records say about whole ones; means stay what they are.

    >>> from keyveil.estimate import estimate
    >>> from keyveil.estimate.sizes import SizeLaw
    >>> from keyveil.mechanisms import build
    >>> from keyveil.tally import Tally
    >>> tally = Tally.of(question="q", n_reports=900, plus=[300], minus=[300], asked=[900])
    >>> raw = estimate(build("bucket", 2, n_keys=1), tally)
    >>> whole = untruncate(raw, Truncation(law=SizeLaw.exactly(2), l=1))
    >>> bool(whole.frequency_se[0] > raw.frequency_se[0]), whole.steps
    (True, ('untruncate',))
    """
    frequency = cut.frequency(raw.frequency)
    heard = np.isfinite(raw.frequency_se)
    error = np.where(heard, raw.frequency_se, 0.0)
    grown = slope(cut.frequency, raw.frequency, np.where(heard, np.maximum(error, 1e-9), 1.0))
    held = raw.frequency != 0
    times = np.where(held, frequency / np.where(held, raw.frequency, 1.0), grown)
    missed = cut.left_out(np.maximum(frequency, 0.0), unmodelled)
    return replace(
        raw,
        frequency=frequency,
        frequency_se=np.where(heard, np.hypot(grown * error, missed), np.inf),
        signed=times * raw.signed,
        signed_se=times * raw.signed_se,
        covariance=times * grown * raw.covariance,
        lever=None if raw.lever is None else TransformedLever(lever=raw.lever, bend=cut),
        steps=(*raw.steps, "untruncate"),
        unbiased=raw,
    )
