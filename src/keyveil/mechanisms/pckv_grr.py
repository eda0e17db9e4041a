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
from typing import Any, ClassVar, Self

from keyveil.mechanisms.base import Allocation, check_size, choose
from keyveil.mechanisms.response import SignedResponse, likeliest_slot
from keyveil.numerics import WORD_BITS, exp_below, parse_epsilon


class PckvGrr(SignedResponse):
    """Randomized response over signed keys, amplified by sampling.

    >>> m = PckvGrr.for_epsilon(1, n_keys=100, pairs_per_user=3)
    >>> [round(float(x), 6) for x in (m.channel.a, m.channel.b, m.channel.p)]
    [0.033884, 0.009472, 0.860235]
    """

    __slots__ = ()
    id: ClassVar[str] = "pckv-grr"
    allocations: ClassVar[tuple[Allocation, ...]] = (Allocation.OPTIMAL, Allocation.TIGHT, Allocation.NAIVE)

    @classmethod
    def for_epsilon(
        cls,
        epsilon: object,
        *,
        n_keys: int,
        pairs_per_user: int = 1,
        allocation: Allocation | None = None,
        word_bits: int = WORD_BITS,
        **_options: Any,
    ) -> Self:
        """The most truthful instance whose privacy loss is at most `epsilon`."""
        budget, split = parse_epsilon(epsilon), choose(allocation, cls.allocations)
        check_size(n_keys, pairs_per_user)
        half = exp_below(budget / 2)
        amplified = (exp_below(budget) - 1) / likeliest_slot(pairs_per_user, word_bits) + 1
        if split is Allocation.NAIVE:
            keep, flip = 2 * half * half / (half + 1), 2 * half / (half + 1)
        elif split is Allocation.TIGHT:
            keep, flip = amplified, amplified / half
        else:
            keep, flip = amplified, Fraction(1)
        return cls.from_ratios(keep, flip, n_keys=n_keys, pairs_per_user=pairs_per_user, word_bits=word_bits)
