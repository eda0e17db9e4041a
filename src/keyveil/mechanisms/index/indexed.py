"""One key asked, in clear: draw an index, then answer about that key alone.

The index is uniform over the d keys and independent of the record, so it may be sent as it is; where the
collector hands out the ids of reports it follows from the id (`AsksOneKey`). The answer about it is one of
ABSENT, PLUS, MINUS: holders go through the channel's "sampled" row, others through the "not sampled" row.
Nothing is padded; l plays no part.

The loss is the largest ratio, over answers, between the rows of {held +, held -, not held}.

A key is asked of about n/d users, N of n for short; those N are a random part of the population,
which adds the last term to the variance of its frequency given N:

    Var = [b (1 - b) / (a - b)**2 + f (1 - a - b) / (a - b)] / N + f (1 - f) (n - N) / (N (n - 1)).

Words: index, rounding, response.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from keyveil.domain import HALF_LEVEL, Record, pick, round_to_sign, rounding_law, words_for
from keyveil.mechanisms.base import AsksOneKey, Calibration, ThroughChannel, Tick, Witness, check_size
from keyveil.mechanisms.channel import Channel, Exactness, Number
from keyveil.mechanisms.moments import Moments
from keyveil.report import ABSENT, MINUS, PLUS, Symbol


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledIndex(AsksOneKey, Calibration, ThroughChannel):
    """An index in clear, and a trit about its key."""

    n_keys: int
    channel: Channel

    def __post_init__(self) -> None:
        check_size(self.n_keys, 1)

    # --- the kernel ---

    def _row(self, record: Record, code: int) -> tuple[Fraction, Fraction, Fraction]:
        level = record.level(code)
        if level is None:
            return self.channel.other()
        return self.channel.own(rounding_law(level, self.channel.word_bits))

    @property
    def loss(self) -> Fraction:
        """The witness's ratio: three rows and three symbols are all there is."""
        first, second, answer = self.witness()
        return self.lift(answer, first) / self.lift(answer, second)

    def witness(self) -> Witness:
        """The two extreme records of key 0 and the symbol that tells them apart best."""
        records = [Record.of({}), Record.of({0: 1.0}), Record.of({0: -1.0})]
        return max(
            (Witness(x, y, symbol) for x in records for y in records for symbol in (ABSENT, PLUS, MINUS)),
            key=lambda w: self._row(w.first, 0)[w.answer] / self._row(w.second, 0)[w.answer],
        )

    def answers(self) -> Iterator[int]:
        """All 3d symbols."""
        return iter(range(3 * self.n_keys))

    def lift(self, answer: int, record: Record) -> Fraction:
        """Pr[symbol | record, index]."""
        index, symbol = divmod(answer, 3)
        return self._row(record, index)[symbol]

    def probability(self, answer: int, record: Record) -> Fraction:
        """Pr[answer | record]."""
        index = Fraction(words_for(answer // 3, self.n_keys, self.channel.word_bits), self.channel.words)
        return index * self.lift(answer, record)

    # --- the client's side ---

    @property
    def tells_signs(self) -> bool:
        """A value is a sign that was rounded to it."""
        return True

    @property
    def n_words(self) -> int:
        """Index, rounding, response."""
        return 3

    @property
    def layout(self) -> Symbol:
        """Index and trit as one number."""
        return Symbol(3 * self.n_keys)

    def perturb(self, record: Record, words: Sequence[int]) -> int:
        """3 * index + symbol."""
        choice, rounding, word = words
        bits = self.channel.word_bits
        index = pick(choice, self.n_keys, bits)
        level = record.level(index)
        sign = round_to_sign(HALF_LEVEL if level is None else level, rounding, bits)
        # Both rows, whoever asks: the time tells nothing.
        other, own = self.channel.hear_other(word), self.channel.hear_own(sign, word)
        return 3 * index + (other if level is None else own)

    # --- the collector's side ---

    def ticks(self, answer: int) -> Iterator[Tick]:
        """One key was asked."""
        index, symbol = divmod(answer, 3)
        yield "asked", (index,)
        if symbol != ABSENT:
            yield ("plus" if symbol == PLUS else "minus"), (index,)

    def resembles(self, answer: int, witness: Witness) -> bool:
        """The same symbol about the same key."""
        return bool(answer == witness.answer)

    @property
    def moments(self) -> Moments:
        """The channel's; holders among those asked are a sample."""
        return Moments.through(self.channel, 1, drawn=1.0 - 1.0 / self.n_keys)

    def debias(
        self, plus: Number, minus: Number, asked: Number, number: Exactness = float
    ) -> tuple[Number, Number]:
        """Unbiased frequency, and frequency * mean."""
        return self.channel.debias(plus, minus, asked, 1, number)

    def expected_asked(self, users: Number, number: Exactness = float) -> Number:
        """One report in d speaks of a key."""
        return users * number(Fraction(1, self.n_keys))
