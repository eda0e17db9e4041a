"""The public dither: values round to signs by a word that everybody can compute from the report's id.

Rounded by a secret word, a value v becomes + with chance (1 + v)/2, and that it was above the word is lost.
Rounded by a public word, a report says of every value in it on which side of a known level it lies, through
the same noise. Given the id the rounding is a function of values, so the kernel behind it, and its epsilon,
are what they were; over ids the signs have the law they had.

    dither = mix(mix(low + 1) ^ (high + 1)),    low, high: the id's halves, little endian, modulo 2**64

It is as even as either half of the ids, has nothing to do with the hash that decides a cohort, and takes a
collector some nanoseconds a report. A tally keeps its leading bits: reports are counted apart by
`bin_of_dither`.
"""

from __future__ import annotations

from keyveil.domain.record import FULL_LEVEL, Record, pick, round_to_sign
from keyveil.errors import DomainError
from keyveil.numerics import mix

# Off, as in all rounds that say nothing of it; what a campaign has where it says nothing else; the most.
UNDITHERED, DITHER_BINS, MOST_DITHER_BINS = 1, 16, 256


def dither_of(report_id: bytes) -> int:
    """The word by which all values of a report are rounded.

    >>> hex(dither_of(bytes(16)))
    '0xe9fd6049d65af21e'
    """
    low, high = (int.from_bytes(half, "little") for half in (report_id[:8], report_id[8:16]))
    return mix(mix(low + 1) ^ (high + 1) % FULL_LEVEL)


def bin_of_dither(word: int, bins: int) -> int:
    """The bin of a tally in which a report with this dither is counted.

    >>> [bin_of_dither(word << 62, 4) for word in range(4)]
    [0, 1, 2, 3]
    """
    return pick(word, bins)


def rounded(record: Record, word: int) -> Record:
    """The record with every value at the end of its range to which the word rounds it.

    >>> [pair.level for pair in rounded(Record.of({1: 0.5, 2: -0.5}), 2**63).pairs] == [FULL_LEVEL, 0]
    True
    """
    return Record.from_levels(
        (code, FULL_LEVEL if round_to_sign(level, word) > 0 else 0) for code, level in record.pairs
    )


def check_dither(bins: object) -> int:
    """A number of bins that halves until nothing is left to halve; anything else is refused."""
    if type(bins) is int and 1 <= bins <= MOST_DITHER_BINS and not bins & (bins - 1):
        return bins
    raise DomainError(
        f"dither must be a power of two from 1 (off) to {MOST_DITHER_BINS}, got {str(bins)[:40]}"
    )
