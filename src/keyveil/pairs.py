"""Pairs of keys: what a campaign that asks for them found of each, as a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from keyveil.domain import Pairs
from keyveil.errors import CampaignError
from keyveil.estimate.breakdowns import FALSE_ALARMS, TOWARDS_CHANCE, Together, pairs_together
from keyveil.release import Release
from keyveil.tables import Table

if TYPE_CHECKING:
    from keyveil.campaign import Campaign

_SURELY = {1.0: "more often than by chance", -1.0: "less often than by chance", 0.0: ""}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairsRelease(Table):
    """One row a pair, and the metadata of the release that it was made from.

    `both` is the share of users who hold both keys, `both_shrunk` the same pulled towards chance. `lift` is
    how many times as many that is as by chance, `second_given_first` the share of the first key's holders who
    hold the second. `mean_first` is the mean of the first key among those who hold the second as well.
    Intervals are 95 %, each alone; `surely` speaks of all pairs: of 100 tables in which keys are held
    by chance at most 5 say anything. Where a campaign has names for people, so have `first_name` and
    `second_name`.
    """

    columns: dict[str, Any]
    metadata: dict[str, Any]
    found: Together = field(repr=False)

    def top(self, count: int = 20) -> list[dict[str, Any]]:
        """The pairs that are held together more often than by chance, the surest lift first."""
        return sorted(self.rows(), key=lambda row: -row["lift_low"])[:count]


def pairs_of(campaign: Campaign, release: Release) -> PairsRelease:
    """What a release of a campaign with `pairs` says of them.

    >>> from keyveil import Campaign
    >>> apps = Campaign(name="apps", epsilon=8.0, keys=("maps", "mail", "chat"), value_range=(0, 60),
    ...                 pairs_per_user=2, mechanism="bucket", pairs="all")
    >>> both, other = apps.domain.encode({"maps": 60.0, "mail": 0.0}), apps.domain.encode({"chat": 30.0})
    >>> asked, ids = apps.only_round(), [n.to_bytes(16) for n in range(3000)]
    >>> tally = apps.tally([asked.report(other if own[-1] % 2 else both, own) for own in ids])
    >>> [(row["first"], row["second"], row["surely"]) for row in pairs_of(apps, apps.estimate(tally)).top(1)]
    [('maps', 'mail', 'more often than by chance')]
    """
    crossing = campaign.domain.crossing
    if not isinstance(crossing, Pairs) or release.raw is None:
        raise CampaignError('this campaign asks about keys alone; say pairs = "all", at $.pairs')
    found = pairs_together(release.raw, crossing)
    keys, one = campaign.domain.key_names, len(crossing.keys) + 2 * np.arange(len(crossing.held))
    both_low, both_high = (np.clip(end, 0.0, 1.0) for end in found.interval())
    lift_low, lift_high = found.lift_interval()
    columns: dict[str, Any] = {
        "first": [keys[a] for a, _ in crossing.held],
        "second": [keys[b] for _, b in crossing.held],
        **_names(campaign, crossing),
        "both": np.clip(found.both, both_low, both_high),
        "both_low": both_low,
        "both_high": both_high,
        "both_raw": found.both,
        "both_shrunk": found.towards_chance(),
        "by_chance": found.chance,
        "lift": np.clip(found.lift, lift_low, lift_high),
        "lift_low": lift_low,
        "lift_high": lift_high,
        "surely": [_SURELY[sure] for sure in found.surely().tolist()],
    }
    for key, name in enumerate(("second_given_first", "first_given_second")):
        share, low, high = found.given(key)
        columns |= {name: np.clip(share, low, high), f"{name}_low": low, f"{name}_high": high}
    for place, name in enumerate(("mean_first", "mean_second")):
        columns |= {
            f"{name}{end}": np.asarray(release.columns[f"mean{end}"])[one + place]
            for end in ("", "_low", "_high")
        }
    metadata = {**release.metadata, "false_alarms": FALSE_ALARMS, "shrunk": [TOWARDS_CHANCE]}
    return PairsRelease(columns=columns, metadata=metadata, found=found)


def _names(campaign: Campaign, crossing: Pairs) -> dict[str, list[str]]:
    """What both keys of every pair are called, for people, where that is said."""
    if campaign.names is None:
        return {}
    # Keys by themselves have the first codes.
    names = dict(zip(crossing.keys, campaign.display_names, strict=False))
    first, second = zip(*crossing.held, strict=True)
    return {"first_name": [names[key] for key in first], "second_name": [names[key] for key in second]}
