"""KVUE: draw an index, and answer about it by randomized response over three symbols.

Of the drawn key a user is in one of three states, absent, + or -. The state is reported truthfully with
chance E / (E + 2), E = e**epsilon, and each of the other two with chance 1 / (E + 2): the whole
budget serves both questions at once. In the channel's letters a = (E + 1)/(E + 2), b = 2/(E + 2),
p = E/(E + 1).

Its frequency noise is 2 d E / (E - 1)**2 over n: hopeless for large domains, hard to beat where
users hold most of a small one.

[KVUE] Sun, Zhao, Ye, Feng, Wang, Bai: Conditional Analysis for Key-Value Data with Local
Differential Privacy, arXiv 1907.05014, as [PCKV] describes it: PrivKV's sampling, a pair perturbed
as one entity.
"""

from __future__ import annotations

from typing import ClassVar, Self

from keyveil.mechanisms.base import Ask
from keyveil.mechanisms.channel import Channel
from keyveil.mechanisms.index.indexed import SampledIndex
from keyveil.numerics import ceil_div, exp_below


class KvUe(SampledIndex):
    """A sampled index; three-symbol randomized response.

    >>> m = KvUe.for_epsilon(1, n_keys=100)
    >>> [round(float(x), 6) for x in (m.channel.a, m.channel.b, m.channel.p)]
    [0.788058, 0.423883, 0.731059]
    """

    __slots__ = ()
    id: ClassVar[str] = "kvue"

    @classmethod
    def calibrate(cls, ask: Ask) -> Self:
        """The most truthful instance whose privacy loss is at most `epsilon`; l plays no part."""
        lie = ceil_div(ask.words, exp_below(ask.epsilon) + 2)
        channel = Channel(keep=ask.words - 2 * lie, flip=lie, fake=lie, word_bits=ask.word_bits)
        return cls(n_keys=ask.n_keys, channel=channel)
