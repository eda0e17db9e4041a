"""PrivKVM* with unary boundaries: draw an index, and answer about its key with one bit per boundary.

As `privkvm_star`, but the boundary is reported by optimised unary encoding instead of randomized
response: better for many bins, at the price of one bit each. Who does not hold the key and says
"held" draws a boundary evenly and tells it in the same way.

Words: index, boundary, held, then one per boundary.

[PrivKVM*] Ye, Hu, Meng et al., IEEE TDSC 2021, as described in [UE-SW] section 3.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

from keyveil.domain import Record, pick, words_for
from keyveil.errors import MechanismError
from keyveil.mechanisms.base import Allocation, Ask, AsksOneKey, Calibration, Tick, Witness, check_size
from keyveil.mechanisms.index.boundary import boundary_law, round_to_boundary
from keyveil.mechanisms.literature.privkvm_star import BINS
from keyveil.mechanisms.oracles import Bits
from keyveil.numerics import ceil_div, exp_below
from keyveil.report import Symbol

MOST_BINS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedBoundaryBits(AsksOneKey, Calibration):
    """An index in clear, and "not held" or a bit per boundary about its key.

    >>> m = IndexedBoundaryBits.for_epsilon(2, n_keys=10)
    >>> m.bins, round(float(m.a), 4), round(float(m.bits.b), 4)
    (8, 0.7311, 0.2689)
    """

    n_keys: int
    held: int
    bits: Bits

    id: ClassVar[str] = "privkvm-star-oue"
    allocations: ClassVar[tuple[Allocation, ...]] = (Allocation.NAIVE,)
    options: ClassVar[Mapping[str, Any]] = {"bins": BINS}
    fields: ClassVar[tuple[str, ...]] = ("epsilon", "bins")
    small_options: ClassVar[Mapping[str, Any]] = {"bins": 2}

    def __post_init__(self) -> None:
        check_size(self.n_keys, 1)
        if not 2 <= self.bins <= MOST_BINS:
            raise MechanismError(f"bins must be at least 2 and at most {MOST_BINS}, got {self.bins}")
        if 2 * self.held <= 1 << self.word_bits:
            raise MechanismError(f"{self.word_bits}-bit words tell no more truth than lies; raise epsilon")

    @classmethod
    def calibrate(cls, ask: Ask) -> Self:
        """Half of `epsilon` for the key, half for the boundary; l plays no part."""
        half = ask.epsilon / 2
        fake = ceil_div(ask.words, exp_below(half) + 1)
        bits = Bits.oue(half, ask.options["bins"], ask.word_bits)
        return cls(n_keys=ask.n_keys, held=ask.words - fake, bits=bits)

    # --- the kernel ---

    @property
    def word_bits(self) -> int:
        """The bits' own."""
        return self.bits.word_bits

    @property
    def bins(self) -> int:
        """How many boundaries there are."""
        return self.bits.n_symbols

    @property
    def _symbols(self) -> int:
        """One for "not held", and one for every vector of bits."""
        return (1 << self.bins) + 1

    @property
    def loss(self) -> Fraction:
        """The largest ratio: silence, one bit alone, all bits but one, or two boundaries.

        Against a user without the key, whose boundary is any: the likelier it is, the less it tells.
        """
        odds, said = self.bits.loss, self.a / self.b
        least = min(chance for _, chance in self._boundaries(None))
        alone = said * odds / (1 + (odds - 1) * least)
        all_but = (odds - (odds - 1) * least) / said
        return max(said, odds, alone, all_but)

    def witness(self) -> Witness:
        """Records of key 0, and silence, one bit alone, or all bits but one."""
        records = [Record.of({}), Record.of({0: -1.0}), Record.of({0: 1.0})]
        everything = (1 << self.bins) - 1
        answers = (0, 1 + 1, 1 + (everything ^ 1))
        return max(
            (Witness(x, y, answer) for x in records for y in records for answer in answers),
            key=lambda w: self.lift(w.answer, w.first) / self.lift(w.answer, w.second),
        )

    def answers(self) -> Iterator[int]:
        """Every index with every symbol."""
        return iter(range(self.n_keys * self._symbols))

    def lift(self, answer: int, record: Record) -> Fraction:
        """Pr[symbol | record, index]."""
        index, symbol = divmod(answer, self._symbols)
        level = record.level(index)
        said = self.b if level is None else self.a
        if symbol == 0:
            return 1 - said
        shown = [(symbol - 1) >> place & 1 for place in range(self.bins)]
        return said * sum(
            (chance * self.bits.probability(shown, place) for place, chance in self._boundaries(level)),
            Fraction(0),
        )

    def _boundaries(self, level: int | None) -> list[tuple[int, Fraction]]:
        """The exact chances of the boundary that is reported."""
        if level is not None:
            return boundary_law(level, self.bins, self.word_bits)
        words = 1 << self.word_bits
        return [(p, Fraction(words_for(p, self.bins, self.word_bits), words)) for p in range(self.bins)]

    def probability(self, answer: int, record: Record) -> Fraction:
        """Pr[answer | record]."""
        index = words_for(answer // self._symbols, self.n_keys, self.word_bits)
        return Fraction(index, 1 << self.word_bits) * self.lift(answer, record)

    # --- the client's side ---

    @property
    def n_words(self) -> int:
        """Index, boundary, held, one per boundary."""
        return 3 + self.bins

    @property
    def layout(self) -> Symbol:
        """Index and symbol as one number."""
        return Symbol(self.n_keys * self._symbols)

    def perturb(self, record: Record, words: Sequence[int]) -> int:
        """Index, and 0 for "not held" or 1 + the bits as a binary number."""
        choice, boundary, word = words[:3]
        index = pick(choice, self.n_keys, self.word_bits)
        level = record.level(index)
        if level is None:
            place, said = pick(boundary, self.bins, self.word_bits), (1 << self.word_bits) - self.held
        else:
            place, said = round_to_boundary(level, self.bins, boundary, self.word_bits), self.held
        shown = self.bits.perturb(place, words[3:])
        symbol = 1 + sum(bit << p for p, bit in enumerate(shown)) if word < said else 0
        return self._symbols * index + symbol

    # --- the collector's side ---

    @property
    def a(self) -> Fraction:
        """A holder says "held"."""
        return Fraction(self.held, 1 << self.word_bits)

    @property
    def b(self) -> Fraction:
        """Another user says "held"."""
        return 1 - self.a

    def ticks(self, answer: int) -> Iterator[Tick]:
        """One key was asked; if it was said to be held, that and every bit that shows."""
        index, symbol = divmod(answer, self._symbols)
        yield "asked", (index,)
        if symbol:
            yield "held", (index,)
            for place in range(self.bins):
                if (symbol - 1) >> place & 1:
                    yield "bits", (index, place)

    def resembles(self, answer: int, witness: Witness) -> bool:
        """The same symbol about the same key."""
        return bool(answer == witness.answer)
