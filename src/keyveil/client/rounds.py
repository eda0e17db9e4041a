"""The round that is open: what a device is told of it, and checks before it answers.

A collector opens the rounds of a campaign; a device believes nothing of what it says of them. The
campaign must have the hash that the device was given, the mechanism is rebuilt from the integers that
were told, and what an answer costs is computed from them, never read. A round may ask about some of
the campaign's keys and of some of its devices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from keyveil.campaign import Campaign
from keyveil.domain import Record
from keyveil.errors import CampaignError, MechanismError
from keyveil.mechanisms import Mechanism, described

# No question needs a longer answer; a larger one is a mistake, or meant to fill the device.
_LARGEST_ANSWER, _MOST_WORDS = 1 << 20, 1 << 21


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """An open round.

    >>> campaign = Campaign(name="apps", epsilon=1.0, keys=("maps", "mail"), value_range=(0, 60),
    ...                     pairs_per_user=2, mechanism="pckv-ue")
    >>> asked = Asked.told(campaign, campaign.device_config())
    >>> asked.number, asked.mechanism.loss == campaign.build().loss
    (1, True)
    """

    number: int
    mechanism: Mechanism
    keys: tuple[int, ...] | None = None
    """The codes that are asked about, in their new order; None for all."""
    group: tuple[Fraction, Fraction] = (Fraction(0), Fraction(1))
    """Which places in [0, 1) are asked."""
    ids_are_issued: bool = False
    """Whether the collector hands out the ids of reports; what a report costs does not depend on it."""

    @classmethod
    def told(cls, campaign: Campaign, config: object) -> Asked:
        """The round of a device configuration (`Campaign.device_config`), or a refusal."""
        if not isinstance(config, dict) or config.get("campaign") != campaign.canonical_json:
            raise CampaignError(f"expected the configuration of campaign {campaign.id[:12]}, got another")
        mechanism, keys = described(config.get("mechanism")), _keys(campaign, config)
        n_asked = campaign.domain.n_keys if keys is None else len(keys)
        if mechanism.n_keys != n_asked:
            raise MechanismError(
                f"expected a mechanism about {n_asked} keys, got one about {mechanism.n_keys}"
            )
        if mechanism.layout.n_bytes > _LARGEST_ANSWER or mechanism.n_words > _MOST_WORDS:
            raise MechanismError(
                f"expected answers of at most {_LARGEST_ANSWER} bytes from {_MOST_WORDS} random words, "
                f"got {mechanism.layout.n_bytes} from {mechanism.n_words}"
            )
        return cls(number=_number(config.get("round")), mechanism=mechanism, keys=keys, group=_group(config))

    def narrow(self, record: Record) -> Record:
        """The part of a record that this round asks about, with its codes."""
        return record if self.keys is None else record.among(self.keys)


def _number(said: object) -> int:
    if isinstance(said, int) and not isinstance(said, bool) and 1 <= said < 1 << 16:
        return said
    raise CampaignError("expected the number of a round, from 1 to 65535")


def _keys(campaign: Campaign, config: Mapping[str, Any]) -> tuple[int, ...] | None:
    said = config.get("keys")
    if said is None:
        return None
    known = range(campaign.domain.n_keys)
    if (
        not isinstance(said, list)
        or not said
        or not all(isinstance(code, int) and not isinstance(code, bool) and code in known for code in said)
        or len(set(said)) < len(said)
    ):
        raise CampaignError(f"expected different codes of the campaign's {len(known)} keys, or null for all")
    return tuple(said)


def _group(config: Mapping[str, Any]) -> tuple[Fraction, Fraction]:
    try:
        low, high = (Fraction(end) for end in config.get("group", ("0", "1")))
    except (TypeError, ValueError, ZeroDivisionError):
        low, high = Fraction(1), Fraction(0)
    if not 0 <= low < high <= 1:
        raise CampaignError("expected a group of places, two fractions from 0 to 1")
    return low, high
