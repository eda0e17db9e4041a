"""Where the next round begins."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from keyveil.rounds import Round


class Opening(NamedTuple):
    """A campaign, the number of its next round, and the place behind all groups that were asked."""

    campaign: str
    number: int
    low: Fraction

    @classmethod
    def behind(cls, campaign: str, rounds: Sequence[Round]) -> Opening:
        """Behind rounds in their order; the campaign's beginning if there is none."""
        return cls(campaign, len(rounds) + 1, rounds[-1].group[1] if rounds else Fraction(0))
