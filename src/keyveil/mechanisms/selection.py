"""Subset selection: of d symbols w are named, the user's own one more often than not.

    Pr[S | x] = keep / N if x is in S, else lie / N,        keep / lie <= E = exp(epsilon)

for every set S of w symbols. With A = C(d-1, w-1) sets that hold x and L = C(d-1, w) that do not, that is
randomized response whose symbols are sets: A of them are true, and

    a = Pr[x in S | x] = E w / (E w + d - w),        b = Pr[y in S | x] = (w - a) / (d - 1).

With w = 1 it is `grr`. The best w is one of the two whole numbers around d / (E + 1) (`best_chosen`). For one
symbol a user and many users nothing is better, in the limit [Ye].

The words of a report are read as one number below N = 2**(64 k), k as small as leaves every set 2**64 of
them. The number names the set: A keep numbers for the A true sets, keep each; then L lie for the L others,
lie each; fewer than A are left. So nothing is rounded but two whole numbers, and with

    lie = ceil(N / (E A + L)),    keep = floor((N - L lie) / A) <= ((E A + L) lie - L lie) / A = E lie

no set is more than E times as likely under a symbol that it holds as under one that it does not. The spare
numbers name the first sets of all, one each, whatever the symbol: such a set has keep + 1 or lie + 1 numbers,
less far apart than keep and lie. Every other set has keep or lie, so the loss is keep / lie exactly. Less
than one number in 2**64 is spare; a and b are averages over symbols, which differ by as little.

Sets are ordered by their highest symbol, then by the next, higher ones first. A of them hold the last symbol,
so every set with a spare number does. Ranks are counted by C(m, k) = C(m-1, k-1) + C(m-1, k).

[Ye] Ye, Barg: Optimal Schemes for Discrete Distribution Estimation under Locally Differential Privacy, IEEE
Transactions on Information Theory 2018 (their k, d are our d, w). [Wang] Wang et al.: Mutual Information
Optimally Local Private Discrete Distribution Estimation, 2016.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Self

from keyveil.errors import MechanismError
from keyveil.numerics import WORD_BITS, ceil_div, exp_below, parse_epsilon
from keyveil.report import Subset

# A report adds numbers of about d bits d times: time grows with the square of d, to some 20 ms in JavaScript
# here. Where e**epsilon is far below d the others are as good: `oue` to 1/400 at 2,048 symbols and epsilon 2.
MOST_SYMBOLS = 1 << 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """w of the symbols, among them the own one more often than not.

    >>> oracle = Selection.for_epsilon(1, n_symbols=8, chosen=2)
    >>> round(float(oracle.a), 4), round(float(oracle.b), 4)
    (0.4754, 0.2178)
    >>> oracle.perturb(5, [0, 0])
    (0, 0, 0, 0, 0, 1, 0, 1)
    """

    n_symbols: int
    chosen: int
    lie: int
    word_bits: int = WORD_BITS

    def __post_init__(self) -> None:
        _check_sizes(self.n_symbols, self.chosen)
        if self.lie < 1 or self.keep <= self.lie:
            raise MechanismError(f"{self.word_bits}-bit words leave no room for the truth; raise epsilon")

    @classmethod
    def for_epsilon(cls, epsilon: object, n_symbols: int, chosen: int, word_bits: int = WORD_BITS) -> Self:
        """The most truthful selection at `epsilon`."""
        _check_sizes(n_symbols, chosen)
        E, (true, false) = exp_below(parse_epsilon(epsilon)), _sets(n_symbols, chosen)
        lie = ceil_div(1 << word_bits * _words_for(n_symbols, chosen, word_bits), E * true + false)
        return cls(n_symbols=n_symbols, chosen=chosen, lie=lie, word_bits=word_bits)

    @property
    def numbers(self) -> int:
        """N: how many numbers the words of a report can be."""
        return 1 << self.word_bits * self.n_words

    @property
    def keep(self) -> int:
        """Numbers that name one set with the own symbol."""
        true, false = _sets(self.n_symbols, self.chosen)
        return (self.numbers - false * self.lie) // true

    @property
    def spare(self) -> int:
        """Numbers that name a set whatever the symbol."""
        true, false = _sets(self.n_symbols, self.chosen)
        return (self.numbers - false * self.lie) % true

    @property
    def a(self) -> Fraction:
        """The own symbol is named; averaged over symbols."""
        true, _ = _sets(self.n_symbols, self.chosen)
        by_chance = Fraction(self.spare * self.chosen, self.n_symbols)
        return (true * self.keep + by_chance) / self.numbers

    @property
    def b(self) -> Fraction:
        """Another one is: as often as all w together leave."""
        return (self.chosen - self.a) / (self.n_symbols - 1)

    @property
    def loss(self) -> Fraction:
        """Keep / lie."""
        return Fraction(self.keep, self.lie)

    @property
    def n_words(self) -> int:
        """As many as leave 2**word_bits numbers to every set."""
        return _words_for(self.n_symbols, self.chosen, self.word_bits)

    @property
    def layout(self) -> Subset:
        """A bit a symbol, w of them set."""
        return Subset(self.n_symbols, self.chosen)

    def answers(self) -> Iterator[tuple[int, ...]]:
        """All sets, each as its bits."""
        places = range(self.n_symbols)
        for named in itertools.combinations(places, self.chosen):
            yield tuple(int(place in named) for place in places)

    def probability(self, answer: Sequence[int], symbol: int) -> Fraction:
        """Keep or lie, and a spare number if the set has one."""
        return self.lift(answer, symbol) / self.numbers

    def lift(self, answer: Sequence[int], symbol: int) -> Fraction:
        """Numbers that name the set."""
        numbers = self.keep if answer[symbol] else self.lie
        # Without the last symbol there is no spare number: no need to count sets.
        return Fraction(numbers + (bool(answer[-1]) and rank_of(answer) < self.spare))

    def perturb(self, symbol: int, words: Sequence[int]) -> tuple[int, ...]:
        """The set that the words, as one number, name."""
        number = sum(word << place * self.word_bits for place, word in enumerate(words))
        true, false = _sets(self.n_symbols, self.chosen)
        others, keep = self.n_symbols - 1, self.keep
        for own, sets, share in ((1, true, keep), (0, false, self.lie)):
            if number < sets * share:
                rest = unrank(others, self.chosen - own, number // share)
                return (*rest[:symbol], own, *rest[symbol:])
            number -= sets * share
        return unrank(self.n_symbols, self.chosen, number)

    def supports(self, answer: Sequence[int], symbol: int) -> bool:
        """The symbol is named."""
        return bool(answer[symbol])

    def telling(self, symbol: int, other: int) -> tuple[int, ...]:
        """The symbol and the first of the rest, without the other: no spare number if that is the last."""
        rest = [place for place in range(self.n_symbols) if place not in (symbol, other)]
        named = {symbol, *rest[: self.chosen - 1]}
        return tuple(int(place in named) for place in range(self.n_symbols))


def best_chosen(epsilon: Fraction, n_symbols: int) -> int:
    """How many symbols to name for the smallest variance, all symbols together.

    >>> [best_chosen(Fraction(1), n_symbols) for n_symbols in (2, 8, 101)]
    [1, 2, 27]
    """
    E = exp_below(epsilon)
    below = int(n_symbols / (E + 1))
    return min(
        (w for w in (below, below + 1) if 1 <= w < n_symbols), key=lambda w: total_variance(E, n_symbols, w)
    )


def total_variance(E: Fraction, n_symbols: int, chosen: int) -> Fraction:
    """Variance of all shares together, one report, before rounding: the same whatever the shares are."""
    a = E * chosen / (E * chosen + n_symbols - chosen)
    b = (chosen - a) / (n_symbols - 1)
    return (a * (1 - a) + (n_symbols - 1) * b * (1 - b)) / (a - b) ** 2


def unrank(length: int, chosen: int, rank: int) -> tuple[int, ...]:
    """The set of `chosen` out of `length` places that has this rank, as bits.

    >>> [unrank(3, 2, rank) for rank in range(3)]
    [(0, 1, 1), (1, 0, 1), (1, 1, 0)]
    """
    bits, sets = [0] * length, math.comb(length, chosen)
    for left in range(length, 0, -1):
        # Of all C(left, chosen) sets, those with the highest place are C(left - 1, chosen - 1).
        held = sets * chosen // left
        if rank < held:
            bits[left - 1], sets, chosen = 1, held, chosen - 1
        else:
            rank, sets = rank - held, sets - held
    return tuple(bits)


def rank_of(bits: Sequence[int]) -> int:
    """The rank of a set among all that are as large.

    >>> rank_of((1, 0, 1))
    1
    """
    rank, chosen = 0, sum(bits)
    sets = math.comb(len(bits), chosen)
    for left in range(len(bits), 0, -1):
        held = sets * chosen // left
        if bits[left - 1]:
            sets, chosen = held, chosen - 1
        else:
            rank, sets = rank + held, sets - held
    return rank


def _check_sizes(n_symbols: int, chosen: int) -> None:
    if not 2 <= n_symbols <= MOST_SYMBOLS:
        raise MechanismError(
            f"expected 2 to {MOST_SYMBOLS} symbols to choose from, got {n_symbols}; use oue or olh"
        )
    if not 1 <= chosen < n_symbols:
        raise MechanismError(f"expected 1 to {n_symbols - 1} chosen of {n_symbols} symbols, got {chosen}")


# A device asks for one pair of sizes, a simulation for a few, again and again.
@lru_cache(maxsize=256)
def _sets(n_symbols: int, chosen: int) -> tuple[int, int]:
    """How many sets hold a symbol, and how many do not."""
    return math.comb(n_symbols - 1, chosen - 1), math.comb(n_symbols - 1, chosen)


def _words_for(n_symbols: int, chosen: int, word_bits: int) -> int:
    return 1 + ceil_div((sum(_sets(n_symbols, chosen)) - 1).bit_length(), word_bits)
