"""From answers to a tally: one pass over a buffer per shape of report.

A `Counter` takes answers block by block and marks those that no device sends; what it has counted is a
tally at any time. Hashed answers are only collected at first: hashing all keys once for all reports of
a cohort is cheaper than hashing them for each block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import singledispatch
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.compiled import is_compiled
from keyveil.domain import UNDITHERED
from keyveil.errors import Refusal, ReportRejected, TallyError
from keyveil.mechanisms import (
    Bits,
    Bucket,
    EncodedOracle,
    Hashed,
    IndexedBoundary,
    Mechanism,
    Response,
    SampledIndex,
    Selection,
    SignedResponse,
    SignedUnary,
    UeSw,
    Wave,
)
from keyveil.report import (
    ABSENT,
    HEADER_BYTES,
    MINUS,
    PLUS,
    REPORT_ID_BYTES,
    Envelope,
    Row,
    Symbol,
    public_word,
)
from keyveil.rounds import Round
from keyveil.tally.bits import count_bits, count_subsets
from keyveil.tally.dither import bins_of, rows_of
from keyveil.tally.hashing import dithered_supports, signed_supports, supports
from keyveil.tally.payloads import Ints, Mask, Payloads
from keyveil.tally.tally import Counts, Segment, Tally

# Reports taken from an iterator at once: 6 MB at 6,000 keys.
_BLOCK = 4096
# Hashed answers that wait to be counted: 256 MB at most.
_WAITING = 1 << 24

# Hashed answers are kept undecoded, until somebody asks what they say, if there are at most so many
# different ones, and at most so many a key and bin. A histogram of 2^18 takes a millisecond to add; at 1,000
# keys that is what it takes to decode a hundred reports, and a collector's groups hold thousands. Where a
# dither makes more of them than that, decoding a group is the cheaper.
_MOST_UNDECODED, _UNDECODED_A_KEY = 1 << 18, 512
# The cell that counts them, by the name that stores know.
UNDECODED = "told"

Cells = dict[str, Counts]


class CountedCells(NamedTuple):
    """Cells of a tally, and which answers were refused and are not in them."""

    cells: Cells
    bad: Mask


class Counter:
    r"""The tally of a mechanism's answers, as it grows.

    >>> from keyveil.mechanisms import build
    >>> counter = Counter(build("pckv-ue", 1, n_keys=3), question="q")
    >>> counter.add(Payloads.of([b"\x09", b"\x03"], n_bytes=1)).tolist()
    [False, True]
    >>> counter.tally().n_reports
    1
    """

    def __init__(
        self,
        mechanism: Mechanism,
        *,
        question: str,
        dither: int = UNDITHERED,
        labels: Sequence[int] = (),
    ) -> None:
        self.mechanism, self.question, self.dither = mechanism, question, dither
        self.n_reports = 0
        self._labels = np.array(labels, dtype=np.uint8)
        self._segments: dict[Segment, Counter] = {}
        self._cells: Cells | None = None
        self._undecoded: list[Ints] = []
        self._n_undecoded = 0

    @classmethod
    def of(cls, round: Round) -> Counter:
        """An empty one, for the answers to a round."""
        return cls(round.mechanism, question=round.question, dither=round.dither, labels=round.labels)

    def add(self, payloads: Payloads, ids: Payloads | None = None) -> Mask:
        """Count the answers that decode; a mark for each that does not.

        Where the round has a dither the ids that they came under say by which word each was rounded. Where
        its reports carry labels they lie behind the answers, and each is counted for its segments, too.
        """
        if not self._labels.size:
            return self._count(payloads, ids)
        length = self.mechanism.layout.n_bytes
        labels = Payloads(
            data=payloads.data, starts=payloads.starts + length, n_bytes=self._labels.size
        ).matrix()
        answers = replace(payloads, n_bytes=length)
        bad: Mask = np.asarray((labels > self._labels).any(axis=1))
        known = ~bad
        bad[known] = self._count(answers.only(known), None if ids is None else ids.only(known))
        for attribute, column in enumerate(labels.T):
            for label in np.unique(column[~bad]).tolist():
                here = ~bad & (column == label)
                self._segment(attribute, label).add(
                    answers.only(here), None if ids is None else ids.only(here)
                )
        return bad

    def _segment(self, attribute: int, label: int) -> Counter:
        if (attribute, label) not in self._segments:
            own = Counter(self.mechanism, question=self.question, dither=self.dither)
            self._segments[attribute, label] = own
        return self._segments[attribute, label]

    def _count(self, payloads: Payloads, ids: Payloads | None) -> Mask:
        bins = None
        if self.dither != UNDITHERED:
            if ids is None:
                raise TallyError(
                    "answers whose values a dither rounded are counted with their ids; pass them"
                )
            bins = Bins(bins_of(ids, self.dither), self.dither)
        if _is_hashed(self.mechanism):
            layout = self.mechanism.layout
            assert isinstance(layout, Symbol)
            symbols, bad = read_symbols(layout, payloads)
            self._undecoded.append(symbols if bins is None else symbols + layout.size * bins.place[~bad])
            self._n_undecoded += symbols.size
            if self._n_undecoded > _WAITING:
                self._decode()
        else:
            cells, bad = (
                count_answers(self.mechanism, payloads)
                if bins is None
                else count_apart(self.mechanism, payloads, bins)
            )
            self._merge(cells)
        self.n_reports += int(bad.size - np.count_nonzero(bad))
        return bad

    def tally(self) -> Tally:
        """What has been counted so far."""
        self._decode()
        if self._cells is None:
            none = Payloads.of([], self.mechanism.layout.n_bytes)
            nowhere = Bins(np.zeros(0, dtype=np.int64), self.dither)
            self._cells = (
                count_answers(self.mechanism, none)
                if self.dither == UNDITHERED
                else count_apart(self.mechanism, none, nowhere)
            ).cells
        whole = Tally.of(question=self.question, n_reports=self.n_reports, **self._cells)
        return whole.with_segments({name: part.tally() for name, part in self._segments.items()})

    def undecoded(self) -> Tally:
        """The same, but hashed answers may stay undecoded, counted in a cell of their own."""
        if (
            not self._undecoded
            or self._cells is not None
            or not _keeps_undecoded(self.mechanism, self.dither)
        ):
            return self.tally()
        layout = self.mechanism.layout
        assert isinstance(layout, Symbol)
        counts = np.bincount(np.concatenate(self._undecoded), minlength=self.dither * layout.size)
        whole = Tally.of(question=self.question, n_reports=self.n_reports, **{UNDECODED: counts})
        return whole.with_segments({name: part.undecoded() for name, part in self._segments.items()})

    def _decode(self) -> None:
        if self._undecoded:
            symbols = np.concatenate(self._undecoded)
            self._merge(_cells_of_symbols(self.mechanism, symbols, dither=self.dither))
            self._undecoded, self._n_undecoded = [], 0

    def _merge(self, cells: Cells) -> None:
        old = self._cells
        self._cells = cells if old is None else {name: counts + old[name] for name, counts in cells.items()}


def decode(mechanism: Mechanism, tally: Tally) -> Tally:
    """What a tally says of every key, where some answers are still undecoded."""
    if tally.segments:
        parts = {segment: decode(mechanism, part) for segment, part in tally.segments.items()}
        return decode(mechanism, tally.whole).with_segments(parts)
    undecoded = tally.cells.get(UNDECODED)
    if undecoded is None:
        return tally
    layout = mechanism.layout
    assert isinstance(layout, Symbol)
    symbols, dither = np.flatnonzero(undecoded), undecoded.size // layout.size
    cells = _cells_of_symbols(mechanism, symbols, undecoded[symbols], dither=dither)
    others = {name: counts for name, counts in tally.cells.items() if name != UNDECODED}
    if others:
        cells = {name: counts + others[name] for name, counts in cells.items()}
    return Tally.of(question=tally.question, n_reports=tally.n_reports, **cells)


def _keeps_undecoded(mechanism: Mechanism, dither: int) -> bool:
    hashed = mechanism.oracle if isinstance(mechanism, EncodedOracle) else mechanism
    n_keys = hashed.n_keys if isinstance(hashed, Bucket) else getattr(hashed, "n_symbols", 0)
    size = dither * getattr(mechanism.layout, "size", 0)
    return bool(size <= min(_MOST_UNDECODED, _UNDECODED_A_KEY * n_keys * dither))


def tally_reports(round: Round, reports: Iterable[bytes]) -> Tally:
    """The tally of the reports that answer one round of one campaign; refuses the first that does not."""
    counter = Counter.of(round)
    checked = (
        (check_report(round, report, place), report[HEADER_BYTES - REPORT_ID_BYTES : HEADER_BYTES])
        for place, report in enumerate(reports)
    )
    for block in _blocks(checked):
        payloads, ids = zip(*block, strict=True)
        packed = even(round.payload_bytes, round.read, payloads)
        refuse_first(round.read, packed, counter.add(packed, Payloads.of(ids, REPORT_ID_BYTES)))
    return counter.tally()


def count(mechanism: Mechanism, payloads: Sequence[bytes], *, question: str) -> Tally:
    """The tally of answers in their byte form; refuses the first that does not decode."""
    counter, layout = Counter(mechanism, question=question), mechanism.layout
    packed = even(layout.n_bytes, layout.decode, payloads)
    refuse_first(layout.decode, packed, counter.add(packed))
    return counter.tally()


def even(n_bytes: int, read: Callable[[bytes], object], block: Sequence[bytes]) -> Payloads:
    """Answers of one length; the first of another is refused by whoever reads it."""
    for payload in block:
        if len(payload) != n_bytes:
            read(payload)
    return Payloads.of(block, n_bytes)


def refuse_first(read: Callable[[bytes], object], payloads: Payloads, bad: Mask) -> None:
    """Let whoever reads answers refuse the first of those that are marked, if there is one."""
    if bad.any():
        read(payloads[int(bad.argmax())])


# --- one way a shape ---


@singledispatch
def count_answers(mechanism: object, payloads: Payloads) -> CountedCells:
    """The cells of a tally; every shape of report registers its own, and `ticks` says what it must be."""
    raise TypeError(f"no way to count reports of {type(mechanism).__name__}; register count_answers for it")


@count_answers.register
def _(mechanism: SignedUnary, payloads: Payloads) -> CountedCells:
    counts, bad = count_bits(mechanism.layout, payloads)
    cells = counts[: 2 * mechanism.n_keys].reshape(-1, 2)
    return CountedCells(
        {"plus": cells[:, 0], "minus": cells[:, 1], "asked": asked_of_all(mechanism.n_keys, bad)}, bad
    )


@count_answers.register
def _(mechanism: SignedResponse, payloads: Payloads) -> CountedCells:
    counts, bad = symbol_counts(mechanism.layout, payloads)
    cells = counts[: 2 * mechanism.n_keys].reshape(-1, 2)
    return CountedCells(
        {"plus": cells[:, 0], "minus": cells[:, 1], "asked": asked_of_all(mechanism.n_keys, bad)}, bad
    )


@count_answers.register
def _(mechanism: SampledIndex, payloads: Payloads) -> CountedCells:
    counts, bad = symbol_counts(mechanism.layout, payloads)
    cells = counts.reshape(-1, 3)
    return CountedCells({"plus": cells[:, PLUS], "minus": cells[:, MINUS], "asked": cells.sum(axis=1)}, bad)


@count_answers.register
def _(mechanism: IndexedBoundary, payloads: Payloads) -> CountedCells:
    counts, bad = symbol_counts(mechanism.layout, payloads)
    cells = counts.reshape(-1, mechanism.bins + 1)
    return CountedCells({"bins": cells[:, ABSENT + 1 :], "asked": cells.sum(axis=1)}, bad)


@count_answers.register
def _(mechanism: UeSw, payloads: Payloads) -> CountedCells:
    size = mechanism.channel.window.n_out + 1
    counts, bad = _count_numbers(mechanism.layout, payloads)
    return CountedCells({"bins": counts.reshape(mechanism.n_padded, size)[:, ABSENT + 1 :]}, bad)


@count_answers.register
def _(mechanism: EncodedOracle, payloads: Payloads) -> CountedCells:
    oracle = mechanism.oracle
    if isinstance(oracle, Response | Wave):
        counts, bad = symbol_counts(oracle.layout, payloads)
        return CountedCells({"support" if isinstance(oracle, Response) else "outputs": counts}, bad)
    if isinstance(oracle, Hashed):
        symbols, bad = read_symbols(oracle.layout, payloads)
        return CountedCells(_cells_of_symbols(mechanism, symbols), bad)
    if isinstance(oracle, Selection):
        counts, bad = count_subsets(oracle.layout, payloads)
    elif isinstance(oracle, Bits):
        counts, bad = count_bits(oracle.layout, payloads)
    else:
        raise TypeError(f"no way to count answers of {type(oracle).__name__}; add one to count_answers")
    return CountedCells({"support": counts[: oracle.n_symbols]}, bad)


@count_answers.register
def _(mechanism: Bucket, payloads: Payloads) -> CountedCells:
    symbols, bad = read_symbols(mechanism.layout, payloads)
    return CountedCells(_cells_of_symbols(mechanism, symbols), bad)


def _is_hashed(mechanism: Mechanism) -> bool:
    """Whether an answer speaks of keys through a hash, which is worth decoding for many at once."""
    oracle = mechanism.oracle if isinstance(mechanism, EncodedOracle) else mechanism
    return isinstance(oracle, Bucket | Hashed)


def _cells_of_symbols(
    mechanism: Mechanism, symbols: Ints, times: Ints | None = None, *, dither: int = UNDITHERED
) -> Cells:
    """What answers of (cohort, bucket) say about every key; of (bin, cohort, bucket) with a dither."""
    if isinstance(mechanism, Bucket) and dither != UNDITHERED:
        bins, symbols = np.divmod(symbols, mechanism.layout.size)
        plus, minus = dithered_supports(mechanism, bins, symbols, times, dither)
        asked = np.bincount(bins, weights=times, minlength=dither).astype(np.int64)
        return {"plus": plus, "minus": minus, "asked": asked[:, None]}
    if isinstance(mechanism, Bucket):
        plus, minus = signed_supports(mechanism, symbols, times)
        n_reports = symbols.size if times is None else int(times.sum())
        return {"plus": plus, "minus": minus, "asked": np.full(mechanism.n_keys, n_reports)}
    assert isinstance(mechanism, EncodedOracle)
    assert isinstance(mechanism.oracle, Hashed)
    return {"support": supports(mechanism.oracle, symbols, times)}


def asked_of_all(n_keys: int, bad: Mask) -> Ints:
    """Every good report could speak of every key."""
    return np.full(n_keys, bad.size - np.count_nonzero(bad))


# --- apart by the dither's bins ---


class Bins(NamedTuple):
    """In which of how many bins of the dither each answer is counted."""

    place: Ints
    number: int


@singledispatch
def count_apart(mechanism: object, payloads: Payloads, bins: Bins) -> CountedCells:
    """The cells of a dithered tally: those of `count_answers` bin by bin, unless a shape has a faster way."""
    bad = np.zeros(len(payloads), dtype=np.bool_)
    rows = []
    order = np.argsort(bins.place.astype(np.uint8), kind="stable")
    for here in np.split(order, np.cumsum(np.bincount(bins.place, minlength=bins.number))[:-1]):
        cells, wrong = count_answers(mechanism, replace(payloads, starts=payloads.starts[here]))
        if wrong.any():
            bad[here[wrong]] = True
        rows.append(cells)
    return CountedCells(rows_of(mechanism, rows), bad)


@count_apart.register
def _(mechanism: SignedResponse, payloads: Payloads, bins: Bins) -> CountedCells:
    counts, bad = _symbol_counts_apart(mechanism.layout, payloads, bins)
    cells = counts[:, : 2 * mechanism.n_keys].reshape(bins.number, -1, 2)
    asked = counts.sum(axis=1, keepdims=True)
    return CountedCells({"plus": cells[..., 0], "minus": cells[..., 1], "asked": asked}, bad)


@count_apart.register
def _(mechanism: SampledIndex, payloads: Payloads, bins: Bins) -> CountedCells:
    counts, bad = _symbol_counts_apart(mechanism.layout, payloads, bins)
    cells = counts.reshape(bins.number, -1, 3)
    asked = cells.sum(axis=2)
    return CountedCells({"plus": cells[..., PLUS], "minus": cells[..., MINUS], "asked": asked}, bad)


@count_apart.register
def _(mechanism: Bucket, payloads: Payloads, bins: Bins) -> CountedCells:
    symbols, bad = read_symbols(mechanism.layout, payloads)
    symbols = symbols + mechanism.layout.size * bins.place[~bad]
    return CountedCells(_cells_of_symbols(mechanism, symbols, dither=bins.number), bad)


def _symbol_counts_apart(layout: Symbol, payloads: Payloads, bins: Bins) -> tuple[Counts, Mask]:
    """How often each symbol is reported in each bin, a row a bin."""
    symbols, bad = read_symbols(layout, payloads)
    cells = symbols + layout.size * (bins.place[~bad] if bad.any() else bins.place)
    counts = np.bincount(cells, minlength=bins.number * layout.size).astype(np.int64)
    return counts.reshape(bins.number, layout.size), bad


# --- whether a report answers at all ---


def check_report(round: Round, report: bytes, position: int) -> bytes:
    """The payload of a report that answers this round; anything else is refused."""
    envelope, mechanism = Envelope.from_bytes(report), round.mechanism
    if envelope.campaign != round.tag:
        raise ReportRejected(
            Refusal.WRONG_CAMPAIGN, f"report {position} answers campaign {envelope.campaign.hex()[:12]}"
        )
    if envelope.round != round.number:
        raise ReportRejected(
            Refusal.WRONG_ROUND,
            f"report {position} answers round {envelope.round}, this is round {round.number}",
        )
    if mechanism.public_word is not None:
        answer, _ = round.read(envelope.payload)
        if not mechanism.follows(answer, public_word(round.tag, round.number, envelope.report_id)):
            raise ReportRejected(
                Refusal.WRONG_COHORT, f"report {position} tells an index or a hash that its id does not give"
            )
    return envelope.payload


def _blocks(payloads: Iterator[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
    while block := list(islice(payloads, _BLOCK)):
        yield block


# --- numbers in answers ---


def read_symbols(layout: Symbol, payloads: Payloads) -> tuple[Ints, Mask]:
    """The number that every good answer is, and which are not good."""
    packed = payloads.matrix()
    symbols: Ints = np.zeros(len(payloads), dtype=np.int64)
    for place in range(layout.n_bytes):
        symbols |= packed[:, place].astype(np.int64) << (8 * place)
    bad = (symbols < 0) | (symbols >= layout.size)
    return (symbols[~bad] if bad.any() else symbols), bad


def symbol_counts(layout: Symbol, payloads: Payloads) -> tuple[Counts, Mask]:
    """How often each symbol is reported."""
    if is_compiled(10 * len(payloads)):
        from keyveil.tally import loops

        counts, bad = loops.count_symbols(payloads.data, payloads.starts, layout.n_bytes, layout.size)
        return counts, bad
    symbols, bad = read_symbols(layout, payloads)
    return np.bincount(symbols, minlength=layout.size).astype(np.int64), bad


def _count_numbers(layout: Row, payloads: Payloads) -> tuple[Counts, Mask]:
    """How often each number is reported at each place, place by place."""
    if is_compiled(10 * len(payloads) * layout.length):
        from keyveil.tally import loops

        counts, bad = loops.count_numbers(
            payloads.data, payloads.starts, layout.n_bytes, layout.length, layout.bits, layout.size
        )
        return counts, bad
    counts = np.zeros(layout.length * layout.size, dtype=np.int64)
    bad, places = np.zeros(len(payloads), dtype=np.bool_), layout.size * np.arange(layout.length)
    for start in range(0, len(payloads), _BLOCK):
        part = slice(start, start + _BLOCK)
        numbers, bad[part] = read_rows(layout, payloads.part(start, start + _BLOCK))
        counts += np.bincount((numbers[~bad[part]] + places).ravel(), minlength=counts.size)
    return counts, bad


def read_rows(layout: Row, payloads: Payloads) -> tuple[Ints, Mask]:
    """The numbers of every answer, one row each, and which rows no device sends."""
    bits = np.unpackbits(payloads.matrix(), axis=1, bitorder="little")
    used = layout.bits * layout.length
    numbers: NDArray[np.int64] = bits[:, :used].reshape(len(payloads), layout.length, layout.bits) @ (
        1 << np.arange(layout.bits, dtype=np.int64)
    )
    return numbers, np.logical_or(bits[:, used:].any(axis=1), (numbers >= layout.size).any(axis=1))
