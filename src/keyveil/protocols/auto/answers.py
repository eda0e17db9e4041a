"""The rounds that are over, by purpose: read as they were opened, whatever would be opened today."""

from __future__ import annotations

from typing import NamedTuple

from keyveil.errors import ProtocolError
from keyveil.protocols.base import History, require_reports
from keyveil.rounds import Round
from keyveil.tally import Tally


class Answered(NamedTuple):
    """A round and what was answered."""

    round: Round
    tally: Tally

    def unreadable(self) -> ProtocolError:
        """What to raise where a round asks what no round of its purpose asks."""
        number, purpose, asks = self.round.number, self.round.purpose, type(self.round.mechanism).__name__
        return ProtocolError(f"round {number} ({purpose}) asks by {asks}, as no round of auto for that does")


class Answers:
    """What a campaign's rounds were answered."""

    def __init__(self, history: History) -> None:
        self._by_purpose = {round.purpose: Answered(round, tally) for round, tally in history}
        self.n_rounds = len(history)

    def were_asked(self, purpose: str) -> bool:
        """Whether there was such a round."""
        return purpose in self._by_purpose

    def heard(self, purpose: str) -> Answered | None:
        """A round that somebody answered."""
        found = self._by_purpose.get(purpose)
        return None if found is None or found.tally.n_reports == 0 else found

    def opened(self, purpose: str) -> Answered:
        """A round that must have been opened, whoever answered."""
        if purpose not in self._by_purpose:
            raise ProtocolError(f'expected a round of purpose "{purpose}" among those that are over')
        return self._by_purpose[purpose]

    def required(self, purpose: str) -> Answered:
        """A round that nothing stands in for: refused where nobody answered."""
        found = self.opened(purpose)
        require_reports(found.round, found.tally)
        return found
