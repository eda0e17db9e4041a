"""What a user may hold: keys, value ranges, records; and how one signed key is drawn from a record."""

from keyveil.domain.crossing import MOST_PAIRED_KEYS, Crossing, Labelled, Pairs
from keyveil.domain.dither import (
    DITHER_BINS,
    UNDITHERED,
    bin_of_dither,
    check_dither,
    dither_of,
    rounded,
)
from keyveil.domain.keys import OTHER, Domain
from keyveil.domain.record import (
    DUMMY,
    FULL_LEVEL,
    HALF_LEVEL,
    Pair,
    Record,
    level_of,
    pick,
    round_to_sign,
    rounding_law,
    sample_pair,
    sampling_law,
    words_before,
    words_for,
)

__all__ = [
    "DITHER_BINS",
    "DUMMY",
    "FULL_LEVEL",
    "HALF_LEVEL",
    "MOST_PAIRED_KEYS",
    "OTHER",
    "UNDITHERED",
    "Crossing",
    "Domain",
    "Labelled",
    "Pair",
    "Pairs",
    "Record",
    "bin_of_dither",
    "check_dither",
    "dither_of",
    "level_of",
    "pick",
    "round_to_sign",
    "rounded",
    "rounding_law",
    "sample_pair",
    "sampling_law",
    "words_before",
    "words_for",
]
