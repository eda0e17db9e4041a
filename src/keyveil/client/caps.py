"""How much a device may spend: set on the device, out of every server's reach."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from keyveil.client.ledger import Account
from keyveil.errors import BudgetError
from keyveil.numerics import rounded_up


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
            if isinstance(cap, bool) or not isinstance(cap, (int, float)) or not 0 < cap < float("inf"):
                raise BudgetError(f"the {name} cap must be a positive number, got {type(cap).__name__}")

    def refusal(self, account: Account, campaign: str, epsilon: Fraction) -> str | None:
        """Why one more answer cannot be paid for, or None if it can."""
        for what, spent, cap in (
            ("this campaign", account.spent(campaign), self.campaign),
            ("all campaigns together", account.spent(), self.lifetime),
        ):
            if spent + epsilon > Fraction(cap):
                return (
                    f"the answer costs epsilon {rounded_up(epsilon):.6g}; of the {cap:g} that this device "
                    f"allows {what}, {rounded_up(spent):.6g} is spent"
                )
        return None
