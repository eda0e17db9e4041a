"""One key asked, in clear; absent, or a boundary near its value.

The value range is cut by `bins` equally spaced marked boundaries (both ends included); a value is
rounded to one of its two neighbours so that its mean is kept. Who holds the drawn key tells the
boundary through a channel over ABSENT and the boundaries; who does not answers with a fake. `levels`
calibrates that channel, and so does PrivKVM* (`literature.privkvm_star`).

Words: index, boundary, response.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from keyveil.domain import Record, pick, words_for
from keyveil.domain.record import FULL_LEVEL
from keyveil.errors import MechanismError
from keyveil.mechanisms.base import (
    AsksOneKey,
    Calibration,
    ThroughChannel,
    Tick,
    Witness,
    check_size,
)
from keyveil.mechanisms.value_channel import ValueChannel
from keyveil.numerics import WORD_BITS
from keyveil.report import ABSENT, Symbol


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedBoundary(AsksOneKey, Calibration, ThroughChannel):
    """An index in clear, and ABSENT or a boundary about its key."""

    n_keys: int
    channel: ValueChannel

    fields: ClassVar[tuple[str, ...]] = ("epsilon", "bins")
    small_options: ClassVar[Mapping[str, Any]] = {"bins": 2}

    def __post_init__(self) -> None:
        check_size(self.n_keys, 1)
        if self.channel.window.n_out != self.channel.window.n_in:
            raise MechanismError("a boundary is sent as one of the boundaries; its window is one wide")

    # --- the kernel ---

    @property
    def bins(self) -> int:
        """How many boundaries there are."""
        return self.channel.window.n_in

    @property
    def loss(self) -> Fraction:
        """The largest ratio between the rows of a value here, a value there, and not held."""
        near, far, silent = self.channel.lifts()
        return max(near, near / far, 1 / silent, 1 / far)

    def witness(self) -> Witness:
        """A record, another and a symbol of key 0 that reach the loss."""
        records = [Record.of({}), Record.of({0: -1.0}), Record.of({0: 1.0})]
        return max(
            (Witness(x, y, symbol) for x in records for y in records for symbol in range(self.bins + 1)),
            key=lambda w: self.lift(w.answer, w.first) / self.lift(w.answer, w.second),
        )

    def answers(self) -> Iterator[int]:
        """Every index with every symbol."""
        return iter(range(self.n_keys * (self.bins + 1)))

    def lift(self, answer: int, record: Record) -> Fraction:
        """Pr[symbol | record, index]."""
        index, symbol = divmod(answer, self.bins + 1)
        level = record.level(index)
        if level is None:
            return self.channel.other(symbol)
        law = boundary_law(level, self.bins, self.word_bits)
        return sum((chance * self.channel.own(place, symbol) for place, chance in law), Fraction(0))

    def probability(self, answer: int, record: Record) -> Fraction:
        """Pr[answer | record]."""
        index = words_for(answer // (self.bins + 1), self.n_keys, self.word_bits)
        return Fraction(index, self.channel.words) * self.lift(answer, record)

    # --- the client's side ---

    @property
    def n_words(self) -> int:
        """Index, boundary, response."""
        return 3

    @property
    def layout(self) -> Symbol:
        """Index and symbol as one number."""
        return Symbol(self.n_keys * (self.bins + 1))

    def perturb(self, record: Record, words: Sequence[int]) -> int:
        """(bins + 1) * index + symbol."""
        choice, rounding, word = words
        index = pick(choice, self.n_keys, self.word_bits)
        level = record.level(index)
        if level is None:
            return (self.bins + 1) * index + self.channel.hear_other(word)
        place = round_to_boundary(level, self.bins, rounding, self.word_bits)
        return (self.bins + 1) * index + self.channel.hear_own(place, word)

    # --- the collector's side ---

    def ticks(self, answer: int) -> Iterator[Tick]:
        """One key was asked; its boundary, if it was not silent."""
        index, symbol = divmod(answer, self.bins + 1)
        yield "asked", (index,)
        if symbol != ABSENT:
            yield "bins", (index, symbol - 1)

    def resembles(self, answer: int, witness: Witness) -> bool:
        """The same symbol about the same key."""
        return bool(answer == witness.answer)


def round_to_boundary(level: int, bins: int, word: int, word_bits: int = WORD_BITS) -> int:
    """One of the two boundaries around a value, so that the mean is kept; ends stay where they are.

    >>> round_to_boundary(FULL_LEVEL, 5, 0), round_to_boundary(0, 5, 0)
    (4, 0)
    """
    below, rest = divmod(level * (bins - 1), FULL_LEVEL)
    return below + (word << (WORD_BITS - word_bits) < rest)


def boundary_law(level: int, bins: int, word_bits: int = WORD_BITS) -> list[tuple[int, Fraction]]:
    """The exact chances of `round_to_boundary`."""
    below, rest = divmod(level * (bins - 1), FULL_LEVEL)
    up = Fraction(-(-rest >> (WORD_BITS - word_bits)), 1 << word_bits)
    return [(below, 1 - up), (below + 1, up)] if up else [(below, Fraction(1))]
