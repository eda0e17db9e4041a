"""From a record to the bytes of one report."""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable, Sequence

from keyveil.domain import Record
from keyveil.errors import TransportError
from keyveil.mechanisms.base import Mechanism
from keyveil.numerics import Entropy, Words, system_entropy
from keyveil.report import REPORT_ID_BYTES, Envelope, public_word
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


def make_report(
    mechanism: Mechanism, record: Record, words: Sequence[int], *, tag: bytes, round: int, report_id: bytes
) -> bytes:
    """The report to one round of a campaign; a public word is not drawn, it follows from the id.

    >>> from keyveil.mechanisms.symbol.keys_only import Olh
    >>> olh = Olh.for_epsilon(1, n_keys=3)
    >>> sent = make_report(olh, Record.of({}), [0, 0, 0], tag=bytes(16), round=1, report_id=bytes(16))
    >>> answer = olh.layout.decode(Envelope.from_bytes(sent).payload)
    >>> olh.follows(answer, public_word(bytes(16), 1, bytes(16)))
    True
    """
    if mechanism.public_word is not None:
        words = Words.of(words).with_word(mechanism.public_word, public_word(tag, round, report_id))
    payload = mechanism.layout.encode(mechanism.perturb(record, words))
    return Envelope(campaign=tag, round=round, report_id=report_id, payload=payload).to_bytes()
