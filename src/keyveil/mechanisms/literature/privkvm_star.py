"""PrivKVM*, one round: draw an index, and answer about its key with a boundary of its value's bin.

The drawn key is reported held or not with odds e**epsilon1; a holder's boundary goes through randomized
response over the boundaries with odds e**epsilon2; a non-holder who says "held" says a uniformly
drawn boundary. Both budgets are half of the round's, as the paper adds them; with uniform fakes the
true loss is smaller, and it is the one that is printed.

The text leaves open how fakes are drawn ("the current means of all bins"), which oracle tells the
boundary ("for example GRR") and how many bins there are; here: uniformly, randomized response (with
bits: `boundary_bits`), `bins` = 8. The second phase is `protocols.literature.star`.

[PrivKVM*] Ye, Hu, Meng et al., IEEE TDSC 2021, as described in [UE-SW] section 3.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from keyveil.mechanisms.base import Allocation, Ask
from keyveil.mechanisms.index.boundary import IndexedBoundary
from keyveil.mechanisms.value_channel import ValueChannel
from keyveil.mechanisms.values import Window
from keyveil.numerics import ceil_div, exp_below

BINS = 8


class PrivKvmStarBoundary(IndexedBoundary):
    """A boundary by randomized response, the budget split evenly between key and boundary.

    >>> m = PrivKvmStarBoundary.for_epsilon(2, n_keys=10)
    >>> m.layout.size, round(float(m.channel.a), 4)
    (90, 0.7311)
    """

    __slots__ = ()
    id: ClassVar[str] = "privkvm-star"
    allocations: ClassVar[tuple[Allocation, ...]] = (Allocation.NAIVE,)
    options: ClassVar[Mapping[str, Any]] = {"bins": BINS}

    @classmethod
    def calibrate(cls, ask: Ask) -> Self:
        """Half of `epsilon` for the key, half for the boundary; l plays no part."""
        odds, bins = exp_below(ask.epsilon / 2), ask.options["bins"]
        window = Window(n_in=bins, width=1)
        fake = ceil_div(ask.words, bins * (odds + 1))
        held = ask.words - bins * fake
        far = ceil_div(held, odds + bins - 1)
        near = held - (bins - 1) * far
        channel = ValueChannel(window=window, near=near, far=far, fake=fake, word_bits=ask.word_bits)
        return cls(n_keys=ask.n_keys, channel=channel)
