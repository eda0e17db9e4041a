"""From cut records back to whole ones.

Where records are cut to l pairs, what is estimated without bias is the share of users whose cut record
holds a key. The size model (`sizes`) tells the frequency behind it. `untruncate` takes estimates and their
errors through the model, and adds to the error what the model may miss.

Intervals trust no formula: cutting only lowers a frequency, by at most what the longest records hide
(`Unheard`), and the values that were not heard lie somewhere in their range. So an interval reaches from
the lower end of what was heard to its upper end and as much as may be hidden behind that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from keyveil.estimate.estimates import Estimates
from keyveil.estimate.influence import TransformedLever
from keyveil.estimate.sizes import UNMODELLED, Truncation, Unheard, slope

Floats = NDArray[np.float64]

# The law of sizes may be off by so many of its errors, added to the 1.96 of what was heard: no less than 1.96
# of both together while one error is at most twice the other, as (1.96 + 2 z)**2 >= 1.96**2 (1 + 4).
_LAW_ERRORS = 1.21


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

    def unheard(self, z: float) -> EitherUnheard:
        """What cutting may hide of a key, whatever tastes are."""
        return EitherUnheard(here=self.here, first=self.first.unheard(z), second=self.second.unheard(z))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EitherUnheard:
    """What may be hidden of the keys in `here`, by the `first` round, and of all others by the `second`."""

    here: NDArray[np.bool_]
    first: Unheard
    second: Unheard

    def most(self, share: Floats) -> Floats:
        """At most so much is hidden of a key of which this share is heard."""
        return np.where(self.here, self.first.most(share), self.second.most(share))

    def part(self, share: Floats) -> Floats:
        """At most this part of a key's holders was not heard, where this share or more was."""
        return np.where(self.here, self.first.part(share), self.second.part(share))


def untruncate(raw: Estimates, cut: Truncation | Truncations, unmodelled: float = UNMODELLED) -> Estimates:
    """What unbiased estimates about cut records say about whole ones; means stay what they are.

    Their intervals hold whatever tastes are.

    >>> from keyveil.estimate import estimate
    >>> from keyveil.estimate.sizes import SizeLaw
    >>> from keyveil.mechanisms import build
    >>> from keyveil.tally import Tally
    >>> tally = Tally.of(question="q", n_reports=900, plus=[300], minus=[300], asked=[900])
    >>> raw = estimate(build("bucket", 2, n_keys=1), tally)
    >>> whole = untruncate(raw, Truncation(law=SizeLaw.exactly(2), l=1))
    >>> bool(whole.frequency_se[0] > raw.frequency_se[0]), whole.steps
    (True, ('untruncate',))
    >>> [end.round(2).item() for end in (*raw.frequency_interval(), *whole.frequency_interval())]
    [0.97, 1.17, 0.97, 1.67]
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
        unheard=cut.unheard(_LAW_ERRORS),
    )
