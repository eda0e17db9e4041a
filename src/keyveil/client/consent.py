"""Whether this device may speak: off until somebody says yes, and off again at a word.

    unasked     nothing is queued or sent; `Reporter.report` still hands its bytes to the caller
    given       reports are queued and sent
    withdrawn   nothing is made, queued or sent; queue and kept answers were wiped, what was spent stays
                spent, and a round that was answered is not answered again

DO_NOT_TRACK=1 in the environment (https://consoledonottrack.com) counts as withdrawn while it is
set; it wipes nothing.
"""

from __future__ import annotations

import os

from keyveil.client.ledger import UNASKED, Account
from keyveil.client.queue import forget_reports
from keyveil.errors import ConsentError

GIVEN, WITHDRAWN = "given", "withdrawn"


def do_not_track() -> bool:
    """Whether the environment forbids it."""
    return os.environ.get("DO_NOT_TRACK", "").strip().lower() not in ("", "0", "false")


def refuse_if_withdrawn(account: Account) -> None:
    """Raise after a clear no."""
    if do_not_track():
        raise ConsentError("DO_NOT_TRACK is set; nothing is reported while it is", code="do-not-track")
    if account.consent == WITHDRAWN:
        raise ConsentError("reporting was switched off; enable() switches it on", code="disabled")


def require(account: Account) -> None:
    """Raise unless there was a clear yes."""
    refuse_if_withdrawn(account)
    if account.consent == UNASKED:
        raise ConsentError("reporting is off until enable() is called; ask the person first")


def give(account: Account) -> None:
    """The person said yes."""
    account.consent = GIVEN


def withdraw(account: Account) -> None:
    """The person said no: forget what waits and what was answered, keep what was spent."""
    account.consent = WITHDRAWN
    forget_reports(account)
    account.wipe_answers()
