"""From reports to a tally: one vectorised pass per shape of report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import singledispatch
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from keyveil.errors import Refusal, ReportRejected
from keyveil.mechanisms import (
    Apart,
    BroadcastIndex,
    Bucket,
    EncodedOracle,
    Hashed,
    IndexedBoundary,
    IndexedBoundaryBits,
    Mechanism,
    Response,
    SampledIndex,
    SignedResponse,
    SignedUnary,
    UeSw,
    Wave,
)
from keyveil.report import ABSENT, MINUS, PLUS, Envelope, Layout, Row, Symbol, public_word
from keyveil.tally.hashing import signed_supports, supports
from keyveil.tally.packed import Packed, bit_sums, bits_of, non_canonical, numbers_of, symbols_of
from keyveil.tally.tally import Counts, Tally

# Reports handled at once: keeps the unpacked trits of 6,000 keys within 25 MB.
_BLOCK = 4096

Cells = dict[str, Counts]


def tally_reports(
    mechanism: Mechanism, reports: Iterable[bytes], *, tag: bytes, round: int, question: str
) -> Tally:
    """The tally of the reports that answer one round of one campaign; refuses the first that does not."""
    total = count(mechanism, [], question=question)
    payloads = (_payload(mechanism, report, tag, round, place) for place, report in enumerate(reports))
    for block in _blocks(payloads):
        total += count(mechanism, block, question=question)
    return total


def count(mechanism: Mechanism, payloads: Sequence[bytes], *, question: str) -> Tally:
    """The tally of answers in their byte form."""
    return Tally.of(question=question, n_reports=len(payloads), **count_answers(mechanism, payloads))


@singledispatch
def count_answers(mechanism: object, payloads: Sequence[bytes]) -> Cells:
    """The cells of a tally; every shape of report registers its own, and `ticks` says what it must be."""
    raise TypeError(f"no way to count reports of {type(mechanism).__name__}; register count_answers for it")


@count_answers.register
def _(mechanism: SignedUnary, payloads: Sequence[bytes]) -> Cells:
    # A canonical trit is one bit: 1 is +, 2 is -.
    bits = bit_sums(_matrix(mechanism.layout, payloads))[: 2 * mechanism.n_keys].reshape(-1, 2)
    return {"plus": bits[:, 0], "minus": bits[:, 1], "asked": np.full(mechanism.n_keys, len(payloads))}


@count_answers.register
def _(mechanism: SignedResponse, payloads: Sequence[bytes]) -> Cells:
    cells = _histogram(mechanism.layout, payloads)[: 2 * mechanism.n_keys].reshape(-1, 2)
    return {"plus": cells[:, 0], "minus": cells[:, 1], "asked": np.full(mechanism.n_keys, len(payloads))}


@count_answers.register
def _(mechanism: SampledIndex, payloads: Sequence[bytes]) -> Cells:
    cells = _histogram(mechanism.layout, payloads).reshape(-1, 3)
    return {"plus": cells[:, PLUS], "minus": cells[:, MINUS], "asked": cells.sum(axis=1)}


@count_answers.register
def _(mechanism: BroadcastIndex, payloads: Sequence[bytes]) -> Cells:
    cells = _histogram(mechanism.layout, payloads).reshape(-1, 2, 3).sum(axis=1)
    return {"plus": cells[:, PLUS], "minus": cells[:, MINUS], "asked": cells.sum(axis=1)}


@count_answers.register
def _(mechanism: IndexedBoundary, payloads: Sequence[bytes]) -> Cells:
    cells = _histogram(mechanism.layout, payloads).reshape(-1, mechanism.bins + 1)
    return {"bins": cells[:, ABSENT + 1 :], "asked": cells.sum(axis=1)}


@count_answers.register
def _(mechanism: IndexedBoundaryBits, payloads: Sequence[bytes]) -> Cells:
    d, bins = mechanism.n_keys, mechanism.bins
    index, symbol = np.divmod(_symbols(mechanism.layout, payloads), (1 << bins) + 1)
    said = symbol > 0
    keys, shown = index[said], symbol[said] - 1
    bits = [np.bincount(keys[(shown >> place) & 1 == 1], minlength=d) for place in range(bins)]
    return {
        "asked": np.bincount(index, minlength=d),
        "held": np.bincount(keys, minlength=d),
        "bits": np.stack(bits, axis=1),
    }


@count_answers.register
def _(mechanism: UeSw, payloads: Sequence[bytes]) -> Cells:
    size = mechanism.channel.window.n_out + 1
    cells = np.zeros(mechanism.n_padded * size, dtype=np.int64)
    places = size * np.arange(mechanism.n_padded)
    for start in range(0, len(payloads), _BLOCK):
        symbols = _rows(mechanism.layout, payloads[start : start + _BLOCK])
        cells += np.bincount((symbols + places).ravel(), minlength=cells.size)
    return {"bins": cells.reshape(mechanism.n_padded, size)[:, ABSENT + 1 :]}


@count_answers.register
def _(mechanism: EncodedOracle, payloads: Sequence[bytes]) -> Cells:
    oracle = mechanism.oracle
    if isinstance(oracle, Response):
        return {"support": _histogram(oracle.layout, payloads)}
    if isinstance(oracle, Wave):
        return {"outputs": _histogram(oracle.layout, payloads)}
    if isinstance(oracle, Hashed):
        table = _histogram(oracle.layout, payloads).reshape(oracle.cohorts, oracle.buckets)
        return {"support": supports(table, oracle.n_symbols)}
    return {"support": _rows(Row(oracle.n_symbols, 2), payloads).sum(axis=0)}


@count_answers.register
def _(mechanism: Bucket, payloads: Sequence[bytes]) -> Cells:
    plus, minus = signed_supports(mechanism, _symbols(mechanism.layout, payloads))
    return {"plus": plus, "minus": minus, "asked": np.full(mechanism.n_keys, len(payloads))}


@count_answers.register
def _(mechanism: Apart, payloads: Sequence[bytes]) -> Cells:
    d, layout = mechanism.n_keys, mechanism.layout
    if isinstance(layout, Symbol):
        down, up = _histogram(layout, payloads).reshape(-1, 2).T
    else:
        assert isinstance(layout, Row)
        rows = _rows(layout, payloads)
        up, down = (rows[rows[:, -1] == sign, :-1].sum(axis=0) for sign in (1, 0))
    return {"plus": up[:d], "minus": down[:d], "asked": np.full(d, len(payloads))}


def _payload(mechanism: Mechanism, report: bytes, tag: bytes, round: int, position: int) -> bytes:
    envelope = Envelope.from_bytes(report)
    if envelope.campaign != tag:
        raise ReportRejected(
            Refusal.WRONG_CAMPAIGN, f"report {position} answers campaign {envelope.campaign.hex()[:12]}"
        )
    if envelope.round != round:
        raise ReportRejected(
            Refusal.WRONG_ROUND, f"report {position} answers round {envelope.round}, this is round {round}"
        )
    if mechanism.public_word is not None:
        answer = mechanism.layout.decode(envelope.payload)
        if not mechanism.follows(answer, public_word(tag, round, envelope.report_id)):
            raise ReportRejected(
                Refusal.WRONG_COHORT, f"report {position} tells a hash that its id does not give"
            )
    return envelope.payload


def _blocks(payloads: Iterator[bytes]) -> Iterator[list[bytes]]:
    while block := list(islice(payloads, _BLOCK)):
        yield block


def _matrix(layout: Layout, payloads: Sequence[bytes]) -> NDArray[np.uint8]:
    """The payloads as rows of bytes; the first that is no answer is refused."""
    if isinstance(payloads, Packed) and payloads.rows.shape[1] == layout.n_bytes:
        packed = payloads.rows
        if payloads.is_sound:
            return packed
    else:
        for payload in payloads:
            if len(payload) != layout.n_bytes:
                layout.decode(payload)
        packed = np.frombuffer(b"".join(payloads), dtype=np.uint8).reshape(len(payloads), layout.n_bytes)
    bad = non_canonical(layout, packed)
    if bad.any():
        layout.decode(packed[bad.argmax()].tobytes())
    return packed


def _rows(layout: Row, payloads: Sequence[bytes]) -> NDArray[np.int64]:
    """The numbers of every report, one row each."""
    return numbers_of(layout, bits_of(_matrix(layout, payloads)))


def _symbols(layout: Symbol, payloads: Sequence[bytes]) -> NDArray[np.int64]:
    """The number that every report is."""
    return symbols_of(layout, _matrix(layout, payloads))


def _histogram(layout: Symbol, payloads: Sequence[bytes]) -> Counts:
    return np.bincount(_symbols(layout, payloads), minlength=layout.size).astype(np.int64)
