"""How unsure the two linear estimates of a key are: its frequency f and its signed share S = f m.

Every report adds to a key's two sums independently of the others, so variances are linear in the
number of holders. With n reports that could speak of the key, for records of at most l pairs,

    n Var f      = frequency_noise + frequency_owner f                  + drawn f (1 - f)
    n Var S      = signed_noise    + (signed_owner + 1 - m**2) f        + drawn f (m**2 - f m**2)
    n Cov(f, S)  = crossed f m                                          + drawn f m (1 - f)

The first column is what everybody's noise costs, the second what a holder adds (given the sign that
their value was rounded to, plus that rounding), the third is there where only some users are asked
about a key: holders are then a sample. E[v**2] is not known to the collector; m**2, its least
possible value, stands in for it, which makes Var S an upper bound.

Two keys' frequencies are never independent. With f_jk the share of users who hold both,

    n Cov(f_j, f_k) = - apart**2 - apart (f_j + f_k) - together f_jk

unary      apart 0, together 1: given the sampled pair all positions are independent, and of two held
           pairs only one is sampled
response   apart l b / (a - b), together 1: a report that names one key does not name another
bucket     apart 0: what a report says of two keys depends on both hashes only where both are held;
           together (T**2 - T'/g) / (T - 1/g)**2, T' the chance of an own bucket when two pairs share one
index      -(f_jk - f_j f_k) / (n - 1), which may be positive; apart 0 and together 1 bound it from below

f_jk is not known to the collector. It is at most the smaller of the two frequencies, which bounds
the variance of a difference from above.

These numbers are all that intervals, shrinkage and the planner know of a mechanism.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from keyveil.mechanisms.channel import Channel, Number


class Covariance(NamedTuple):
    """Of the frequency, of the signed share, and between them."""

    frequency: Number
    signed: Number
    crossed: Number

    def of_mean(self, frequency: Number, mean: Number) -> Number:
        """First-order variance of signed / frequency."""
        spread = self.signed - 2 * mean * self.crossed + mean**2 * self.frequency
        return spread / frequency**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """What n reports leave unknown of a key.

    >>> from keyveil.mechanisms import build
    >>> build("ks-ue", 1, n_keys=10).moments.frequency_noise.__round__(2)
    7.37
    """

    frequency_noise: float
    frequency_owner: float
    signed_noise: float
    signed_owner: float
    crossed: float
    drawn: float = 0.0
    apart: float = 0.0
    together: float = 1.0

    @classmethod
    def through(cls, channel: Channel, l: int, drawn: float = 0.0) -> Moments:
        """Of a per-key channel behind sampling one of l slots."""
        a, b, slope = float(channel.a), float(channel.b), float(channel.a * (2 * channel.p - 1))
        heard = b + (a - b) / l
        return cls(
            frequency_noise=l * l * b * (1 - b) / (a - b) ** 2,
            frequency_owner=l * (1 - heard - b) / (a - b),
            signed_noise=l * l * b / slope**2,
            signed_owner=l * (a - b) / slope**2 - 1,
            crossed=l * (1 - heard) / (a - b),
            drawn=drawn,
        )

    def covariance(self, frequency: Number, mean: Number, asked: Number) -> Covariance:
        """With `asked` reports that could speak of a key of this frequency and mean."""
        f, m = frequency, mean
        sampled = self.drawn * f * (1 - f)
        return Covariance(
            (self.frequency_noise + self.frequency_owner * f + sampled) / asked,
            (self.signed_noise + (self.signed_owner + 1 - m**2) * f + sampled * m**2) / asked,
            (self.crossed * f * m + sampled * m) / asked,
        )

    def rivalry(self, first: Number, second: Number) -> Number:
        """The most that -n Cov of two keys' frequencies can be: every holder of the rarer holds both."""
        rarer = (first + second - abs(first - second)) / 2
        return self.apart**2 + self.apart * (first + second) + self.together * rarer
