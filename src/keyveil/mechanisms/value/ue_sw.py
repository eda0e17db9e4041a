"""UE-SW: pad, sample one pair, and send for every key nothing or a noisy value on a grid.

The unary encoding of PCKV-UE with a square wave in place of the sign, so that a key's reports carry
the whole distribution of its values. The dummies' positions are sent too: sampled frequencies over
keys and dummies together sum to one, and the estimator uses that. A dummy has value 0, the low end.

The paper splits the budget so that the value's part is epsilon/2; the key gets all that the tight
composition leaves (their printed equation drops an exponential; corrected here by solving for the
fewest fakes in integers):

    near / far = e**(epsilon/2),  a = 1/2,  loss = max lift / min lift = e**epsilon

`naive` gives the key the other half alone, b = 1/(e**(epsilon/2) + 1), and so spends less than epsilon.

`extremal` is not the paper's. It gives the value all of epsilon and makes a far output no likelier than
silence, against a key that was not sampled:

    near / far = e**epsilon,  far / fake = own silence / others' silence,
    far / fake = 1 / (1 + (e**epsilon - 1) h),  h = 1/(e**epsilon + 1)

(h is the chance of a fake inside the window, at most 0.9 of the window's share of all outputs). A
report then says more of the value and, below epsilon 4, less of the key. `half_width` is w, the paper's
own if not given; `extremal` has 0.2, which serves distributions from epsilon 1 to 4 (0.15 to 0.25 differ
little; bench/distributions.py). Wider windows serve frequencies: 1/2 up to epsilon 2, 0.35 at 3.

`bins` is the grid of values; outputs are bins + 2 w bins numbers. Words: slot, dummy, then one per
key and dummy.

[UE-SW] Key-Value Data Collection with Distribution Estimation under Local Differential Privacy,
section 4 (their a, c, b, p, q are our a, b, w, near, far).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

from keyveil.domain import Record, pick, sample_pair, sampling_law, words_for
from keyveil.mechanisms.base import (
    Allocation,
    Ask,
    AsksEverybody,
    Calibration,
    ThroughChannel,
    Tick,
    Witness,
    check_size,
    record_codes,
)
from keyveil.mechanisms.moments import Moments
from keyveil.mechanisms.value_channel import ValueChannel
from keyveil.mechanisms.values import Window, bin_of
from keyveil.numerics import ceil_div, exp_below
from keyveil.report import ABSENT, Row

BINS = 64
EXTREMAL_HALF_WIDTH = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class UeSw(Calibration, ThroughChannel, AsksEverybody):
    """Padding-and-sampling, then for every key and dummy ABSENT or an output of the square wave.

    >>> m = UeSw.for_epsilon(1, n_keys=10, bins=64)
    >>> m.channel.window.n_out, round(float(m.channel.b), 2)
    (110, 0.32)
    """

    n_keys: int
    pairs_per_user: int
    channel: ValueChannel

    id: ClassVar[str] = "ue-sw"
    allocations: ClassVar[tuple[Allocation, ...]] = (
        Allocation.TIGHT,
        Allocation.NAIVE,
        Allocation.EXTREMAL,
    )
    options: ClassVar[Mapping[str, Any]] = {"bins": BINS, "half_width": None, "width": None}
    fields: ClassVar[tuple[str, ...]] = ("epsilon", "allocation", "pairs_per_user", "bins", "width")
    small_options: ClassVar[Mapping[str, Any]] = {"bins": 2}

    def __post_init__(self) -> None:
        check_size(self.n_keys, self.pairs_per_user)

    @classmethod
    def calibrate(cls, ask: Ask) -> Self:
        """The boldest instance of a split whose privacy loss is at most `epsilon`."""
        window, half = Window(n_in=ask.options["bins"], width=ask.options["width"]), ask.epsilon / 2
        if ask.allocation is Allocation.EXTREMAL:
            channel = ValueChannel.extremal(exp_below(ask.epsilon), window=window, word_bits=ask.word_bits)
        else:
            channel = ValueChannel.within(
                exp_below(ask.epsilon),
                window=window,
                value_odds=exp_below(half),
                reported=ask.words // 2,
                word_bits=ask.word_bits,
            )
        if ask.allocation is Allocation.NAIVE:
            fake = ceil_div(ask.words, (exp_below(half) + 1) * channel.window.n_out)
            channel = replace(channel, fake=fake)
        return cls(n_keys=ask.n_keys, pairs_per_user=ask.pairs_per_user, channel=channel)

    @classmethod
    def resolve(cls, ask: Ask) -> Ask:
        """The width of the window, in outputs."""
        half_width, bins = ask.options["half_width"], ask.options["bins"]
        if ask.options["width"] is not None:
            return ask
        if half_width is None and ask.allocation is not Allocation.EXTREMAL:
            window = Window.square_wave(ask.epsilon / 2, bins)
        else:
            window = Window.around(EXTREMAL_HALF_WIDTH if half_width is None else half_width, bins)
        return ask.resolved(width=window.width)

    # --- the kernel ---

    @property
    def n_padded(self) -> int:
        """Keys and dummies: the positions of a report."""
        return self.n_keys + self.pairs_per_user

    @property
    def bins(self) -> int:
        """How many bins a value may fall into."""
        return self.channel.window.n_in

    @property
    def loss(self) -> Fraction:
        """Max lift / min lift, as for signs; sampling gives no amplification."""
        lifts = self.channel.lifts()
        return max(lifts) / min(lifts)

    def witness(self) -> Witness:
        """L keys heard near their values, against l keys heard far from them, or l silent dummies."""
        l = min(self.pairs_per_user, self.n_keys)
        _, far, silent = self.channel.lifts()
        first = Record.of(dict.fromkeys(range(l), -1.0))
        answer = [ABSENT] * self.n_padded
        answer[:l] = [1] * l
        second = Record.of(dict.fromkeys(range(l), 1.0)) if far <= silent else Record.of({})
        return Witness(first, second, tuple(answer))

    def answers(self) -> Iterator[tuple[int, ...]]:
        """All rows of symbols."""
        return itertools.product(range(self.channel.window.n_out + 1), repeat=self.n_padded)

    def lift(self, answer: Sequence[int], record: Record) -> Fraction:
        """Pr[answer | record] relative to pure noise."""
        channel, l = self.channel, self.pairs_per_user
        held, dummy = sampling_law(record, l, self.word_bits)
        lift = Fraction(0)
        for pair, chance in held:
            symbol = answer[pair.code]
            lift += chance * channel.own(bin_of(pair.level, self.bins), symbol) / channel.other(symbol)
        for place in range(l):
            symbol = answer[self.n_keys + place]
            chance = dummy * Fraction(words_for(place, l, self.word_bits), channel.words)
            lift += chance * channel.own(0, symbol) / channel.other(symbol)
        return lift

    def probability(self, answer: Sequence[int], record: Record) -> Fraction:
        """Pr[answer | record]."""
        return self.lift(answer, record) * math.prod(self.channel.other(symbol) for symbol in answer)

    @property
    def moments(self) -> Moments:
        """Of frequencies; a sign is not reported."""
        a, b, l = float(self.a), float(self.b), self.pairs_per_user
        heard = b + (a - b) / l
        return Moments(
            frequency_noise=l * l * b * (1 - b) / (a - b) ** 2,
            frequency_owner=l * (1 - heard - b) / (a - b),
            signed_noise=math.inf,
            signed_owner=0.0,
            crossed=0.0,
        )

    # --- the client's side ---

    @property
    def n_words(self) -> int:
        """Slot, dummy, one per position."""
        return 2 + self.n_padded

    @property
    def layout(self) -> Row:
        """One symbol per position."""
        return Row(self.n_padded, self.channel.window.n_out + 1)

    def perturb(self, record: Record, words: Sequence[int]) -> tuple[int, ...]:
        """One symbol per key and dummy."""
        slot, dummy, *positions = words
        channel, bits = self.channel, self.word_bits
        answer = [channel.hear_other(word) for word in positions]
        sampled = sample_pair(record, self.pairs_per_user, slot, bits)
        padding = self.n_keys + pick(dummy, self.pairs_per_user, bits)
        code, level = (sampled.code, sampled.level) if sampled.code >= 0 else (padding, 0)
        answer[code] = channel.hear_own(bin_of(level, self.bins), positions[code])
        return tuple(answer)

    # --- the collector's side ---

    def ticks(self, answer: Sequence[int]) -> Iterator[Tick]:
        """One output bin of every position that is not silent."""
        for place, symbol in enumerate(answer):
            if symbol != ABSENT:
                yield "bins", (place, symbol - 1)

    def resembles(self, answer: Sequence[int], witness: Witness) -> bool:
        """The same kind of symbol where the witness looks: near the first record's values, or silent."""
        places = record_codes(witness)
        if not witness.second.pairs:
            places += range(self.n_keys, self.n_padded)
        near = self.channel.window.width
        return all(
            answer[place] == ABSENT if witness.answer[place] == ABSENT else 1 <= answer[place] <= near
            for place in places
        )
