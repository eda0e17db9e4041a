"""From a record to the bytes of one report."""

from __future__ import annotations

import os
from collections.abc import Callable

from keyveil.domain import Record
from keyveil.mechanisms import make_report
from keyveil.numerics import Entropy, system_entropy
from keyveil.report import REPORT_ID_BYTES
from keyveil.rounds import Round

# Where the ids of reports come from.
Ids = Callable[[], bytes]


def own_id() -> bytes:
    """A fresh random id."""
    return os.urandom(REPORT_ID_BYTES)


def noised(round: Round, record: Record, report_id: bytes, *, entropy: Entropy = system_entropy) -> bytes:
    """The report to a round about a user's whole record."""
    mechanism = round.mechanism
    words, asked = entropy(mechanism.n_words), round.narrow(record)
    return make_report(mechanism, asked, words, tag=round.tag, round=round.number, report_id=report_id)
