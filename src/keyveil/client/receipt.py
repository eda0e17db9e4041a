"""What became of a call that never raises, for the application: a code and a sentence, and what was read.

The codes and sentences are the same in every language. Each receipt is one line in the application's log,
under the name `keyveil.client`; nothing is printed unless the application sets logging up.

A record is settled by rule and never refused (`keyveil.domain`), so a misspelt key or a range that is too
narrow would stay unseen for ever. What was settled, the `Reading`, is shown to whoever passed the record, and
to nobody else: it is made from the record, so it is as private as that. It travels in no report, stands in no
log and on no disk, decides neither the length of a report nor the number of its random words, and prints as
`<private reading>`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import NoReturn

from keyveil.domain import Domain
from keyveil.errors import KeyveilError, RecordError

_LOG = logging.getLogger("keyveil.client")
_LOG.addHandler(logging.NullHandler())


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
    OTHER_WAVE = "other-wave"
    SMALL_GROUP = "small-group"
    OVER_PROMISE = "over-promise"
    OVER_CAMPAIGN_CAP = "over-campaign-cap"
    OVER_LIFETIME_CAP = "over-lifetime-cap"
    OVER_YEARLY_CAP = "over-yearly-cap"
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
    RELAY_REQUIRED = "relay-required"
    NOT_RELAYED = "not-relayed"
    OTHER_ROUTE = "other-route"
    KEYS_DIFFER = "keys-differ"
    NO_SEALING = "no-sealing"
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
        Code.OTHER_WAVE: "This wave of the series asks other devices.",
        Code.SMALL_GROUP: (
            "This round asks fewer devices at once than its campaign does; so few would not hide each other."
        ),
        Code.OVER_PROMISE: "With this round the device would say more than the campaign promised.",
        Code.OVER_CAMPAIGN_CAP: "With this round the device would spend more than it allows one campaign.",
        Code.OVER_LIFETIME_CAP: (
            "With this round the device would spend more than it allows all campaigns together."
        ),
        Code.OVER_YEARLY_CAP: "With this round the device would spend more than it allows in a year.",
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
        Code.RELAY_REQUIRED: "This campaign takes reports through a relay only; name one. Reports wait.",
        Code.NOT_RELAYED: (
            "This campaign takes no reports through a relay; leave the relay out. Reports wait."
        ),
        Code.OTHER_ROUTE: "This campaign's reports went another way before; a device keeps to one.",
        Code.KEYS_DIFFER: "The relay takes no key of the collector's; reports wait.",
        Code.NO_SEALING: "Nothing here can seal a report for a relay; reports wait.",
        Code.FAULT: "Something unexpected happened; nothing was sent.",
    }
)

# What somebody must mend: whoever wrote the application, or who runs the collector.
_TO_MEND = frozenset(
    {
        Code.BAD_DESCRIPTION,
        Code.SMALL_GROUP,
        Code.BAD_RECORD,
        Code.NO_LEDGER,
        Code.LEDGER_CORRUPT,
        Code.LEDGER_UNWRITABLE,
        Code.NO_COLLECTOR,
        Code.HTTPS_REQUIRED,
        Code.TOKEN_REFUSED,
        Code.REFUSED,
        Code.NO_ID,
        Code.RELAY_REQUIRED,
        Code.NOT_RELAYED,
        Code.OTHER_ROUTE,
        Code.KEYS_DIFFER,
        Code.NO_SEALING,
        Code.FAULT,
    }
)


class Reading:
    """The names of keys whose pairs were not taken as they were.

    `unknown` are keys that the campaign does not name: they were left out, or averaged into "other" where the
    campaign has that. `not_numbers` had NaN for a value and were left out. `clamped` had a value outside the
    campaign's range, which went to the nearer end.

    >>> domain = Domain(keys=("maps", "mail"), value_range=(0, 60))
    >>> reading = Reading(domain, {"maps": 90.0, "mail": float("nan"), "chess": 3.0})
    >>> reading
    <private reading>
    >>> print(reading.words())
    not asked about: chess; no number: mail; moved into [0, 60]: maps
    >>> Reading(domain, {"maps": 12.0}).words()
    ''
    """

    __slots__ = ("_outside", "_range", "clamped", "not_numbers", "unknown")

    def __init__(self, domain: Domain, held: Mapping[str, float]) -> None:
        low, high = self._range = domain.value_range
        self._outside = "beyond" if domain.beyond else "moved into"
        pairs = list(held.items())
        asked = [(name, value) for name, value in pairs if domain.code_of(name) is not None]
        self.unknown = tuple(name for name, _ in pairs if not domain.names_key(name))
        self.not_numbers = tuple(name for name, value in asked if value != value)
        self.clamped = tuple(name for name, value in asked if value < low or value > high)

    def words(self) -> str:
        """The same in words, for this device's screen; nothing where all was taken as it was."""
        low, high = self._range
        settled = {
            "not asked about": self.unknown,
            "no number": self.not_numbers,
            f"{self._outside} [{low:g}, {high:g}]": self.clamped,
        }
        return "; ".join(f"{what}: {', '.join(names)}" for what, names in settled.items() if names)

    def __repr__(self) -> str:
        return "<private reading>"

    def __copy__(self) -> Reading:
        return self

    def __deepcopy__(self, _memo: object) -> Reading:
        return self

    def __reduce__(self) -> NoReturn:
        raise RecordError("what was read of a record is private and is never pickled")


@dataclass(frozen=True, slots=True)
class Receipt:
    """A code, its sentence, and what there is to add; true if what was asked for is done.

    Of `submit` it also says whether the answer repeats one that was given before (`is_repeat`): then the
    record was not read, so nothing can be said of it. Else `reading` tells which keys were not taken as they
    were; it is for the application on this device alone.

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


def receipt_for(verb: str, work: Callable[[], str | Receipt]) -> Receipt:
    """Do the work and log its receipt; whatever goes wrong becomes one too: the application must go on.

    The work answers what there is to say of it where it is done, or a receipt of its own.
    """
    try:
        done = work()
        receipt = done if isinstance(done, Receipt) else Receipt(Code.DONE, done)
    except KeyveilError as error:
        receipt = Receipt(Code(error.code), str(error))
    except Exception as error:
        # A stranger's message may quote the record; its type cannot.
        receipt = Receipt(Code.FAULT, f"an unexpected {type(error).__name__}")
    _log(verb, receipt)
    return receipt


def _log(verb: str, receipt: Receipt) -> None:
    """At DEBUG if done, at WARNING if it is to be mended, else at INFO; never what was read of a record."""
    level = logging.DEBUG if receipt else logging.WARNING if receipt.code in _TO_MEND else logging.INFO
    # A handler of the application's may raise; the application must go on.
    with suppress(Exception):
        _LOG.log(level, "%s: %s; %s", verb, receipt.code.value, receipt.detail or receipt.message)
