"""Kernels of a public hash: what a record says owns a few of g buckets, one bucket is said.

The kernel knows no keys. A record is heard as at most l symbols and dummies, a public hash, one of `cohorts`,
sends each to one of g buckets, and each of the J <= l own ones is said with

    own(J)   = min(high, (1 - (g - J) low) / J),       the rest evenly over the other g - J buckets.

For a fixed hash every report's chance lies between low and high whatever the record, so the loss is at most
high/low for any hash. How a record becomes symbols, and how symbols are hashed, is what `bucket` and
`prefix-bucket` say; the noise depends on l, never on how many symbols there are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import ClassVar, Self

from keyveil.domain import Pair, Record, pick, round_to_sign, rounding_law, words_for
from keyveil.errors import MechanismError
from keyveil.mechanisms.base import Ask, Calibration, Part, Witness, check_size
from keyveil.mechanisms.oracles import COHORTS
from keyveil.numerics import WORD_BITS, ceil_div, exp_below
from keyveil.report import Symbol

# Hashes have 32 bits: buckets are uneven by one part in 2**12 at most.
MOST_BUCKETS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedBuckets(Calibration):
    """One bucket of g, own ones likelier; a subclass says which symbols own which."""

    n_keys: int
    pairs_per_user: int
    buckets: int
    low: int
    high: int
    cohorts: int = COHORTS
    word_bits: int = WORD_BITS

    follows_ids: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_size(self.n_keys, self.pairs_per_user)
        if self.pairs_per_user > self.n_keys:
            raise MechanismError(
                f"nobody holds more than {self.n_keys} pairs, got a padding length of {self.pairs_per_user}"
            )
        if not 2 <= self.buckets <= MOST_BUCKETS:
            raise MechanismError(f"expected 2 to {MOST_BUCKETS} buckets, got {self.buckets}")
        if not 0 < self.low < self.high or self.buckets * self.low >= self.words:
            raise MechanismError(
                f"{self.word_bits}-bit words leave no room for the truth in {self.buckets} buckets; "
                "use wider words or fewer buckets"
            )
        if self.cohorts < 1:
            raise MechanismError(f"expected at least one public hash, got {self.cohorts}")

    @classmethod
    def calibrate(cls, ask: Ask) -> Self:
        """Low and high for a number of buckets and j0 of them occupied."""
        E, buckets, j0 = exp_below(ask.epsilon), ask.options["buckets"], ask.options["occupied"]
        if not 1 <= j0 <= min(ask.pairs_per_user, buckets - 1):
            raise MechanismError(
                f"expected 1 to {min(ask.pairs_per_user, buckets - 1)} occupied buckets, got {j0}"
            )
        # Rounding low up may leave j0 own buckets less than E times as much.
        low = ceil_div(ask.words, buckets - j0 + j0 * E)
        return cls(
            n_keys=ask.n_keys,
            pairs_per_user=ask.pairs_per_user,
            buckets=buckets,
            low=low,
            high=min(int(E * low), (ask.words - (buckets - j0) * low) // j0),
            cohorts=ask.options["cohorts"],
            word_bits=ask.word_bits,
            **{name: ask.options[name] for name in cls.hashed_by},
        )

    @classmethod
    def truest(cls, ask: Ask) -> Ask:
        """The request, its buckets chosen, with the j0 that tells most truth."""
        tried = likely_occupied(min(ask.pairs_per_user, ask.options["buckets"] - 1), ask.options["buckets"])
        return max((ask.resolved(occupied=j0) for j0 in tried), key=lambda each: cls.calibrate(each).a)

    # --- what a record says, and to whom ---

    hashed_by: ClassVar[tuple[str, ...]] = ()
    """The parameters of the hash, which the kernel does not know."""

    def heard(self, record: Record) -> Record:
        """The symbols of a record, with the levels that decide their signs."""
        return record

    def symbol_bucket(self, cohort: int, code: int, sign: int) -> int:
        """The public hash of a symbol with a sign."""
        raise TypeError(f"{type(self).__name__} is a shape of reports, not a mechanism; it has no hash")

    def told_apart(self) -> Iterator[Sequence[int]]:
        """Some sets of l keys, of which two may own buckets that lie apart."""
        l, d = self.pairs_per_user, self.n_keys
        for start in itertools.islice(range(0, d, l), 12):
            yield [(start + i) % d for i in range(l)]

    # --- the kernel ---

    @property
    def words(self) -> int:
        """How many words there are."""
        return 1 << self.word_bits

    def own(self, owned: int) -> int:
        """Words for each own bucket when `owned` buckets are."""
        return min(self.high, (self.words - (self.buckets - owned) * self.low) // owned)

    def words_of(self, bucket: int, owned: frozenset[int]) -> int:
        """Words for a bucket when these are owned."""
        others = self.buckets - len(owned)
        if not others:
            return words_for(bucket, self.buckets, self.word_bits)
        own = self.own(len(owned))
        if bucket in owned:
            return own
        rest, place = self.words - len(owned) * own, bucket - sum(taken < bucket for taken in owned)
        return ceil_div((place + 1) * rest, others) - ceil_div(place * rest, others)

    @property
    def loss(self) -> Fraction:
        """The likeliest bucket of any row over the least likely of any row: at most high/low."""
        g, rows = self.buckets, []
        for owned in range(1, min(self.pairs_per_user, g) + 1):
            own = self.own(owned)
            rest, others = self.words - owned * own, g - owned
            least_and_most = (rest // others, ceil_div(rest, others)) if others else (self.words // g, own)
            rows.append((own, *least_and_most))
        return Fraction(max(map(max, rows)), min(map(min, rows)))

    def witness(self) -> Witness:
        """Two full records and a bucket that one owns and the other does not, in the best cohort tried.

        Keys that always share a bucket tell no two full records of a small domain apart; then the witness
        stays below the loss.
        """
        records = [
            Record.of(dict.fromkeys(codes, value)) for codes in self.told_apart() for value in (1.0, -1.0)
        ]
        best, found, loss = Fraction(0), Witness(records[0], records[1], 0), self.loss
        for cohort in range(min(self.cohorts, 8)):
            sets = [(self._buckets(cohort, record), record) for record in records]
            for (first, holder), (second, other) in itertools.permutations(sets, 2):
                for bucket in first - second:
                    ratio = Fraction(self.words_of(bucket, first), self.words_of(bucket, second))
                    if ratio > best:
                        best, found = ratio, Witness(holder, other, cohort * self.buckets + bucket)
                if best == loss:
                    return found
        return found

    def resembles(self, answer: int, witness: Witness) -> bool:
        """In whatever cohort, a bucket that the first record owns and the second does not."""
        cohort, bucket = divmod(answer, self.buckets)
        first, second = (self._buckets(cohort, record) for record in witness[:2])
        return bucket in first and bucket not in second

    def _buckets(self, cohort: int, record: Record) -> frozenset[int]:
        """Of a record whose values are at the ends of their range."""
        return frozenset(
            self.symbol_bucket(cohort, pair.code, 1 if pair.level else -1)
            for pair in self.heard(record).pairs
        )

    def answers(self) -> Iterator[int]:
        """Every cohort with every bucket."""
        return iter(range(self.cohorts * self.buckets))

    def lift(self, answer: int, record: Record) -> Fraction:
        """Pr[bucket | record, cohort]: all truncations, roundings and dummies, so for few at a time."""
        cohort, bucket = divmod(answer, self.buckets)
        chance = Fraction(0)
        for owned, weight in self._owned_law(cohort, record):
            chance += weight * Fraction(self.words_of(bucket, owned), self.words)
        return chance

    def _owned_law(self, cohort: int, record: Record) -> Iterator[tuple[frozenset[int], Fraction]]:
        l, bits = self.pairs_per_user, self.word_bits
        dummy = [Fraction(words_for(z, self.buckets, bits), self.words) for z in range(self.buckets)]
        for kept, weight in self._kept_law(record):
            fates = []
            for pair in kept:
                up = rounding_law(pair.level, bits)
                fates.append(
                    [(self.symbol_bucket(cohort, pair.code, s), c) for s, c in ((1, up), (-1, 1 - up)) if c]
                )
            fates += [list(enumerate(dummy))] * (l - len(kept))
            for fate in itertools.product(*fates):
                yield frozenset(z for z, _ in fate), weight * math.prod(c for _, c in fate)

    def _kept_law(self, record: Record) -> Iterator[tuple[tuple[Pair, ...], Fraction]]:
        pairs, l = self.heard(record).pairs, self.pairs_per_user
        if len(pairs) <= l:
            yield tuple(pairs), Fraction(1)
            return
        for places in itertools.product(*(range(len(pairs) - i) for i in range(l))):
            chances = (
                Fraction(words_for(place, len(pairs) - i, self.word_bits), self.words)
                for i, place in enumerate(places)
            )
            weight = math.prod(chances, start=Fraction(1))
            yield _take(pairs, places), weight

    def probability(self, answer: int, record: Record) -> Fraction:
        """The cohort is drawn evenly."""
        drawn = Fraction(words_for(answer // self.buckets, self.cohorts, self.word_bits), self.words)
        return drawn * self.lift(answer, record)

    # --- the client's side ---

    @property
    def n_words(self) -> int:
        """Cohort, truncation, signs or dummies, response."""
        return 2 + 2 * self.pairs_per_user

    @property
    def layout(self) -> Symbol:
        """Cohort and bucket as one number."""
        return Symbol(self.cohorts * self.buckets)

    @property
    def public_word(self) -> int | None:
        """The cohort's."""
        return 0

    @property
    def public_part(self) -> Part | None:
        """The cohort."""
        return Part(self.cohorts, self.buckets)

    def perturb(self, record: Record, words: Sequence[int]) -> int:
        """Cohort * buckets + bucket."""
        l, bits = self.pairs_per_user, self.word_bits
        cohort, record = pick(words[0], self.cohorts, bits), self.heard(record)
        if len(record.pairs) > l:
            places = [pick(words[1 + i], len(record.pairs) - i, bits) for i in range(l)]
            record = Record(_take(record.pairs, places))
        owned = set()
        for place in range(l):
            pair, word = record.slot(place), words[1 + l + place]
            # Dummies are hashed too, like key 0, so that they take as long as pairs.
            own = self.symbol_bucket(cohort, max(pair.code, 0), round_to_sign(pair.level, word, bits))
            dummy = pick(word, self.buckets, bits)
            owned.add(own if pair.code >= 0 else dummy)
        return cohort * self.buckets + self._tell(sorted(owned), words[-1])

    def _tell(self, owned: list[int], word: int) -> int:
        others = self.buckets - len(owned)
        if not others:
            return pick(word, self.buckets, self.word_bits)
        own = self.own(len(owned))
        if word < own * len(owned):
            return owned[word // own]
        bucket = (word - own * len(owned)) * others // (self.words - own * len(owned))
        for taken in owned:
            bucket += taken <= bucket
        return bucket

    # --- the collector's side ---

    @property
    def a(self) -> Fraction:
        """Pr[a held symbol's bucket is reported], over all hashes: T."""
        return self._own_chance(self.pairs_per_user)

    @property
    def b(self) -> Fraction:
        """Pr[any other symbol's bucket is reported], over all hashes."""
        return Fraction(1, self.buckets)

    def _own_chance(self, balls: int) -> Fraction:
        """The mean of `own` when so many balls fall into the buckets; where all are owned, it is 1/g."""
        g, words = self.buckets, self.words
        total = sum(
            ways * (self.own(owned) if owned < g else Fraction(words, g))
            for owned, ways in enumerate(occupied(balls, g), start=1)
        )
        return Fraction(total, g**balls * words)


def likely_occupied(l: int, g: int) -> range:
    """The numbers of occupied buckets worth trying for j0: around what l balls in g occupy."""
    middle = g * -math.expm1(l * math.log1p(-1 / g))
    spread = 3 * math.sqrt(middle) / 2 + 2
    return range(max(1, int(middle - spread)), min(l, int(middle + spread)) + 1)


@cache
def occupied(l: int, g: int) -> tuple[int, ...]:
    """In how many of g**l ways l balls occupy 1, 2, ... of g buckets.

    >>> occupied(2, 3)
    (3, 6)
    """
    ways = [g]
    for _ in range(l - 1):
        ways = [
            (ways[j] * (j + 1) if j < len(ways) else 0) + (ways[j - 1] * (g - j) if j else 0)
            for j in range(min(len(ways) + 1, g))
        ]
    return tuple(ways)


def _take(pairs: Sequence[Pair], places: Sequence[int]) -> tuple[Pair, ...]:
    """The pairs that l draws without replacement choose (Fisher and Yates)."""
    left = list(pairs)
    for i, place in enumerate(places):
        left[i], left[i + place] = left[i + place], left[i]
    return tuple(left[: len(places)])
