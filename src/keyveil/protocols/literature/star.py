"""PrivKVM*: values as marked boundaries, first about all keys, then again about the frequent ones.

Two rounds for everybody, half of the budget each. The first asks about all keys; those whose
frequency exceeds `threshold` are heavy hitters and are asked about again, with the first round's
users spread over far fewer keys. The two rounds' frequencies of a heavy hitter are combined with
inverse variances; its distribution is the second round's. All other keys share one average
distribution, because each had too few reports.

Boundaries are debiased in one step (spoken for = held and kept, held and lied, or fake) and projected
to a distribution. The description leaves open how the budget is split over the phases (`share`) and
what makes a key heavy (`threshold`, a frequency; by default five standard errors above 0); `oracle`
tells boundaries by randomized response (`grr`) or by bits (`oue`).

[PrivKVM*] Ye, Hu, Meng et al., IEEE TDSC 2021, as described in [UE-SW] section 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.errors import ProtocolError
from keyveil.estimate import Distribution, Estimates, Lever, lever, project
from keyveil.mechanisms import Calibrated, IndexedBoundary, Mechanism
from keyveil.mechanisms.base import check_size
from keyveil.mechanisms.channel import share
from keyveil.mechanisms.literature import IndexedBoundaryBits
from keyveil.mechanisms.literature.privkvm_star import BINS, PrivKvmStarBoundary
from keyveil.numerics import parse_epsilon
from keyveil.protocols.base import History, Outcome, check_history, protocol_name, require_reports
from keyveil.rounds import Round
from keyveil.tally import Tally

Floats = NDArray[np.float64]

# How a boundary is reported: by randomized response, or by one optimised bit each.
ORACLES: dict[str, type[Calibrated]] = {"grr": PrivKvmStarBoundary, "oue": IndexedBoundaryBits}


class Phase(NamedTuple):
    """What one phase says of the keys it asked about."""

    n_reports: int
    asked: NDArray[np.int64]
    frequency: Floats
    frequency_se: Floats
    shares: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivKvmStar:
    """All keys, then the heavy hitters.

    >>> [stage.purpose for stage in PrivKvmStar(epsilon=1, n_keys=10).stages()]
    ['all keys', 'heavy hitters']
    """

    epsilon: Fraction
    n_keys: int
    bins: int = BINS
    oracle: str = "grr"
    share: str = "0.5"
    threshold: float | None = None
    id: ClassVar[str] = "privkvm-star"
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))
        check_size(self.n_keys, 1)
        if not 0 < Fraction(str(self.share)) < 1:
            raise ProtocolError(f"the first phase's share of the budget must be in (0, 1), got {self.share}")
        if self.oracle not in ORACLES:
            raise ProtocolError(f'oracle must be one of {", ".join(ORACLES)}, got "{self.oracle}"')
        self.start("stage")

    def start(self, campaign: str) -> Round:
        """All keys."""
        budget = self.epsilon * Fraction(str(self.share))
        return Round(
            campaign=campaign,
            number=1,
            purpose="all keys",
            mechanism=ORACLES[self.oracle].for_epsilon(budget, n_keys=self.n_keys, bins=self.bins),
            protocol=protocol_name(self),
        )

    def stages(self) -> tuple[Round, ...]:
        """Both phases, all keys standing in for the heavy ones."""
        first = self.start("stage")
        return first, self._second("stage", tuple(range(self.n_keys)))

    def next(self, history: History) -> Round | Outcome:
        """The heavy hitters, or the outcome."""
        check_history(self, history)
        first, tally = history[0]
        require_reports(first, tally)
        found = phase(first.mechanism, tally)
        # A heavy key's frequency averages both phases'; it moves no further than the looser one.
        pull = max((lever(round.mechanism) for round, _ in history), key=lambda each: each.weight)
        if len(history) == 1:
            limit = 5 * found.frequency_se if self.threshold is None else self.threshold
            heavy = np.flatnonzero(found.frequency > limit)
            if heavy.size == 0:
                note = "no key is heavy; the second phase was left out"
                return self._finish(found, None, (), (note,), 1, pull)
            return self._second(first.campaign, tuple(heavy.tolist()))
        second, tally = history[1]
        if tally.n_reports == 0:
            note = "the second phase had no reports; the first phase stands"
            return self._finish(found, None, (), (note,), 2, pull)
        return self._finish(found, phase(second.mechanism, tally), second.keys or (), (), 2, pull)

    def _second(self, campaign: str, keys: tuple[int, ...]) -> Round:
        budget = self.epsilon * (1 - Fraction(str(self.share)))
        return Round(
            campaign=campaign,
            number=2,
            purpose="heavy hitters",
            mechanism=ORACLES[self.oracle].for_epsilon(budget, n_keys=len(keys), bins=self.bins),
            protocol=protocol_name(self),
            keys=keys,
        )

    def _finish(
        self,
        first: Phase,
        second: Phase | None,
        keys: tuple[int, ...],
        notes: tuple[str, ...],
        rounds: int,
        pull: Lever,
    ) -> Outcome:
        heavy = np.zeros(self.n_keys, dtype=bool)
        heavy[list(keys)] = True
        frequency, error = first.frequency.copy(), first.frequency_se.copy()
        shares, asked = first.shares.copy(), first.asked.copy()
        if second is not None:
            one, two = first.frequency_se[heavy] ** -2, second.frequency_se**-2
            frequency[heavy] = (one * first.frequency[heavy] + two * second.frequency) / (one + two)
            error[heavy] = (one + two) ** -0.5
            shares[heavy], asked[heavy] = second.shares, asked[heavy] + second.asked
        held = np.maximum(frequency, 0.0)
        if not heavy.all() and second is not None:
            known = ~heavy & np.isfinite(shares.sum(axis=1))
            weight = held[known] if held[known].sum() > 0 else np.ones(int(known.sum()))
            if known.any():
                shares[~heavy] = weight @ shares[known] / weight.sum()
        distribution = Distribution(points=np.linspace(-1, 1, self.bins), shares=shares)
        mean = distribution.mean()
        raw = Estimates(
            n_reports=first.n_reports,
            asked=asked,
            frequency=frequency,
            frequency_se=error,
            signed=frequency * np.nan_to_num(mean),
            signed_se=np.full(self.n_keys, np.inf),
            covariance=np.zeros(self.n_keys),
            mean=mean,
            mean_se=np.full(self.n_keys, np.inf),
            lever=pull,
        )
        published = raw.after(self.id, frequency=np.clip(frequency, 0, 1), mean=np.nan_to_num(mean))
        return Outcome(raw=raw, published=published, distribution=distribution, notes=notes, rounds=rounds)


def phase(mechanism: Mechanism, tally: Tally) -> Phase:
    """Frequencies, and boundary distributions debiased and projected; NaN where a key seems unused."""
    asked = np.maximum(tally.asked, 1)
    a, b = float(mechanism.a), float(mechanism.b)
    heard = (
        tally.cells["held"] if isinstance(mechanism, IndexedBoundaryBits) else tally.cells["bins"].sum(axis=1)
    )
    frequency = np.where(tally.asked > 0, share(a, b, heard, asked), 0.0)
    variance = mechanism.variance(np.clip(frequency, 0, 1), asked, max(tally.n_reports, 2))
    holders = np.clip(frequency, 1 / asked, 1.0)
    raw = boundary_shares(mechanism, tally, asked, holders)
    shares = np.stack([project(row, 1.0) for row in raw])
    shares[frequency <= 0] = np.nan
    return Phase(
        n_reports=tally.n_reports,
        asked=tally.asked,
        frequency=frequency,
        frequency_se=np.where(tally.asked > 0, np.sqrt(np.maximum(variance, 0)), np.inf),
        shares=shares,
    )


def boundary_shares(mechanism: Mechanism, tally: Tally, asked: Floats, holders: Floats) -> Floats:
    """Shares of the boundaries among holders, unbiased given their frequency; may be negative."""
    if isinstance(mechanism, IndexedBoundaryBits):
        own, other, bins = float(mechanism.bits.a), float(mechanism.bits.b), mechanism.bins
        a, b = float(mechanism.a), float(mechanism.b)
        unmasked = (tally.cells["bits"] - other * tally.cells["held"][:, None]) / (own - other)
        fakes = (1 - holders) * b / bins
        spoken: Floats = (unmasked / asked[:, None] - fakes[:, None]) / (holders * a)[:, None]
        return spoken
    assert isinstance(mechanism, IndexedBoundary)
    channel = mechanism.channel
    near, far, fake = (words / channel.words for words in (channel.near, channel.far, channel.fake))
    said = tally.cells["bins"] / asked[:, None] - ((1 - holders) * fake)[:, None]
    return (said / holders[:, None] - far) / (near - far)
