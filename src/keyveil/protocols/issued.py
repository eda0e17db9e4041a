"""Any protocol in a campaign that hands out the ids of reports: the same rounds, and they say so.

What a round's mechanism says of its ids is all there is to it: what follows from the rounds is read off the
rounds as they were opened.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from keyveil.protocols.base import History, Outcome, Protocol
from keyveil.rounds import Round


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedIds:
    """A protocol whose devices ask for the ids of their reports.

    >>> from keyveil.mechanisms import build
    >>> from keyveil.protocols.one_round import OneRound
    >>> own = OneRound(mechanism=build("kvue", 1, n_keys=2))
    >>> IssuedIds(protocol=own).start("campaign").mechanism.public_word
    0
    """

    protocol: Protocol

    @property
    def id(self) -> str:
        """The protocol's."""
        return self.protocol.id

    @property
    def version(self) -> int:
        """The protocol's."""
        return self.protocol.version

    @property
    def n_keys(self) -> int:
        """The protocol's."""
        return self.protocol.n_keys

    def start(self, campaign: str) -> Round:
        """The first round."""
        return _issued(self.protocol.start(campaign))

    def next(self, history: History) -> Round | Outcome:
        """What follows from the rounds so far."""
        step = self.protocol.next(history)
        return _issued(step) if isinstance(step, Round) else step

    def stages(self) -> tuple[Round, ...]:
        """Every round that may come."""
        return tuple(map(_issued, self.protocol.stages()))


def _issued(round: Round) -> Round:
    return replace(round, mechanism=round.mechanism.with_issued_ids())
