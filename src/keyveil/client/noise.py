"""From a record to the bytes of one report."""

from __future__ import annotations

import os

from keyveil.domain import Record
from keyveil.mechanisms import Mechanism
from keyveil.numerics import Entropy, system_entropy
from keyveil.report import REPORT_ID_BYTES, Envelope


def noised(
    tag: bytes, mechanism: Mechanism, record: Record, *, round: int = 1, entropy: Entropy = system_entropy
) -> bytes:
    """A report of `record`, under a fresh random id."""
    answer = mechanism.perturb(record, entropy(mechanism.n_words))
    return Envelope(
        campaign=tag,
        round=round,
        report_id=os.urandom(REPORT_ID_BYTES),
        payload=mechanism.layout.encode(answer),
    ).to_bytes()
