"""What a device does with a record and random words: one report, ready to be sent."""

from __future__ import annotations

from collections.abc import Sequence

from keyveil.domain import Record
from keyveil.mechanisms.base import Mechanism
from keyveil.numerics import Words
from keyveil.report import Envelope, public_word


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
