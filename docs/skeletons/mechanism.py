"""NAME: what it does, in one sentence.

Tell the story: what a user holds, what is drawn, what is sent. Give the kernel in plain text and say
why its loss is what it is. Map the paper's letters to ours.

[Key] Authors: Title, venue and year, which algorithm (their x is our y).

To add a mechanism: copy this file to src/keyveil/mechanisms/, calibrate (a new shape of report first
needs its own file beside unary.py, a `count_answers` and a `draw_counts`), add the class to
registry.py and a method to protocols/registry.py, run `make test` (the checks find it by themselves),
add a line to the README's table and one to the CHANGELOG under Privacy.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from keyveil.mechanisms.base import Allocation, choose
from keyveil.mechanisms.channel import Channel
from keyveil.mechanisms.unary import SignedUnary
from keyveil.numerics import WORD_BITS, ceil_div, exp_below, parse_epsilon


class Skeleton(SignedUnary):
    """One line on what makes it different.

    >>> m = Skeleton.for_epsilon(1, n_keys=100)
    >>> [round(float(x), 3) for x in (m.channel.a, m.channel.b, m.channel.p)]
    [0.726, 0.548, 0.622]
    """

    __slots__ = ()
    id: ClassVar[str] = "skeleton"
    allocations: ClassVar[tuple[Allocation, ...]] = (Allocation.OPTIMAL,)

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
        choose(allocation, cls.allocations)
        half, words = exp_below(parse_epsilon(epsilon) / 2), 1 << word_bits
        # Every rounding takes words from the truth: lies are rounded up, the truth gets the rest.
        lie = ceil_div(words, half + 2)
        channel = Channel(keep=words - 2 * lie, flip=lie, fake=lie, word_bits=word_bits)
        return cls(n_keys=n_keys, pairs_per_user=pairs_per_user, channel=channel)
