"""How much a device may spend: set on the device, out of every server's reach."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from sys import float_info

from keyveil.client.ledger import Account
from keyveil.errors import BudgetError
from keyveil.numerics import PRICE_BITS, rounded_up


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """The most epsilon that this device spends on one campaign, and on all of them together, for ever.

    The device's own: no campaign can change them, and they are never topped up.
    """

    campaign: float = 4.0
    lifetime: float = 16.0

    def __post_init__(self) -> None:
        for name in ("campaign", "lifetime"):
            cap = getattr(self, name)
            if isinstance(cap, bool) or not isinstance(cap, (int, float)) or not 0 < cap <= float_info.max:
                raise BudgetError(f"the {name} cap must be a positive number, got {type(cap).__name__}")

    def check(self, account: Account, campaign: str, promised: float, units: int) -> None:
        """Refuse an answer that would go beyond the campaign's promise, or beyond a cap."""
        here = account.spent(campaign)
        for code, what, spent, cap in (
            ("over-promise", "that the campaign promises", here, promised),
            ("over-campaign-cap", "that this device allows a campaign", here, self.campaign),
            ("over-lifetime-cap", "that this device allows all campaigns", account.spent(), self.lifetime),
        ):
            if not fits(spent + units, cap):
                raise BudgetError(
                    f"the answer costs epsilon {epsilon_of(units):.6g}; of the {cap:g} {what}, "
                    f"{epsilon_of(spent):.6g} is spent",
                    code=code,
                )


def fits(units: int, epsilon: float) -> bool:
    """Whether so many units of 2**-192 are no more than an epsilon, exactly.

    >>> fits(1 << 192, 1.0), fits((1 << 192) + 1, 1.0)
    (True, False)
    """
    return Fraction(units, 1 << PRICE_BITS) <= Fraction(epsilon)


def epsilon_of(units: int) -> float:
    """Units as a number for people, rounded up."""
    return rounded_up(Fraction(units, 1 << PRICE_BITS))
