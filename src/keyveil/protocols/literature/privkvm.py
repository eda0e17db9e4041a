"""PrivKVM and its kin: ask again, so that non-holders speak for the mean found so far.

Every round draws an index per user. Non-holders who say "held" answer for the mean of the round
before, so a round maps it to th * before + (1 - th) * truth, th being the share of non-holders among
those heard: the bias shrinks by th a round, slowly for rare keys.

    privkvm           epsilon/2 for "held", all in round 1; epsilon/(2c) for the sign in each of c rounds.
                      Round 1 with coins (default) spends less than epsilon, with `broadcast` exactly it.
    privkvm-virtual   k such rounds, then c rounds predicted instead of asked
    privkvm-plus      a round spends half of what is left, in equal parts, until the means settle

The second needs a from the key's own budget; the third two corrections: what earlier rounds spent
is all subtracted, and it stops at `max_rounds` or when the means move more than the round before,
returning the means before that (the printed stop rule need never fire).

[PrivKV] Ye, Hu, Meng, Zheng, IEEE S&P 2019, Algorithms 5 to 7 and Theorem 6.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.domain import FULL_LEVEL, level_of
from keyveil.errors import ProtocolError
from keyveil.estimate import Estimates, Lever, lever
from keyveil.estimate.privkv import heard_mean, heard_mean_se, virtual_mean
from keyveil.mechanisms import Mechanism, SampledIndex
from keyveil.mechanisms.base import check_size
from keyveil.mechanisms.channel import share
from keyveil.mechanisms.literature import BroadcastIndex
from keyveil.mechanisms.literature.privkv import PrivKvSplit
from keyveil.numerics import parse_epsilon
from keyveil.protocols.base import (
    BIASED,
    History,
    Outcome,
    check_history,
    protocol_name,
    require_reports,
)
from keyveil.rounds import Round
from keyveil.tally import Tally

Floats = NDArray[np.float64]


class Found(NamedTuple):
    """What the rounds so far say: frequencies and their errors from round 1, means of the last rounds."""

    n_reports: int
    asked: NDArray[np.int64]
    frequency: Floats
    frequency_se: Floats
    mean: Floats
    mean_se: Floats
    before: Floats
    change: float
    notes: tuple[str, ...]
    lever: Lever


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivKvm:
    """c real rounds.

    >>> protocol = PrivKvm(epsilon=Fraction(1), n_keys=3, rounds=2)
    >>> [stage.purpose for stage in protocol.stages()]
    ['frequencies and first means', 'means, round 2 of 2']
    """

    epsilon: Fraction
    n_keys: int
    rounds: int = 3
    broadcast: bool = False
    id: ClassVar[str] = "privkvm"
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))
        check_size(self.n_keys, 1)
        if self.rounds < 1:
            raise ProtocolError(f"expected at least one round, got {self.rounds}")

    def start(self, campaign: str) -> Round:
        """Round 1: frequencies, and means with coins (or +1) for non-holders."""
        sign = self.epsilon / (2 * self.rounds)
        mechanism: Mechanism
        if self.broadcast:
            levels = (FULL_LEVEL,) * self.n_keys
            mechanism = BroadcastIndex.for_budgets(self.epsilon / 2, sign, levels=levels)
        else:
            mechanism = PrivKvSplit.for_budgets(self.epsilon / 2, sign, n_keys=self.n_keys)
        return Round(
            campaign=campaign,
            number=1,
            purpose="frequencies and first means",
            mechanism=mechanism,
            protocol=protocol_name(self),
        )

    def stages(self) -> tuple[Round, ...]:
        """All rounds, later ones with means in the middle: with a known coin the loss is the same."""
        first, middle = self.start("stage"), np.zeros(self.n_keys)
        return (first, *(self._later("stage", number, middle) for number in range(2, self.rounds + 1)))

    def next(self, history: History) -> Round | Outcome:
        """The next round with the new means, or the outcome."""
        check_history(self, history)
        found = self._found(history)
        round, _ = history[-1]
        if round.number < self.rounds:
            return self._later(round.campaign, round.number + 1, found.mean)
        return self._finish(round, found)

    def _found(self, history: History) -> Found:
        found = first_found(*history[0], self._start_mean())
        for round, tally in history[1:]:
            found = next_found(found, round, tally)
        return found

    def _start_mean(self) -> float:
        return 1.0 if self.broadcast else 0.0

    def _later(self, campaign: str, number: int, mean: Floats) -> Round:
        sign = self.epsilon / (2 * self.rounds)
        levels = tuple(level_of(float(m)) for m in mean)
        return Round(
            campaign=campaign,
            number=number,
            purpose=f"means, round {number} of {self.rounds}",
            mechanism=BroadcastIndex.for_budgets(Fraction(0), sign, levels=levels),
            protocol=protocol_name(self),
        )

    def _finish(self, round: Round, found: Found) -> Outcome:
        return outcome(found, round.number, self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivKvmVirtual(PrivKvm):
    """k real rounds, then c virtual ones.

    >>> len(PrivKvmVirtual(epsilon=1, n_keys=3).stages())
    1
    """

    rounds: int = 1
    virtual: int = 5
    id: ClassVar[str] = "privkvm-virtual"

    def __post_init__(self) -> None:
        PrivKvm.__post_init__(self)
        if self.virtual < 0:
            raise ProtocolError(f"expected no fewer than 0 virtual rounds, got {self.virtual}")

    def _finish(self, round: Round, found: Found) -> Outcome:
        frequency = np.clip(found.frequency, 1 / np.maximum(found.asked, 1), 1.0)
        a = float(round.mechanism.a)
        mean = virtual_mean(found.mean, found.before, frequency, a, self.virtual)
        return outcome(found._replace(mean=mean), round.number, self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivKvmPlus:
    """Rounds that spend half of what is left, until the means settle.

    `cost` is the paper's A0, the price of a round in mean change; `decay` its t.

    >>> protocol = PrivKvmPlus(epsilon=2, n_keys=3)
    >>> [float(budget) for budget in protocol.budgets()]
    [1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125]
    """

    epsilon: Fraction
    n_keys: int
    cost: float = 0.2
    decay: int = 2
    max_rounds: int = 6
    id: ClassVar[str] = "privkvm-plus"
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))
        check_size(self.n_keys, 1)
        if self.max_rounds < 1 or self.decay < 2:
            raise ProtocolError(
                f"expected a round or more and a decay of 2 or more, got {self.max_rounds} and {self.decay}"
            )

    def budgets(self) -> list[Fraction]:
        """What each round spends; together less than epsilon."""
        left, spent = self.epsilon, []
        for _ in range(self.max_rounds):
            spent.append(left / self.decay)
            left -= spent[-1]
        return spent

    def start(self, campaign: str) -> Round:
        """Round 1, non-holders answering for a mean of 1."""
        return self._round(campaign, 1, np.ones(self.n_keys))

    def stages(self) -> tuple[Round, ...]:
        """As many rounds as there may be."""
        means = np.zeros(self.n_keys)
        return tuple(self._round("stage", number, means) for number in range(1, self.max_rounds + 1))

    def next(self, history: History) -> Round | Outcome:
        """Another round, unless the means settled, moved apart, or no round is left."""
        check_history(self, history)
        # How far the means are from where they started says nothing about whether they settled.
        found = first_found(*history[0], 1.0)._replace(change=math.inf)
        for round, tally in history[1:]:
            before, found = found, next_found(found, round, tally)
            if found.change > before.change:
                note = f"round {round.number} moved the means apart; its means are not used"
                return outcome(before._replace(notes=(*found.notes, note)), round.number, self.id)
        last, _ = history[-1]
        if found.change <= self.cost or last.number == self.max_rounds:
            return outcome(found, last.number, self.id)
        return self._round(last.campaign, last.number + 1, found.mean)

    def _round(self, campaign: str, number: int, mean: Floats) -> Round:
        half = self.budgets()[number - 1] / 2
        levels = tuple(level_of(float(m)) for m in mean)
        return Round(
            campaign=campaign,
            number=number,
            purpose=f"frequencies and means, round {number}",
            mechanism=BroadcastIndex.for_budgets(half, half, levels=levels),
            protocol=protocol_name(self),
        )


def first_found(round: Round, tally: Tally, start: float) -> Found:
    """Frequencies and means of the first round."""
    require_reports(round, tally)
    mechanism = round.mechanism
    asked = np.maximum(tally.asked, 1)
    heard = tally.plus + tally.minus
    frequency = np.where(tally.asked > 0, share(float(mechanism.a), float(mechanism.b), heard, asked), 0.0)
    variance = mechanism.variance(np.clip(frequency, 0, 1), asked, max(tally.n_reports, 2))
    before = np.full(mechanism.n_keys, start)
    mean = heard_mean(tally.plus.astype(float), tally.minus.astype(float), _p(mechanism), before)
    return Found(
        n_reports=tally.n_reports,
        asked=tally.asked,
        frequency=frequency,
        frequency_se=np.where(tally.asked > 0, np.sqrt(np.maximum(variance, 0)), np.inf),
        mean=mean,
        mean_se=heard_mean_se(mean, heard.astype(float), _p(mechanism)),
        before=before,
        change=float(np.mean(np.abs(mean - before))),
        notes=(),
        # Means pass through every round; what hostile devices make of them is not one report's weight.
        lever=replace(lever(mechanism), signed=None),
    )


def next_found(found: Found, round: Round, tally: Tally) -> Found:
    """The means of a later round; a round that nobody answered leaves those before it, and says so."""
    if tally.n_reports == 0:
        note = f"round {round.number} had no reports; the means of round {round.number - 1} stand"
        return found._replace(notes=(*found.notes, note), change=0.0)
    p = _p(round.mechanism)
    mean = heard_mean(tally.plus.astype(float), tally.minus.astype(float), p, found.mean)
    heard = (tally.plus + tally.minus).astype(float)
    return found._replace(
        mean=mean,
        mean_se=np.where(heard > 0, heard_mean_se(mean, heard, p), found.mean_se),
        before=found.mean,
        change=float(np.mean(np.abs(mean - found.mean))),
    )


def outcome(found: Found, rounds: int, step: str) -> Outcome:
    """Raw frequencies, published ones cut to [0, 1]; the means are the protocol's, in both."""
    raw = Estimates(
        n_reports=found.n_reports,
        asked=found.asked,
        frequency=found.frequency,
        frequency_se=found.frequency_se,
        signed=found.frequency * found.mean,
        signed_se=np.full(found.mean.size, np.inf),
        covariance=np.zeros(found.mean.size),
        mean=found.mean,
        mean_se=found.mean_se,
        means_are_biased=True,
        lever=found.lever,
    )
    published = raw.after(step, frequency=np.clip(found.frequency, 0.0, 1.0), mean=found.mean)
    return Outcome(raw=raw, published=published, notes=(*found.notes, BIASED), rounds=rounds)


def _p(mechanism: Mechanism) -> float:
    if isinstance(mechanism, BroadcastIndex):
        return float(mechanism.p)
    assert isinstance(mechanism, SampledIndex)
    return float(mechanism.channel.p)
