"""What a user may hold: keys, value ranges, records; and how one signed key is drawn from a record."""

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
    "DUMMY",
    "FULL_LEVEL",
    "HALF_LEVEL",
    "OTHER",
    "Domain",
    "Pair",
    "Record",
    "level_of",
    "pick",
    "round_to_sign",
    "rounding_law",
    "sample_pair",
    "sampling_law",
    "words_before",
    "words_for",
]
