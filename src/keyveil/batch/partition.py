"""From a partition of reports to its tally: the one function that every engine runs.

    partition -> (tally, refusals by code, ids of what was counted)

Partitions may be cut anywhere and come in any order: tallies and refusals add. What engines differ in is
who calls this function, and how they find ids that came twice (`repeats`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.batch.perturb import words_of_ids
from keyveil.batch.stream import Bytes
from keyveil.batch.wide import high
from keyveil.errors import Refusal, ReportRejected
from keyveil.report import HEADER_BYTES, REPORT_ID_BYTES, Envelope, Symbol
from keyveil.rounds import Round
from keyveil.tally import Tally
from keyveil.tally.count import Counter as TallyCounter
from keyveil.tally.count import check_report, read_symbols
from keyveil.tally.dither import ids_before
from keyveil.tally.payloads import Ints, Mask, Payloads

_FIXED = HEADER_BYTES - REPORT_ID_BYTES


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """Some reports in one buffer, of any length, at ascending places.

    >>> len(Block.of([b"abc", b""]))
    2
    """

    data: Bytes
    starts: Ints
    lengths: Ints

    @classmethod
    def of(cls, reports: Sequence[bytes]) -> Block:
        """Reports one by one."""
        lengths = np.array([len(report) for report in reports], dtype=np.int64)
        data = np.frombuffer(b"".join(reports), dtype=np.uint8)
        return cls(data=data, starts=np.cumsum(lengths) - lengths, lengths=lengths)

    @classmethod
    def of_arrow(cls, column: Any) -> Block:
        """An Arrow array of binary, where it lies; a null is a report of no bytes."""
        import pyarrow as pa

        if not pa.types.is_large_binary(column.type):
            column = column.cast(pa.binary())
        wide = pa.types.is_large_binary(column.type)
        _, ends, data = column.buffers()
        kind = np.int64 if wide else np.int32
        places = np.zeros(1, dtype=np.int64)
        if len(column):
            here = slice(column.offset, column.offset + len(column) + 1)
            places = np.frombuffer(ends, dtype=kind)[here].astype(np.int64)
        read = np.frombuffer(data, dtype=np.uint8) if data is not None else np.zeros(0, dtype=np.uint8)
        return cls(data=read, starts=places[:-1], lengths=np.diff(places))

    def __len__(self) -> int:
        return int(self.starts.size)

    def report(self, place: int) -> bytes:
        """One report's bytes."""
        start = int(self.starts[place])
        return self.data[start : start + int(self.lengths[place])].tobytes()

    def reports(self, places: Ints) -> list[bytes]:
        """Some reports' bytes."""
        return [self.report(int(place)) for place in places]

    def ids(self, places: Ints | slice = slice(None)) -> Bytes:
        """The ids of reports that are long enough to have one, a row each."""
        starts = self.starts[places] + _FIXED
        return np.array(Payloads(data=self.data, starts=starts, n_bytes=REPORT_ID_BYTES).matrix())


class Partition(NamedTuple):
    """What a partition says: a tally, why reports were refused, and the ids of those that were counted."""

    tally: Tally
    refused: Counter[str]
    ids: Bytes

    def __add__(self, other: Partition) -> Partition:  # type: ignore[override]  # not a tuple's
        return Partition(
            self.tally + other.tally, self.refused + other.refused, np.concatenate([self.ids, other.ids])
        )


def tally_partition(round: Round, blocks: Iterable[Block], *, strict: bool = False) -> Partition:
    """The tally of a partition; reports that do not answer are counted by reason, or stop all if `strict`.

    >>> from keyveil.campaign import Campaign
    >>> apps = Campaign(name="apps", epsilon=1, keys=["maps"], value_range=(0, 60), pairs_per_user=1,
    ...                 mechanism="pckv-ue")
    >>> found = tally_partition(apps.first_round(), [Block.of([b"no report"])])
    >>> found.tally.n_reports, dict(found.refused)
    (0, {'wrong-length': 1})
    """
    counter = TallyCounter.of(round)
    refused: Counter[str] = Counter()
    ids = [np.empty((0, REPORT_ID_BYTES), dtype=np.uint8)]
    for block in blocks:
        places, why = _accepted(round, block, counter, strict)
        refused.update(why.values())
        ids.append(block.ids(places))
    return Partition(counter.tally(), refused, np.concatenate(ids))


def accepted(round: Round, blocks: Iterable[Block]) -> Iterator[tuple[Block, Ints]]:
    """Each block, and the places of the reports in it that a tally counts."""
    counter = TallyCounter.of(round)
    for block in blocks:
        yield block, _accepted(round, block, counter, strict=False)[0]


def judge(round: Round, block: Block, *, decoded: bool = True) -> tuple[Tally, dict[int, str]]:
    """The tally of a block, and the code of every report in it that is not counted, by its place.

    Lengths and headers are taken to be right: whoever asks has looked at them. Hashed answers need not be
    decoded: `tally.count.decode` says later what they say.
    """
    counter = TallyCounter.of(round)
    _, refused = _counted(round, block, np.arange(len(block)), counter, strict=False)
    return counter.tally() if decoded else counter.undecoded(), refused


def _accepted(round: Round, block: Block, counter: TallyCounter, strict: bool) -> tuple[Ints, dict[int, str]]:
    """Count a block; the places of what was counted, and why the others were not."""
    looks_right = _is_addressed(round, block)
    strangers = np.flatnonzero(~looks_right).tolist()
    foreign = {place: _why_not(round, block, place, strict) for place in strangers}
    places, refused = _counted(round, block, np.flatnonzero(looks_right), counter, strict)
    return places, foreign | refused


def _counted(
    round: Round, block: Block, places: Ints, counter: TallyCounter, strict: bool
) -> tuple[Ints, dict[int, str]]:
    """The same for the reports in some places, whose headers are right."""
    mechanism = round.mechanism
    refused: dict[int, str] = {}

    def refuse(places: Ints) -> None:
        refused.update((place, _why_not(round, block, place, strict)) for place in places.tolist())

    if mechanism.public_word is not None:
        follows = _follows(round, block, places)
        refuse(places[~follows])
        places = places[follows]
    payloads = Payloads(
        data=block.data, starts=block.starts[places] + HEADER_BYTES, n_bytes=round.payload_bytes
    )
    bad = counter.add(payloads, ids_before(payloads) if round.is_dithered else None)
    if not bad.any():
        return places, refused
    refuse(places[bad])
    return places[~bad], refused


def _head(round: Round) -> bytes:
    """What all reports to a round begin with."""
    empty = Envelope(campaign=round.tag, round=round.number, report_id=bytes(REPORT_ID_BYTES), payload=b"")
    return empty.to_bytes()[:_FIXED]


def _is_addressed(round: Round, block: Block) -> Mask:
    """Which reports have the right length and begin as they must."""
    right: Mask = block.lengths == round.report_bytes
    heads = Payloads(data=block.data, starts=block.starts[right], n_bytes=_FIXED).matrix()
    right[right] = (heads == np.frombuffer(_head(round), dtype=np.uint8)).all(axis=1)
    return right


def _follows(round: Round, block: Block, places: Ints) -> NDArray[np.bool_]:
    """Which reports tell the index or hash that their id gives; those that do not decode are none of them."""
    mechanism, part = round.mechanism, round.mechanism.public_part
    assert part is not None
    assert isinstance(mechanism.layout, Symbol)
    payloads = Payloads(
        data=block.data, starts=block.starts[places] + HEADER_BYTES, n_bytes=mechanism.layout.n_bytes
    )
    symbols, bad = read_symbols(mechanism.layout, payloads)
    words = words_of_ids(round.tag, round.number, block.ids(places[~bad]))
    follows = ~bad
    follows[follows] = symbols // part.answers == high(words, part.choices).astype(np.int64)
    return follows


def _why_not(round: Round, block: Block, place: int, strict: bool) -> str:
    """The code of a report that is refused, found as a collector finds it, report by report."""
    try:
        round.read(check_report(round, block.report(place), place))
    except ReportRejected as refusal:
        if strict:
            raise
        return refusal.code.value
    raise AssertionError(f"a report that decodes was refused, {Refusal.NOT_CANONICAL.value} at {place}")
