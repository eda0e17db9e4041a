"""Everything that keyveil refuses, in one tree.

    KeyveilError
    |-- BudgetError          an epsilon that is no epsilon, or cannot be met
    |-- DomainError          keys, value ranges or padding lengths that make no question
    |-- RecordError          a record that is not a mapping of names to numbers
    |-- MechanismError       unknown mechanism, impossible parameters
    |-- CampaignError        a campaign file that does not say what it must
    |-- DescriptionError     a round that a collector describes and no device should answer
    |-- EntropyError         randomness that must not reach a device
    |-- LedgerError          a device's ledger that cannot be read, written or believed
    |-- ConsentError         the person has not said yes, or has said no
    |-- TransportError       a collector that may not be talked to, or that did not answer
    |-- MissingPackage       what needs a package that is not installed
    |-- ProtocolError        a round that does not follow from the one before
    |-- TallyError           tallies that do not belong together
    |-- PlanError            a plan that cannot be made
    |-- PairsError           a data file that is not a table of user, key, value
    |-- StoreError           a collector's store that cannot be opened, written or believed
    |-- Problem              a request that a collector refuses (`collector.problems`)
    `-- ReportRejected       bytes that are no report of this campaign (carries a stable code)

A message says what was expected, what came, where, and what to do next. It never holds a
private value: what a user holds is named by the rule it broke, not by what it was.
"""

from __future__ import annotations

from enum import Enum
from typing import Any


class KeyveilError(Exception):
    """The base of all refusals; the command line prints it as one sentence and exits with 2.

    `code` is stable and the same in every language; docs/wire.md lists those that devices give.
    """

    code: Any = "fault"

    def __init__(self, message: str = "", *, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class BudgetError(KeyveilError):
    """An epsilon that is not a positive, finite number, or one that cannot be met."""


class DomainError(KeyveilError):
    """Keys, ranges or lengths that do not make a question."""


class RecordError(KeyveilError):
    """A record that is not a mapping of key names to numbers."""

    code = "bad-record"


class MechanismError(KeyveilError):
    """A mechanism that does not exist, or parameters that leave it nothing to do."""


class CampaignError(KeyveilError):
    """A campaign file that lacks a field, misspells one, or contradicts itself."""

    code = "bad-description"


class DescriptionError(KeyveilError):
    """What a collector says of a round, where it is no description of one, or not of this campaign's."""

    code = "bad-description"


class EntropyError(KeyveilError):
    """Randomness that must not be used where it was asked for."""


class LedgerError(KeyveilError):
    """A ledger that cannot be read, written or believed; nothing is reported without one."""

    code = "ledger-corrupt"


class ConsentError(KeyveilError):
    """Something that the person has not agreed to, or has forbidden."""

    code = "not-enabled"


class TransportError(KeyveilError):
    """A collector that may not be talked to, or that did not answer as one does.

    `retry_after` is the wait in seconds that it asked for, if it did.
    """

    code = "waiting"

    def __init__(self, message: str, *, code: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after = retry_after


class ProtocolError(KeyveilError):
    """A round that does not follow from the one before, or parameters that leave a protocol no round."""


class MissingPackage(KeyveilError, ImportError):
    """What was asked for needs a package that is not installed; `name` is the package's."""

    def __init__(self, message: str, *, name: str | None, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.name = name


class TallyError(KeyveilError):
    """Tallies or reports that do not belong to the same question."""


class PlanError(KeyveilError):
    """A plan that cannot be made, and what would make it possible."""


class PairsError(KeyveilError):
    """A data file that is not a table of user, key and value."""


class StoreError(KeyveilError):
    """A collector's store that cannot be used now, or, if `damaged`, not until it is restored."""

    def __init__(self, message: str, *, damaged: bool = False) -> None:
        super().__init__(message)
        self.damaged = damaged


class Refusal(Enum):
    """Why a report was refused; the values are stable and appear on the wire."""

    WRONG_LENGTH = "wrong-length"
    UNKNOWN_VERSION = "unknown-version"
    WRONG_CAMPAIGN = "wrong-campaign"
    WRONG_ROUND = "wrong-round"
    NOT_CANONICAL = "not-canonical"
    WRONG_COHORT = "wrong-cohort"
    TRUNCATED_FRAME = "truncated-frame"
    FRAME_TOO_LARGE = "frame-too-large"
    TOO_MANY_REPORTS = "too-many-reports"
    NOT_JSON = "not-json"
    NOT_SEALED = "not-sealed"
    UNKNOWN_KEY = "unknown-key"


class ReportRejected(KeyveilError):
    """Bytes that are no report of this campaign.

    >>> str(ReportRejected(Refusal.WRONG_LENGTH, "expected 66 bytes, got 3"))
    'report refused (wrong-length): expected 66 bytes, got 3'
    """

    code: Refusal

    def __init__(self, code: Refusal, detail: str) -> None:
        super().__init__(f"report refused ({code.value}): {detail}")
        self.code = code
