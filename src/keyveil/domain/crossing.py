"""Crossings: what is asked about of a record, where that is more than its keys.

A mechanism hides which keys a record holds, whatever a key is. So a breakdown is a question about other keys,
and a crossing turns a record into a record over those, before any noise:

    Pairs      a key that is held, and two keys that are held by one person
    Labelled   a key that is held by a person of one segment, and that a person belongs to a segment

Neither draws anything, so the kernel behind it keeps its loss: records over crossed keys are records.

A pair of keys has two codes, with the value of either: a symbol tells one value, and which of two it should
be is asked both ways. Frequencies lose nothing by that to first order in a small epsilon (two symbols a pair
double the noise of each, and are two looks at one frequency), and each key's mean among holders of the other
is known. A key by itself has a code as well: what of two shares is chance follows from both alone.

The size of a segment is a crossed key that everybody of it holds, with the highest value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Self

from keyveil.domain.record import FULL_LEVEL, Record
from keyveil.errors import DomainError

# All pairs of so many keys may be asked about, and as many pairs of any keys.
MOST_PAIRED_KEYS = 64
MOST_PAIRS = MOST_PAIRED_KEYS * (MOST_PAIRED_KEYS - 1) // 2
# Segments times keys: what a tally and a page of results still hold.
MOST_CROSSED_KEYS = 1 << 17


@dataclass(frozen=True, slots=True)
class Pairs:
    """Keys and pairs of keys; `held` lists pairs by code, the smaller first, in ascending order.

    >>> both = Pairs.among(range(3))
    >>> both.names(("maps", "mail", "chat"))[:5]
    ('maps', 'mail', 'chat', 'maps & mail', 'mail & maps')
    >>> [pair.code for pair in both.of(Record.of({0: 1.0, 1: -1.0})).pairs], both.length(2)
    ([0, 1, 3, 4], 4)
    """

    held: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.held) <= MOST_PAIRS:
            raise DomainError(f"expected 1 to {MOST_PAIRS} pairs of keys, got {len(self.held)}, at $.pairs")
        if list(self.held) != sorted(set(self.held)) or any(not 0 <= a < b for a, b in self.held):
            raise DomainError("expected every pair of two different keys once, at $.pairs")

    @classmethod
    def among(cls, keys: Sequence[int]) -> Self:
        """All pairs of some keys."""
        if not 2 <= len(keys) <= MOST_PAIRED_KEYS:
            raise DomainError(
                f"all pairs are asked about of 2 to {MOST_PAIRED_KEYS} keys, got {len(keys)}, at $.pairs; "
                "name the pairs of interest"
            )
        return cls(tuple(combinations(sorted(keys), 2)))

    @property
    def keys(self) -> tuple[int, ...]:
        """The keys that occur, in ascending order: code i is the i-th of them by itself."""
        return tuple(sorted({key for pair in self.held for key in pair}))

    @property
    def n_codes(self) -> int:
        """Keys, then two codes a pair: with the value of its first key, and of its second."""
        return len(self.keys) + 2 * len(self.held)

    def length(self, pairs_per_user: int) -> int:
        """How many codes somebody holds at most who holds so many keys."""
        own = min(pairs_per_user, len(self.keys))
        return own + 2 * min(own * (own - 1) // 2, len(self.held))

    def of(self, record: Record, label: int = 0) -> Record:
        """The record over keys and pairs; every pair is looked up, whatever is held."""
        found: list[tuple[int, int]] = []
        levels = [record.level(key) for key in self.keys]
        place = {key: code for code, key in enumerate(self.keys)}
        found += [(code, level) for code, level in enumerate(levels) if level is not None]
        for number, (a, b) in enumerate(self.held):
            first, second = levels[place[a]], levels[place[b]]
            if first is not None and second is not None:
                code = len(levels) + 2 * number
                found += [(code, first), (code + 1, second)]
        return Record.from_levels(found)

    def names(self, keys: Sequence[str]) -> tuple[str, ...]:
        """What every code is called; of a pair the key whose value it has comes first."""
        both = ((keys[a], keys[b]) for a, b in self.held)
        return (
            *(keys[key] for key in self.keys),
            *(name for a, b in both for name in (f"{a} & {b}", f"{b} & {a}")),
        )


@dataclass(frozen=True, slots=True)
class Labelled:
    """Keys by segment: every key, and then "anybody", of segment 0, of segment 1, and so on.

    >>> by_platform = Labelled(("other", "ios"), 2)
    >>> by_platform.names(("maps", "mail"))
    ('other: maps', 'other: mail', 'other', 'ios: maps', 'ios: mail', 'ios')
    >>> [pair.code for pair in by_platform.of(Record.of({0: 1.0}), label=1).pairs], by_platform.length(2)
    ([3, 5], 3)
    """

    labels: tuple[str, ...]
    n_keys: int

    def __post_init__(self) -> None:
        if not self.labels or self.n_codes > MOST_CROSSED_KEYS:
            raise DomainError(
                f"private segments times keys may be {MOST_CROSSED_KEYS:,} at most, got {self.n_codes:,}, "
                'at $.segments; ask about fewer keys, or tell labels in the clear: told = "clear"'
            )

    @property
    def width(self) -> int:
        """How many codes a segment has."""
        return self.n_keys + 1

    @property
    def n_codes(self) -> int:
        """Those of all segments."""
        return len(self.labels) * self.width

    def length(self, pairs_per_user: int) -> int:
        """How many codes somebody holds at most who holds so many keys: one more."""
        return pairs_per_user + 1

    def of(self, record: Record, label: int = 0) -> Record:
        """The record over the codes of one segment."""
        if not 0 <= label < len(self.labels):
            raise DomainError(f"expected a label from 0 to {len(self.labels) - 1}")
        start = label * self.width
        held = [(start + code, level) for code, level in record.pairs]
        return Record.from_levels([*held, (start + self.n_keys, FULL_LEVEL)])

    def names(self, keys: Sequence[str]) -> tuple[str, ...]:
        """What every code is called."""
        return tuple(name for label in self.labels for name in (*(f"{label}: {key}" for key in keys), label))


Crossing = Pairs | Labelled
