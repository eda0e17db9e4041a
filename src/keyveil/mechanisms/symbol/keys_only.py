"""Keys alone: a record becomes one symbol by an encoder, and the symbol is reported by an oracle.

    OwnKey       one of the user's keys, evenly; a symbol of its own for users who hold nothing
    RecordSize   how many pairs there are, cut at the largest size that is distinguished
    SizeClass    the same in classes
    OwnSign      the sign of one of the user's values
    PopularSize  the class of sizes, reported by those who hold popular keys

Encoders and oracles are small and meet only here. With OwnKey a user of several keys tells one of
them, so shares are those of users who reported a key, not of those who hold it.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Protocol, Self

from keyveil.domain import FULL_LEVEL, Record, pick, sample_pair, sampling_law, words_before, words_for
from keyveil.errors import MechanismError
from keyveil.mechanisms.base import (
    Answer,
    Ask,
    AsksEverybody,
    Calibration,
    Part,
    Tick,
    Witness,
    check_size,
)
from keyveil.mechanisms.channel import Exactness, Number
from keyveil.mechanisms.moments import Moments
from keyveil.mechanisms.oracles import COHORTS, Bits, Hashed, Oracle, Response, Wave, best_buckets
from keyveil.mechanisms.selection import Selection, best_chosen
from keyveil.report import Layout


class Encoder(Protocol):
    """From a record to one symbol."""

    @property
    def n_keys(self) -> int:
        """How many keys a record may hold."""

    @property
    def n_symbols(self) -> int:
        """How many symbols there are."""

    def draw(self, record: Record, word: int, word_bits: int) -> int:
        """The record's symbol."""

    def law(self, record: Record, word_bits: int) -> Mapping[int, Fraction]:
        """The exact chance of each symbol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnKey:
    """One of the user's keys, evenly; the symbol n_keys for a user who holds nothing."""

    n_keys: int

    def __post_init__(self) -> None:
        check_size(self.n_keys, 1)

    @property
    def n_symbols(self) -> int:
        """The keys, and "nothing"."""
        return self.n_keys + 1

    def draw(self, record: Record, word: int, word_bits: int) -> int:
        """A held key's code, or n_keys."""
        sampled = sample_pair(record, 1, word, word_bits)
        return sampled.code if sampled.code >= 0 else self.n_keys

    def law(self, record: Record, word_bits: int) -> Mapping[int, Fraction]:
        """1/s for each of s held keys."""
        held, nothing = sampling_law(record, 1, word_bits)
        return {pair.code: chance for pair, chance in held} | {self.n_keys: nothing}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSize:
    """How many pairs a record holds, cut at `largest`."""

    n_keys: int
    largest: int

    @property
    def n_symbols(self) -> int:
        """0 to `largest`."""
        return self.largest + 1

    def draw(self, record: Record, word: int, word_bits: int) -> int:
        """The size; takes a word like every encoder, and does not look at it."""
        return min(len(record.pairs), self.largest)

    def law(self, record: Record, word_bits: int) -> Mapping[int, Fraction]:
        """Certain."""
        return {min(len(record.pairs), self.largest): Fraction(1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeClass:
    """Which class a record's size falls into; classes begin at `starts`, the first at 0."""

    n_keys: int
    starts: tuple[int, ...]

    def __post_init__(self) -> None:
        if not _ascend(self.starts, 0) or len(self.starts) < 2:
            raise MechanismError(f"classes of sizes must begin at 0 and ascend, got {self.starts}")

    @property
    def n_symbols(self) -> int:
        """One a class."""
        return len(self.starts)

    def draw(self, record: Record, word: int, word_bits: int) -> int:
        """The class; takes a word like every encoder, and does not look at it."""
        return bisect.bisect_right(self.starts, len(record.pairs)) - 1

    def law(self, record: Record, word_bits: int) -> Mapping[int, Fraction]:
        """Certain."""
        return {self.draw(record, 0, word_bits): Fraction(1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSign:
    """The sign of one of the user's values, evenly chosen and rounded; 0 nothing held, 1 for +, 2 for -.

    One word does both: its slot says which pair, its place inside the slot rounds the value.
    """

    n_keys: int

    @property
    def n_symbols(self) -> int:
        """Nothing, +, -."""
        return 3

    def draw(self, record: Record, word: int, word_bits: int) -> int:
        """The pair by the word's slot, the sign by what is left of the word."""
        held = len(record.pairs)
        if not held:
            return 0
        slot = pick(word, held, word_bits)
        first = words_before(slot, held, word_bits)
        inside = Fraction(word - first, words_for(slot, held, word_bits))
        return 1 if inside < Fraction(record.pairs[slot].level, FULL_LEVEL) else 2

    def law(self, record: Record, word_bits: int) -> Mapping[int, Fraction]:
        """The exact shares of words."""
        if not record.pairs:
            return {0: Fraction(1)}
        plus = 0
        for slot, pair in enumerate(record.pairs):
            words = words_for(slot, len(record.pairs), word_bits)
            plus += -(-words * pair.level // FULL_LEVEL)
        up = Fraction(plus, 1 << word_bits)
        return {1: up, 2: 1 - up}


@dataclass(frozen=True, slots=True, kw_only=True)
class PopularSize:
    """How long the records are that hold popular keys.

    A user who holds j of the popular keys tells the class of their record's size with chance
    min(j, most)/most, else 0: so a class is heard in proportion to the popular pairs in it.
    """

    n_keys: int
    popular: tuple[int, ...]
    most: int
    starts: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.most < 1 or not self.popular or not _ascend(self.starts, 1):
            raise MechanismError(
                "popular keys, `most` of at least 1 and classes that begin at 1 and ascend are needed"
            )

    @property
    def n_symbols(self) -> int:
        """The classes, and 0."""
        return len(self.starts) + 1

    def _held(self, record: Record) -> int:
        popular = frozenset(self.popular)
        return min(self.most, sum(pair.code in popular for pair in record.pairs))

    def draw(self, record: Record, word: int, word_bits: int) -> int:
        """1 + class, or 0."""
        spoken = word * self.most < self._held(record) << word_bits
        return bisect.bisect_right(self.starts, len(record.pairs)) if spoken else 0

    def law(self, record: Record, word_bits: int) -> Mapping[int, Fraction]:
        """The exact shares of words."""
        held = self._held(record)
        if not held:
            return {0: Fraction(1)}
        spoken = Fraction(-(-(held << word_bits) // self.most), 1 << word_bits)
        return {0: 1 - spoken, bisect.bisect_right(self.starts, len(record.pairs)): spoken}


def _ascend(starts: tuple[int, ...], first: int) -> bool:
    """Whether classes begin where they must, each after the one before."""
    return starts[:1] == (first,) and list(starts) == sorted(set(starts))


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedOracle(Calibration, AsksEverybody):
    """A mechanism: a record's symbol, reported by an oracle. Words: symbol, then the oracle's."""

    encoder: Encoder
    oracle: Oracle

    id: ClassVar[str] = "encoded-oracle"

    def __post_init__(self) -> None:
        if self.encoder.n_symbols != self.oracle.n_symbols:
            raise MechanismError(
                f"an encoder of {self.encoder.n_symbols} symbols needs an oracle of as many, "
                f"got {self.oracle.n_symbols}"
            )

    @property
    def n_keys(self) -> int:
        """The encoder's."""
        return self.encoder.n_keys

    @property
    def pairs_per_user(self) -> int:
        """Records are not padded."""
        return 1

    @property
    def word_bits(self) -> int:
        """The oracle's."""
        return self.oracle.word_bits

    # --- the kernel ---

    @property
    def loss(self) -> Fraction:
        """The oracle's: an encoder only mixes symbols."""
        return self.oracle.loss

    def witness(self) -> Witness:
        """One pair against none."""
        first, second = Record.of({0: 1.0}), Record.of({})
        return Witness(first, second, self.oracle.telling(self._likeliest(first), self._likeliest(second)))

    def _likeliest(self, record: Record) -> int:
        law = self.encoder.law(record, self.word_bits)
        return max(law, key=law.__getitem__)

    def answers(self) -> Iterator[Answer]:
        """The oracle's."""
        return self.oracle.answers()

    def probability(self, answer: Answer, record: Record) -> Fraction:
        """Pr[answer | record]."""
        law = self.encoder.law(record, self.word_bits)
        return sum((c * self.oracle.probability(answer, s) for s, c in law.items() if c), Fraction(0))

    def lift(self, answer: Answer, record: Record) -> Fraction:
        """The oracle's, mixed."""
        law = self.encoder.law(record, self.word_bits)
        return sum((c * self.oracle.lift(answer, s) for s, c in law.items() if c), Fraction(0))

    # --- the client's side ---

    @property
    def n_words(self) -> int:
        """One for the encoder."""
        return 1 + self.oracle.n_words

    @property
    def layout(self) -> Layout:
        """The oracle's."""
        return self.oracle.layout

    @property
    def public_word(self) -> int | None:
        """The one of a hash, behind the encoder's."""
        return 1 if isinstance(self.oracle, Hashed) else None

    @property
    def public_part(self) -> Part | None:
        """The cohort of a hash."""
        oracle = self.oracle
        return Part(oracle.cohorts, oracle.buckets) if isinstance(oracle, Hashed) else None

    def perturb(self, record: Record, words: Sequence[int]) -> Answer:
        """The oracle's answer about the record's symbol."""
        return self.oracle.perturb(self.encoder.draw(record, words[0], self.word_bits), words[1:])

    # --- the collector's side ---

    def ticks(self, answer: Answer) -> Iterator[Tick]:
        """Every symbol that the answer supports; a wave's output itself."""
        if isinstance(self.oracle, Wave):
            yield "outputs", (answer,)
            return
        for symbol in range(self.oracle.n_symbols):
            if self.oracle.supports(answer, symbol):
                yield "support", (symbol,)

    def resembles(self, answer: Answer, witness: Witness) -> bool:
        """Speaks for the first record's symbol and not for the second's."""
        one, two = self._likeliest(witness.first), self._likeliest(witness.second)
        return self.oracle.supports(answer, one) and not self.oracle.supports(answer, two)

    @property
    def a(self) -> Fraction:
        """The oracle's."""
        return self.oracle.a

    @property
    def b(self) -> Fraction:
        """The oracle's."""
        return self.oracle.b


class Grr(EncodedOracle):
    """grr over the user's own keys.

    >>> m = Grr.for_epsilon(1, n_keys=3)
    >>> round(float(m.oracle.a), 4), round(float(m.oracle.b), 4)
    (0.4754, 0.1749)
    """

    __slots__ = ()
    id: ClassVar[str] = "grr"

    @classmethod
    def calibrate(cls, ask: Ask) -> Self:
        """The most truthful response; l plays no part."""
        oracle = Response.for_epsilon(ask.epsilon, ask.n_keys + 1, ask.word_bits)
        return cls(encoder=OwnKey(n_keys=ask.n_keys), oracle=oracle)


class Oue(EncodedOracle):
    """oue over the user's own keys.

    >>> m = Oue.for_epsilon(1, n_keys=3)
    >>> round(float(m.oracle.a), 4), round(float(m.oracle.b), 4)
    (0.5, 0.2689)
    """

    __slots__ = ()
    id: ClassVar[str] = "oue"

    @classmethod
    def calibrate(cls, ask: Ask) -> Self:
        """The most truthful bits; l plays no part."""
        oracle = Bits.oue(ask.epsilon, ask.n_keys + 1, ask.word_bits)
        return cls(encoder=OwnKey(n_keys=ask.n_keys), oracle=oracle)


class Olh(EncodedOracle):
    """olh over the user's own keys.

    >>> m = Olh.for_epsilon(1, n_keys=3)
    >>> m.oracle.buckets, round(float(m.oracle.a), 4)
    (4, 0.4754)
    """

    __slots__ = ()
    id: ClassVar[str] = "olh"
    options: ClassVar[Mapping[str, Any]] = {"cohorts": COHORTS, "buckets": None}
    fields: ClassVar[tuple[str, ...]] = ("epsilon", "buckets", "cohorts")
    small_options: ClassVar[Mapping[str, Any]] = {"cohorts": 4}
    follows_ids: ClassVar[bool] = True

    @classmethod
    def calibrate(cls, ask: Ask) -> Self:
        """The most truthful bucket; l plays no part."""
        response = Response.for_epsilon(ask.epsilon, ask.options["buckets"], ask.word_bits)
        oracle = Hashed(n_symbols=ask.n_keys + 1, response=response, cohorts=ask.options["cohorts"])
        return cls(encoder=OwnKey(n_keys=ask.n_keys), oracle=oracle)

    @classmethod
    def resolve(cls, ask: Ask) -> Ask:
        """The number of buckets."""
        buckets = ask.options["buckets"]
        return ask.resolved(buckets=best_buckets(ask.epsilon) if buckets is None else buckets)


class SubsetSelection(EncodedOracle):
    """Subset selection over the user's own keys.

    >>> m = SubsetSelection.for_epsilon(1, n_keys=10)
    >>> m.oracle.chosen, round(float(m.oracle.a), 4), round(float(m.oracle.b), 4)
    (3, 0.5048, 0.2495)
    """

    __slots__ = ()
    id: ClassVar[str] = "subset"
    options: ClassVar[Mapping[str, Any]] = {"chosen": None}
    fields: ClassVar[tuple[str, ...]] = ("epsilon", "chosen")

    @classmethod
    def calibrate(cls, ask: Ask) -> Self:
        """The most truthful sets; l plays no part."""
        oracle = Selection.for_epsilon(ask.epsilon, ask.n_keys + 1, ask.options["chosen"], ask.word_bits)
        return cls(encoder=OwnKey(n_keys=ask.n_keys), oracle=oracle)

    @property
    def moments(self) -> Moments:
        """Of the shares of users who name a key; a sign is not asked for.

        A set that names one symbol has a place less for another: with p the chance that two others are both
        named, and r that the own one and another are, apart**2 >= (b**2 - p)/(a - b)**2 and
        apart >= (a b - r - (b**2 - p))/(a - b)**2. With one symbol named both are b/(a - b), as in `grr`.
        """
        a, b, others = float(self.a), float(self.b), self.n_keys
        gap, w = (a - b) ** 2, a + others * b
        own_too = a * (w - 1) / others
        neither = (w - 1) * (a * (w - 2) + (1 - a) * w) / (others * (others - 1)) if others > 1 else 0.0
        rest, held = max(0.0, b * b - neither) / gap, (a * b - own_too) / gap
        return Moments(
            frequency_noise=b * (1 - b) / gap,
            frequency_owner=(1 - a - b) / (a - b),
            signed_noise=math.inf,
            signed_owner=0.0,
            crossed=0.0,
            apart=max(math.sqrt(rest), held - rest),
        )

    def expected_asked(self, users: Number, number: Exactness = float) -> Number:
        """Every report can speak of every key."""
        return users

    @classmethod
    def resolve(cls, ask: Ask) -> Ask:
        """How many symbols a report names."""
        chosen = ask.options["chosen"]
        return ask.resolved(chosen=best_chosen(ask.epsilon, ask.n_keys + 1) if chosen is None else chosen)
