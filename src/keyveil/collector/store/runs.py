"""Runs: where ids live once they are flushed, and how one of 10^8 is found again.

A run is a batch of ids that never changes, cut into pages of about 200 by a keyed hash: the hash names the
one page in which an id can be. Runs belong to a slice of the ids (six bits of the hash) and to a round. Each
has a Bloom filter, which is all of it that a process keeps in memory: 1.5 bytes an id in large runs, 2.5 in
small ones. An id that is new reads a page of the store about once in thirty times; one that is known, once.

Every flush of a slice makes one run; every eighth takes the small runs of the slice into it, every 64th those
of middle size too. An id is so written three times, always among its neighbours, and a slice has few runs.

Whoever sends reports chooses their ids. Without the key, which is drawn for each store, nobody can tell which
slice, page or bits an id has, so nobody can crowd one of them.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from struct import Struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.errors import StoreError
from keyveil.report import HEADER_BYTES, REPORT_ID_BYTES

Words = NDArray[np.uint64]
Ints = NDArray[np.int64]
Ids = NDArray[np.uint8]

N_SLICES = 64
# The slice of runs that hold ids of any slice: what a small campaign has is not cut into 64.
ALL = N_SLICES
KEY_BYTES = 48
# A run is small below the first number and large from the second on. One slice in 64 of the 2^18 ids that
# wait in memory is 4,096; eight such runs make one of 32,768, and eight of those one of 262,144. Larger runs
# are left alone: at 10^8 ids a slice has six of them, and taking a run into another holds up the reports that
# wait meanwhile.
_TIERS = (1 << 14, 1 << 17)
# Flushes of a slice after which its small runs are taken together, and those of middle size.
_OFTEN, _SELDOM = 8, 64
# Ids that are taken together at once: 8 MB, a tenth of a second.
_MOST_MERGED = 1 << 19
# Ids to a page, on average: a page of SQLite holds 253, and their number strays by 14.
_PAGE = 205
# Bits an id in the filter of a small run and of a large one. Eight bits are set, four in each of two words,
# so a new id passes with 1 in 5,000 and 1 in 220: fourteen smaller runs together cost less than one of six
# large ones.
_BITS, _BITS_IF_LARGE = 20, 12
# A page's number is its run's and its place.
PLACE_BITS = 20
_HEAD = Struct("<6q")
_LOW_32, _SIX = np.uint64(32), np.uint64(6)


class HashedIds(NamedTuple):
    """Ids as runs see them: slices, and places and bits in filters, as fractions of 2^32 and as masks."""

    slices: Ints
    place: Words
    mask: Words
    second_place: Words
    second_mask: Words


class IdHash:
    """The keyed hash of a store's ids.

    >>> hashed = IdHash(bytes(range(KEY_BYTES)))
    >>> hashed(as_ids([bytes(16), bytes([1] * 16)])).slices.tolist()
    [63, 10]
    """

    def __init__(self, key: bytes) -> None:
        words = np.frombuffer(key, dtype="<u8").reshape(2, 3)
        self._first, self._second = words | np.array([1, 1, 0], dtype=np.uint64)

    def __call__(self, ids: Ids) -> HashedIds:
        """Where ids belong."""
        halves = ids.view("<u8")
        first, second = _mixed(halves, self._first), _mixed(halves, self._second)
        return HashedIds(
            slices=(first >> np.uint64(58)).astype(np.int64),
            place=first << _SIX >> _LOW_32,
            mask=_mask(first),
            second_place=second >> _LOW_32,
            second_mask=_mask(second),
        )

    def checksums(self, ids: Ids) -> Ints:
        """64 bits an id: their sum is the same in any order, and another for other ids."""
        return _mixed(ids.view("<u8"), self._second).view(np.int64)


def ids_in(reports: bytes, length: int) -> list[bytes]:
    """The ids of joined reports."""
    first = HEADER_BYTES - REPORT_ID_BYTES
    return [reports[at : at + REPORT_ID_BYTES] for at in range(first, len(reports), length)]


def as_ids(names: Sequence[bytes]) -> Ids:
    """Ids as rows of bytes."""
    return rows_of(b"".join(names))


def rows_of(joined: bytes) -> Ids:
    """Joined ids as rows of bytes."""
    return np.frombuffer(joined, dtype=np.uint8).reshape(-1, REPORT_ID_BYTES)


def _mixed(halves: Words, key: Words) -> Words:
    """A linear hash that only the key tells, then the mixing of splitmix64."""
    mixed: Words = halves[:, 0] * key[0] + halves[:, 1] * key[1] + key[2]
    mixed = (mixed ^ mixed >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ mixed >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return mixed ^ mixed >> np.uint64(31)


def _mask(hashes: Words) -> Words:
    """Four of a word's 64 bits."""
    one, last = np.uint64(1), np.uint64(63)
    mask = one << (hashes & last)
    for shift in (6, 12, 18):
        mask |= one << (hashes >> np.uint64(shift) & last)
    return mask


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """A run without its pages; `made` counts the flushes of its slice, `words` are its filter."""

    no: int
    slice: int
    round: int
    made: int
    n_ids: int
    n_pages: int
    words: Words

    @property
    def tier(self) -> int:
        """0 if it is small, 2 if it is large."""
        return bisect_right(_TIERS, self.n_ids)

    @property
    def pages(self) -> range:
        """The numbers of its pages."""
        return range(self.no << PLACE_BITS, (self.no << PLACE_BITS) + self.n_pages)


class Drafted(NamedTuple):
    """What a new run is made of: its filter and its pages."""

    n_ids: int
    filter: bytes
    pages: list[bytes]


def draft(ids: Ids, hashed: HashedIds) -> Drafted:
    """The run of some ids, all different."""
    n_ids = len(ids)
    n_pages = -(-n_ids // _PAGE)
    bits = _BITS if n_ids < _TIERS[-1] else _BITS_IF_LARGE
    words = np.zeros(-(-bits * n_ids // 64), dtype="<u8")
    np.bitwise_or.at(words, _scaled(hashed.place, words.size), hashed.mask)
    np.bitwise_or.at(words, _scaled(hashed.second_place, words.size), hashed.second_mask)
    order = np.argsort(hashed.place)
    ends = np.searchsorted(_scaled(hashed.place[order], n_pages), np.arange(n_pages + 1)).tolist()
    ordered = ids[order]
    pages = [ordered[low:high].tobytes() for low, high in pairwise(ends)]
    return Drafted(n_ids=n_ids, filter=words.tobytes(), pages=pages)


def _scaled(places: Words, size: int) -> Ints:
    """Fractions of 2^32 as whole numbers below a size."""
    return (places * np.uint64(size) >> _LOW_32).astype(np.int64)


def page_crc(no: int, ids: bytes) -> int:
    """The checksum of a page; it is of its number too, so that no page passes for another."""
    return zlib.crc32(ids, zlib.crc32(no.to_bytes(8, "little")))


def run_crc(campaign: int, head: tuple[int, int, int, int, int], filter: bytes) -> int:
    """The checksum of a run's row: slice, round, made, n_ids, n_pages and the filter."""
    return zlib.crc32(filter, zlib.crc32(_HEAD.pack(campaign, *head)))


class _Layer:
    """At most one run of each slice, their filters one behind the other: all ids are looked up at once."""

    def __init__(self, row: Sequence[Run | None]) -> None:
        self.name = _name(row)
        runs = [run for run in dict.fromkeys(row) if run is not None]
        # The first word has no bits: slices without a run begin and end there.
        words = np.concatenate([np.zeros(1, dtype=np.uint64), *(run.words for run in runs)])
        words.setflags(write=False)
        ends = list(accumulate((run.words.size for run in runs), initial=1))
        starts = {0: 0} | {run.no: start for run, start in zip(runs, ends, strict=False)}
        self.runs = {
            run.no: replace(run, words=words[start:end])
            for run, (start, end) in zip(runs, pairwise(ends), strict=True)
        }
        self._words = words
        self._nos = np.array(self.name, dtype=np.int64)
        self._starts = np.array([starts[no] for no in self.name], dtype=np.int64)
        self._sizes = np.array([1 if run is None else run.words.size for run in row], dtype=np.uint64)
        self._pages = np.array([1 if run is None else run.n_pages for run in row], dtype=np.uint64)

    def look(self, ids: HashedIds) -> tuple[Ints, Ints]:
        """Which ids may be here, and in which page."""
        sizes, starts = self._sizes[ids.slices], self._starts[ids.slices]
        at = (ids.place * sizes >> _LOW_32).astype(np.int64)
        at += starts
        left = np.flatnonzero(self._words[at] & ids.mask == ids.mask)
        if not left.size:
            return left, left
        mask = ids.second_mask[left]
        at = starts[left] + (ids.second_place[left] * sizes[left] >> _LOW_32).astype(np.int64)
        left = left[self._words[at] & mask == mask]
        slices = ids.slices[left]
        places = (ids.place[left] * self._pages[slices] >> _LOW_32).astype(np.int64)
        return left, (self._nos[slices] << PLACE_BITS) + places


def _name(row: Sequence[Run | None]) -> tuple[int, ...]:
    return tuple(0 if run is None else run.no for run in row)


class Runs:
    """The runs of a campaign; never changed, so that a transaction can have its own."""

    def __init__(self, runs: Iterable[Run] = (), *, before: Runs | None = None) -> None:
        rows: dict[tuple[int, int, bool], list[Run | None]] = {}
        heights: Counter[tuple[int, int]] = Counter()
        for run in sorted(runs, key=lambda run: run.no):
            tier = run.tier
            column = run.slice, tier
            layer = tier, heights[column], run.slice == ALL
            heights[column] += 1
            if run.slice == ALL:
                rows[layer] = [run] * N_SLICES
            else:
                rows.setdefault(layer, [None] * N_SLICES)[run.slice] = run
        old = {} if before is None else {layer.name: layer for layer in before._layers}
        self._layers: list[_Layer] = [old.get(_name(row)) or _Layer(row) for row in rows.values()]
        self.by_no = {no: run for layer in self._layers for no, run in layer.runs.items()}
        self.last = max(self.by_no, default=0)

    def look(self, ids: HashedIds) -> tuple[Ints, Ints]:
        """Which ids may be known, and the page that tells; an id may be asked about several."""
        none: Ints = np.zeros(0, dtype=np.int64)
        found = [(none, none), *(layer.look(ids) for layer in self._layers)]
        which, pages = zip(*found, strict=True)
        return np.concatenate(which), np.concatenate(pages)

    def changed(self, *, without: Iterable[int] = (), added: Iterable[Run] = ()) -> Runs:
        """Other runs, some of them the same."""
        gone = set(without)
        kept = [run for no, run in self.by_no.items() if no not in gone]
        return Runs([*kept, *added], before=self)

    def of(self, slice: int, round: int) -> list[Run]:
        """The runs of a slice and a round."""
        return [run for run in self.by_no.values() if (run.slice, run.round) == (slice, round)]


def to_merge(runs: Sequence[Run], *, slice: int, made: int) -> list[Run]:
    """Those of a slice's runs that the flush with this number takes into its own run.

    Slices take turns: of 64 flushes that follow each other one meets runs of middle size.
    """
    turn = made + slice
    tiers = 2 if turn % _SELDOM == 0 else 1 if turn % _OFTEN == 0 else 0
    chosen, total = [], 0
    for run in sorted(runs, key=lambda run: run.n_ids):
        total += run.n_ids
        if run.tier < tiers and total <= _MOST_MERGED:
            chosen.append(run)
    return chosen


def write_key(key: bytes) -> str:
    """A key as text, with its checksum."""
    return key.hex() + zlib.crc32(key).to_bytes(4, "big").hex()


def read_key(text: str) -> bytes:
    """The key that `write_key` wrote."""
    try:
        held = bytes.fromhex(text)
    except ValueError:
        held = b""
    key, crc = held[:-4], held[-4:]
    if len(key) != KEY_BYTES or zlib.crc32(key).to_bytes(4, "big") != crc:
        raise StoreError("the key of the store's ids is damaged; restore a backup", damaged=True)
    return key
