"""From a record to the bytes of one report."""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable

from keyveil.domain import Record
from keyveil.errors import TransportError
from keyveil.mechanisms import make_report
from keyveil.numerics import Entropy, system_entropy
from keyveil.report import REPORT_ID_BYTES
from keyveil.rounds import Round

NONCE_BYTES = 16

# Where the ids of reports come from.
Ids = Callable[[], bytes]


def own_id() -> bytes:
    """A fresh random id."""
    return os.urandom(REPORT_ID_BYTES)


def no_id() -> bytes:
    """A refusal: an id of the device's own would never count, and its answer would be spent."""
    raise TransportError(
        "the collector hands out the ids of this campaign; pass collector='https://...' and token=...",
        code="no-id",
    )


def nonce_of(secret: bytes, campaign: str, round: int) -> bytes:
    """What a device with this secret asks for the id of its answer to a round with.

    >>> nonce_of(bytes(32), "ab", 1).hex()
    '3c49457f955a36d10d7efd1c6885889f'
    """
    return hmac.digest(secret, f"nonce {campaign} {round}".encode(), "sha256")[:NONCE_BYTES]


def noised(round: Round, record: Record, report_id: bytes, *, entropy: Entropy = system_entropy) -> bytes:
    """The report to a round about a user's whole record."""
    mechanism = round.mechanism
    words, asked = entropy(mechanism.n_words), round.narrow(record)
    return make_report(mechanism, asked, words, tag=round.tag, round=round.number, report_id=report_id)
