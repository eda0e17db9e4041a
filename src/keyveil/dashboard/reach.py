"""How far devices that lie could move the keys that are looked at first.

The bound is the release's own, from the weights of `estimate.influence`: exact for the expected shift,
whatever the liars know and however they act together. It cannot be detected away: reports that are drawn
honestly from a lie look like any other. A page asks for a share of devices and shows what it is answered.
"""

from __future__ import annotations

import msgspec
import numpy as np

from keyveil.release import Release

MOST_SHOWN = 30


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """What liars could make of the most frequent keys: least and largest, in the release's own units."""

    share: float
    codes: list[int]
    """The keys' places in the release, the most frequent first; none where no bound is known."""
    frequency_low: list[float]
    frequency_high: list[float]
    mean_low: list[float | None]
    mean_high: list[float | None]
    """None where a mean is not linear in reports: it can be moved through its whole range."""


def reach(release: Release, share: float) -> Reach:
    """What this share of all devices could make of it; means move within their range."""
    moved, raw = release.hostile_shift(share), release.raw
    if raw is None or not moved:
        return Reach(share=share, codes=[], frequency_low=[], frequency_high=[], mean_low=[], mean_high=[])
    order = np.argsort(-raw.frequency, kind="stable")[:MOST_SHOWN]
    mean = release.middle + release.scale * np.clip(np.nan_to_num(raw.mean), -1.0, 1.0)
    return Reach(
        share=share,
        codes=order.tolist(),
        frequency_low=(raw.frequency - moved["frequency_down"])[order].tolist(),
        frequency_high=(raw.frequency + moved["frequency_up"])[order].tolist(),
        mean_low=(mean - moved["mean_down"])[order].tolist(),
        mean_high=(mean + moved["mean_up"])[order].tolist(),
    )
