"""What a crowd of reports shows beside its answer: integers that add, for tests of the noise itself.

A tally says how often each key was heard. Whether the reports behind it were noised at all shows elsewhere:
in how many keys one report names, which keys are named together, which index or hash it carries. Those
counts are a trace: a `Tally` of other cells, merged with `+`, in any order, on any machine. A collector
adds one up batch by batch and keeps no report.

    heard, plus, minus   how many reports name 0, 1, 2, ... positions (with +, with -)
    together, alike      how often a position of one group is named with one of another (and with its sign)
    named                how often a group was named
    prints               how many reports share a 16-bit fingerprint
    index, coin          how often each key was asked about, and with the coin +
    shown                how many reports show 0, 1, 2, ... boundary bits
    cohort, bucket       how often each hash and each bucket was reported
    dummies              how often each signed dummy was reported

Which there are is the shape's business. `audit.reports` says what they must look like.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.mechanisms import (
    Bits,
    Bucket,
    EncodedOracle,
    Hashed,
    IndexedBoundary,
    Mechanism,
    SampledIndex,
    Selection,
    SignedResponse,
    SignedUnary,
    UeSw,
)
from keyveil.report import ABSENT, MINUS, PLUS, Layout, Row, Subset, Symbol, Trits
from keyveil.tally.bits import count_bits
from keyveil.tally.count import Cells, even, read_rows, read_symbols, refuse_first
from keyveil.tally.payloads import Payloads
from keyveil.tally.tally import Counts, Tally

# Answers as numbers: a row of positions each, or one number each.
Answers = NDArray[Any]

# Positions are put into this many groups at most, so that pairs of groups stay few.
GROUPS = 128
PRINTS = 1 << 16
# Positions handled at once.
_BLOCK = 1 << 20


def trace(mechanism: Mechanism, payloads: Sequence[bytes], *, question: str) -> Tally:
    """The trace of answers in their byte form.

    >>> from keyveil.mechanisms import build
    >>> m = build("kvue", 1, n_keys=2)
    >>> trace(m, [m.layout.encode(4)], question="q").cells["index"].tolist()
    [0, 1]
    """
    return trace_answers(mechanism, decode_many(mechanism.layout, payloads), question=question)


def decode_many(layout: Layout, payloads: Sequence[bytes]) -> Answers:
    """Every answer as numbers, or a refusal of the first that is none."""
    packed = even(layout.n_bytes, layout.decode, payloads)
    answers: Answers
    if isinstance(layout, Trits):
        places, bad = np.arange(layout.length), count_bits(layout, packed)[1]
        answers = (packed.matrix()[:, places // 4] >> (2 * (places % 4)).astype(np.uint8)) & 3
    elif isinstance(layout, Row):
        answers, bad = read_rows(layout, packed)
    elif isinstance(layout, Subset):
        answers, bad = read_rows(layout.bits, packed)
        bad |= answers.sum(axis=1) != layout.chosen
    else:
        answers, bad = read_symbols(layout, packed)
    refuse_first(layout.decode, packed, bad)
    return answers


def encode_many(layout: Layout, answers: Answers) -> list[bytes]:
    """Every answer in its byte form; what `decode_many` reads.

    >>> from keyveil.report import Symbol
    >>> [each.hex() for each in encode_many(Symbol(300), np.array([258, 1]))]
    ['0201', '0100']
    """
    whole, step = pack_many(layout, answers).data.tobytes(), layout.n_bytes
    return [whole[at : at + step] for at in range(0, len(whole), step)]


def pack_many(layout: Layout, answers: Answers) -> Payloads:
    """The same in one buffer, for whoever counts them at once."""
    packed = np.zeros((len(answers), layout.n_bytes), dtype=np.uint8)
    done = 0
    for part in _blocks(answers):
        rows = packed[done : done + len(part)]
        if isinstance(layout, Symbol):
            rows[:] = part.astype("<u8").view(np.uint8).reshape(len(part), 8)[:, : layout.n_bytes]
        elif isinstance(layout, Trits):
            for place in range(min(4, layout.length)):
                trits = part[:, place::4]
                rows[:, : trits.shape[1]] |= trits.astype(np.uint8) << np.uint8(2 * place)
        elif isinstance(layout, Subset):
            rows[:] = np.packbits(part.astype(np.uint8), axis=1, bitorder="little")
        else:
            bits = (part[:, :, None] >> np.arange(layout.bits).astype(part.dtype)) & 1
            rows[:] = np.packbits(bits.reshape(len(part), -1).astype(np.uint8), axis=1, bitorder="little")
        done += len(part)
    return Payloads.of_matrix(packed)


def trace_answers(mechanism: Mechanism, answers: Answers, *, question: str) -> Tally:
    """The trace of decoded answers."""
    return Tally.of(question=question, n_reports=len(answers), **trace_cells(mechanism, answers))


def group_of(n_positions: int) -> Counts:
    """The group that each position is in."""
    return np.arange(n_positions) % min(n_positions, GROUPS)


@singledispatch
def trace_cells(mechanism: object, answers: Answers) -> Cells:
    """The cells of a trace; a shape that registers none shows nothing beside its answer."""
    return {}


@trace_cells.register
def _(mechanism: SignedUnary, answers: Answers) -> Cells:
    size = mechanism.n_keys
    named = named_cells(answers != ABSENT, size)
    signed = _products((answers == PLUS).astype(np.int8) - (answers == MINUS), size)
    return {
        **named,
        "plus": histogram((answers == PLUS).sum(axis=1), size + 1),
        "minus": histogram((answers == MINUS).sum(axis=1), size + 1),
        "alike": (named["together"] + signed) // 2,
        "prints": fingerprints(answers),
    }


@trace_cells.register
def _(mechanism: UeSw, answers: Answers) -> Cells:
    return {**named_cells(answers != ABSENT, mechanism.n_padded), "prints": fingerprints(answers)}


@trace_cells.register
def _(mechanism: EncodedOracle, answers: Answers) -> Cells:
    oracle = mechanism.oracle
    if isinstance(oracle, Bits | Selection):
        return {**named_cells(answers != ABSENT, oracle.n_symbols), "prints": fingerprints(answers)}
    if isinstance(oracle, Hashed):
        return _hashes(answers, oracle.cohorts, oracle.buckets)
    return {}


@trace_cells.register
def _(mechanism: Bucket, answers: Answers) -> Cells:
    return _hashes(answers, mechanism.cohorts, mechanism.buckets)


@trace_cells.register
def _(mechanism: SignedResponse, answers: Answers) -> Cells:
    d, l = mechanism.n_keys, mechanism.pairs_per_user
    return {"dummies": histogram(answers[answers >= 2 * d] - 2 * d, 2 * l)}


@trace_cells.register
def _(mechanism: SampledIndex, answers: Answers) -> Cells:
    return {"index": histogram(answers // 3, mechanism.n_keys)}


@trace_cells.register
def _(mechanism: IndexedBoundary, answers: Answers) -> Cells:
    return {"index": histogram(answers // (mechanism.bins + 1), mechanism.n_keys)}


def named_cells(shows: NDArray[np.bool_], size: int) -> Cells:
    """What positions that show or do not show leave behind."""
    groups = group_of(size)
    return {
        "heard": histogram(shows.sum(axis=1), size + 1),
        "named": np.bincount(groups, weights=shows.sum(axis=0)).astype(np.int64),
        "together": _products(shows.astype(np.int8), size),
    }


def _products(signs: NDArray[np.int8], size: int) -> Counts:
    """For every two groups, the sum over reports of the product of their sums; exact below 2**53."""
    groups = group_of(size)
    n_groups = int(groups.max()) + 1
    total = np.zeros((n_groups, n_groups))
    for block in _blocks(signs):
        # Single precision holds sums of a block's zeros and ones; sums of groups need more.
        part: Any = block.astype(np.float64 if n_groups < size else np.float32)
        if n_groups < size:
            part = np.stack([part[:, g::n_groups].sum(axis=1) for g in range(n_groups)], axis=1)
        total += part.T @ part
    return np.rint(total).astype(np.int64)


def fingerprints(answers: Answers) -> Counts:
    """Fingerprints by multiply-shift over the positions; equal reports have equal ones."""
    size = answers.shape[1]
    drawn = np.random.default_rng(size).integers(0, 1 << 63, size, dtype=np.uint64)
    factors = drawn * np.uint64(2) + np.uint64(1)
    prints = [(part.astype(np.uint64) @ factors) >> np.uint64(48) for part in _blocks(answers)]
    return histogram(np.concatenate([np.zeros(0, np.uint64), *prints]).astype(np.int64), PRINTS)


def _blocks(answers: Answers) -> Iterator[Answers]:
    """The answers in parts that fit a processor's cache."""
    rows = max(1, _BLOCK // answers[:1].size) if len(answers) else 1
    for start in range(0, len(answers), rows):
        yield answers[start : start + rows]


def _hashes(answers: Answers, cohorts: int, buckets: int) -> Cells:
    cohort, bucket = np.divmod(answers, buckets)
    return {"cohort": histogram(cohort, cohorts), "bucket": histogram(bucket, buckets)}


def histogram(numbers: NDArray[np.int64], size: int) -> Counts:
    """How often each number below `size` occurs."""
    return np.bincount(numbers, minlength=size).astype(np.int64)
