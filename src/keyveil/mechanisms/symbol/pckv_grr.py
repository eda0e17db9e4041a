"""PCKV-GRR: pad, sample one pair, and send one signed key that is mostly a lie.

Randomized response over the 2 (d + l) signed keys and dummies. Because a held key is sampled with
chance 1/l only, the response may be bolder than epsilon alone allows: with t = l (e**epsilon - 1)
the truth is t + 1 times as likely as any lie (their Lemma 3, the `optimal` allocation: a flipped
sign is then a lie like any other). The other allocations spend epsilon / 2 on the sign:

    optimal   keep : flip : fake = t + 1 : 1 : 1
    tight     keep : flip : fake = t + 1 : (t + 1) / e**(epsilon/2) : 1
    naive     keep : flip : fake = 2 h**2 / (h + 1) : 2 h / (h + 1) : 1,  h = e**(epsilon/2), no amplification

One symbol a report, whatever d; but the noise grows with d, so it wins for small domains or large l.

[PCKV] Gu, Li, Cheng, Xiong, Cao: PCKV, USENIX Security 2020, Algorithm 3, Theorem 3, Lemma 3.
"""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Self

from keyveil.mechanisms.base import Allocation, Ask
from keyveil.mechanisms.symbol.response import SignedResponse, likeliest_slot
from keyveil.numerics import exp_below


class PckvGrr(SignedResponse):
    """Randomized response over signed keys, amplified by sampling.

    >>> m = PckvGrr.for_epsilon(1, n_keys=100, pairs_per_user=3)
    >>> [round(float(x), 6) for x in (m.channel.a, m.channel.b, m.channel.p)]
    [0.033884, 0.009472, 0.860235]
    """

    __slots__ = ()
    id: ClassVar[str] = "pckv-grr"
    allocations: ClassVar[tuple[Allocation, ...]] = (Allocation.OPTIMAL, Allocation.TIGHT, Allocation.NAIVE)
    fields: ClassVar[tuple[str, ...]] = ("epsilon", "allocation", "pairs_per_user")

    @classmethod
    def calibrate(cls, ask: Ask) -> Self:
        """The most truthful instance whose privacy loss is at most `epsilon`."""
        half = exp_below(ask.epsilon / 2)
        amplified = (exp_below(ask.epsilon) - 1) / likeliest_slot(ask.pairs_per_user, ask.word_bits) + 1
        if ask.allocation is Allocation.NAIVE:
            keep, flip = 2 * half * half / (half + 1), 2 * half / (half + 1)
        elif ask.allocation is Allocation.TIGHT:
            keep, flip = amplified, amplified / half
        else:
            keep, flip = amplified, Fraction(1)
        return cls.from_ratios(
            keep, flip, n_keys=ask.n_keys, pairs_per_user=ask.pairs_per_user, word_bits=ask.word_bits
        )
