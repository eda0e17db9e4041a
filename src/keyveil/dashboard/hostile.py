"""How far devices that lie can move a number.

An unprocessed estimate of a frequency is a mean of weights, one a report: what `debias` makes of a single
report. An honest report's weight is the truth on average; a lying device may send any report, and so choose
among the few weights there are. With a share s of lying devices

    frequency = (1 - s) f + s w,        signed = (1 - s) f m + s v,        (w, v) one of the points below,

or any mixture of points, so the extremes lie at points. Where a report speaks of one drawn key, liars all
speak of the same: of those who speak of it they are s / (s + (1 - s) / d).

This is exact for the expected shift and needs no assumption about the liars: they may know everything and
act together. It cannot be detected away: reports that are drawn honestly from a lie look like any other.
The weights are those of `estimate.hostile`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyveil.errors import MechanismError
from keyveil.estimate.hostile import lever
from keyveil.mechanisms import Mechanism

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leverage:
    """What a single report can say of a key: frequency and signed weights, on the scale [-1, 1]."""

    points: tuple[tuple[float, float | None], ...]
    drawn_from: int
    """How many keys a device is asked one of; 1 where a report speaks of all."""

    def share_of_key(self, share: float) -> float:
        """Of the reports that speak of one key, those that lie."""
        return share / (share + (1 - share) / self.drawn_from)

    def frequency(self, frequency: Floats, share: float) -> tuple[Floats, Floats]:
        """The least and the largest estimate that this share of liars can make of it.

        >>> from keyveil.mechanisms import build
        >>> found = leverage(build("pckv-grr", 3, n_keys=50, pairs_per_user=3))
        >>> low, high = found.frequency(np.array([0.1]), 0.01)
        >>> bool(low[0] < 0.1 < high[0])
        True
        """
        s = self.share_of_key(share)
        weights = [weight for weight, _ in self.points]
        return (1 - s) * frequency + s * min(weights), (1 - s) * frequency + s * max(weights)


def leverage(mechanism: Mechanism) -> Leverage | None:
    """The points of a mechanism whose estimate is a mean of weights; None where it is not."""
    try:
        pull = lever(mechanism)
    except MechanismError:
        return None
    # A mean that is divided by something else than the frequency is not moved along these points.
    plain = (pull.mean_weight, pull.mean_floor) == (pull.weight, pull.floor)
    signed = pull.signed if plain else None
    points = tuple(
        (pull.of_report(said), None if signed is None else said.sign * signed) for said in pull.says
    )
    return Leverage(points=points, drawn_from=round(1 / pull.asked))
