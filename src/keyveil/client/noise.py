"""From a record to the bytes of one report."""

from __future__ import annotations

import os
from collections.abc import Callable

from keyveil.domain import Record
from keyveil.mechanisms import Mechanism, make_report
from keyveil.numerics import Entropy, system_entropy
from keyveil.report import REPORT_ID_BYTES

# Where the ids of reports come from.
Ids = Callable[[], bytes]


def own_id() -> bytes:
    """A fresh random id."""
    return os.urandom(REPORT_ID_BYTES)


def noised(
    tag: bytes,
    mechanism: Mechanism,
    record: Record,
    *,
    round: int = 1,
    entropy: Entropy = system_entropy,
    ids: Ids = own_id,
) -> bytes:
    """A report of `record`, under a fresh id."""
    words, report_id = entropy(mechanism.n_words), ids()
    return make_report(mechanism, record, words, tag=tag, round=round, report_id=report_id)
