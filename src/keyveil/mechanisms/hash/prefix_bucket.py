"""prefix-bucket: the distinct prefixes of a record's keys hashed to a few buckets, one bucket reported.

A key is a number of `longest` bits, its prefix the first `bits` of them. A record says its distinct
prefixes, at most l of them, without signs; from there on it is `bucket`: the same kernel, the same loss, the
same noise, which depends on l alone and not on how many prefixes there are. With T = E[own(J)] and A reports
of n that support a prefix it is held with frequency

    f = (A/n - 1/g) / (T - 1/g),     Var f = (f T (1 - T) + (1 - f) (1 - 1/g)/g) / (n (T - 1/g)^2).

Whoever counts must ask about millions of prefixes at once, so the hash is linear over the field of two
elements in the last `step` bits of a prefix, the tail, and drawn anew for what is before them, the head:

    bucket(c, head, tail) = offset(c, head)  xor  the xor of column(c, j) over the bits j of the tail.

Offsets and columns are bits of splitmix64, so g is a power of two. Over the cohorts c two different prefixes
share a bucket with chance 1/g, and any three are independent; four tails of one head whose xor is nothing
are not, which moves J for records that hold such four and for nothing else. One Walsh-Hadamard transform a
head counts all its tails (`tally.prefixes`). The cohort is public, and follows from the report's id.

Words: cohort, l to truncate, l for dummies, response.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from keyveil.domain import HALF_LEVEL, Record
from keyveil.domain.texts import MOST_BITS
from keyveil.errors import MechanismError
from keyveil.mechanisms.base import Ask, Tick
from keyveil.mechanisms.channel import Exactness, Number
from keyveil.mechanisms.hash.owned import OwnedBuckets
from keyveil.numerics import WORD_BITS, mix

# Cohorts times buckets, where nothing else is asked for: what a tally of them keeps, 8 bytes each.
CELLS = 1 << 22
# A tail is a number that a transform runs over: 2^22 counts of eight bytes are 32 MB.
MOST_STEP = 22
MOST_COHORTS = 1 << 20
_WORD = (1 << WORD_BITS) - 1
# Seeds of columns lie beyond those of offsets: there are at most 2^20 cohorts.
SEED_OF_COLUMNS = 1 << 32


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixBucket(OwnedBuckets):
    """One bucket of g, those of own prefixes likelier.

    >>> m = PrefixBucket.for_epsilon(4, n_keys=1 << 64, pairs_per_user=5, bits=32, step=14)
    >>> m.buckets, m.longest, round(m.variance(0.0, 1, 1), 2)
    (256, 64, 0.39)
    """

    longest: int
    """How many bits a key has."""
    bits: int
    """How many of them are said."""
    step: int
    """In how many of those, the last, the hash is linear."""

    id: ClassVar[str] = "prefix-bucket"
    options: ClassVar[Mapping[str, Any]] = {"bits": None, "step": None, "buckets": None, "cells": CELLS}
    fields: ClassVar[tuple[str, ...]] = (
        "epsilon",
        "pairs_per_user",
        "longest",
        "bits",
        "step",
        "buckets",
        "occupied",
        "cohorts",
    )
    small_options: ClassVar[Mapping[str, Any]] = {"buckets": 4, "cells": 16}
    hashed_by: ClassVar[tuple[str, ...]] = ("longest", "bits", "step")

    def __post_init__(self) -> None:
        OwnedBuckets.__post_init__(self)
        if not 1 <= self.step <= self.bits <= self.longest <= MOST_BITS:
            raise MechanismError(
                f"expected 1 <= step <= bits <= longest <= {MOST_BITS}, "
                f"got {self.step}, {self.bits} and {self.longest}"
            )
        if self.step > MOST_STEP:
            raise MechanismError(f"expected a step of at most {MOST_STEP} bits, got {self.step}")
        if self.n_keys > 1 << self.longest:
            raise MechanismError(f"{self.n_keys} keys do not fit into {self.longest} bits")
        if self.buckets & (self.buckets - 1):
            raise MechanismError(f"expected a power of two buckets, got {self.buckets}")

    @classmethod
    def resolve(cls, ask: Ask) -> Ask:
        """The best number of buckets (or the one asked for), cohorts to fill the cells, the truest j0."""
        longest = max(1, (ask.n_keys - 1).bit_length())
        bits = longest if ask.options["bits"] is None else ask.options["bits"]
        step = min(bits, MOST_STEP) if ask.options["step"] is None else ask.options["step"]
        ask = ask._replace(pairs_per_user=min(ask.pairs_per_user, ask.n_keys))
        ask = ask.resolved(longest=longest, bits=bits, step=step, cohorts=1)
        buckets = ask.options["buckets"]
        if buckets is None:
            made = [cls.calibrate(cls.truest(ask.resolved(buckets=2**k))) for k in _sizes(ask)]
            buckets = min(made, key=lambda each: each.variance(0.0, 1, 1)).buckets
        cohorts = min(MOST_COHORTS, max(1, ask.options["cells"] // buckets))
        return cls.truest(ask.resolved(buckets=buckets, cohorts=cohorts))

    # --- what a record says, and to whom ---

    def heard(self, record: Record) -> Record:
        """Its distinct prefixes."""
        cut = self.longest - self.bits
        return Record.from_levels((code, HALF_LEVEL) for code in {pair.code >> cut for pair in record.pairs})

    def symbol_bucket(self, cohort: int, code: int, sign: int) -> int:
        """The public hash of a prefix; a sign says nothing.

        >>> m = PrefixBucket.for_epsilon(1, n_keys=256, pairs_per_user=2, step=4)
        >>> a, b, c, d = (m.symbol_bucket(3, 0x50 + tail, 1) for tail in (0, 5, 10, 15))
        >>> a ^ b ^ c ^ d
        0
        """
        narrow = WORD_BITS - (self.buckets.bit_length() - 1)
        bucket = offset_of(cohort, code >> self.step, self.bits - self.step) >> narrow
        for place in range(self.step):
            bucket ^= (code >> place & 1) * (column_of(cohort, place) >> narrow)
        return bucket

    def told_apart(self) -> Iterator[Sequence[int]]:
        """Keys with different prefixes, not only in a row: of four in a row each two may own the same."""
        cut, l = self.longest - self.bits, self.pairs_per_user
        prefixes = min(self.n_keys >> cut, 2 * l + 2)
        for chosen in itertools.islice(itertools.combinations(range(prefixes), min(l, prefixes)), 24):
            yield [prefix << cut for prefix in chosen]
        yield [prefix << cut for prefix in range(max(0, prefixes - l), prefixes)]

    # --- the client's side ---

    @property
    def tells_signs(self) -> bool:
        """Never."""
        return False

    # --- the collector's side ---

    def variance(self, frequency: Number, asked: Number, users: Number, number: Exactness = float) -> Number:
        """Over all hashes, for records of at most l prefixes."""
        a, b = number(self.a), number(self.b)
        return (frequency * a * (1 - a) + (1 - frequency) * b * (1 - b)) / ((a - b) * (a - b) * asked)

    def ticks(self, answer: int) -> Iterator[Tick]:
        """Its own cell: what it says of prefixes is worked out for those that somebody asks about."""
        yield "support", (answer,)


def offset_of(cohort: int, head: int, length: int) -> int:
    """The word that a head of so many bits is hashed to."""
    word = mix(cohort + 1)
    for _ in range(-(-length // WORD_BITS) or 1):
        word, head = mix(word ^ (head & _WORD)), head >> WORD_BITS
    return word


def column_of(cohort: int, place: int) -> int:
    """The word of one bit of a tail."""
    return mix(mix(cohort + SEED_OF_COLUMNS) ^ place)


def _sizes(ask: Ask) -> range:
    """Exponents of the numbers of buckets worth trying: around l e**epsilon."""
    middle = (ask.pairs_per_user * (1 + int(3 ** float(ask.epsilon)))).bit_length()
    return range(max(1, middle - 3), min(20, middle + 3) + 1)
