"""From a record to one signed key: padding-and-sampling, then rounding.

A record of s pairs is padded with dummies to M = max(s, l) slots and one slot is drawn. Slots
s..M-1 mean "a dummy": which of the l dummies is drawn afresh, so each has chance (1 - s/M)/l. An
empty record always yields a dummy, one with more than l pairs never does.

    Pr[key k sampled] = 1/M for a held k,      E[l * 1[k sampled]] = min(1, l/s) for a holder:

a record longer than l is under-counted; that is the truncation bias of the padding length.

One word decides each step by `(word * choices) >> bits`. The choice is uniform up to one word in
2**64 per slot; `words_for` counts exactly how many words lead to each, and the certificates use
those counts, not 1/M. A draw costs one word whatever the record, so the number of words tells
nothing.
"""

from __future__ import annotations

from fractions import Fraction

from keyveil.domain.record import Pair, Record
from keyveil.numerics import WORD_BITS


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
