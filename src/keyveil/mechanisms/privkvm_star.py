"""PrivKVM*, one round: draw an index, and answer about its key with a boundary of its value's bin.

The value range is cut by `bins` equally spaced marked boundaries (both ends included); a value is
rounded to one of its two neighbours so that its mean is kept. The drawn key is told held or not
with odds e**epsilon1; a holder's boundary goes through randomized response over the boundaries with
odds e**epsilon2; a non-holder who says "held" says a uniformly drawn boundary. Both budgets are half
of the round's, as the paper adds them; with uniform fakes the true loss is smaller, and it is the
one that is printed.

The text leaves open how fakes are drawn ("the current means of all bins"), which oracle tells the
boundary ("for example GRR") and how many bins there are; here: uniformly, randomized response (with
bits: `boundary_bits`), `bins` = 8. The second phase is `protocols.star`.

Words: index, boundary, response.

[PrivKVM*] Ye, Hu, Meng et al., IEEE TDSC 2021, as described in [UE-SW] section 3.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

from keyveil.domain import Record, pick, words_for
from keyveil.domain.record import FULL_LEVEL
from keyveil.errors import MechanismError
from keyveil.mechanisms.base import (
    Allocation,
    Ask,
    AsksOneKey,
    Calibration,
    ThroughChannel,
    Tick,
    Witness,
    check_size,
)
from keyveil.mechanisms.value_channel import ValueChannel
from keyveil.mechanisms.values import Window
from keyveil.numerics import WORD_BITS, ceil_div, exp_below
from keyveil.report import ABSENT, Symbol

BINS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedBoundary(AsksOneKey, Calibration, ThroughChannel):
    """An index in clear, and ABSENT or a boundary about its key.

    >>> m = IndexedBoundary.for_epsilon(2, n_keys=10)
    >>> m.layout.size, round(float(m.channel.a), 4)
    (90, 0.7311)
    """

    n_keys: int
    channel: ValueChannel

    id: ClassVar[str] = "privkvm-star"
    allocations: ClassVar[tuple[Allocation, ...]] = (Allocation.NAIVE,)
    options: ClassVar[Mapping[str, Any]] = {"bins": BINS}
    fields: ClassVar[tuple[str, ...]] = ("epsilon", "bins")
    small_options: ClassVar[Mapping[str, Any]] = {"bins": 2}

    def __post_init__(self) -> None:
        check_size(self.n_keys, 1)
        if self.channel.window.n_out != self.channel.window.n_in:
            raise MechanismError("a boundary is told as one of the boundaries; its window is one wide")

    @classmethod
    def calibrate(cls, ask: Ask) -> Self:
        """Half of `epsilon` for the key, half for the boundary; l plays no part."""
        odds, bins = exp_below(ask.epsilon / 2), ask.options["bins"]
        window = Window(n_in=bins, width=1)
        fake = ceil_div(ask.words, bins * (odds + 1))
        held = ask.words - bins * fake
        far = ceil_div(held, odds + bins - 1)
        near = held - (bins - 1) * far
        channel = ValueChannel(window=window, near=near, far=far, fake=fake, word_bits=ask.word_bits)
        return cls(n_keys=ask.n_keys, channel=channel)

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
