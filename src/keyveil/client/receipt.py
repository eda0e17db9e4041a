"""What became of a call that never raises: a code and a sentence, the same in every language."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from keyveil.client.reading import Reading
from keyveil.errors import KeyveilError


class Code(Enum):
    """What became of a call; the values are stable, and those of the JavaScript device."""

    DONE = "done"
    NOT_ENABLED = "not-enabled"
    DISABLED = "disabled"
    DO_NOT_TRACK = "do-not-track"
    EXPIRED = "expired"
    BAD_DESCRIPTION = "bad-description"
    UNKNOWN_VERSION = "unknown-version"
    UNKNOWN_MECHANISM = "unknown-mechanism"
    OTHER_CAMPAIGN = "other-campaign"
    PINNED = "pinned"
    ANSWERED = "answered"
    OTHER_GROUP = "other-group"
    OVER_PROMISE = "over-promise"
    OVER_CAMPAIGN_CAP = "over-campaign-cap"
    OVER_LIFETIME_CAP = "over-lifetime-cap"
    BAD_RECORD = "bad-record"
    NO_LEDGER = "no-ledger"
    LEDGER_CORRUPT = "ledger-corrupt"
    LEDGER_UNWRITABLE = "ledger-unwritable"
    LEDGER_BUSY = "ledger-busy"
    NO_COLLECTOR = "no-collector"
    HTTPS_REQUIRED = "https-required"
    WAITING = "waiting"
    TOKEN_REFUSED = "token-refused"  # noqa: S105
    REFUSED = "refused"
    NO_ID = "no-id"
    BAD_TOKEN = "bad-token"  # noqa: S105
    FAULT = "fault"

    @classmethod
    def _missing_(cls, value: object) -> Code:
        """Whatever is no word of a device's is a fault, so that every refusal has a code."""
        return cls.FAULT


SENTENCES = MappingProxyType(
    {
        Code.DONE: "Done.",
        Code.NOT_ENABLED: "Reporting is off until enable() is called; ask the person first.",
        Code.DISABLED: "Reporting was switched off; enable() switches it on.",
        Code.DO_NOT_TRACK: "The person asked not to be tracked; nothing is reported while that is so.",
        Code.EXPIRED: "The campaign is over.",
        Code.BAD_DESCRIPTION: (
            "The description of the round is not one that this device answers; nothing was read."
        ),
        Code.UNKNOWN_VERSION: (
            "The description has a format that this version does not read; update keyveil."
        ),
        Code.UNKNOWN_MECHANISM: (
            "The description names a mechanism that this version does not know; update keyveil."
        ),
        Code.OTHER_CAMPAIGN: "The description belongs to another campaign.",
        Code.PINNED: "This round was answered under another description; no other is ever answered.",
        Code.ANSWERED: "This round was answered, and the answer was wiped when reporting was switched off.",
        Code.OTHER_GROUP: "This round asks other devices.",
        Code.OVER_PROMISE: "With this round the device would say more than the campaign promised.",
        Code.OVER_CAMPAIGN_CAP: "With this round the device would spend more than it allows one campaign.",
        Code.OVER_LIFETIME_CAP: (
            "With this round the device would spend more than it allows all campaigns together."
        ),
        Code.BAD_RECORD: "A record maps names of keys to numbers; this one does not.",
        Code.NO_LEDGER: "A device needs a ledger, which remembers what was spent; pass one.",
        Code.LEDGER_CORRUPT: (
            "The ledger cannot be believed, so what was spent is unknown; nothing is reported."
        ),
        Code.LEDGER_UNWRITABLE: "The ledger cannot be written; nothing is reported without it.",
        Code.LEDGER_BUSY: "Another process holds the ledger; try again.",
        Code.NO_COLLECTOR: "No collector is named; pass its address.",
        Code.HTTPS_REQUIRED: "Reports travel by https only, or within this machine.",
        Code.WAITING: "The collector is not ready; reports wait, try again later.",
        Code.TOKEN_REFUSED: "The collector wants another token than this device has; reports wait.",
        Code.REFUSED: "The collector refuses the request, and repeating it does not help; reports wait.",
        Code.NO_ID: "The collector handed out no id for a report; try again later.",
        Code.BAD_TOKEN: "A token is one word of plain letters.",
        Code.FAULT: "Something unexpected happened; nothing was sent.",
    }
)


@dataclass(frozen=True, slots=True)
class Receipt:
    """A code, its sentence, and what there is to add; true if what was asked for is done.

    Of `submit` it also says whether the answer repeats one that was given before (`is_repeat`): then the
    record was not read, so nothing can be said of it. Else `reading` tells which keys were not taken as they
    were. That is for the application on this device alone and never travels: see `keyveil.client.reading`.

    >>> receipt = Receipt(Code.EXPIRED, "it ended on 2026-11-01")
    >>> bool(receipt), receipt.message
    (False, 'The campaign is over.')
    """

    code: Code
    detail: str = ""
    is_repeat: bool = False
    reading: Reading | None = None

    @property
    def message(self) -> str:
        """The code's sentence."""
        return SENTENCES[self.code]

    def __bool__(self) -> bool:
        return self.code is Code.DONE


def receipt_for(work: Callable[[], str | Receipt]) -> Receipt:
    """Do the work; whatever goes wrong becomes a receipt, because the host application must go on.

    The work answers what there is to say of it where it is done, or a receipt of its own.
    """
    try:
        told = work()
        return told if isinstance(told, Receipt) else Receipt(Code.DONE, told)
    except KeyveilError as error:
        return Receipt(Code(error.code), str(error))
    except Exception as error:
        # A stranger's message may quote the record; its type cannot.
        return Receipt(Code.FAULT, f"an unexpected {type(error).__name__}")
