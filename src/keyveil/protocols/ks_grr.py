"""KS-GRR: first find the popular keys, then ask about those alone.

Disjoint groups of users, each asked once with the whole budget:

    candidates   one own key by OLH; the 2t keys with the largest estimates stay in the race
    sizes        (several pairs per user only) how many candidates a user holds, by OUE or GRR;
                 l is the smallest length that covers 90 % of those who hold any
    final        signed randomized response over the candidates and l dummies

With one pair per user there are two groups, half and half; otherwise three of 40, 10 and 50 %. The
final round is PCKV-GRR's kernel on 2t keys, amplified by sampling, with all l dummies (one dummy
would break epsilon for l >= 3). Its estimator divides by p - q; the printed p + q shrinks means by
(E - 1)/(E + 1). Candidates are ranked by the share of users who tell them, which is not their
frequency where users hold different numbers of keys.

Keys outside the candidates are not measured: frequency 0 with an infinite error, no mean.

[KSKV] Zhao, You, Luo, Chen, Liu: KSKV, sections 4.2 and 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from keyveil.errors import ProtocolError
from keyveil.estimate import Estimates, clip, estimate
from keyveil.mechanisms import Mechanism
from keyveil.mechanisms.base import check_size
from keyveil.mechanisms.channel import share
from keyveil.mechanisms.symbol.encoded import RecordSizeBits, RecordSizeResponse
from keyveil.mechanisms.symbol.keys_only import Olh
from keyveil.mechanisms.symbol.pckv_grr import PckvGrr
from keyveil.numerics import parse_epsilon
from keyveil.protocols.base import (
    History,
    Outcome,
    check_history,
    protocol_name,
    require_reports,
    split_groups,
)
from keyveil.rounds import Round
from keyveil.tally import Tally

COVERED = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class KsGrr:
    """Candidates, sizes, final.

    >>> protocol = KsGrr(epsilon=Fraction(1), n_keys=100, pairs_per_user=3, top=5)
    >>> [stage.purpose for stage in protocol.stages()]
    ['candidates', 'sizes', 'final']
    """

    epsilon: Fraction
    n_keys: int
    pairs_per_user: int = 1
    top: int = 20
    largest_size: int = 32
    shares: tuple[str, ...] = ()
    id: ClassVar[str] = "ks-grr"
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))
        check_size(self.n_keys, self.pairs_per_user)
        if self.top < 1 or self.largest_size < 1:
            raise ProtocolError(
                f"top and largest_size must be at least 1, got {self.top} and {self.largest_size}"
            )
        shares = self.shares or (("0.5", "0.5") if self.is_singleton else ("0.4", "0.1", "0.5"))
        if len(shares) != (2 if self.is_singleton else 3):
            raise ProtocolError(f"expected {2 if self.is_singleton else 3} group shares, got {len(shares)}")
        object.__setattr__(self, "shares", tuple(str(share) for share in shares))
        split_groups(self.shares)

    @property
    def is_singleton(self) -> bool:
        """Whether every user holds at most one pair, so that no size need be asked."""
        return self.pairs_per_user == 1

    @property
    def n_candidates(self) -> int:
        """2t, or all keys where there are fewer."""
        return min(2 * self.top, self.n_keys)

    def start(self, campaign: str) -> Round:
        """Who uses what, roughly."""
        return Round(
            campaign=campaign,
            number=1,
            purpose="candidates",
            mechanism=Olh.for_epsilon(self.epsilon, n_keys=self.n_keys),
            protocol=protocol_name(self),
            group=split_groups(self.shares)[0],
        )

    def stages(self) -> tuple[Round, ...]:
        """All rounds, the first keys standing in for the candidates."""
        first, keys = self.start("stage"), tuple(range(self.n_candidates))
        if self.is_singleton:
            return first, self._final(first, keys, 1)
        return first, self._sizes(first, keys), self._final(first, keys, self.pairs_per_user)

    def next(self, history: History) -> Round | Outcome:
        """Sizes after candidates, the final round after sizes, then the outcome."""
        check_history(self, history)
        round, tally = history[-1]
        if round.purpose == "candidates":
            require_reports(round, tally)
            support = tally.cells["support"][: self.n_keys]
            keys = tuple(sorted(np.argsort(-support, kind="stable")[: self.n_candidates].tolist()))
            return self._final(round, keys, 1) if self.is_singleton else self._sizes(round, keys)
        assert round.keys is not None
        if round.purpose == "sizes":
            answered = tally.n_reports > 0
            l = covering_length(round.mechanism, tally) if answered else self.pairs_per_user
            return self._final(round, round.keys, l)
        require_reports(round, tally)
        found = estimate(round.mechanism, tally).told_within(round.size)  # type: ignore[arg-type]
        raw, published = (widen(each, round.keys, self.n_keys) for each in (found, clip(found)))
        return Outcome(raw=raw, published=published, notes=self._notes(history), rounds=round.number)

    def _notes(self, history: History) -> tuple[str, ...]:
        if any(round.purpose == "sizes" and tally.n_reports == 0 for round, tally in history):
            return (f"nobody told a size; the padding length asked for, {self.pairs_per_user}, stands",)
        return ()

    def _sizes(self, before: Round, keys: tuple[int, ...]) -> Round:
        largest = min(self.largest_size, len(keys))
        # Randomized response tells few sizes apart better than bits do, up to about 3 E + 2 of them.
        few = largest + 1 < 3 * np.exp(float(self.epsilon)) + 2
        asks = RecordSizeResponse if few else RecordSizeBits
        return Round(
            campaign=before.campaign,
            number=2,
            purpose="sizes",
            mechanism=asks.for_epsilon(self.epsilon, n_keys=len(keys), largest=largest),
            protocol=protocol_name(self),
            group=split_groups(self.shares)[1],
            keys=keys,
        )

    def _final(self, before: Round, keys: tuple[int, ...], l: int) -> Round:
        return Round(
            campaign=before.campaign,
            number=len(self.shares),
            purpose="final",
            mechanism=PckvGrr.for_epsilon(self.epsilon, n_keys=len(keys), pairs_per_user=l),
            protocol=protocol_name(self),
            group=split_groups(self.shares)[-1],
            keys=keys,
        )


def covering_length(mechanism: Mechanism, tally: Tally) -> int:
    """The smallest length that covers 90 % of those who hold any candidate; 1 if nobody seems to.

    >>> sizes = RecordSizeResponse.for_epsilon(30, n_keys=9, largest=3)
    >>> covering_length(sizes, Tally.of(question="q", n_reports=100, support=[10, 60, 26, 4]))
    2
    """
    sizes = share(float(mechanism.a), float(mechanism.b), tally.cells["support"], tally.n_reports)
    held = np.maximum(sizes, 0.0)[1:]
    if held.sum() == 0:
        return 1
    return int(np.argmax(np.cumsum(held) / held.sum() > COVERED)) + 1


def widen(narrow: Estimates, keys: tuple[int, ...], n_keys: int) -> Estimates:
    """Estimates of the candidates in their places among all keys; the rest are not measured."""
    places = np.array(keys)

    def fill(values: Any, rest: float) -> Any:
        wide = np.full(n_keys, rest, dtype=values.dtype)
        wide[places] = values
        return wide

    return Estimates(
        n_reports=narrow.n_reports,
        asked=fill(narrow.asked, 0),
        frequency=fill(narrow.frequency, 0.0),
        frequency_se=fill(narrow.frequency_se, np.inf),
        signed=fill(narrow.signed, 0.0),
        signed_se=fill(narrow.signed_se, np.inf),
        covariance=fill(narrow.covariance, 0.0),
        mean=fill(narrow.mean, np.nan),
        mean_se=fill(narrow.mean_se, np.inf),
        steps=narrow.steps,
        lever=narrow.lever,
    )
