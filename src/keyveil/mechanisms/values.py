"""Value mechanisms: one value on a grid in, one number of a grid out, nothing about keys.

Floats are not sent. A value in [-1, 1] is one of n_in bins; the square wave and the piecewise
mechanism become windows: of n_out output numbers, the `width` that start at start(i) = i * step are
`near` words likely each, all others `far`:

    near * width + far * (n_out - width) = all words,    n_out = width + step * (n_in - 1),
    loss = near / far exactly, and the mean output is affine in i, so it can be undone.

    square wave   window half-width w of the value's range, chosen for the distribution
    piecewise     window 1/(e**(epsilon/2) + 1) of the output's range, chosen for the mean

The gridded kernels are cousins of the continuous ones, not samples of them: their epsilon is that
of the integers.

[SW] Li, Wang, Lopuhaa-Zwakenberg, Skoric, Li: Estimating Numerical Distributions under Local
Differential Privacy, SIGMOD 2020 (their b is our w). [PM] Wang et al.: Collecting and Analyzing
Multidimensional Data with Local Differential Privacy, ICDE 2019.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from keyveil.domain.record import FULL_LEVEL
from keyveil.errors import MechanismError
from keyveil.numerics import WORD_BITS, ceil_div, exp_below, parse_epsilon

# More outputs than any distribution needs.
MOST_OUTPUTS = 1 << 20


def bin_of(level: int, bins: int) -> int:
    """The bin that holds a value, given as a level out of 2**64.

    >>> bin_of(0, 4), bin_of(FULL_LEVEL // 2, 4), bin_of(FULL_LEVEL, 4)
    (0, 2, 3)
    """
    return min(bins - 1, level * bins // FULL_LEVEL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Where the likelier outputs of each input bin lie."""

    n_in: int
    width: int
    step: int = 1

    def __post_init__(self) -> None:
        if self.n_in < 2:
            raise MechanismError(f"bins must be at least 2, got {self.n_in}; one bin holds no value")
        if self.width < 1 or self.step < 1:
            raise MechanismError("a window is at least one output wide and moves by at least one")
        if self.n_out > MOST_OUTPUTS:
            raise MechanismError(f"expected at most {MOST_OUTPUTS} outputs, got {self.n_out}; use fewer bins")

    @property
    def n_out(self) -> int:
        """How many outputs there are."""
        return self.width + self.step * (self.n_in - 1)

    def is_near(self, bin_in: int, bin_out: int) -> bool:
        """Whether an output lies in the window of an input."""
        return 0 <= bin_out - self.step * bin_in < self.width

    def pick_near(self, bin_in: int, place: int) -> int:
        """The `place`-th output inside the window."""
        return self.step * bin_in + place

    def pick_far(self, bin_in: int, place: int) -> int:
        """The `place`-th output outside it."""
        start = self.step * bin_in
        return place if place < start else place + self.width

    @classmethod
    def square_wave(cls, epsilon: Fraction, n_in: int) -> Window:
        """The window whose half-width best serves distributions at `epsilon`."""
        return cls.around(square_wave_half_width(float(epsilon)), n_in)

    @classmethod
    def around(cls, half_width: float, n_in: int) -> Window:
        """The window that reaches `half_width` of the value's range either side.

        >>> Window.around(0.25, 64)
        Window(n_in=64, width=33, step=1)
        """
        if not 0 < half_width <= 1:
            raise MechanismError(f"half_width must be above 0 and at most 1, got {half_width}")
        return cls(n_in=n_in, width=2 * round(half_width * n_in) + 1)

    @classmethod
    def piecewise(cls, epsilon: Fraction, n_in: int) -> Window:
        """The window that best serves means at `epsilon`."""
        return cls(n_in=n_in, width=max(1, round((n_in - 1) / math.exp(float(epsilon) / 2))))


def square_wave_half_width(epsilon: float) -> float:
    """The half-width w that maximises what an output tells about the input.

    >>> round(square_wave_half_width(0.5), 6), round(square_wave_half_width(1e-9), 3)
    (0.358155, 0.5)
    """
    if epsilon < 1e-3:
        return (1 - 2 * epsilon / 3 + 2 * epsilon**2 / 9) / 2
    E = math.exp(epsilon)
    return (epsilon * E - E + 1) / (2 * E * (E - epsilon - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowResponse:
    """Near outputs, far outputs, nothing else: the square wave or the piecewise mechanism on a grid."""

    window: Window
    near: int
    far: int
    word_bits: int = WORD_BITS

    def __post_init__(self) -> None:
        if self.far < 1 or self.spare < 0 or self.near < self.far + self.spare:
            raise MechanismError("near and far outputs must share the words, near ones having more")

    @classmethod
    def square_wave(cls, epsilon: object, bins: int, word_bits: int = WORD_BITS) -> Self:
        """The square wave at `epsilon`."""
        budget = parse_epsilon(epsilon)
        return cls.filled(Window.square_wave(budget, bins), exp_below(budget), word_bits)

    @classmethod
    def piecewise(cls, epsilon: object, bins: int, word_bits: int = WORD_BITS) -> Self:
        """The piecewise mechanism at `epsilon`.

        >>> m = WindowResponse.piecewise(1, bins=9)
        >>> m.window.width, m.loss <= exp_below(Fraction(1))
        (5, True)
        """
        budget = parse_epsilon(epsilon)
        return cls.filled(Window.piecewise(budget, bins), exp_below(budget), word_bits)

    @classmethod
    def filled(cls, window: Window, E: Fraction, word_bits: int = WORD_BITS) -> Self:
        """The most truthful response with this window whose loss is at most E."""
        words, outside = 1 << word_bits, window.n_out - window.width
        far = ceil_div(words, window.width * E + outside)
        near = (words - outside * far) // window.width
        return cls(window=window, near=near, far=far, word_bits=word_bits)

    # --- the kernel ---

    @property
    def spare(self) -> int:
        """Words that the window's width does not divide; they add to the last far output."""
        outside = self.window.n_out - self.window.width
        return (1 << self.word_bits) - self.near * self.window.width - self.far * outside

    def row(self, bin_in: int) -> list[Fraction]:
        """Pr[output | input bin]."""
        words = 1 << self.word_bits
        last = self.window.pick_far(bin_in, self.window.n_out - self.window.width - 1)
        return [
            Fraction(
                self.near if self.window.is_near(bin_in, out) else self.far + self.spare * (out == last),
                words,
            )
            for out in range(self.window.n_out)
        ]

    @property
    def loss(self) -> Fraction:
        """Near / far; the spare words only bring a far output closer to a near one."""
        return Fraction(self.near, self.far)

    def draw(self, bin_in: int, word: int) -> int:
        """The output for an input bin."""
        window = self.window
        if word < self.near * window.width:
            return window.pick_near(bin_in, word // self.near)
        place = (word - self.near * window.width) // self.far
        return window.pick_far(bin_in, min(place, window.n_out - window.width - 1))

    # --- the collector's side ---

    def debias(self, mean_output: Fraction) -> Fraction:
        """The mean input bin behind a mean output number; exact but for the spare words."""
        window, words = self.window, 1 << self.word_bits
        total = Fraction(window.n_out * (window.n_out - 1), 2)
        slope = Fraction((self.near - self.far) * window.width, words)
        centre = (mean_output - Fraction(self.far, words) * total) / slope
        return (centre - Fraction(window.width - 1, 2)) / window.step
