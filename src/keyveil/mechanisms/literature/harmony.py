"""Harmony: round a value to a sign and keep it with chance e**epsilon / (e**epsilon + 1).

[Harmony] Nguyen et al., arXiv 1606.05053.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from keyveil.domain import round_to_sign, rounding_law
from keyveil.errors import MechanismError
from keyveil.numerics import WORD_BITS, exp_below, parse_epsilon


@dataclass(frozen=True, slots=True, kw_only=True)
class Harmony:
    """Round a value to a sign and tell it by randomized response.

    >>> from keyveil.domain import FULL_LEVEL
    >>> m = Harmony.for_epsilon(1)
    >>> round(float(m.debias(m.row(FULL_LEVEL)[1] - m.row(FULL_LEVEL)[0])), 6)
    1.0
    """

    keep: int
    word_bits: int = WORD_BITS

    def __post_init__(self) -> None:
        if not 1 << self.word_bits < 2 * self.keep < 2 << self.word_bits:
            raise MechanismError(f"{self.word_bits}-bit words tell no more truth than lies; raise epsilon")

    @classmethod
    def for_epsilon(cls, epsilon: object, word_bits: int = WORD_BITS) -> Self:
        """The most truthful sign whose loss is at most `epsilon`."""
        E = exp_below(parse_epsilon(epsilon))
        return cls(keep=int((1 << word_bits) * E / (E + 1)), word_bits=word_bits)

    @property
    def p(self) -> Fraction:
        """Pr[sign kept]."""
        return Fraction(self.keep, 1 << self.word_bits)

    @property
    def loss(self) -> Fraction:
        """P / (1 - p)."""
        return self.p / (1 - self.p)

    def row(self, level: int) -> tuple[Fraction, Fraction]:
        """Pr[-], Pr[+] of a value given as a level."""
        up = rounding_law(level, self.word_bits)
        plus = up * self.p + (1 - up) * (1 - self.p)
        return 1 - plus, plus

    def draw(self, level: int, rounding: int, word: int) -> int:
        """A noisy sign."""
        sign = round_to_sign(level, rounding, self.word_bits)
        return sign if word < self.keep else -sign

    def debias(self, mean_sign: Fraction) -> Fraction:
        """The mean value behind a mean sign."""
        return mean_sign / (2 * self.p - 1)
