"""Any protocol in a campaign that hands out the ids of reports: the same rounds, and they say so.

What a round's mechanism says of its ids is all there is to it: what follows from the rounds is read off the
rounds as they were opened.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from keyveil.protocols.wrapped import Wrapped
from keyveil.rounds import Round


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedIds(Wrapped):
    """A protocol whose devices ask for the ids of their reports.

    >>> from keyveil.mechanisms import build
    >>> from keyveil.protocols.one_round import OneRound
    >>> own = OneRound(mechanism=build("kvue", 1, n_keys=2))
    >>> IssuedIds(protocol=own).start("campaign").mechanism.public_word
    0
    """

    def _asked(self, round: Round) -> Round:
        return replace(round, mechanism=round.mechanism.with_issued_ids())
