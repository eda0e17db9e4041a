"""The per-key channel when a report carries more of a value than its sign.

As `channel`, with a window of outputs instead of two signs. A report says ABSENT of a key, or one
of n_out numbers:

                              an output near v    far from v    ABSENT
    sampled, value in bin v   near                far           the rest
    not sampled               fake                fake          1 - n_out fake

a = near * width + far * (n_out - width), b = n_out * fake, all out of 2**word_bits. Signs are the
case of two outputs and a window of one: near = keep, far = flip.

Symbols are numbered 0 for ABSENT and 1 + output otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from keyveil.errors import MechanismError
from keyveil.mechanisms.values import Window
from keyveil.numerics import WORD_BITS, ceil_div
from keyveil.report import ABSENT

# At most so often is a key reported that was not sampled; at 1 there would be no silence.
MOST_FAKES = Fraction(9, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueChannel:
    """A window and three integers out of 2**word_bits."""

    window: Window
    near: int
    far: int
    fake: int
    word_bits: int = WORD_BITS

    def __post_init__(self) -> None:
        if min(self.far, self.fake, self.own_absent, self.other_absent) <= 0 or self.near <= self.far:
            raise MechanismError(
                f"{self.word_bits}-bit words leave an outcome without a word; use wider words, fewer bins "
                "or another epsilon"
            )
        if self.a <= self.b:
            raise MechanismError(f"{self.word_bits}-bit words tell no more truth than lies; raise epsilon")

    @classmethod
    def within(
        cls, E: Fraction, *, window: Window, value_odds: Fraction, reported: int, word_bits: int = WORD_BITS
    ) -> ValueChannel:
        """The boldest channel of loss E (unary reports) that reports a sampled key in `reported` words.

        near / far stays within `value_odds`; fakes are as rare as E allows.
        """
        words, outside = 1 << word_bits, window.n_out - window.width
        far = ceil_div(reported, window.width * value_odds + outside)
        near = (reported - outside * far) // window.width
        absent = words - near * window.width - far * outside
        fake = ceil_div(near * words, E * absent + near * window.n_out)
        return cls(window=window, near=near, far=far, fake=fake, word_bits=word_bits)

    @classmethod
    def extremal(cls, E: Fraction, *, window: Window, word_bits: int = WORD_BITS) -> ValueChannel:
        """The channel of loss E (unary reports) whose lifts are two: a near output's, and all others'.

        The fakes fall on the window of a value in 1/(E + 1) of all words, where the variance of what
        is near is least, as long as that leaves silence its share.
        """
        words, outside = 1 << word_bits, window.n_out - window.width
        near_fakes = min(1 / (E + 1), MOST_FAKES * window.width / window.n_out)
        fake = ceil_div(near_fakes * words, window.width)
        far = ceil_div(fake * words, words + (E - 1) * fake * window.width)
        # As loud as silence allows; a far output was rounded up, so it allows more.
        near = E * fake * (words - far * outside) // (words - window.n_out * fake + E * fake * window.width)
        return cls(window=window, near=int(near), far=far, fake=fake, word_bits=word_bits)

    # --- the kernel ---

    @property
    def words(self) -> int:
        """How many words there are."""
        return 1 << self.word_bits

    @property
    def own_absent(self) -> int:
        """Words that silence a sampled key."""
        outside = self.window.n_out - self.window.width
        return self.words - self.near * self.window.width - self.far * outside

    @property
    def other_absent(self) -> int:
        """Words that leave a key silent that was not sampled."""
        return self.words - self.window.n_out * self.fake

    @property
    def a(self) -> Fraction:
        """Pr[key reported | key sampled]."""
        return 1 - Fraction(self.own_absent, self.words)

    @property
    def b(self) -> Fraction:
        """Pr[key reported | key not sampled]."""
        return 1 - Fraction(self.other_absent, self.words)

    def own(self, bin_in: int, symbol: int) -> Fraction:
        """Pr[symbol] for a sampled key with its value in `bin_in`."""
        if symbol == ABSENT:
            return Fraction(self.own_absent, self.words)
        return Fraction(self.near if self.window.is_near(bin_in, symbol - 1) else self.far, self.words)

    def other(self, symbol: int) -> Fraction:
        """Pr[symbol] for a key that was not sampled."""
        return Fraction(self.other_absent if symbol == ABSENT else self.fake, self.words)

    def lifts(self) -> tuple[Fraction, Fraction, Fraction]:
        """How much likelier a sampled key makes a near output, a far output, and silence."""
        return (
            Fraction(self.near, self.fake),
            Fraction(self.far, self.fake),
            Fraction(self.own_absent, self.other_absent),
        )

    # --- the client's side ---

    def hear_own(self, bin_in: int, word: int) -> int:
        """What is said of the sampled key."""
        window = self.window
        if word < self.near * window.width:
            return 1 + window.pick_near(bin_in, word // self.near)
        place = (word - self.near * window.width) // self.far
        return 1 + window.pick_far(bin_in, place) if place < window.n_out - window.width else ABSENT

    def hear_other(self, word: int) -> int:
        """What is said of any other key."""
        place = word // self.fake
        return 1 + place if place < self.window.n_out else ABSENT
