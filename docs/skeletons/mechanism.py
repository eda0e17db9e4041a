"""NAME: what it does, in one sentence.

Tell the story: what a user holds, what is drawn, what is sent. Give the kernel in plain text and say
why its loss is what it is. Map the paper's letters to ours.

[Key] Authors: Title, venue and year, which algorithm (their x is our y).

CONTRIBUTING.md has the steps, in order.
"""

from __future__ import annotations

from typing import ClassVar, Self

from keyveil.mechanisms.base import Ask
from keyveil.mechanisms.channel import Channel
from keyveil.mechanisms.trits.unary import SignedUnary
from keyveil.numerics import ceil_div, exp_below


class Skeleton(SignedUnary):
    """One line on what makes it different.

    >>> m = Skeleton.for_epsilon(1, n_keys=100)
    >>> [round(float(x), 3) for x in (m.channel.a, m.channel.b, m.channel.p)]
    [0.726, 0.548, 0.622]
    """

    __slots__ = ()
    id: ClassVar[str] = "skeleton"

    @classmethod
    def calibrate(cls, ask: Ask) -> Self:
        """The most truthful instance whose privacy loss is at most `epsilon`."""
        # Every rounding takes words from the truth: lies are rounded up, the truth gets the rest.
        lie = ceil_div(ask.words, exp_below(ask.epsilon / 2) + 2)
        channel = Channel(keep=ask.words - 2 * lie, flip=lie, fake=lie, word_bits=ask.word_bits)
        return cls(n_keys=ask.n_keys, pairs_per_user=ask.pairs_per_user, channel=channel)
