"""A protocol around another: the same rounds in the same order, each asked a little differently."""

from __future__ import annotations

from dataclasses import dataclass

from keyveil.protocols.base import History, Outcome, Protocol
from keyveil.rounds import Round


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapped:
    """What follows is the inner protocol's; `_asked` changes its rounds, `_found` what it ends with."""

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
        return self._asked(self.protocol.start(campaign))

    def next(self, history: History) -> Round | Outcome:
        """What follows from the rounds so far."""
        step = self.protocol.next(history)
        return self._asked(step) if isinstance(step, Round) else self._found(step, history)

    def stages(self) -> tuple[Round, ...]:
        """Every round that may come."""
        return tuple(map(self._asked, self.protocol.stages()))

    def _asked(self, round: Round) -> Round:
        return round

    def _found(self, outcome: Outcome, history: History) -> Outcome:
        return outcome
