"""What one user holds, in the form the mechanisms read, and how one signed key is drawn from it.

A record is a tuple of pairs (code, level): the key's code and the value as a chance. `level` is the
number of 64-bit words, out of 2**64, that round the value up to +1; value -1 has level 0, value 0
level 2**63, value +1 level 2**64. So no float passes this point, and rounding to a sign is one
comparison. Records are private: they print as `<private record>` and do not pickle.

Padding-and-sampling: a record of s pairs is padded with dummies to M = max(s, l) slots and one slot is
drawn. Slots s..M-1 mean "a dummy": which of the l dummies is drawn afresh, so each has chance
(1 - s/M)/l. An empty record always yields a dummy, one with more than l pairs never does.

    Pr[key k sampled] = 1/M for a held k,      E[l * 1[k sampled]] = min(1, l/s) for a holder:

a record longer than l is under-counted; that is the truncation bias of the padding length.

One word decides each step by `(word * choices) >> bits`. The choice is uniform up to one word in
2**64 per slot; `words_for` counts exactly how many words lead to each, and the certificates use
those counts, not 1/M. A draw costs one word whatever the record, so the number of words tells
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple, NoReturn

from keyveil.errors import RecordError
from keyveil.numerics import WORD_BITS

FULL_LEVEL = 1 << WORD_BITS
HALF_LEVEL = FULL_LEVEL >> 1


class Pair(NamedTuple):
    """A key's code and the chance, in words of 2**64, that its value rounds to +1."""

    code: int
    level: int


_FILLED = 8
# Stands where padding was sampled: no key has its code, its value is the middle.
DUMMY = Pair(-1, HALF_LEVEL)


def level_of(value: float) -> int:
    """The level of a value in [-1, 1]; values outside go to the nearer end.

    >>> level_of(-1.0), level_of(0.0) == HALF_LEVEL, level_of(7.5) == FULL_LEVEL
    (0, True, True)
    """
    return int((min(max(value, -1.0), 1.0) + 1.0) * HALF_LEVEL)


@dataclass(frozen=True, slots=True, repr=False)
class Record:
    """The pairs of one user, ordered by code, one pair a key.

    >>> Record.of({3: 0.5, 1: -1.0})
    <private record>
    >>> [pair.code for pair in Record.of({3: 0.5, 1: -1.0}).pairs]
    [1, 3]
    """

    pairs: tuple[Pair, ...]
    _slots: tuple[Pair, ...] = field(init=False, compare=False, hash=False)
    _levels: dict[int, int] = field(init=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        # Filled up with codes that no key has: a look-up in a short record takes as long as in another.
        fillers = range(-1, len(self.pairs) - _FILLED - 1, -1)
        object.__setattr__(self, "_slots", (*self.pairs, DUMMY))
        object.__setattr__(self, "_levels", dict(self.pairs) | dict.fromkeys(fillers, HALF_LEVEL))

    @classmethod
    def of(cls, values: dict[int, float]) -> Record:
        """A record from codes and values that are already in [-1, 1]."""
        return cls.from_levels((code, level_of(value)) for code, value in values.items())

    @classmethod
    def from_levels(cls, pairs: Iterable[tuple[int, int]]) -> Record:
        """A record from codes and levels, in any order."""
        return cls(tuple(Pair(code, level) for code, level in sorted(pairs)))

    def among(self, codes: Sequence[int] | Sequence[str]) -> Record:
        """The pairs of some keys, which are numbered anew in the order given.

        >>> [pair.code for pair in Record.of({3: 0.5, 1: -1.0}).among((3, 2)).pairs]
        [0]
        """
        place = {key: code for code, key in enumerate(codes)}
        return Record.from_levels((place[pair.code], pair.level) for pair in self.pairs if pair.code in place)

    def without(self, code: int) -> Record:
        """The same for somebody who does not hold one key."""
        return Record(tuple(pair for pair in self.pairs if pair.code != code))

    def level(self, code: int) -> int | None:
        """The level of a key's value, or None where the key is not held."""
        return self._levels.get(code)

    def slot(self, place: int) -> Pair:
        """The pair at a place, or DUMMY behind the last; the same steps for both."""
        return self._slots[min(place, len(self.pairs))]

    def __repr__(self) -> str:
        return "<private record>"

    def __reduce__(self) -> NoReturn:
        raise RecordError("a record is private and is never pickled; send a report instead")


# --- drawing one signed key ---


def pick(word: int, choices: int, word_bits: int = WORD_BITS) -> int:
    """One of `choices` equally likely numbers.

    >>> [pick(word, 3, word_bits=2) for word in range(4)]
    [0, 0, 1, 2]
    """
    return (word * choices) >> word_bits


def words_for(choice: int, choices: int, word_bits: int = WORD_BITS) -> int:
    """How many words make `pick` return `choice`.

    >>> [words_for(choice, 3, word_bits=2) for choice in range(3)]
    [2, 1, 1]
    """
    return words_before(choice + 1, choices, word_bits) - words_before(choice, choices, word_bits)


def words_before(choice: int, choices: int, word_bits: int = WORD_BITS) -> int:
    """How many words make `pick` return less than `choice`."""
    return -(-(choice << word_bits) // choices)


def sample_pair(record: Record, pairs_per_user: int, word: int, word_bits: int = WORD_BITS) -> Pair:
    """The sampled pair, or DUMMY; the same steps for both.

    >>> sample_pair(Record.of({5: 1.0}), 2, 0).code
    5
    >>> sample_pair(Record.of({5: 1.0}), 2, 2**64 - 1) .code
    -1
    """
    slot = pick(word, max(len(record.pairs), pairs_per_user), word_bits)
    return record.slot(slot)


def sampling_law(
    record: Record, pairs_per_user: int, word_bits: int = WORD_BITS
) -> tuple[list[tuple[Pair, Fraction]], Fraction]:
    """The exact chance of each pair, and of a dummy."""
    slots, words = max(len(record.pairs), pairs_per_user), 1 << word_bits
    held = [
        (pair, Fraction(words_for(slot, slots, word_bits), words)) for slot, pair in enumerate(record.pairs)
    ]
    return held, 1 - sum((chance for _, chance in held), Fraction(0))


def round_to_sign(level: int, word: int, word_bits: int = WORD_BITS) -> int:
    """+1 or -1, with the value as its mean; the ends of the range are never rounded away.

    >>> round_to_sign(2**63, 0), round_to_sign(2**63, 2**63)
    (1, -1)
    """
    return 1 if word << (WORD_BITS - word_bits) < level else -1


def rounding_law(level: int, word_bits: int = WORD_BITS) -> Fraction:
    """The exact chance that `round_to_sign` gives +1."""
    return Fraction(-(-level >> (WORD_BITS - word_bits)), 1 << word_bits)
