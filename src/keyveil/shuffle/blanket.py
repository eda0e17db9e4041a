"""The privacy blanket: the part of every report that says nothing of its sender.

Let low(y) be at most the least chance of the answer y under any record, gamma = sum low(y), and E at least
the largest ratio P(y)/low(y) under any record. Another user's report is then, with chance gamma, a draw from
the blanket low/gamma, whatever the user holds. If it is known besides which reports are, what a collector
can tell between two records P and P' of one user is, for n users, exactly [Blanket, Lemma 5.3]

    delta(epsilon) = E[(L_1 + ... + L_M)+] / (gamma n),    M ~ Bin(n, gamma),
    L(y) = gamma (P(y) - e**epsilon P'(y)) / low(y),       y drawn from the blanket.

That is convex in (P, P'), so over all P and P' between low and E low that sum to 1 it is largest at an
extreme pair: P is E low on answers that make up a part phi of the blanket and low elsewhere, P' the same on
others,

    gamma (phi E + 1 - phi) = 1.

The more of both parts is common the less spread is L (two answers change sides: the sum stays, the larger
grows and the smaller shrinks), so the worst pair has nothing in common. L has then three values, and the law
of their sum, the bound and all that follows depends on gamma, E and n alone, for every pair of records, any
hash, any number of pairs:

    gamma (E - e**epsilon), gamma (1 - E e**epsilon), each with chance phi, and gamma (1 - e**epsilon)

`bucket` of g buckets: low(y) is the least chance of a bucket of any row; the worst pair own j0 buckets each,
none in common, and phi = j0/g up to a word. With one pair a user the two buckets follow from a hash, which
is taken to be ideal, so that they are one with chance 1/g (65,536 cohorts miss that by a part in a hundred
at most); with several pairs nothing is assumed of the hash.

The sum's law is made on a grid by one FFT. A value between two points is split between them so that its mean
stays, which only spreads it, and so only raises delta; what lies beyond the grid is bounded by Chernoff's
inequality and added.

Among all ways to decompose the others' reports this one is the best [Su]. Where the others' records have
nothing in common with either, reports that are no blanket might as well be marked, but for answers that say
nothing of P and P' anyway. Leaving that mark out, as the variation ratio of [Wang] does, is then a lower
bound and not an upper one: tests/shuffle/test_exact.py has a pair of records of four answers, and
bench/shuffle.py shows how near it is.

[Blanket] Balle, Bell, Gascon, Nissim: The Privacy Blanket of the Shuffle Model, CRYPTO 2019.
[Su] Su, Cheng, Wang: Decomposition-Based Optimal Bounds for Privacy Amplification via Shuffling, arXiv
2504.07414, which has the FFT, too.
[Wang] Wang et al.: Privacy Amplification via Shuffling: Unified, Simplified, and Tightened, arXiv 2304.05007.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import singledispatch
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.mechanisms import (
    Bits,
    Bucket,
    EncodedOracle,
    Hashed,
    IndexedBoundary,
    Mechanism,
    Response,
    SampledIndex,
    Selection,
    SignedResponse,
    SignedUnary,
    UeSw,
    Wave,
)
from keyveil.shuffle.clones import by_clones
from keyveil.shuffle.smallest import CUT, DELTA, check, smallest

Floats = NDArray[np.float64]

# A step of the grid, in standard deviations of one L: splitting adds a part in 2,500 to the variance at most.
_STEP = 0.04
# And of the sum: no more points than a hundred thousand a deviation.
_FINEST = 1e-5
# The grid's ends are looked for in steps of this factor.
_FARTHER = 1.1
# Rounding errors of an FFT, a point of the grid.
_ROUNDING = 1e-16


class Blanket(NamedTuple):
    """How much of every report says nothing, and how much more often than so an answer may be sent."""

    mass: float
    odds: float
    met: float = 0.0
    """The part of what one record sends more often that the other does, too."""

    @property
    def likely(self) -> float:
        """The part of the blanket that the worst record sends `odds` times as often."""
        return min(1.0, (1 / self.mass - 1) / (self.odds - 1))

    def advantages(self, epsilon: float) -> tuple[Floats, Floats]:
        """What an answer of the blanket speaks for one record and against another, and with which chances.

        >>> values, chances = Blanket(mass=0.5, odds=5.0).advantages(0.0)
        >>> values.tolist(), chances.tolist()
        ([0.0, 2.0, -2.0, 0.0], [0.0, 0.25, 0.25, 0.5])
        """
        E, grown, likely = self.odds, math.exp(epsilon), self.likely
        both = max(2 * likely - 1, likely * self.met)
        values = self.mass * np.array([E * (1 - grown), E - grown, 1 - E * grown, 1 - grown])
        return values, np.array([both, likely - both, likely - both, 1 - 2 * likely + both])


def by_blanket(blanket: Blanket, users: int, delta: float = DELTA) -> float:
    """The smallest epsilon, to four digits, that the blanket gives.

    >>> from keyveil.mechanisms import build
    >>> round(by_blanket(blanket_of(build("bucket", 4, n_keys=100)), 100_000), 3)
    0.081
    """
    local = math.log(blanket.odds)
    check(local, users, delta)
    # The clones hold for every mechanism, so there is no need to look above them.
    at_most = by_clones(local, users, delta)
    return smallest(lambda epsilon: blanket_delta(blanket, users, epsilon), at_most, delta)


def blanket_delta(blanket: Blanket, users: int, epsilon: float) -> float:
    """E[(sum of M advantages)+] / (gamma n) on a grid; an upper bound."""
    from scipy.fft import irfft, next_fast_len, rfft

    values, chances = blanket.advantages(epsilon)
    if values.max() <= 0:
        return CUT
    gamma = blanket.mass
    count = gamma * users
    deviation = math.sqrt(float(chances @ values**2))
    spread = deviation * math.sqrt(count)
    grows, falls = (_Tail(side * values, chances, gamma, users) for side in (1, -1))
    if (beyond := grows.beyond(0.0) / count) < CUT:
        return beyond + CUT
    above = below = spread
    while grows.beyond(above) / count > CUT:
        above *= _FARTHER
    # What lies below the grid comes out on top of it, which is safe, and is rare here.
    while below < above or falls.beyond(below) / count > CUT:
        below *= _FARTHER
    step = max(_STEP * deviation, _FINEST * spread)
    size = next_fast_len(int((above + below) / step) + 2)
    one = np.zeros(size)
    for value, chance in zip(values, chances, strict=True):
        lower, part = divmod(value / step, 1.0)
        one[int(lower) % size] += chance * (1 - part)
        one[int(lower + 1) % size] += chance * part
    many = irfft((1 - gamma + gamma * rfft(one)) ** users, size)
    total = np.arange(int(above / step) + 1) * step
    found = float(total @ np.maximum(many[: total.size], 0.0)) + _ROUNDING * float(total.sum())
    return min(1.0, found / count + 3 * CUT)


class _Tail:
    """The sum's exponential moments, and what they say of its upper tail."""

    def __init__(self, values: Floats, chances: Floats, gamma: float, users: int) -> None:
        most = float(values.max())
        spread = math.sqrt(gamma * users * float(chances @ values**2))
        self._t = np.geomspace(1e-3 / spread, 60 / most, 400)
        rises = np.expm1(self._t[:, None] * values[None, :]) @ chances
        self._log = users * np.log1p(gamma * rises)

    def beyond(self, place: float) -> float:
        """At least E[sum; sum > place]: x <= e**(t (x - m)) m with m = max(place, 1/t), for all x."""
        at = np.maximum(place, 1 / self._t)
        return float(np.exp(np.min(self._log - self._t * at + np.log(at))))


@singledispatch
def blanket_of(mechanism: Mechanism) -> Blanket | None:
    """The blanket of a mechanism's reports, in exact arithmetic up to here; None where none is known."""
    return None


@blanket_of.register
def _(mechanism: Bucket) -> Blanket:
    g, words = mechanism.buckets, mechanism.words
    rests = []
    for owned in range(1, min(mechanism.pairs_per_user, g) + 1):
        rest = words - owned * mechanism.own(owned)
        rests.append(rest // (g - owned) if owned < g else words // g)
    alone = mechanism.pairs_per_user == 1 and mechanism.tie == 0
    mass = Fraction(g * min(rests), words)
    return Blanket(float(mass), float(mechanism.loss), met=1 / g if alone else 0.0)


@blanket_of.register
def _(mechanism: SampledIndex) -> Blanket:
    """Of a key each answer is least likely under one of three rows; keys are drawn whatever is held."""
    c = mechanism.channel
    rows = (
        (c.own_absent, c.keep, c.flip),
        (c.own_absent, c.flip, c.keep),
        (c.other_absent, c.fake, c.fake),
    )
    least = [min(column) for column in zip(*rows, strict=True)]
    return Blanket(sum(least) / c.words, float(mechanism.loss))


@blanket_of.register
def _(mechanism: IndexedBoundary) -> Blanket:
    c = mechanism.channel
    least = min(c.own_absent, c.other_absent) + c.window.n_out * min(c.far, c.fake)
    return Blanket(least / c.words, float(mechanism.loss))


@blanket_of.register
def _(mechanism: SignedResponse) -> Blanket:
    """Who holds other keys tells a symbol by chance, and no other way is rarer."""
    c = mechanism.channel
    return Blanket(2 * mechanism.n_padded * c.fake / c.words, float(mechanism.loss))


@blanket_of.register
def _(mechanism: SignedUnary) -> Blanket:
    """A dummy's position is not sent: its report is pure noise."""
    own, other = mechanism.channel.own(Fraction(1)), mechanism.channel.other()
    return _of_lifts([Fraction(1), *(mine / noise for mine, noise in zip(own, other, strict=True))])


@blanket_of.register
def _(mechanism: UeSw) -> Blanket:
    return _of_lifts(mechanism.channel.lifts())


@blanket_of.register
def _(mechanism: EncodedOracle) -> Blanket | None:
    """The oracle's: an encoder only mixes symbols."""
    match mechanism.oracle:
        case Response() as response:
            return _of_response(response)
        case Hashed(response=response):
            return _of_response(response)
        case Bits() as bits:
            return _of_lifts([bits.a / bits.b, (1 - bits.a) / (1 - bits.b)])
        case Wave(response=wave):
            return Blanket(wave.window.n_out * wave.far / (1 << wave.word_bits), float(wave.loss))
        case Selection() as sets:
            named = math.comb(sets.n_symbols, sets.chosen) * sets.lie + sets.spare
            return Blanket(float(Fraction(named, sets.numbers)), float(sets.loss))
    return None


def _of_response(response: Response) -> Blanket:
    return Blanket(float(response.n_symbols * response.b), float(response.loss))


def _of_lifts(lifts: Iterable[Fraction]) -> Blanket:
    """Of answers that are pure noise times a mean of these lifts."""
    tried = sorted(lifts)
    return Blanket(float(tried[0]), float(tried[-1] / tried[0]))
