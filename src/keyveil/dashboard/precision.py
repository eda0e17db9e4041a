"""How unsure a rare key is after so many reports: the error bar that shrinks while a campaign runs."""

from __future__ import annotations

from typing import Any

from keyveil.campaign import Campaign

_MANY = 1e6


def noise_per_report(campaign: Campaign) -> float | None:
    """N times the variance of the frequency of a key that nobody holds, from n reports.

    None where rounds differ in what they ask: there is no one error bar before the last.

    >>> apps = Campaign(name="apps", epsilon=1.0, keys=("a", "b"), value_range=(0, 1), pairs_per_user=1,
    ...                 mechanism="pckv-ue")
    >>> round(noise_per_report(apps), 2)
    10.07
    """
    if campaign.has_several_rounds:
        return None
    mechanism: Any = campaign.build()
    asked = mechanism.expected_asked(_MANY) if hasattr(mechanism, "expected_asked") else _MANY
    return float(mechanism.variance(0.0, asked, _MANY)) * _MANY
