"""What one report says about one key: the channel of every report whose values are signs.

Fix a key k. A report says of it PLUS, MINUS or ABSENT. A user who sampled k with sign + (or -) and
a user who did not sample it differ only in these chances:

                          PLUS      MINUS     ABSENT
    sampled, sign +       keep      flip      1 - keep - flip
    sampled, sign -       flip      keep      1 - keep - flip
    not sampled           fake      fake      1 - 2 fake

In the papers' letters a = keep + flip (reported when sampled), b = 2 fake (reported when not),
p = keep / a (sign kept). A user who samples k with chance pi and holds value v is heard with

    Pr[PLUS] + Pr[MINUS] = b + pi (a - b),        Pr[PLUS] - Pr[MINUS] = pi a (2p - 1) v,

so both sums over n reports are debiased by one subtraction and one division. With pi = 1/l:

    frequency = l (N/n - b) / (a - b)                 unbiased, may be negative
    signed    = l (n1 - n2) / (n a (2p - 1))          unbiased for frequency * mean
    mean      = signed / frequency                    consistent, not unbiased

The three numbers keep, flip, fake are counts of words out of 2**word_bits. Methods take
`number=float` for speed (then arguments may be arrays) or `number=Fraction` for truth.

[PCKV] Gu, Li, Cheng, Xiong, Cao: PCKV, USENIX Security 2020 (their l, a, b, p; Theorem 4 lacks the
sampling term f (l - 1) / n of `share_variance`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from keyveil.errors import MechanismError
from keyveil.numerics import WORD_BITS
from keyveil.report import ABSENT, MINUS, PLUS

# A Fraction where exactness is wanted, a float or an array of floats where speed is.
Number = Any
Exactness = Callable[[Fraction], Number]


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """Three integers out of 2**word_bits: a key's chances to be heard rightly, wrongly, or by chance.

    >>> coin = Channel(keep=96, flip=32, fake=48, word_bits=8)
    >>> coin.a, coin.b, coin.p
    (Fraction(1, 2), Fraction(3, 8), Fraction(3, 4))
    """

    keep: int
    flip: int
    fake: int
    word_bits: int = WORD_BITS

    def __post_init__(self) -> None:
        if min(self.keep, self.flip, self.fake, self.own_absent, self.other_absent) <= 0:
            raise MechanismError(
                f"{self.word_bits}-bit words leave an outcome without a word; use wider words, fewer keys "
                "or another epsilon"
            )
        if self.keep <= self.flip or self.keep + self.flip <= 2 * self.fake:
            raise MechanismError(
                f"{self.word_bits}-bit words tell no more truth than lies; raise epsilon or widen the words"
            )

    # --- the kernel ---

    @property
    def words(self) -> int:
        """How many words there are."""
        return 1 << self.word_bits

    @property
    def own_absent(self) -> int:
        """Words that silence a sampled key."""
        return self.words - self.keep - self.flip

    @property
    def other_absent(self) -> int:
        """Words that leave a key silent that was not sampled."""
        return self.words - 2 * self.fake

    @property
    def a(self) -> Fraction:
        """Pr[key reported | key sampled]."""
        return Fraction(self.keep + self.flip, self.words)

    @property
    def b(self) -> Fraction:
        """Pr[key reported | key not sampled]."""
        return Fraction(2 * self.fake, self.words)

    @property
    def p(self) -> Fraction:
        """Pr[sign kept | key sampled and reported]."""
        return Fraction(self.keep, self.keep + self.flip)

    def own(self, plus_chance: Fraction) -> tuple[Fraction, Fraction, Fraction]:
        """Chances of (ABSENT, PLUS, MINUS) for a sampled key whose sign is + with `plus_chance`."""
        up = plus_chance * self.keep + (1 - plus_chance) * self.flip
        down = plus_chance * self.flip + (1 - plus_chance) * self.keep
        return Fraction(self.own_absent, self.words), up / self.words, down / self.words

    def other(self) -> tuple[Fraction, Fraction, Fraction]:
        """Chances of (ABSENT, PLUS, MINUS) for a key that was not sampled."""
        fake = Fraction(self.fake, self.words)
        return Fraction(self.other_absent, self.words), fake, fake

    # --- the client's side ---

    def hear_own(self, sign: int, word: int) -> int:
        """What is said of the sampled key."""
        if word < self.keep:
            return PLUS if sign > 0 else MINUS
        if word < self.keep + self.flip:
            return MINUS if sign > 0 else PLUS
        return ABSENT

    def hear_other(self, word: int) -> int:
        """What is said of any other key."""
        if word < self.fake:
            return PLUS
        return MINUS if word < 2 * self.fake else ABSENT

    # --- the collector's side ---

    def debias(
        self, plus: Number, minus: Number, asked: Number, pairs_per_user: int, number: Exactness = float
    ) -> tuple[Number, Number]:
        """Unbiased frequency, and unbiased frequency * mean, of a key heard in `asked` reports."""
        a, b, x = number(self.a), number(self.b), number(2 * self.p - 1)
        signed = pairs_per_user * ((plus - minus) / asked) / (a * x)
        return share(a, b, plus + minus, asked, pairs_per_user), signed


def share(a: Number, b: Number, reported: Number, asked: Number, l: int = 1) -> Number:
    """Unbiased share of holders when `reported` of `asked` reports named the key; may be negative."""
    return l * (reported / asked - b) / (a - b)


def share_variance(a: Number, b: Number, true_share: Number, asked: Number, l: int = 1) -> Number:
    """Exact variance of `share` over a fixed population whose records hold at most l pairs.

    The noise of non-holders, the correction for holders, and the chance that a holder samples
    another of the l slots.
    """
    noise = l * l * b * (1 - b) / (a - b) ** 2
    owners = l * true_share * (1 - a - b) / (a - b)
    return (noise + owners + true_share * (l - 1)) / asked


def drawing_variance(true_share: Number, asked: Number, users: Number) -> Number:
    """Variance of the share of holders among `asked` of `users`, drawn without replacement."""
    return true_share * (1 - true_share) * (users - asked) / (asked * (users - 1))
