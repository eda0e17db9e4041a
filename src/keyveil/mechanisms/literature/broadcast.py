"""A later round of PrivKVM: draw an index; who does not hold its key answers with a public coin.

After the first round the collector knows a mean of every key and wants non-holders to speak for it.
For the drawn key a coin shows + with chance (1 + mean)/2. A holder's sign, or a non-holder's coin,
is kept with chance p; "held" is reported with chance a by holders and b by others. The paper's collector
draws the coin for every user and key and sends it; here the device draws it from the public mean and
repeats it in its report. The collector knows as much, the tallies have the same law, and what is
broadcast is d means instead of n d coins.

Because the coin is known, the two budgets add up: the loss is e**(epsilon1 + epsilon2) exactly.
With epsilon1 = 0 (a = b = 1/2), the usual later round, it is e**epsilon2.

Words: index, coin, rounding, response.

[PrivKV] Ye, Hu, Meng, Zheng, IEEE S&P 2019, Algorithms 5 to 7; PrivKV' is reconstructed, the text
does not define it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

from keyveil.domain import FULL_LEVEL, HALF_LEVEL, Record, pick, round_to_sign, rounding_law, words_for
from keyveil.errors import DomainError, MechanismError
from keyveil.mechanisms.base import (
    Allocation,
    Ask,
    AsksOneKey,
    Calibration,
    Level,
    Tick,
    Witness,
    check_size,
)
from keyveil.mechanisms.literature.privkv import split_ask
from keyveil.numerics import WORD_BITS, ceil_div, exp_below
from keyveil.report import ABSENT, MINUS, PLUS, Symbol


@dataclass(frozen=True, slots=True, kw_only=True)
class BroadcastIndex(AsksOneKey, Calibration):
    """An index and a coin in clear, and a trit about the key.

    `held` of 2**word_bits words say "held" for a holder, `fake` for another user; of those, the sign
    or coin is kept in the first `held_keep` (`fake_keep`) words. `levels` are the public means.
    """

    n_keys: int
    held: int
    held_keep: int
    fake: int
    fake_keep: int
    levels: tuple[int, ...]
    word_bits: int = WORD_BITS

    id: ClassVar[str] = "privkv-broadcast"
    allocations: ClassVar[tuple[Allocation, ...]] = (Allocation.NAIVE,)
    fields: ClassVar[tuple[str, ...]] = ("key_epsilon", "sign_epsilon", "levels")

    def __post_init__(self) -> None:
        check_size(self.n_keys, 1)
        if len(self.levels) != self.n_keys:
            raise DomainError(f"expected a mean for each of {self.n_keys} keys, got {len(self.levels)}")
        outcomes = self.held - self.held_keep, self.fake_keep, self.fake - self.fake_keep
        if min(*outcomes, self.words - self.held, self.words - self.fake) <= 0:
            raise MechanismError(f"{self.word_bits}-bit words leave an outcome without a word")
        if not all(0 <= level <= FULL_LEVEL for level in self.levels):
            raise DomainError("expected means as levels from 0 to 2**64")
        if 2 * self.held_keep <= self.held:
            raise MechanismError(
                f"{self.word_bits}-bit words keep no more signs than they flip; raise epsilon"
            )

    @classmethod
    def resolve(cls, ask: Ask) -> Ask:
        """Half of `epsilon` for "held", half for the sign, all means at the middle."""
        half, levels = ask.epsilon / 2, (Level(HALF_LEVEL),) * ask.n_keys
        return ask.resolved(key_epsilon=half, sign_epsilon=half, levels=levels)

    @classmethod
    def for_budgets(
        cls,
        key_epsilon: Fraction,
        sign_epsilon: Fraction,
        *,
        levels: tuple[int, ...],
        word_bits: int = WORD_BITS,
    ) -> Self:
        """The most truthful instance with these two budgets; a key budget of 0 says "held" by a coin."""
        means = tuple(map(Level, levels))
        budgets = Fraction(key_epsilon), Fraction(sign_epsilon)
        return cls.named(split_ask(*budgets, n_keys=len(levels), word_bits=word_bits, levels=means))

    @classmethod
    def calibrate(cls, ask: Ask) -> Self:
        """Each budget for its own."""
        words, levels = ask.words, ask.options["levels"]
        key_odds, sign_odds = exp_below(ask.options["key_epsilon"]), exp_below(ask.options["sign_epsilon"])
        fake = ceil_div(words, key_odds + 1)
        held = words - fake
        return cls(
            n_keys=ask.n_keys,
            held=held,
            held_keep=int(held * sign_odds / (sign_odds + 1)),
            fake=fake,
            # Rounded down, both: a kept sign is what tells a holder from a flipped coin.
            fake_keep=int(fake * sign_odds / (sign_odds + 1)),
            levels=levels,
            word_bits=ask.word_bits,
        )

    # --- the kernel ---

    @property
    def words(self) -> int:
        """How many words there are."""
        return 1 << self.word_bits

    @property
    def p(self) -> Fraction:
        """Pr[sign kept | held and said so]."""
        return Fraction(self.held_keep, self.held)

    def _row(self, record: Record, index: int, coin: int) -> tuple[Fraction, Fraction, Fraction]:
        """Chances of (ABSENT, PLUS, MINUS) given the index and the coin."""
        level = record.level(index)
        if level is None:
            said, kept, up = self.fake, self.fake_keep, Fraction(coin == PLUS)
        else:
            said, kept, up = self.held, self.held_keep, rounding_law(level, self.word_bits)
        plus = up * kept + (1 - up) * (said - kept)
        return Fraction(self.words - said, self.words), plus / self.words, (said - plus) / self.words

    @property
    def loss(self) -> Fraction:
        """The witness's ratio: three rows, three symbols and a coin are all there is."""
        first, second, answer = self.witness()
        return self.lift(answer, first) / self.lift(answer, second)

    def witness(self) -> Witness:
        """The records of key 0 and the coin and symbol that tell them apart best."""
        records = [Record.of({}), Record.of({0: 1.0}), Record.of({0: -1.0})]
        return max(
            (Witness(x, y, answer) for x in records for y in records for answer in range(6)),
            key=lambda w: self.lift(w.answer, w.first) / self.lift(w.answer, w.second),
        )

    def answers(self) -> Iterator[int]:
        """Every index with both coins and three symbols."""
        return iter(range(6 * self.n_keys))

    def lift(self, answer: int, record: Record) -> Fraction:
        """Pr[symbol | record, index, coin]."""
        index, coin, symbol = self._read(answer)
        return self._row(record, index, coin)[symbol]

    def probability(self, answer: int, record: Record) -> Fraction:
        """Pr[answer | record]."""
        index, coin, _ = self._read(answer)
        up = rounding_law(self.levels[index], self.word_bits)
        drawn = Fraction(words_for(index, self.n_keys, self.word_bits), self.words)
        return drawn * (up if coin == PLUS else 1 - up) * self.lift(answer, record)

    def _read(self, answer: int) -> tuple[int, int, int]:
        """Index, coin, symbol."""
        index, rest = divmod(answer, 6)
        return index, PLUS if rest < 3 else MINUS, rest % 3

    # --- the client's side ---

    @property
    def n_words(self) -> int:
        """Index, coin, rounding, response."""
        return 4

    @property
    def layout(self) -> Symbol:
        """Index, coin and symbol as one number."""
        return Symbol(6 * self.n_keys)

    def perturb(self, record: Record, words: Sequence[int]) -> int:
        """6 * index + 3 * (coin is -) + symbol."""
        choice, toss, rounding, word = words
        index = pick(choice, self.n_keys, self.word_bits)
        coin = round_to_sign(self.levels[index], toss, self.word_bits)
        level = record.level(index)
        if level is None:
            sign, said, kept = coin, self.fake, self.fake_keep
        else:
            sign, said, kept = round_to_sign(level, rounding, self.word_bits), self.held, self.held_keep
        symbol = ABSENT if word >= said else PLUS if (word < kept) == (sign > 0) else MINUS
        return 6 * index + 3 * (coin < 0) + symbol

    # --- the collector's side ---

    @property
    def a(self) -> Fraction:
        """A holder says "held"."""
        return Fraction(self.held, self.words)

    @property
    def b(self) -> Fraction:
        """Another user says "held"."""
        return Fraction(self.fake, self.words)

    def ticks(self, answer: int) -> Iterator[Tick]:
        """One key was asked; the coin is not counted."""
        index, _, symbol = self._read(answer)
        yield "asked", (index,)
        if symbol != ABSENT:
            yield ("plus" if symbol == PLUS else "minus"), (index,)

    def resembles(self, answer: int, witness: Witness) -> bool:
        """The same symbol and coin about the same key."""
        return bool(answer == witness.answer)
