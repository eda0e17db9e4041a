"""PCKV-UE: pad, sample one pair, and send a noisy trit for every key.

The sampled key is reported half of the time (a = 1/2), every other key with chance b. The sign of a
reported sampled key is kept with chance p. The two losses do not add up: with e1 the key's odds
a (1 - b) / (b (1 - a)) and e2 = p / (1 - p), the tight loss is

    max(e2, e1 * 2 e2 / (e2 + 1)),

so a sign budget of epsilon costs the key only ln 2/(1 + e**-epsilon). At E = e**epsilon:

    optimal   p = E / (E + 1),       b = 2 / (E + 3)          (their Lemma 2)
    tight     p from epsilon / 2,    b from what is left       (their eq. 21)
    naive     p and b from epsilon / 2 each: spends less than epsilon

[PCKV] Gu, Li, Cheng, Xiong, Cao: PCKV: Locally Differentially Private Correlated Key-Value Data
Collection with Optimized Utility, USENIX Security 2020, Algorithms 2 and 4 (their output also
carries the dummies' positions; nobody reads them).
"""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Self

from keyveil.mechanisms.base import Allocation, Ask
from keyveil.mechanisms.channel import Channel
from keyveil.mechanisms.trits.unary import SignedUnary
from keyveil.numerics import ceil_div, exp_below


class PckvUe(SignedUnary):
    """Signed unary encoding with a = 1/2.

    >>> m = PckvUe.for_epsilon(1, n_keys=100, pairs_per_user=2)
    >>> round(float(m.channel.b), 6), round(float(m.channel.p), 6)
    (0.349755, 0.731059)
    """

    __slots__ = ()
    id: ClassVar[str] = "pckv-ue"
    allocations: ClassVar[tuple[Allocation, ...]] = (Allocation.OPTIMAL, Allocation.TIGHT, Allocation.NAIVE)
    fields: ClassVar[tuple[str, ...]] = ("epsilon", "allocation", "pairs_per_user")

    @classmethod
    def calibrate(cls, ask: Ask) -> Self:
        """The most truthful instance whose privacy loss is at most `epsilon`."""
        E, half = exp_below(ask.epsilon), exp_below(ask.epsilon / 2)
        sign_odds = E if ask.allocation is Allocation.OPTIMAL else half
        words, reported = ask.words, ask.words // 2
        keep = int(reported * sign_odds / (sign_odds + 1))
        if ask.allocation is Allocation.NAIVE:
            fake = ceil_div(words, 2 * (half + 1))
        else:
            fake = smallest_fake(E, keep=keep, absent=words - reported, words=words)
        channel = Channel(keep=keep, flip=reported - keep, fake=fake, word_bits=ask.word_bits)
        return cls(n_keys=ask.n_keys, pairs_per_user=ask.pairs_per_user, channel=channel)


def smallest_fake(E: Fraction, *, keep: int, absent: int, words: int) -> int:
    """The fewest fake words for which keep / fake stays within E times absent / (words - 2 fake)."""
    return ceil_div(keep * words, E * absent + 2 * keep)
