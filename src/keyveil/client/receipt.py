"""What became of a call that never raises: a code and a sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from keyveil.errors import (
    BudgetError,
    ConsentError,
    KeyveilError,
    LedgerError,
    RecordError,
    TransportError,
)


class Code(Enum):
    """What became of a call; the values are stable."""

    DONE = "done"
    OFF = "off"
    BUDGET = "budget"
    CAMPAIGN = "campaign"
    RECORD = "record"
    LEDGER = "ledger"
    OFFLINE = "offline"
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Receipt:
    """A code and a sentence; true if what was asked for is done."""

    code: Code
    message: str = ""

    def __bool__(self) -> bool:
        return self.code is Code.DONE


_CODES: tuple[tuple[type[KeyveilError], Code], ...] = (
    (ConsentError, Code.OFF),
    (BudgetError, Code.BUDGET),
    (RecordError, Code.RECORD),
    (LedgerError, Code.LEDGER),
    (TransportError, Code.OFFLINE),
    (KeyveilError, Code.CAMPAIGN),
)


def receipt_for(work: Callable[[], str]) -> Receipt:
    """Do the work; whatever goes wrong becomes a receipt, because the host application must go on."""
    try:
        return Receipt(Code.DONE, work())
    except KeyveilError as error:
        return Receipt(next(code for kind, code in _CODES if isinstance(error, kind)), str(error))
    except Exception as error:
        # A stranger's message may quote the record; its type cannot.
        return Receipt(Code.FAULT, f"an unexpected {type(error).__name__}; nothing was sent")
