"""What a plan foresees of a population beside what a simulation finds.

A plan that is given the population itself must be right; one that is given what is declared of it (how many,
how long records are, how skewed keys are) must have the truth within its band.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from keyveil.mechanisms import UeSw
from keyveil.plan import Crowd, Prediction, alternatives, candidates, even_sizes
from keyveil.plan.band import banded
from keyveil.plan.draft import find_skew
from keyveil.plan.strata import Strata
from keyveil.protocols import Protocol, build_protocol
from keyveil.protocols.one_round import OneRound
from keyveil.simulate.forecast import forecast, forecast_among
from keyveil.simulate.metrics import top_keys
from keyveil.simulate.play import play
from keyveil.simulate.population import Floats, Population, insecure_generator


def counted_crowd(people: Population, *, skew: float = 1.0) -> Crowd:
    """Others like these people: as many, who hold what they hold."""
    strata = Strata.count(people.sizes, people.codes, people.values, n_keys=people.n_keys)
    strata = strata.columns(top_keys(strata.frequency, people.n_keys))
    return Crowd(users=people.n_users, n_keys=people.n_keys, law=strata.law, skew=skew, counted=strata)


class Found:
    """Simulated errors: root mean squares over runs, and how sure they are, as a part of them."""

    def __init__(self, squares: Floats) -> None:
        self.rmse = float(np.sqrt(squares.mean()))
        spread = squares.std(ddof=1) / math.sqrt(squares.size) if squares.size > 1 else math.nan
        self.part = float(spread / (2 * squares.mean())) if squares.mean() > 0 else math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Foresight:
    """One method on one population at one epsilon: predicted, its band, simulated."""

    population: str
    users: int
    epsilon: float
    mechanism: str
    pairs_per_user: int
    frequency_predicted: float
    frequency_low: float
    frequency_high: float
    frequency_simulated: float
    frequency_ratio: float
    frequency_ratio_se: float
    mean_predicted: float
    mean_low: float
    mean_high: float
    mean_simulated: float
    mean_ratio: float
    mean_ratio_se: float

    @classmethod
    def of(
        cls, name: str, prediction: Prediction, declared: Prediction, frequency: Found, mean: Found
    ) -> Foresight:
        """The prediction for a known population, the band for what is declared of it, and the truth."""
        return cls(
            population=name,
            users=prediction.users,
            epsilon=prediction.epsilon,
            mechanism=prediction.mechanism,
            pairs_per_user=prediction.pairs_per_user,
            frequency_predicted=prediction.frequency_rmse,
            frequency_low=declared.frequency_low,
            frequency_high=declared.frequency_high,
            frequency_simulated=frequency.rmse,
            frequency_ratio=prediction.frequency_rmse / frequency.rmse,
            frequency_ratio_se=frequency.part,
            mean_predicted=prediction.mean_rmse,
            mean_low=declared.mean_low,
            mean_high=declared.mean_high,
            mean_simulated=mean.rmse,
            mean_ratio=prediction.mean_rmse / mean.rmse,
            mean_ratio_se=mean.part,
        )

    def misses(self, low: float, high: float) -> list[str]:
        """Which predictions are off by more than a factor from low to high, and which truths leave the band.

        Two standard errors of what was simulated are allowed for.
        """
        said = []
        for what in ("frequency", "mean"):
            ratio, part = getattr(self, f"{what}_ratio"), getattr(self, f"{what}_ratio_se")
            allowed = 1 + 2 * (0.0 if math.isnan(part) else part)
            if ratio * allowed < low or ratio / allowed > high:
                said.append(what)
            found = getattr(self, f"{what}_simulated")
            least, most = getattr(self, f"{what}_low"), getattr(self, f"{what}_high")
            if found * allowed < least or found / allowed > most:
                said.append(f"{what}_band")
        return said

    def to_fields(self) -> dict[str, Any]:
        """For a table."""
        return asdict(self)


def foresee(
    name: str, people: Population, epsilon: float, *, runs: int = 4, seed: int = 0, top: int = 50
) -> Iterator[Foresight]:
    """`auto`, and every mechanism of one round that tells signs, at the length that suits it best.

    >>> from keyveil.simulate.zoo import make
    >>> [each.mechanism for each in foresee("tiny", make("tiny", users=500, keys=5), 4.0, runs=2)][:2]
    ['auto', 'pckv-grr']
    """
    known, declared = counted_crowd(people), declared_crowd(people)
    pairs, others = people.typical_size(), alternatives(declared)
    protocol = build_protocol(
        "auto", epsilon, n_keys=people.n_keys, pairs_per_user=pairs, users=people.n_users
    )
    yield Foresight.of(
        name,
        forecast(epsilon, known, pairs_per_user=pairs, top=top),
        forecast_among(epsilon, declared, others, pairs_per_user=pairs, top=top),
        *simulated(protocol, people, runs=2 * runs, seed=seed, top=top, published=True),
    )
    for each in candidates(epsilon, known, want="frequency", at=None, top=top):
        if not isinstance(each.mechanism, UeSw):
            yield Foresight.of(
                name,
                each.predict(known, top=top),
                banded(each.predict(declared, top=top), [each.predict(other, top=top) for other in others]),
                *simulated(
                    OneRound(mechanism=each.mechanism), people, runs=runs, seed=seed, top=top, published=False
                ),
            )


def declared_crowd(people: Population) -> Crowd:
    """What a campaign would say: how many people, what nine in ten hold at most, how skewed keys are."""
    return Crowd(
        users=people.n_users,
        n_keys=people.n_keys,
        law=even_sizes(people.typical_size()),
        skew=find_skew(people.frequency()),
    )


def simulated(
    protocol: Protocol, people: Population, *, runs: int, seed: int = 0, top: int = 50, published: bool
) -> tuple[Found, Found]:
    """Errors of frequencies over all keys, and of the means of the top keys that anybody holds.

    Frequencies are the unbiased ones, means are cut to their range as the papers do; of what is `published`
    both are as they are printed.
    """
    frequency, mean = people.frequency(), people.mean()
    best = top_keys(frequency, min(top, people.n_keys))
    best = best[frequency[best] > 0]
    squares = np.empty((2, runs))
    for run in range(runs):
        outcome = play(protocol, people, insecure_generator(seed, run))
        estimated = outcome.published.frequency if published else outcome.raw.frequency
        means = np.nan_to_num(outcome.published.mean[best])
        squares[:, run] = np.mean((estimated - frequency) ** 2), np.mean((means - mean[best]) ** 2)
    return Found(squares[0]), Found(squares[1])
