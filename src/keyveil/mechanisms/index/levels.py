"""levels: one key asked, in clear; absent or one of a few levels of its value, by randomized response.

`kvue` tells a value by a sign. Rounding to a sign costs a variance of 1 - v**2 whatever the budget, and
where a key is asked of few users that is most of the error of its mean. With L levels from -1 to 1 the
rounding costs at most 1/(L - 1)**2; the price is L - 1 more lies for the key to be mistaken for. Worth it
for generous budgets: at epsilon 4 three levels cost frequencies of popular keys next to nothing.

    keep : lie = e**epsilon : 1 over {absent, level 1, ..., level L}

so that, x being the levels (they sum to 0), with c reports of each level among N asked,

    f = (sum c / N - b) / (a - b),  b = L lie,  a = keep + (L - 1) lie,        S = sum x c / (N (keep - lie)).

Words: index, level, response.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar, Self

from keyveil.mechanisms.base import Allocation, Ask
from keyveil.mechanisms.channel import Exactness, Number, share
from keyveil.mechanisms.index.boundary import IndexedBoundary
from keyveil.mechanisms.moments import Moments
from keyveil.mechanisms.value_channel import ValueChannel
from keyveil.mechanisms.values import Window
from keyveil.numerics import ceil_div, exp_below

LEVELS = 3


class Levels(IndexedBoundary):
    """An index in clear, and ABSENT or a level about its key.

    >>> m = Levels.for_epsilon(4, n_keys=100, bins=4)
    >>> m.layout.size, round(float(m.a), 4), round(float(m.b), 4)
    (500, 0.9829, 0.0683)
    """

    __slots__ = ()
    id: ClassVar[str] = "levels"
    allocations: ClassVar[tuple[Allocation, ...]] = (Allocation.OPTIMAL,)
    options: ClassVar[Mapping[str, Any]] = {"bins": LEVELS}

    @classmethod
    def calibrate(cls, ask: Ask) -> Self:
        """Randomized response over absent and the levels; l plays no part."""
        bins = ask.options["bins"]
        lie = ceil_div(ask.words, exp_below(ask.epsilon) + bins)
        channel = ValueChannel(
            window=Window(n_in=bins, width=1),
            near=ask.words - bins * lie,
            far=lie,
            fake=lie,
            word_bits=ask.word_bits,
        )
        return cls(n_keys=ask.n_keys, channel=channel)

    @property
    def moments(self) -> Moments:
        """For values at the ends of their range; between them rounding costs less than is counted."""
        a, b, channel = float(self.a), float(self.b), self.channel
        slope = (channel.near - channel.far) / channel.words
        squares = sum((2 * place / (self.bins - 1) - 1) ** 2 for place in range(self.bins))
        return Moments(
            frequency_noise=b * (1 - b) / (a - b) ** 2,
            frequency_owner=(1 - a - b) / (a - b),
            signed_noise=channel.fake / channel.words * squares / slope**2,
            signed_owner=1 / slope - 1,
            crossed=(1 - a) / (a - b),
            drawn=1.0 - 1.0 / self.n_keys,
        )

    def debias(
        self, plus: Number, minus: Number, asked: Number, number: Exactness = float
    ) -> tuple[Number, Number]:
        """Unbiased frequency, and frequency * mean; a level x counts (1 + x)/2 for + and the rest for -."""
        slope = number(Fraction(self.channel.near - self.channel.far, self.channel.words))
        return share(number(self.a), number(self.b), plus + minus, asked), (plus - minus) / asked / slope

    def expected_asked(self, users: Number, number: Exactness = float) -> Number:
        """One report in d speaks of a key."""
        return users * number(Fraction(1, self.n_keys))
