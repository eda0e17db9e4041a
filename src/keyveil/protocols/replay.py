"""Where a campaign stands: a function of its first round and of the tallies since.

Rounds are not stored. A protocol is pure, so whoever holds the integers of the rounds that are over
finds the same open round, or the same outcome: the collector, its neighbour on another machine, and
anybody with the published reports.
"""

from __future__ import annotations

from collections.abc import Iterable

from keyveil.errors import ProtocolError
from keyveil.protocols.base import Outcome, Round, Rounds
from keyveil.tally import Tally


def replay(protocol: Rounds, campaign: str, tallies: Iterable[Tally]) -> Round | Outcome:
    """What follows from the tallies of the first rounds, in order.

    >>> from keyveil.protocols import build_protocol
    >>> replay(build_protocol("privkvm", 1.0, n_keys=2), "campaign", []).question
    'campaign/1'
    """
    stands: Round | Outcome = protocol.start(campaign)
    for tally in tallies:
        if isinstance(stands, Outcome):
            raise ProtocolError(f"expected the tallies of {stands.rounds} rounds, got one more")
        stands = protocol.next(stands, tally)
    return stands
