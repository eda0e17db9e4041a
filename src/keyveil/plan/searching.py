"""How keys that nobody listed are searched for: how many bits at a time, by which part of the devices.

A search goes down a tree of prefixes, level by level. Each level asks a group of its own about `step` more
bits of the prefixes that are left, and keeps the best `kept` of those M that it decodes; a last group
measures what was found. Of M prefixes that nobody holds `kept` are kept, so noise decides where the cut is:

    z = Phi^-1(1 - kept/M),        se(f)^2 = variance(f) / (n share),        variance by the kernel

and a key of frequency f is found with the product over levels of Phi((f - z se(0)) / se(f)), times the
chance to pass the test of the last group. The frequency that is found with 90 % follows. What one level
leaves is shared evenly among the levels to come and the last group: a product of chances is largest where
all are alike.


"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from statistics import NormalDist

from keyveil.mechanisms import Bucket, PrefixBucket
from keyveil.mechanisms.hash.prefix_bucket import CELLS
from keyveil.mechanisms.moments import Moments
from keyveil.numerics import parse_epsilon

# Of so many prefixes a level decodes the counts: 2^22 of eight bytes, once or as often as there are heads.
ASKED_BITS = 22
# How many prefixes are kept at least and at most. Fewer are longer steps, more a lower cut: the frequency
# that is found differs by 3 % between 16 and 128, and is a tenth higher at 256 and 512, where 96 bits take a
# level more.
FEWEST_KEPT, MOST_KEPT = 64, 512
# Of the keys that may be as frequent as what is found, which are l/f, this part is kept: Zipf's law has a
# tenth of them.
KEPT_PART = Fraction(1, 4)
# Of the keys that are published this share is false, at most, on average over campaigns.
FALSE_SHARE = 0.05
# With this chance a key of the frequency that is said is found.
FOUND = 0.9
# A tally of prefixes has so many cells a report and unit of variance: users of one cohort share collisions,
# which add n sum(share^2) / (cells variance) to the variance, 5 % where the squares add up to a half.
CELLS_A_REPORT = 10
FEWEST_CELLS = 1 << 12

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One level: what is asked of which part of the devices."""

    bits: int
    """Of each key that devices say."""
    step: int
    """How many of them are new, or asked about anew."""
    heads: int
    """How many prefixes they follow."""
    share: Fraction

    @property
    def prefixes(self) -> int:
        """How many are decoded."""
        return self.heads << self.step


@dataclass(frozen=True, kw_only=True)
class Search:
    """A search for keys of so many bits.

    >>> search = Search.of(epsilon=4, longest=96, pairs_per_user=5, users=1_000_000)
    >>> [level.bits for level in search.levels()], search.kept
    ([22, 37, 52, 67, 82, 96], 128)
    >>> round(search.detectable(), 3)
    0.011
    """

    epsilon: Fraction
    longest: int
    pairs_per_user: int
    users: int
    kept: int

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, *, epsilon: object, longest: int, pairs_per_user: int, users: int) -> Search:
        """The one that keeps as many prefixes as there may be keys of what it finds."""
        least = cls(
            epsilon=parse_epsilon(epsilon),
            longest=longest,
            pairs_per_user=pairs_per_user,
            users=users,
            kept=FEWEST_KEPT,
        )
        wanted = float(KEPT_PART) * pairs_per_user / least.detectable()
        kept = 1 << (math.ceil(wanted) - 1).bit_length()
        return replace(least, kept=min(MOST_KEPT, max(FEWEST_KEPT, kept)))

    # --- the schedule ---

    def step_after(self, bits: int, heads: int) -> int:
        """How many bits are asked about at once, behind so many prefixes of so many."""
        return min(self.longest - bits, max(1, ASKED_BITS - (heads - 1).bit_length()))

    def next_level(self, bits: int, heads: int, left: Fraction) -> Level:
        """What follows prefixes of so many bits, where this part of the devices was not asked yet."""
        step = self.step_after(bits, heads)
        to_come = -(-(self.longest - bits - step) // max(1, self.step_after(0, self.kept)))
        return Level(bits=bits + step, step=step, heads=heads, share=left / (to_come + 2))

    def levels(self) -> list[Level]:
        """All levels, if every key has all its bits and every level keeps as many as it may."""
        made: list[Level] = []
        while not made or made[-1].bits < self.longest:
            left = 1 - sum((level.share for level in made), Fraction(0))
            made.append(self.next_level(made[-1].bits if made else 0, self.kept if made else 1, left))
        return made

    @property
    def left(self) -> Fraction:
        """The share of the users that all levels leave: they measure."""
        return 1 - sum((level.share for level in self.levels()), Fraction(0))

    def mechanism(self, level: Level) -> PrefixBucket:
        """What a level asks with."""
        asked = CELLS_A_REPORT * self.users * float(level.share) / self.noise(0.0)
        cells = 1 << max(0, math.ceil(asked) - 1).bit_length()
        return PrefixBucket.for_epsilon(
            self.epsilon,
            n_keys=1 << self.longest,
            pairs_per_user=self.pairs_per_user,
            bits=level.bits,
            step=level.step,
            cells=min(CELLS, max(FEWEST_CELLS, cells)),
        )

    def measuring(self, n_keys: int) -> Bucket:
        """What the last group is asked with."""
        return Bucket.for_epsilon(self.epsilon, n_keys=n_keys, pairs_per_user=self.pairs_per_user)

    # --- what it finds ---

    def noise(self, frequency: float) -> float:
        """The variance of one report about a prefix of this frequency, at any level: only hashes differ."""
        a, b = self._told
        return (frequency * a * (1 - a) + (1 - frequency) * b * (1 - b)) / (a - b) ** 2

    @cached_property
    def _told(self) -> tuple[float, float]:
        size, l = 1 << self.longest, self.pairs_per_user
        kernel = PrefixBucket.for_epsilon(self.epsilon, n_keys=size, pairs_per_user=l, cells=1)
        return float(kernel.a), float(kernel.b)

    @cached_property
    def _measured(self) -> Moments:
        return self.measuring(1 << self.longest).moments

    def chance(self, frequency: float) -> float:
        """How likely a key of this frequency is found."""
        levels = self.levels()
        passed = self.passes(frequency, float(self.left) * self.users, self.kept)
        for level in levels:
            users = max(1.0, self.users * float(level.share))
            cut = self.above_noise(cut_of(level.prefixes, self.kept), users)
            passed *= self.kept_chance(frequency, users, cut)
        return passed

    def above_noise(self, z: float, users: float) -> float:
        """The frequency that noise about so many reports exceeds as rarely as a normal number exceeds z.

        A support is a binomial number of small chance, and further up than a normal one (Cornish, Fisher).
        """
        _, b = self._told
        return skewed(z, (1 - 2 * b) / math.sqrt(users * b * (1 - b))) * math.sqrt(self.noise(0.0) / users)

    def kept_chance(self, frequency: float, users: float, cut: float) -> float:
        """How likely so many reports put a prefix of this frequency above a cut."""
        error = math.sqrt(self.noise(min(1.0, frequency)) / users)
        return _NORMAL.cdf((frequency - cut) / error)

    def passes(self, frequency: float, users: float, tested: int) -> float:
        """How likely a key passes the test of the last group, as the only one of so many that does."""
        users, spread = max(1.0, users), self._measured
        cut = surely(tested) * math.sqrt(spread.frequency_noise / users)
        error = math.sqrt(spread.covariance(min(1.0, frequency), 0.0, users).frequency)
        return _NORMAL.cdf((frequency - cut) / error)

    def error(self, frequency: float) -> float:
        """The standard error of a found key's frequency: of the last group's noise, and of who is in it."""
        users = max(1.0, float(self.left) * self.users)
        return math.sqrt(
            self._measured.covariance(frequency, 0.0, users).frequency + frequency * (1 - frequency) / users
        )

    def detectable(self, chance: float = FOUND) -> float:
        """The least frequency that is found with this chance; above 1 where nothing is."""
        return least_frequency(self.chance, chance)


def cut_of(prefixes: int, kept: int) -> float:
    """Above how many standard errors noise alone keeps so many of so many prefixes.

    >>> round(cut_of(1 << 22, 256), 2)
    3.84
    """
    return _NORMAL.inv_cdf(1 - min(0.5, kept / prefixes))


def skewed(z: float, skewness: float) -> float:
    """How many standard errors a skewed number exceeds as rarely as a normal one exceeds z.

    >>> round(skewed(4.0, 0.1), 2)
    4.25
    """
    return z + (z * z - 1) * skewness / 6


def unskewed(errors: float, skewness: float) -> float:
    """The normal number that is exceeded as rarely as a skewed one exceeds so many standard errors.

    >>> round(unskewed(skewed(4.0, 0.1), 0.1), 6), unskewed(-1e6, 0.1) < -2
    (4.0, True)
    """
    k = skewness / 6
    return (math.sqrt(max(0.0, 1 + 4 * k * (k + errors))) - 1) / (2 * k) if k > 0 else errors


def surely(tested: int) -> float:
    """Above how many standard errors none of so many prefixes that nobody holds lies, but in one of twenty.

    >>> round(surely(1 << 22), 2)
    5.58
    """
    return _NORMAL.inv_cdf(1 - FALSE_SHARE / max(1, tested))


def least_frequency(chance_of: Callable[[float], float], chance: float) -> float:
    """Where a chance that grows with the frequency reaches this one; 2 where it never does.

    >>> round(least_frequency(lambda f: f, 0.9), 6)
    0.9
    """
    low, high = 0.0, 1.0
    if chance_of(high) < chance:
        return 2.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if chance_of(middle) >= chance else (middle, high)
    return high
