"""KS-UE: the signed unary encoding again, with a rarer wrong sign and a louder truth.

The sampled key shows its sign with chance s = (E + 1) / (2 (E + 2)), nothing with the same chance,
and the wrong sign as rarely as any other key shows either sign, 1 / (E + 2), where E = e**epsilon.
It is PCKV-UE's kernel with other numbers: a = (E + 3) / (2 (E + 2)), b = 2 / (E + 2),
p = (E + 1) / (E + 3).

Against PCKV-UE the frequencies' noise is smaller, 8 E against 8 (E + 1) over (E - 1)**2, and the
means' is larger, by (E + 2)(E + 3) / (E + 1)**2: 1.95 at epsilon 1. The paper claims only the first.

[KSKV] Zhao, You, Luo, Chen, Liu: KSKV: Key-Strategy for Key-Value Data Collection with Local
Differential Privacy, section 4.1 (their a_KS is our b, their p_KS our 1 - a).
"""

from __future__ import annotations

from typing import ClassVar, Self

from keyveil.mechanisms.base import Ask
from keyveil.mechanisms.channel import Channel
from keyveil.mechanisms.trits.unary import SignedUnary
from keyveil.numerics import ceil_div, exp_below


class KsUe(SignedUnary):
    """Signed unary encoding whose wrong sign is as rare as a fake one.

    >>> m = KsUe.for_epsilon(1, n_keys=100)
    >>> [round(float(x), 6) for x in (m.channel.a, m.channel.b, m.channel.p)]
    [0.605971, 0.423883, 0.650245]
    """

    __slots__ = ()
    id: ClassVar[str] = "ks-ue"

    @classmethod
    def calibrate(cls, ask: Ask) -> Self:
        """The most truthful instance whose privacy loss is at most `epsilon`."""
        fake = ceil_div(ask.words, exp_below(ask.epsilon) + 2)
        # keep <= absent, so the loss is at most (words - 2 fake) / fake <= E.
        channel = Channel(keep=(ask.words - fake) // 2, flip=fake, fake=fake, word_bits=ask.word_bits)
        return cls(n_keys=ask.n_keys, pairs_per_user=ask.pairs_per_user, channel=channel)
