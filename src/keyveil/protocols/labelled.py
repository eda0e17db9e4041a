"""Any protocol in a campaign whose reports carry clear labels: the same rounds, and they say so.

What is found of all is found as ever: labels change no answer. What is found of a segment is what the same
protocol makes of that segment's reports (`of_segment`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from keyveil.protocols.wrapped import Wrapped
from keyveil.rounds import Round


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled(Wrapped):
    """A protocol whose reports say in the clear who sends them, of a few kinds of users.

    >>> from keyveil.mechanisms import build
    >>> from keyveil.protocols.one_round import OneRound
    >>> plain = OneRound(mechanism=build("kvue", 1, n_keys=2))
    >>> Labelled(protocol=plain, labels=(3, 2)).start("campaign").labels
    (3, 2)
    """

    labels: tuple[int, ...]

    def _asked(self, round: Round) -> Round:
        return replace(round, labels=self.labels)
