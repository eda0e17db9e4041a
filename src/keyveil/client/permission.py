"""What a device may do: speak at all, and spend so much. Decided on the device, out of every server's reach.

Consent is what the person said. It is off until somebody says yes, and off again at a word:

    unasked     nothing is queued or sent; `Reporter.report` still hands its bytes to the caller
    given       reports are queued and sent
    withdrawn   nothing is made, queued or sent; queue and kept answers were wiped, what was spent stays
                spent, and a round that was answered is not answered again

DO_NOT_TRACK=1 in the environment (https://consoledonottrack.com) counts as withdrawn while it is
set; it wipes nothing.

Caps are what the application set: they bound the price of every answer, with consent or without. A series
counts as one campaign, at the price of all its answers.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from sys import float_info

from keyveil.client.ledger import UNASKED, Account
from keyveil.client.queue import forget_reports
from keyveil.client.waves import Wave
from keyveil.errors import BudgetError, ConsentError
from keyveil.numerics import PRICE_BITS, rounded_up

# Seconds in the year that a yearly cap looks back.
YEAR = 365 * 86_400.0
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
    """The most epsilon that this device spends on one campaign or series, and on all together, for ever.

    The device's own: no campaign can change them, and they are never topped up. `yearly` bounds what is said
    in any 365 days, by the ledger's time, which never goes back; beside it `lifetime` may be infinite.

    >>> Caps(yearly=4.0, lifetime=float("inf"))
    Caps(campaign=4.0, lifetime=inf, yearly=4.0)
    >>> Caps(lifetime=float("inf"))
    Traceback (most recent call last):
        ...
    keyveil.errors.BudgetError: the lifetime cap may be infinite only beside a yearly one; pass yearly=...
    """

    campaign: float = 4.0
    lifetime: float = 16.0
    yearly: float | None = None

    def __post_init__(self) -> None:
        for name in ("campaign", "lifetime", "yearly"):
            cap = getattr(self, name)
            if (name == "yearly" and cap is None) or (name == "lifetime" and cap == inf):
                continue
            if isinstance(cap, bool) or not isinstance(cap, (int, float)) or not 0 < cap <= float_info.max:
                raise BudgetError(f"the {name} cap must be a positive number, got {type(cap).__name__}")
        if self.lifetime == inf and self.yearly is None:
            raise BudgetError("the lifetime cap may be infinite only beside a yearly one; pass yearly=...")

    def check(
        self, account: Account, campaign: str, promised: float, units: int, wave: Wave | None = None
    ) -> None:
        """Refuse an answer that would go beyond the campaign's promise, or beyond a cap.

        Of a wave the caps are asked to cover the whole series; with its first answer all of it is spent.
        """
        here = account.spent(campaign)
        spent, in_all, costs, what = here, account.spent(), units, "answer"
        if wave is not None:
            spent, in_all, costs, what = 0, in_all - account.booked(wave.id), wave.units, "series"
        in_a_year = account.spent_since(account.now - YEAR)
        for code, of, before, (thing, price), cap in (
            ("over-promise", "that the campaign promises", here, ("answer", units), promised),
            ("over-campaign-cap", "that this device allows a campaign", spent, (what, costs), self.campaign),
            (
                "over-lifetime-cap",
                "that this device allows all campaigns",
                in_all,
                (what, costs),
                self.lifetime,
            ),
            ("over-yearly-cap", "that this device allows a year", in_a_year, ("answer", units), self.yearly),
        ):
            if cap is not None and not fits(before + price, cap):
                raise BudgetError(
                    f"the {thing} costs epsilon {epsilon_of(price):.6g}; of the {cap:g} {of}, "
                    f"{epsilon_of(before):.6g} is spent",
                    code=code,
                )


def fits(units: int, epsilon: float) -> bool:
    """Whether so many units of 2**-192 are no more than an epsilon, exactly.

    >>> fits(1 << 192, 1.0), fits((1 << 192) + 1, 1.0)
    (True, False)
    """
    return epsilon == inf or Fraction(units, 1 << PRICE_BITS) <= Fraction(epsilon)


def epsilon_of(units: int) -> float:
    """Units as a number for people, rounded up."""
    return rounded_up(Fraction(units, 1 << PRICE_BITS))
