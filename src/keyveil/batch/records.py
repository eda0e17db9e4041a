"""Many users' records in three arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from keyveil.batch.wide import Words, as_words, high
from keyveil.domain import FULL_LEVEL, HALF_LEVEL, Domain, Record
from keyveil.errors import RecordError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Records:
    """User u holds codes[offsets[u] : offsets[u + 1]], ascending, with values in [-1, 1].

    >>> people = Records.of([Record.of({3: 0.5, 1: -1.0}), Record.of({})])
    >>> len(people), people.sizes.tolist(), people
    (2, [2, 0], <2 private records>)
    """

    offsets: Ints
    codes: Ints
    values: Floats

    @classmethod
    def of(cls, records: Iterable[Record]) -> Records:
        """The same records, one after the other."""
        held = [record.pairs for record in records]
        pairs = [pair for some in held for pair in some]
        return cls(
            offsets=np.cumsum([0, *map(len, held)]),
            codes=np.array([pair.code for pair in pairs], dtype=np.int64),
            values=np.array([pair.level / HALF_LEVEL - 1.0 for pair in pairs], dtype=np.float64),
        )

    def __len__(self) -> int:
        return int(self.offsets.size - 1)

    @property
    def sizes(self) -> Ints:
        """How many pairs each user holds."""
        return np.diff(self.offsets)

    def part(self, first: int, last: int) -> Records:
        """From one user to before another."""
        offsets = self.offsets[first : last + 1]
        held = slice(int(offsets[0]), int(offsets[-1]))
        return Records(offsets=offsets - offsets[0], codes=self.codes[held], values=self.values[held])

    def record(self, user: int) -> Record:
        """One user's record, as a device holds it."""
        held = slice(int(self.offsets[user]), int(self.offsets[user + 1]))
        return Record.of(dict(zip(self.codes[held].tolist(), self.values[held].tolist(), strict=True)))

    def find(self, codes: Ints, n_keys: int) -> tuple[Mask, Floats]:
        """Whether each user holds the key of that code, and its value; 0 where it is not held."""
        users = np.arange(len(self))
        cells = np.repeat(users, self.sizes) * n_keys + self.codes
        place = np.minimum(np.searchsorted(cells, users * n_keys + codes), max(cells.size - 1, 0))
        if not cells.size:
            return np.zeros(len(self), dtype=np.bool_), np.zeros(len(self))
        held = cells[place] == users * n_keys + codes
        return held, np.where(held, self.values[place], 0.0)

    def sample(self, pairs_per_user: int, words: Words) -> tuple[Ints, Floats]:
        """The sampled pair of each user, code -1 and value 0 for a dummy; `domain.sample_pair`."""
        slot = high(words, np.maximum(self.sizes, pairs_per_user)).astype(np.int64)
        held = slot < self.sizes
        place = np.where(held, self.offsets[:-1] + slot, 0)
        if not self.codes.size:
            return np.full(len(self), -1), np.zeros(len(self))
        return np.where(held, self.codes[place], -1), np.where(held, self.values[place], 0.0)

    def rounded(self, words: Words) -> Records:
        """The same with each user's values rounded to an end of the range by one word; `domain.rounded`."""
        plus = round_to_plus(self.values, np.repeat(words, self.sizes))
        return replace(self, values=np.where(plus, 1.0, -1.0))

    def __repr__(self) -> str:
        return f"<{len(self)} private records>"

    def __reduce__(self) -> NoReturn:
        raise RecordError("records are private and are never pickled; send reports instead")


def levels_of(values: Floats) -> tuple[Words, Mask]:
    """`domain.level_of` of values in [-1, 1], and where it is 2**64, which no word can hold."""
    # A float plus one is a multiple of 2**-53, so times 2**63 it is whole.
    levels = (values + 1.0) * float(HALF_LEVEL)
    full = levels >= float(FULL_LEVEL)
    return as_words(np.where(full, 0.0, levels)), full


def round_to_plus(values: Floats, words: Words) -> Mask:
    """Where a value rounds to +; `domain.round_to_sign`."""
    levels, full = levels_of(values)
    return np.logical_or(full, words < levels)


def units_of(domain: Domain, values: Floats) -> Floats:
    """`Domain.to_unit` of many values.

    >>> units_of(Domain(keys=("maps",), value_range=(0, 60), beyond=8), np.array([-1.0, 0.0, 60.0])).tolist()
    [-1.0, -0.75, 0.75]
    """
    low, high = domain.value_range
    units = 2.0 * ((np.clip(values, low, high) - low) / (high - low)) - 1.0
    if not domain.beyond:
        return units
    return np.where(values < low, -1.0, np.where(values > high, 1.0, units * domain.inner))
