"""Several rounds as a pure state machine.

    round = protocol.start(question)
    while isinstance(round, Round):
        tally = ...                       # of the reports that answer this round
        round = protocol.next(round, tally)
    outcome = round

No clock, no input or output, no user data: a round holds what is public about it (the mechanism with
all its parameters, the keys asked about, the group of users, what earlier rounds found), so whoever
holds a round can continue, and the same calls give the same rounds. The simulator and a collector
drive the same objects.

A user takes part in the rounds whose group covers their public random place in [0, 1). The total
epsilon is the largest sum of round losses that any place meets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any, ClassVar, Protocol

from keyveil.domain import Record
from keyveil.errors import ProtocolError
from keyveil.estimate import Distribution, Estimates
from keyveil.mechanisms import Mechanism
from keyveil.tally import Tally

Group = tuple[Fraction, Fraction]
EVERYBODY: Group = (Fraction(0), Fraction(1))

# What a release says where a method's means miss the truth by more than noise.
BIASED = "means are biased by design; their intervals are the whole range"


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One question to one group, and everything public that it follows from."""

    protocol: str
    campaign: str
    number: int
    purpose: str
    mechanism: Mechanism
    group: Group = EVERYBODY
    keys: tuple[int, ...] | None = None
    """The codes asked about, renumbered 0, 1, ... in this order; None for all keys."""
    found: Any = field(default=None, repr=False)
    """What earlier rounds found: public, and all that `next` needs beside the tally."""

    @property
    def question(self) -> str:
        """What a tally of this round must answer."""
        return f"{self.campaign}/{self.number}"

    @property
    def size(self) -> float:
        """The share of users that the round asks."""
        return float(self.group[1] - self.group[0])

    def narrow(self, record: Record) -> Record:
        """The part of a record that this round asks about, with its codes."""
        return record if self.keys is None else record.among(self.keys)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """What a protocol ends with.

    `raw` holds the unbiased numbers where there are any, `published` the papers' own processing of
    them; `notes` say what did not go as planned.
    """

    raw: Estimates
    published: Estimates
    distribution: Distribution | None = None
    notes: tuple[str, ...] = ()
    rounds: int = 1
    anchor: float | None = None
    """The mean over all values as a group of its own told it; means are shrunk towards it."""


class Rounds(Protocol):
    """A protocol."""

    id: ClassVar[str]

    @property
    def n_keys(self) -> int:
        """How many keys are asked about."""

    def start(self, campaign: str) -> Round:
        """The first round."""

    def next(self, round: Round, tally: Tally) -> Round | Outcome:
        """What follows once a round's tally is in."""

    def stages(self) -> tuple[Round, ...]:
        """Every round that may come, with stand-ins for what is not known yet."""


def total_loss(stages: Iterable[Round]) -> Fraction:
    """exp(epsilon) of all rounds that one user may take part in.

    The sum over rounds of what each can lose, at the place that meets the most.
    """
    stages = tuple(stages)
    starts = {stage.group[0] for stage in stages}
    return max(
        math.prod(
            (stage.mechanism.loss for stage in stages if stage.group[0] <= place < stage.group[1]),
            start=Fraction(1),
        )
        for place in starts
    )


def check_answer(protocol: Rounds, round: Round, tally: Tally) -> None:
    """Refuse a tally that does not answer this round, and a round of another protocol."""
    if round.protocol != protocol.id:
        raise ProtocolError(f'expected a round of "{protocol.id}", got one of "{round.protocol}"')
    if tally.question != round.question:
        raise ProtocolError(
            f'expected a tally of round {round.number}, "{round.question}", got one of "{tally.question}"; '
            "was it counted already, or is the round stale?"
        )


def require_reports(round: Round, tally: Tally) -> None:
    """Refuse a round that nobody answered where nothing earlier could stand in for it."""
    if tally.n_reports == 0:
        raise ProtocolError(
            f"round {round.number} ({round.purpose}) has no reports, and no earlier round stands in for it"
        )


def split_groups(shares: Iterable[object]) -> list[Group]:
    """Disjoint groups with these shares, which must be positive and sum to one."""
    parts = [Fraction(str(share)) for share in shares]
    if min(parts) <= 0 or sum(parts) != 1:
        raise ProtocolError(
            f"group shares must be positive and sum to 1, got {', '.join(str(float(p)) for p in parts)}"
        )
    return list(pairwise(accumulate(parts, initial=Fraction(0))))
