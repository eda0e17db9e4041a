"""What a device may do: speak at all, and spend so much. Decided on the device, out of every server's reach.

Consent is what the person said. It is off until somebody says yes, and off again at a word:

    unasked     nothing is queued or sent; `Reporter.report` still hands its bytes to the caller
    given       reports are queued and sent
    withdrawn   nothing is made, queued or sent; queue and kept answers were wiped, what was spent stays
                spent, and a round that was answered is not answered again

DO_NOT_TRACK=1 in the environment (https://consoledonottrack.com) counts as withdrawn while it is
set; it wipes nothing.

Caps are what the application set: they bound the price of every answer, with consent or without.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from fractions import Fraction
from sys import float_info

from keyveil.client.ledger import UNASKED, Account
from keyveil.client.queue import forget_reports
from keyveil.errors import BudgetError, ConsentError
from keyveil.numerics import PRICE_BITS, rounded_up

_GIVEN, _WITHDRAWN = "given", "withdrawn"


# --- consent ---


def do_not_track() -> bool:
    """Whether the environment forbids it."""
    return os.environ.get("DO_NOT_TRACK", "").strip().lower() not in ("", "0", "false")


def refuse_if_withdrawn(account: Account) -> None:
    """Raise after a clear no."""
    if do_not_track():
        raise ConsentError("DO_NOT_TRACK is set; nothing is reported while it is", code="do-not-track")
    if account.consent == _WITHDRAWN:
        raise ConsentError("reporting was switched off; enable() switches it on", code="disabled")


def require_consent(account: Account) -> None:
    """Raise unless there was a clear yes."""
    refuse_if_withdrawn(account)
    if account.consent == UNASKED:
        raise ConsentError("reporting is off until enable() is called; ask the person first")


def give_consent(account: Account) -> None:
    """The person said yes."""
    account.consent = _GIVEN


def withdraw_consent(account: Account) -> None:
    """The person said no: forget what waits and what was answered, keep what was spent."""
    account.consent = _WITHDRAWN
    forget_reports(account)
    account.wipe_answers()


# --- caps ---


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
