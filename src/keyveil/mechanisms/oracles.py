"""Frequency oracles: noisy answers about one symbol of a finite alphabet.

    Response   grr: the symbol with chance keep, each other with chance lie
    Bits       oue: one bit per symbol, the own one shows with chance 1/2, any other with 1/(E + 1)
               sue: flipped symmetrically with odds e**(epsilon/2), as in basic RAPPOR
    Wave       sw: ordered symbols; outputs near the symbol are likelier
    Selection  subset: w of the symbols, the own one among them more often than not (`selection`)
    Hashed     olh: a public hash sends symbols to g = e**epsilon + 1 buckets; the bucket goes through grr

Support counts (reports that speak for a symbol) have mean n (b + (a - b) share), so debiasing is one
subtraction and one division, whatever the oracle. The loss needs no assumption on the hash.

OLH's hash is one of `cohorts` public ones, sent in clear; its word is public too (`report.public_word`),
for who may choose a hash can hit many targets at once. With ideal hashing
supports are those of a unary encoding with (a, b) = (keep, 1/g).

[OUE, OLH] Wang, Blocki, Li, Jha: Locally Differentially Private Protocols for Frequency Estimation,
USENIX Security 2017. [RAPPOR] Erlingsson, Pihur, Korolova, CCS 2014.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, Self

from keyveil.domain import pick, words_for
from keyveil.errors import MechanismError
from keyveil.mechanisms.base import Answer
from keyveil.mechanisms.values import WindowResponse
from keyveil.numerics import WORD_BITS, at_least, ceil_div, exp_below, mix, parse_epsilon, planes
from keyveil.report import Layout, Row, Symbol, spread_bits

COHORTS = 1 << 16


class Oracle(Protocol):
    """A noisy answer about one symbol."""

    @property
    def n_symbols(self) -> int:
        """How many symbols there are."""

    @property
    def word_bits(self) -> int:
        """How many bits a random word has."""

    @property
    def a(self) -> Fraction:
        """Pr[answer supports the symbol | it is the user's]."""

    @property
    def b(self) -> Fraction:
        """Pr[answer supports the symbol | it is not], averaged over hashes."""

    @property
    def loss(self) -> Fraction:
        """exp(epsilon)."""

    @property
    def n_words(self) -> int:
        """Random words an answer takes."""

    @property
    def layout(self) -> Layout:
        """The answer's form on the wire."""

    def answers(self) -> Iterator[Answer]:
        """Every possible answer."""

    def lift(self, answer: Answer, symbol: int) -> Fraction:
        """Pr[answer | symbol] up to a factor that depends on the answer alone; cheap for any alphabet."""

    def probability(self, answer: Answer, symbol: int) -> Fraction:
        """Pr[answer | symbol]."""

    def perturb(self, symbol: int, words: Sequence[int]) -> Answer:
        """The answer for a symbol."""

    def supports(self, answer: Answer, symbol: int) -> bool:
        """Whether the answer speaks for a symbol."""

    def telling(self, symbol: int, other: int) -> Answer:
        """An answer whose chances under the two symbols differ by the loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """grr: the symbol, or any other one."""

    n_symbols: int
    lie: int
    word_bits: int = WORD_BITS

    def __post_init__(self) -> None:
        if self.n_symbols < 2 or self.lie < 1 or self.keep <= self.lie:
            raise MechanismError(f"{self.word_bits}-bit words leave no room for the truth; raise epsilon")

    @classmethod
    def for_epsilon(cls, epsilon: object, n_symbols: int, word_bits: int = WORD_BITS) -> Self:
        """The most truthful response at `epsilon`."""
        E = exp_below(parse_epsilon(epsilon))
        return cls(n_symbols=n_symbols, lie=ceil_div(1 << word_bits, E + n_symbols - 1), word_bits=word_bits)

    @property
    def keep(self) -> int:
        """Words that tell the truth."""
        return (1 << self.word_bits) - (self.n_symbols - 1) * self.lie

    @property
    def a(self) -> Fraction:
        """Keep."""
        return Fraction(self.keep, 1 << self.word_bits)

    @property
    def b(self) -> Fraction:
        """Lie."""
        return Fraction(self.lie, 1 << self.word_bits)

    @property
    def loss(self) -> Fraction:
        """Keep / lie."""
        return Fraction(self.keep, self.lie)

    @property
    def n_words(self) -> int:
        """One."""
        return 1

    @property
    def layout(self) -> Symbol:
        """The symbol."""
        return Symbol(self.n_symbols)

    def answers(self) -> Iterator[int]:
        """All symbols."""
        return iter(range(self.n_symbols))

    def probability(self, answer: int, symbol: int) -> Fraction:
        """Keep or lie."""
        return self.a if answer == symbol else self.b

    lift = probability

    def perturb(self, symbol: int, words: Sequence[int]) -> int:
        """The symbol, or a lie that skips it."""
        (word,) = words
        if word < self.keep:
            return symbol
        lie = (word - self.keep) // self.lie
        return lie + (lie >= symbol)

    def supports(self, answer: int, symbol: int) -> bool:
        """The answer is the symbol."""
        return answer == symbol

    def telling(self, symbol: int, other: int) -> int:
        """The symbol itself."""
        return symbol


@dataclass(frozen=True, slots=True, kw_only=True)
class Bits:
    """oue and sue: one bit per symbol."""

    n_symbols: int
    own: int
    other: int
    word_bits: int = WORD_BITS

    def __post_init__(self) -> None:
        if not 0 < self.other < self.own < 1 << self.word_bits:
            raise MechanismError(f"{self.word_bits}-bit words leave no room for the truth; raise epsilon")

    @classmethod
    def oue(cls, epsilon: object, n_symbols: int, word_bits: int = WORD_BITS) -> Self:
        """Optimised: a = 1/2, b = 1/(E + 1)."""
        E = exp_below(parse_epsilon(epsilon))
        words = 1 << word_bits
        return cls(n_symbols=n_symbols, own=words // 2, other=ceil_div(words, E + 1), word_bits=word_bits)

    @classmethod
    def sue(cls, epsilon: object, n_symbols: int, word_bits: int = WORD_BITS) -> Self:
        """Symmetric, as in basic RAPPOR: a = 1 - b, odds e**(epsilon/2)."""
        half = exp_below(parse_epsilon(epsilon) / 2)
        other = ceil_div(1 << word_bits, half + 1)
        return cls(n_symbols=n_symbols, own=(1 << word_bits) - other, other=other, word_bits=word_bits)

    @property
    def a(self) -> Fraction:
        """The own bit shows."""
        return Fraction(self.own, 1 << self.word_bits)

    @property
    def b(self) -> Fraction:
        """Another bit shows."""
        return Fraction(self.other, 1 << self.word_bits)

    @property
    def loss(self) -> Fraction:
        """One bit too many, one too few: a (1 - b) / (b (1 - a))."""
        return self.a * (1 - self.b) / (self.b * (1 - self.a))

    @property
    def n_words(self) -> int:
        """One per symbol."""
        return self.n_symbols

    @property
    def layout(self) -> Row:
        """One bit per symbol."""
        return Row(self.n_symbols, 2)

    def answers(self) -> Iterator[tuple[int, ...]]:
        """All vectors of bits."""
        return itertools.product((0, 1), repeat=self.n_symbols)

    def probability(self, answer: Sequence[int], symbol: int) -> Fraction:
        """A product over the bits."""
        noise = math.prod((self.b if bit else 1 - self.b for bit in answer), start=Fraction(1))
        return self.lift(answer, symbol) * noise

    def lift(self, answer: Sequence[int], symbol: int) -> Fraction:
        """Relative to pure noise, only the own bit matters."""
        return self.a / self.b if answer[symbol] else (1 - self.a) / (1 - self.b)

    def perturb(self, symbol: int, words: Sequence[int]) -> tuple[int, ...]:
        """Every bit by its own number; the words are read as planes of bits, see `numerics.words`."""
        n = self.n_symbols
        sliced, everywhere, here = planes(words, self.word_bits), (1 << n) - 1, 1 << symbol | 1 << n
        silent, own_silent = at_least(sliced, self.other), at_least(sliced, self.own)
        silent ^= (silent ^ own_silent) & here
        return spread_bits(silent & everywhere ^ everywhere, n)

    def supports(self, answer: Sequence[int], symbol: int) -> bool:
        """The symbol's bit shows."""
        return bool(answer[symbol])

    def telling(self, symbol: int, other: int) -> tuple[int, ...]:
        """The one bit shows, the other does not."""
        return tuple(int(place == symbol) for place in range(self.n_symbols))


@dataclass(frozen=True, slots=True, kw_only=True)
class Hashed:
    """olh: a public hash, and randomized response over its buckets."""

    n_symbols: int
    response: Response
    cohorts: int = COHORTS

    def __post_init__(self) -> None:
        if self.cohorts < 1:
            raise MechanismError(f"expected at least one public hash, got {self.cohorts}")

    @classmethod
    def for_epsilon(
        cls, epsilon: object, n_symbols: int, word_bits: int = WORD_BITS, cohorts: int = COHORTS
    ) -> Self:
        """G = round(E) + 1 buckets, the best number for one symbol."""
        budget = parse_epsilon(epsilon)
        response = Response.for_epsilon(budget, best_buckets(budget), word_bits)
        return cls(n_symbols=n_symbols, response=response, cohorts=cohorts)

    @property
    def buckets(self) -> int:
        """How many buckets there are."""
        return self.response.n_symbols

    @property
    def word_bits(self) -> int:
        """The response's."""
        return self.response.word_bits

    @property
    def a(self) -> Fraction:
        """Keep."""
        return self.response.a

    @property
    def b(self) -> Fraction:
        """A hash hits by chance."""
        return Fraction(1, self.buckets)

    @property
    def loss(self) -> Fraction:
        """The response's, for every hash."""
        return self.response.loss

    @property
    def n_words(self) -> int:
        """Cohort, response."""
        return 2

    @property
    def layout(self) -> Symbol:
        """Cohort and bucket as one number."""
        return Symbol(self.cohorts * self.buckets)

    def answers(self) -> Iterator[int]:
        """Every cohort with every bucket."""
        return iter(range(self.cohorts * self.buckets))

    def probability(self, answer: int, symbol: int) -> Fraction:
        """The cohort is drawn evenly, the bucket by the response."""
        cohort, bucket = divmod(answer, self.buckets)
        drawn = Fraction(words_for(cohort, self.cohorts, self.word_bits), 1 << self.word_bits)
        return drawn * self.response.probability(bucket, bucket_of(cohort, symbol, self.buckets))

    def lift(self, answer: int, symbol: int) -> Fraction:
        """Given the cohort."""
        cohort, bucket = divmod(answer, self.buckets)
        return self.response.probability(bucket, bucket_of(cohort, symbol, self.buckets))

    def perturb(self, symbol: int, words: Sequence[int]) -> int:
        """Cohort * buckets + noisy bucket; the cohort by the first word."""
        choice, word = words
        cohort = pick(choice, self.cohorts, self.word_bits)
        bucket = bucket_of(cohort, symbol, self.buckets)
        return cohort * self.buckets + self.response.perturb(bucket, (word,))

    def supports(self, answer: int, symbol: int) -> bool:
        """The symbol hashes to the bucket."""
        cohort, bucket = divmod(answer, self.buckets)
        return bucket_of(cohort, symbol, self.buckets) == bucket

    def telling(self, symbol: int, other: int) -> int:
        """The symbol's bucket, in a cohort that tells it from the other."""
        for cohort in range(self.cohorts):
            bucket = bucket_of(cohort, symbol, self.buckets)
            if bucket != bucket_of(cohort, other, self.buckets):
                return cohort * self.buckets + bucket
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """sw: ordered symbols reported by the square wave, near ones likelier."""

    response: WindowResponse

    @classmethod
    def for_epsilon(cls, epsilon: object, n_symbols: int, word_bits: int = WORD_BITS) -> Self:
        """The square wave over the symbols."""
        return cls(response=WindowResponse.square_wave(epsilon, n_symbols, word_bits))

    @property
    def n_symbols(self) -> int:
        """The inputs of the wave."""
        return self.response.window.n_in

    @property
    def word_bits(self) -> int:
        """The response's."""
        return self.response.word_bits

    @property
    def a(self) -> Fraction:
        """The answer lies in the symbol's window."""
        return Fraction(self.response.near * self.response.window.width, 1 << self.word_bits)

    @property
    def b(self) -> Fraction:
        """The answer lies in the window of a symbol far away."""
        return Fraction(self.response.far * self.response.window.width, 1 << self.word_bits)

    @property
    def loss(self) -> Fraction:
        """Near / far."""
        return self.response.loss

    @property
    def n_words(self) -> int:
        """One."""
        return 1

    @property
    def layout(self) -> Symbol:
        """An output."""
        return Symbol(self.response.window.n_out)

    def answers(self) -> Iterator[int]:
        """All outputs."""
        return iter(range(self.response.window.n_out))

    def probability(self, answer: int, symbol: int) -> Fraction:
        """Near or far."""
        return self.response.row(symbol)[answer]

    lift = probability

    def perturb(self, symbol: int, words: Sequence[int]) -> int:
        """An output, mostly near."""
        (word,) = words
        return self.response.draw(symbol, word)

    def supports(self, answer: int, symbol: int) -> bool:
        """The answer lies in the symbol's window."""
        return self.response.window.is_near(symbol, answer)

    def telling(self, symbol: int, other: int) -> int:
        """The output of the symbol's window that is farthest from the other's."""
        window = self.response.window
        return window.pick_near(symbol, 0 if symbol < other else window.width - 1)


def best_buckets(epsilon: Fraction) -> int:
    """The best number of buckets for one symbol: round(E) + 1."""
    return max(2, round(math.exp(float(epsilon))) + 1)


def bucket_of(cohort: int, symbol: int, buckets: int) -> int:
    """The public hash of a symbol: splitmix64 of cohort and symbol, scaled to the buckets.

    >>> [bucket_of(7, symbol, 3) for symbol in range(6)]
    [0, 1, 0, 2, 2, 1]
    """
    mixed = mix(mix(cohort + 1) ^ (symbol + 1))
    return ((mixed >> 32) * buckets) >> 32
