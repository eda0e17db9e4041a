"""One report for each of many records, in one buffer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from keyveil.batch.answers import draw_answers
from keyveil.batch.records import Records
from keyveil.batch.stream import Bytes, SecureStream, Stream, Words, draw_octets
from keyveil.errors import MechanismError
from keyveil.mechanisms import Mechanism
from keyveil.numerics import WORD_BITS
from keyveil.report import HEADER_BYTES, REPORT_ID_BYTES, Envelope, public_words
from keyveil.tally.dither import dithers_of

# Words drawn at once: what stays in a core's second cache; but enough records that numpy's calls cost little.
_BLOCK_BYTES, _FEWEST = 1 << 20, 1024


def perturb_many(
    mechanism: Mechanism,
    records: Records,
    *,
    tag: bytes,
    round: int = 1,
    stream: Stream | None = None,
    ids: Bytes | None = None,
    is_dithered: bool = False,
    labels: Bytes | None = None,
) -> Bytes:
    """A report of every record, a row each, in the records' order; under a fresh random id or one of `ids`.

    `is_dithered` says whether a report's id rounds its values, as the round says (`Round.is_dithered`);
    `labels` are everybody's clear labels, a row each, where its reports carry some (`Round.labels`).

    The randomness is `SecureStream` unless another is asked for by name. What is reported of a record has
    the law of the mechanism's kernel, to the word.

    >>> from keyveil.domain import Record
    >>> from keyveil.mechanisms import build
    >>> people = Records.of([Record.of({1: 0.5}), Record.of({})])
    >>> perturb_many(build("pckv-ue", 1, n_keys=6), people, tag=bytes(16)).shape
    (2, 37)
    """
    _check_words(mechanism)
    source = SecureStream() if stream is None else stream
    head = Envelope(campaign=tag, round=round, report_id=bytes(REPORT_ID_BYTES), payload=b"").to_bytes()
    clear = np.empty((len(records), 0), dtype=np.uint8) if labels is None else labels
    end = HEADER_BYTES + mechanism.layout.n_bytes
    reports = np.empty((len(records), end + clear.shape[1]), dtype=np.uint8)
    reports[:, :HEADER_BYTES] = np.frombuffer(head, dtype=np.uint8)
    if ids is None:
        ids = draw_octets(source, len(records), REPORT_ID_BYTES)
    reports[:, HEADER_BYTES - REPORT_ID_BYTES : HEADER_BYTES] = ids
    for first, last in blocks_of(mechanism, len(records)):
        some = records.part(first, last)
        if is_dithered:
            some = some.rounded(dithers_of(ids[first:last]))
        public = None if mechanism.public_word is None else words_of_ids(tag, round, ids[first:last])
        reports[first:last, HEADER_BYTES:end] = draw_answers(mechanism, some, source, public)
    reports[:, end:] = clear
    return reports


def _check_words(mechanism: Mechanism) -> None:
    if mechanism.word_bits != WORD_BITS:
        raise MechanismError(f"many reports are drawn from {WORD_BITS}-bit words, got {mechanism.word_bits}")


def blocks_of(mechanism: Mechanism, n: int) -> Iterator[tuple[int, int]]:
    """Which records are noised together."""
    size = max(_FEWEST, _BLOCK_BYTES // (8 * min(mechanism.n_words, 16)))
    return ((first, min(first + size, n)) for first in range(0, n, size))


def words_of_ids(tag: bytes, round: int, ids: Bytes) -> Words:
    """`report.public_word` of many report ids."""
    return np.array(public_words(tag, round, ids.tobytes()), dtype=np.uint64)
