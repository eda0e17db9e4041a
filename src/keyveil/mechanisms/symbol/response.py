"""One signed key a report: randomized response over the keys and l dummies.

The alphabet is the 2(d + l) signed keys; symbol 2k is (k, +), 2k + 1 is (k, -), dummies come last.
The sampled symbol is kept with chance keep, its sign flipped with chance flip, and each of the
2(d + l - 1) others is reported with chance fake.

A held key is sampled with chance w, at most ceil(2**64 / l) / 2**64 (the integer stand-in for 1/l),
so the chance of telling any symbol lies between fake and w keep + (1 - w) fake:

    loss = (w keep + (1 - w) fake) / fake,         keep / fake = (exp(epsilon) - 1) / w + 1.

With w = 1/l that is keep = (l (e**epsilon - 1) + 1) fake: sampling amplifies privacy, and all l
dummies are needed for it. The bound wants flip >= fake, which every allocation meets.

Words: slot, dummy, rounding, response.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

from keyveil.domain import Record, pick, round_to_sign, rounding_law, sample_pair, sampling_law, words_for
from keyveil.domain.record import HALF_LEVEL
from keyveil.errors import MechanismError
from keyveil.mechanisms.base import PaddedSampling, Tick, Witness, check_size
from keyveil.mechanisms.channel import Channel
from keyveil.mechanisms.moments import Moments
from keyveil.numerics import WORD_BITS, ceil_div
from keyveil.report import ABSENT, MINUS, PLUS, Symbol


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedResponse(PaddedSampling):
    """Padding-and-sampling, then randomized response over signed keys and dummies."""

    def __post_init__(self) -> None:
        PaddedSampling.__post_init__(self)
        c = self.channel
        if c.keep + c.flip + 2 * (self.n_padded - 1) * c.fake != c.words:
            raise MechanismError(
                f"keep + flip + 2 ({self.n_padded} - 1) fake must be all {c.words} words; use for_epsilon"
            )
        if c.flip < c.fake:
            raise MechanismError("a wrong sign must be sent at least as often as any other symbol")

    @classmethod
    def from_ratios(
        cls, keep: Fraction, flip: Fraction, *, n_keys: int, pairs_per_user: int, word_bits: int = WORD_BITS
    ) -> Self:
        """The instance whose keep / fake and flip / fake come nearest, from privacy's side."""
        check_size(n_keys, pairs_per_user)
        others = 2 * (n_keys + pairs_per_user - 1)
        # Rounding fake and flip up leaves fewer words for the truth.
        fake = ceil_div(1 << word_bits, keep + flip + others)
        flipped = ceil_div(flip * fake, 1)
        channel = Channel(
            keep=(1 << word_bits) - flipped - others * fake, flip=flipped, fake=fake, word_bits=word_bits
        )
        return cls(n_keys=n_keys, pairs_per_user=pairs_per_user, channel=channel)

    # --- the kernel ---

    @property
    def n_padded(self) -> int:
        """Keys and dummies."""
        return self.n_keys + self.pairs_per_user

    @property
    def loss(self) -> Fraction:
        """(w keep + (1 - w) fake) / fake."""
        w = likeliest_slot(self.pairs_per_user, self.channel.word_bits)
        return (w * self.channel.keep + (1 - w) * self.channel.fake) / self.channel.fake

    def witness(self) -> Witness:
        """A key held alone, against nothing held."""
        return Witness(Record.of({0: 1.0}), Record.of({}), 0)

    def answers(self) -> Iterator[int]:
        """All 2 (d + l) symbols."""
        return iter(range(2 * self.n_padded))

    def probability(self, answer: int, record: Record) -> Fraction:
        """Pr[answer | record]."""
        bits, (_, fake, _) = self.channel.word_bits, self.channel.other()
        held, dummy = sampling_law(record, self.pairs_per_user, bits)
        key, symbol = answer >> 1, MINUS if answer & 1 else PLUS
        total = Fraction(0)
        for pair, chance in held:
            own = self.channel.own(rounding_law(pair.level, bits))
            total += chance * (own[symbol] if pair.code == key else fake)
        if key < self.n_keys:
            return total + dummy * fake
        this = Fraction(words_for(key - self.n_keys, self.pairs_per_user, bits), self.channel.words)
        own = self.channel.own(rounding_law(HALF_LEVEL, bits))
        return total + dummy * (this * own[symbol] + (1 - this) * fake)

    lift = probability

    # --- the client's side ---

    @property
    def tells_signs(self) -> bool:
        """A value is a sign that was rounded to it."""
        return True

    @property
    def n_words(self) -> int:
        """Slot, dummy, rounding, response."""
        return 4

    @property
    def layout(self) -> Symbol:
        """One symbol."""
        return Symbol(2 * self.n_padded)

    def perturb(self, record: Record, words: Sequence[int]) -> int:
        """One signed key or dummy."""
        slot, dummy, rounding, word = words
        bits, c = self.channel.word_bits, self.channel
        sampled = sample_pair(record, self.pairs_per_user, slot, bits)
        padding = self.n_keys + pick(dummy, self.pairs_per_user, bits)
        code, level = sampled.code, sampled.level
        key = code if code >= 0 else padding
        heard = c.hear_own(round_to_sign(level, rounding, bits), word)
        if heard != ABSENT:
            return 2 * key + (heard == MINUS)
        lie = (word - c.keep - c.flip) // c.fake
        return lie + 2 * (lie >= 2 * key)  # lies skip over the truth's two symbols

    # --- the collector's side ---

    @property
    def moments(self) -> Moments:
        """The channel's, behind l slots; a key's report is no other key's."""
        a, b = self.channel.a, self.channel.b
        shown = Moments.through(self.channel, self.pairs_per_user)
        return replace(shown, apart=float(self.pairs_per_user * b / (a - b)))

    def ticks(self, answer: int) -> Iterator[Tick]:
        """Every key could have been reported; one was, or a dummy."""
        for code in range(self.n_keys):
            yield "asked", (code,)
        if answer < 2 * self.n_keys:
            yield ("minus" if answer & 1 else "plus"), (answer >> 1,)

    def resembles(self, answer: int, witness: Witness) -> bool:
        """The same symbol."""
        return bool(answer == witness.answer)


def likeliest_slot(slots: int, word_bits: int = WORD_BITS) -> Fraction:
    """The largest chance of one slot of `slots`: 1/slots, rounded up to whole words."""
    return Fraction(words_for(0, slots, word_bits), 1 << word_bits)
