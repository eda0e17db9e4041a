"""Any protocol whose devices round values by the public dither: the same rounds, counted apart by its bins.

A round that tells signs says that there is a dither, and everything else about it stays: frequencies and
means are read off the sums over bins. What the bins say of how values are spread is read here, off the round
that most devices answered, and added to what the protocol ends with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from keyveil.domain import check_dither
from keyveil.estimate import dithered_spread, marked, shapes
from keyveil.mechanisms import is_key_value
from keyveil.protocols.base import History, Outcome
from keyveil.protocols.wrapped import Wrapped
from keyveil.rounds import Round


@dataclass(frozen=True, slots=True, kw_only=True)
class Dithered(Wrapped):
    """A protocol whose tallies tell how values are spread.

    >>> from keyveil.mechanisms import build
    >>> from keyveil.protocols.one_round import OneRound
    >>> plain = OneRound(mechanism=build("bucket", 1, n_keys=2))
    >>> Dithered(protocol=plain, dither=16).start("campaign").dither
    16
    """

    dither: int

    def __post_init__(self) -> None:
        check_dither(self.dither)

    def _asked(self, round: Round) -> Round:
        return replace(round, dither=self.dither) if round.mechanism.tells_signs else round

    def _found(self, outcome: Outcome, history: History) -> Outcome:
        return outcome if outcome.spread is not None else with_spread(outcome, history, self.n_keys)


def with_spread(outcome: Outcome, history: History, n_keys: int) -> Outcome:
    """An outcome with what the bins of the dither say, in the round that most devices answered."""
    dithered = [(asked, tally) for asked, tally in history if asked.is_dithered]
    if not dithered:
        return outcome
    asked, tally = max(dithered, key=lambda each: each[1].n_reports)
    assert is_key_value(asked.mechanism)
    spread = dithered_spread(asked.mechanism, tally)
    if outcome.found is not None:
        spread = spread.of(outcome.found.places)
    elif asked.keys is not None:
        spread = spread.among(asked.keys, n_keys)
    return replace(outcome, spread=spread, distribution=marked(shapes(spread)))
