"""How unsure a rare key is after so many reports: the error bar that shrinks while a campaign runs.

Of several rounds some tell frequencies and some do not (sizes, values, later means). The error bar is that
of the round that knows most so far, alone; before there is one, that of the first that is planned to tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from keyveil.campaign import Campaign
from keyveil.errors import MechanismError
from keyveil.estimate import lever
from keyveil.mechanisms import Mechanism
from keyveil.protocols import Round

_MANY = 1e6


class Telling(msgspec.Struct, frozen=True, kw_only=True):
    """The round that the error bar is of."""

    round: int
    purpose: str
    noise: float
    """n times the variance of a rare key's frequency from n reports to this round."""
    is_planned: bool
    """Whether it is still to come, and may turn out otherwise."""


def noise_per_report(mechanism: Mechanism) -> float | None:
    """N times the variance of the frequency of a key that nobody holds; None if no frequency is estimated.

    >>> from keyveil.mechanisms import build
    >>> round(noise_per_report(build("pckv-ue", 1, n_keys=2)), 2)
    10.07
    """
    try:
        lever(mechanism)
    except MechanismError:
        # What has no lever speaks of no single key.
        return None
    asks: Any = mechanism
    asked = asks.expected_asked(_MANY) if hasattr(asks, "expected_asked") else _MANY
    return float(asks.variance(0.0, asked, _MANY)) * _MANY


def telling(campaign: Campaign, opened: Sequence[tuple[Round, int]]) -> Telling | None:
    """Of the rounds so far, with their reports, the one that knows most; else the first that will know."""
    known = [
        (reports / noise, each, noise)
        for each, reports in opened
        if (noise := noise_per_report(each.mechanism)) is not None
    ]
    if known:
        _, each, noise = max(known, key=lambda one: one[0])
        return Telling(round=each.number, purpose=each.purpose, noise=noise, is_planned=False)
    return next((one for one in _course(campaign) if one.round > len(opened)), None)


@lru_cache(maxsize=64)
def _course(campaign: Campaign) -> tuple[Telling, ...]:
    """The rounds that are planned to tell frequencies."""
    return tuple(
        Telling(round=stage.number, purpose=stage.purpose, noise=noise, is_planned=True)
        for stage in campaign.protocol().stages()
        if (noise := noise_per_report(stage.mechanism)) is not None
    )
