"""One trit a key: sample a signed key, then answer about every key at once.

The report is a vector over {ABSENT, PLUS, MINUS}^d. The sampled key's position goes through the
channel's "sampled" row, every other position through the "not sampled" row, independently. Dummies
are sampled but their positions are not sent: no estimator reads them, and leaving them out never
costs privacy.

Relative to a vector of pure noise, a report of signs y is more likely by

    lift(y | record) = sum over slots of chance(slot) * L(y at that slot's key),   dummies count 1,
    L(right sign) = keep / fake,   L(wrong sign) = flip / fake,
    L(ABSENT) = (1 - keep - flip) / (1 - 2 fake).

A lift is an average of L's, so the loss is max L / min L, whatever l and d; it is reached when
d >= 2l (or when a wrong sign is the rarest event: d >= l).

Words: slot, rounding, then one per key. The last n_keys words are read as planes of bits
(`numerics.words`), so that all positions are drawn in as many steps as a word has bits: every position
through both rows, and the sampled key's bit chooses between them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from keyveil.domain import Record, round_to_sign, rounding_law, sample_pair, sampling_law
from keyveil.mechanisms.base import PaddedSampling, Tick, Witness, record_codes
from keyveil.numerics import at_least, planes
from keyveil.report import ABSENT, MINUS, PLUS, Trits, join_trits


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedUnary(PaddedSampling):
    """Padding-and-sampling, then one trit per key."""

    # --- the kernel ---

    def _lifts(self) -> dict[int, Fraction]:
        """L of a sampled key with sign +, for each symbol."""
        own, other = self.channel.own(Fraction(1)), self.channel.other()
        return {symbol: own[symbol] / other[symbol] for symbol in (ABSENT, PLUS, MINUS)}

    @property
    def loss(self) -> Fraction:
        """Max L / min L."""
        lifts = self._lifts().values()
        return max(lifts) / min(lifts)

    def witness(self) -> Witness:
        """L keys heard rightly, against l keys heard wrongly or not at all."""
        l, lifts = min(self.pairs_per_user, self.n_keys), self._lifts()
        first = Record.of(dict.fromkeys(range(l), 1.0))
        answer = bytearray(self.n_keys)
        answer[:l] = bytes([PLUS]) * l
        if lifts[MINUS] <= lifts[ABSENT]:
            return Witness(first, Record.of(dict.fromkeys(range(l), -1.0)), bytes(answer))
        others = range(l, min(2 * l, self.n_keys))
        return Witness(first, Record.of(dict.fromkeys(others, 1.0)), bytes(answer))

    def answers(self) -> Iterator[bytes]:
        """All 3**d vectors."""
        return map(bytes, itertools.product((ABSENT, PLUS, MINUS), repeat=self.n_keys))

    def lift(self, answer: bytes, record: Record) -> Fraction:
        """Pr[answer | record] relative to pure noise."""
        bits, other = self.channel.word_bits, self.channel.other()
        held, dummy = sampling_law(record, self.pairs_per_user, bits)
        lift = dummy
        for pair, chance in held:
            symbol = answer[pair.code]
            own = self.channel.own(rounding_law(pair.level, bits))
            lift += chance * own[symbol] / other[symbol]
        return lift

    def probability(self, answer: bytes, record: Record) -> Fraction:
        """Pr[answer | record]."""
        other = self.channel.other()
        return self.lift(answer, record) * math.prod(other[symbol] for symbol in answer)

    # --- the client's side ---

    @property
    def tells_signs(self) -> bool:
        """A value is a sign that was rounded to it."""
        return True

    @property
    def n_words(self) -> int:
        """Slot, rounding, one per key."""
        return 2 + self.n_keys

    @property
    def layout(self) -> Trits:
        """D trits."""
        return Trits(self.n_keys)

    def perturb(self, record: Record, words: Sequence[int]) -> bytes:
        """One symbol per key."""
        c, d, bits = self.channel, self.n_keys, self.channel.word_bits
        everywhere = (1 << d) - 1
        sampled = sample_pair(record, self.pairs_per_user, words[0], bits)
        sliced = planes(words[2:], bits)
        not_plus, silent = at_least(sliced, c.fake), at_least(sliced, 2 * c.fake)
        not_right, own_silent = at_least(sliced, c.keep), at_least(sliced, c.keep + c.flip)
        plus, minus = not_plus ^ everywhere, not_plus & (silent ^ everywhere)
        own = not_right ^ everywhere, not_right & (own_silent ^ everywhere)
        is_minus = round_to_sign(sampled.level, words[1], bits) < 0
        # The sampled key's bit, none for a dummy's code of -1. The bit that goes before it, behind the last
        # key, makes every step as long as any other.
        here = (2 << d | 1) << sampled.code + 1 >> 1
        plus ^= (plus ^ own[is_minus]) & here
        minus ^= (minus ^ own[not is_minus]) & here
        return join_trits(plus & everywhere, minus & everywhere, d)

    # --- the collector's side ---

    def ticks(self, answer: bytes) -> Iterator[Tick]:
        """Every key was asked; those that are not ABSENT were heard."""
        for code, symbol in enumerate(answer):
            yield "asked", (code,)
            if symbol != ABSENT:
                yield ("plus" if symbol == PLUS else "minus"), (code,)

    def resembles(self, answer: bytes, witness: Witness) -> bool:
        """The same symbols at the keys that the witness is about."""
        return all(answer[code] == witness.answer[code] for code in record_codes(witness))
