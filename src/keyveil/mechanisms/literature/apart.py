"""Keys and values perturbed apart: the baselines that lose what ties a value to its key.

Pad, sample one pair; tell the key by a frequency oracle with half the budget, and the sign of the
value by Harmony with the other half, whatever became of the key. A report that names a key by chance
carries somebody's honest sign about another key, so the signs heard with a key average the whole
population's values: frequencies are right, means of rare keys are not theirs.

    krr-harmony      randomized response over keys and one dummy
    rappor-harmony   one symmetric bit per key (basic one-time RAPPOR; no Bloom filter, no cohorts)
    oue-harmony      one optimised bit per key

The loss is the product of both: sampling is not used to amplify.

[PrivKV] section VII compares with such pairs. Words: slot, rounding, sign, then the oracle's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

from keyveil.domain import HALF_LEVEL, Record, sample_pair, sampling_law
from keyveil.errors import MechanismError
from keyveil.mechanisms.base import (
    Allocation,
    Answer,
    Ask,
    AsksEverybody,
    Calibration,
    Tick,
    Witness,
    check_size,
    record_codes,
)
from keyveil.mechanisms.channel import Exactness, Number
from keyveil.mechanisms.literature.harmony import Harmony
from keyveil.mechanisms.oracles import Bits, Response
from keyveil.report import Layout, Row, Symbol


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart(Calibration, AsksEverybody):
    """An oracle's answer about the sampled key or dummy (symbol n_keys), and a noisy sign of its value."""

    n_keys: int
    pairs_per_user: int
    oracle: Response | Bits
    sign: Harmony

    id: ClassVar[str] = "apart"
    allocations: ClassVar[tuple[Allocation, ...]] = (Allocation.NAIVE,)
    fields: ClassVar[tuple[str, ...]] = ("epsilon", "pairs_per_user")

    def __post_init__(self) -> None:
        check_size(self.n_keys, self.pairs_per_user)
        if self.oracle.n_symbols != self.n_keys + 1:
            raise MechanismError(
                f"{self.n_keys} keys and a dummy need as many symbols, got {self.oracle.n_symbols}"
            )

    @classmethod
    def _oracle(cls, epsilon: Fraction, n_symbols: int, word_bits: int) -> Response | Bits:
        raise TypeError("use one of KrrHarmony, RapporHarmony, OueHarmony")

    @classmethod
    def calibrate(cls, ask: Ask) -> Self:
        """Half of `epsilon` for the key, half for the sign."""
        half = ask.epsilon / 2
        return cls(
            n_keys=ask.n_keys,
            pairs_per_user=ask.pairs_per_user,
            oracle=cls._oracle(half, ask.n_keys + 1, ask.word_bits),
            sign=Harmony.for_epsilon(half, ask.word_bits),
        )

    # --- the kernel ---

    @property
    def word_bits(self) -> int:
        """The oracle's."""
        return self.oracle.word_bits

    @property
    def loss(self) -> Fraction:
        """Both halves together."""
        return self.oracle.loss * self.sign.loss

    def witness(self) -> Witness:
        """L keys held with +, against l others with -, when the answer speaks for the first only."""
        mine, others = self._sides()
        first, second = Record.of(dict.fromkeys(mine, 1.0)), Record.of(dict.fromkeys(others, -1.0))
        if isinstance(self.oracle, Response):
            return Witness(first, second, self._join(0, 1))
        return Witness(first, second, self._join([int(s in mine) for s in range(self.n_keys + 1)], 1))

    def _sides(self) -> tuple[range, range]:
        l = self.pairs_per_user
        return range(min(l, self.n_keys)), range(l, min(2 * l, self.n_keys))

    def answers(self) -> Iterator[Answer]:
        """Every answer about the key with both signs."""
        return (self._join(key, sign) for key in self.oracle.answers() for sign in (1, -1))

    def probability(self, answer: Answer, record: Record) -> Fraction:
        """Given the sampled pair, key and sign are independent."""
        key, sign = self._split(answer)
        return self._mix(record, sign, lambda symbol: self.oracle.probability(key, symbol))

    def lift(self, answer: Answer, record: Record) -> Fraction:
        """The oracle's lift times the sign's chance, mixed."""
        key, sign = self._split(answer)
        return self._mix(record, sign, lambda symbol: self.oracle.lift(key, symbol))

    def _mix(self, record: Record, sign: int, of_key: Callable[[int], Fraction]) -> Fraction:
        held, dummy = sampling_law(record, self.pairs_per_user, self.word_bits)
        slots = [(pair.code, pair.level, chance) for pair, chance in held] + [
            (self.n_keys, HALF_LEVEL, dummy)
        ]
        return sum(
            (c * of_key(symbol) * self.sign.row(level)[sign > 0] for symbol, level, c in slots if c),
            Fraction(0),
        )

    # --- the client's side ---

    @property
    def n_words(self) -> int:
        """Slot, rounding, sign, and the oracle's."""
        return 3 + self.oracle.n_words

    @property
    def layout(self) -> Layout:
        """The oracle's answer with the sign: twice the symbol and one for +, or one bit more."""
        if isinstance(self.oracle, Response):
            return Symbol(2 * self.oracle.n_symbols)
        return Row(self.oracle.n_symbols + 1, 2)

    def perturb(self, record: Record, words: Sequence[int]) -> Answer:
        """The oracle's answer and a sign."""
        slot, rounding, word = words[:3]
        sampled = sample_pair(record, self.pairs_per_user, slot, self.word_bits)
        symbol = sampled.code if sampled.code >= 0 else self.n_keys
        return self._join(
            self.oracle.perturb(symbol, words[3:]), self.sign.draw(sampled.level, rounding, word)
        )

    def _join(self, key: Answer, sign: int) -> Answer:
        return 2 * key + (sign > 0) if isinstance(self.oracle, Response) else (*key, int(sign > 0))

    def _split(self, answer: Answer) -> tuple[Answer, int]:
        """The oracle's answer, and +1 or -1."""
        key, up = divmod(answer, 2) if isinstance(self.oracle, Response) else (answer[:-1], answer[-1])
        return key, 1 if up else -1

    # --- the collector's side ---

    def ticks(self, answer: Answer) -> Iterator[Tick]:
        """The sign counts for every key that the answer supports."""
        key, sign = self._split(answer)
        for code in range(self.n_keys):
            yield "asked", (code,)
            if self.oracle.supports(key, code):
                yield ("plus" if sign > 0 else "minus"), (code,)

    def resembles(self, answer: Answer, witness: Witness) -> bool:
        """What the witness's answer says of both records' keys, and the sign."""
        (key, sign), (witness_key, witness_sign) = self._split(answer), self._split(witness.answer)
        return sign == witness_sign and all(
            self.oracle.supports(key, code) == self.oracle.supports(witness_key, code)
            for code in record_codes(witness)
        )

    @property
    def a(self) -> Fraction:
        """The oracle's."""
        return self.oracle.a

    @property
    def b(self) -> Fraction:
        """The oracle's."""
        return self.oracle.b

    def heard_mean(self, plus: Number, minus: Number, number: Exactness = float) -> Number:
        """What the baseline takes for the key's mean: that of all signs heard with it; 0 where none was."""
        heard = plus + minus
        return (plus - minus) / (heard + (heard == 0)) / number(2 * self.sign.p - 1)


class KrrHarmony(Apart):
    """Randomized response for the key.

    >>> KrrHarmony.for_epsilon(1, n_keys=3).oracle.n_symbols
    4
    """

    __slots__ = ()
    id: ClassVar[str] = "krr-harmony"

    @classmethod
    def _oracle(cls, epsilon: Fraction, n_symbols: int, word_bits: int) -> Response:
        return Response.for_epsilon(epsilon, n_symbols, word_bits)


class RapporHarmony(Apart):
    """Symmetric bits for the key.

    >>> round(float(RapporHarmony.for_epsilon(4, n_keys=3).oracle.a), 4)
    0.7311
    """

    __slots__ = ()
    id: ClassVar[str] = "rappor-harmony"

    @classmethod
    def _oracle(cls, epsilon: Fraction, n_symbols: int, word_bits: int) -> Bits:
        return Bits.sue(epsilon, n_symbols, word_bits)


class OueHarmony(Apart):
    """Optimised bits for the key.

    >>> float(OueHarmony.for_epsilon(4, n_keys=3).oracle.a)
    0.5
    """

    __slots__ = ()
    id: ClassVar[str] = "oue-harmony"

    @classmethod
    def _oracle(cls, epsilon: Fraction, n_symbols: int, word_bits: int) -> Bits:
        return Bits.oue(epsilon, n_symbols, word_bits)
