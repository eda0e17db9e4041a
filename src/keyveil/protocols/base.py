"""Several rounds as a pure state machine.

    history = []
    step = protocol.start(campaign)
    while isinstance(step, Round):
        tally = ...                       # of the reports that answer this round
        history.append((step, tally))
        step = protocol.next(history)
    outcome = step

No clock, no input or output, no user data. What follows is a function of the rounds as they were opened and
of their tallies, so whoever holds those can continue, and nothing that was opened is decided again. The
simulator and a collector drive the same objects.

A user takes part in the rounds whose group covers their public random place in [0, 1). The total
epsilon is the largest sum of round losses that any place meets.

A protocol has a version, and its rounds say it ("auto/1"): one that would go on otherwise is a new version,
and the old one continues what it began.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from keyveil.errors import ProtocolError
from keyveil.estimate import Distribution, Estimates, Spread
from keyveil.rounds import Group, Round
from keyveil.tally import Tally

# The rounds that are over, in order, each with the tally of its reports.
History = Sequence[tuple[Round, Tally]]

# What a release says where a method's means miss the truth by more than noise.
BIASED = "means are biased by design; their intervals are the whole range"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """Which keys were found where nobody listed them, and how sure that is."""

    keys: tuple[str, ...]
    """The names of the rows; the last, an ellipsis, is whatever was not measured."""
    places: NDArray[np.int64]
    """Where they stood among the keys that were measured."""
    false_share: NDArray[np.float64]
    """Of the keys that are at least as sure as this one, at most this share is false, on average."""
    unfinished: tuple[str, ...]
    """What began like keys and did not complete, each with an ellipsis."""
    detectable: float
    """A key of this frequency would have been found with nine chances in ten."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """What a protocol ends with.

    `raw` holds the unbiased numbers where there are any, `published` the papers' own processing of
    them; `notes` say what did not go as planned.
    """

    raw: Estimates
    published: Estimates
    distribution: Distribution | None = None
    spread: Spread | None = None
    """What is known without bias of how values are spread, where anything is."""
    notes: tuple[str, ...] = ()
    rounds: int = 1
    anchor: float | None = None
    """The mean over all values as a group of its own reported it; means are shrunk towards it."""
    found: Found | None = None
    """The keys that the estimates are of, where nobody listed any."""


class Protocol(typing.Protocol):
    """Which round comes first, and what follows from the rounds so far."""

    @property
    def id(self) -> str:
        """Its name, as its rounds say it."""

    @property
    def version(self) -> int:
        """Which version of it."""

    @property
    def n_keys(self) -> int:
        """How many keys are asked about."""

    def start(self, campaign: str) -> Round:
        """The first round."""

    def next(self, history: History) -> Round | Outcome:
        """What follows from the rounds so far."""

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


def protocol_name(protocol: Protocol) -> str:
    """A protocol and its version, as its rounds say it."""
    return f"{protocol.id}/{protocol.version}"


def check_history(protocol: Protocol, history: History) -> None:
    """Refuse rounds of another protocol, rounds that are missing, and tallies that answer other rounds."""
    if not history:
        raise ProtocolError("expected the rounds so far, got none; begin with `start`")
    for number, (round, tally) in enumerate(history, start=1):
        if round.protocol != protocol_name(protocol):
            raise ProtocolError(
                f'expected a round of "{protocol_name(protocol)}", got one of "{round.protocol}"'
            )
        if round.number != number:
            raise ProtocolError(f"expected round {number}, got round {round.number}")
        if tally.question != round.question:
            raise ProtocolError(
                f'expected a tally of round {round.number}, "{round.question}", got one of '
                f'"{tally.question}"; was it counted already, or is the round stale?'
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
