"""Where a campaign stands by its tallies alone: for whoever holds published reports and no stored rounds.

A collector stores the rounds that it opened and never recomputes them. Somebody with nothing but the
campaign and its reports finds the same rounds, as long as the protocol's version is the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from keyveil.errors import ProtocolError
from keyveil.protocols.base import Outcome, Protocol
from keyveil.rounds import Round
from keyveil.tally import Tally


def replay(protocol: Protocol, campaign: str, tallies: Iterable[Tally]) -> Round | Outcome:
    """What follows from the tallies of the first rounds, in order.

    >>> from keyveil.protocols import build_protocol
    >>> replay(build_protocol("privkvm", 1.0, n_keys=2), "campaign", []).question
    'campaign/1'
    """
    stands: Round | Outcome = protocol.start(campaign)
    history: list[tuple[Round, Tally]] = []
    for tally in tallies:
        if isinstance(stands, Outcome):
            raise ProtocolError(f"expected the tallies of {stands.rounds} rounds, got one more")
        history.append((stands, tally))
        stands = protocol.next(history)
    return stands
