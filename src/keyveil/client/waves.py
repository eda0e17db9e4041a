"""A wave of a series as a device meets it: what the series costs, and whether this device is asked.

The series' id is worked out from the wave's text, so a wave belongs to the series that it describes and to no
other. Which waves a device answers follows from its own secret and that id; neither the record nor anybody's
word has a part in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Self

from keyveil.errors import CampaignError, DescriptionError, ProtocolError
from keyveil.numerics import PRICE_BITS, ceil_div

if TYPE_CHECKING:
    from keyveil.campaign import Campaign
    from keyveil.client.ledger import Account
    from keyveil.series import Series


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """One wave of a series.

    >>> from keyveil import Campaign
    >>> from keyveil.series import Series
    >>> every_week = Series(every="week", waves=9, answers=2, start="2026-11-23")
    >>> weekly = Campaign(name="apps", epsilon=0.5, keys=("maps", "mail"), value_range=(0, 60),
    ...                   pairs_per_user=2, mechanism="kvue", series=every_week)
    >>> third = Wave.of(weekly.wave(3))
    >>> third.id == weekly.id, third.number, third.units == 1 << 192
    (True, 3, True)
    """

    id: str
    """The series'."""
    number: int
    campaign: str
    """The wave's own id."""
    series: Series
    units: int
    """What the whole series costs, in units of 2**-192, rounded up."""

    @classmethod
    def of(cls, campaign: Campaign) -> Self | None:
        """The wave that a campaign is; None for one that is asked once."""
        series = campaign.series
        if series is None:
            return None
        campaign.check_is_asked()
        return cls(
            id=campaign.whole_series.id,
            number=series.wave or 0,
            campaign=campaign.id,
            series=series,
            units=whole_price(campaign.epsilon, series.answers),
        )

    def panel(self, account: Account) -> tuple[int, ...]:
        """The waves that this device answers: nobody else knows which."""
        return self.series.panel(account.place_in_series(self.id))

    def check(self, account: Account) -> None:
        """Refuse a wave that asks other devices, and another campaign for one that was answered."""
        if self.number not in self.panel(account):
            raise ProtocolError(
                f"wave {self.number} is for others; this device answers another wave of the series",
                code="other-wave",
            )
        self.check_campaign(account)

    def check_time(self, account: Account) -> None:
        """Refuse a wave that is over by the calendar, as far as the ledger's time is known."""
        end = self.series.ends(self.number)
        if account.now >= end.timestamp():
            raise CampaignError(
                f"wave {self.number} of the series ended at {end.isoformat()}", code="expired"
            )

    def check_campaign(self, account: Account) -> None:
        """Refuse another campaign than the one that the wave was answered as."""
        known = account.waves(self.id).get(self.number, self.campaign)
        if known != self.campaign:
            raise DescriptionError(
                f"wave {self.number} was answered as campaign {known[:12]}; no other is ever answered",
                code="pinned",
            )

    def join(self, account: Account) -> None:
        """Book the whole series, if it is not, and that the wave is this campaign for good."""
        account.join(self.id, self.number, self.campaign, self.units)


def whole_price(epsilon: float, answers: int) -> int:
    """What so many answers at an epsilon may cost, in units of 2**-192, rounded up.

    >>> whole_price(0.5, 3) == 3 << 191, whole_price(1e-300, 3)
    (True, 1)
    """
    whole = Fraction(epsilon) * answers
    return ceil_div(whole.numerator << PRICE_BITS, whole.denominator)
