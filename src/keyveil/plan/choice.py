"""Which mechanism, with which padding length: the one whose own moments promise the smallest error.

Three shapes compete, each from its own kernel: `bucket` (noise linear in l; its dial rho moves
precision from means to frequencies), `pckv-grr` (its unhashed member: better where 2 (d + l) symbols
are few), `kvue` or `levels` (one key asked: better where records are dense and the domain small). Errors are
those of the keys that are asked for (`at`), noise and what truncation leaves. Where frequencies alone are
wanted and keys are not many, `subset` is a fourth: one key, without a sign and without a hash.

A mean can be no worse than what is known without data. Where both are wanted but even the likely top
keys' means would stay mostly unknown, precision is moved to frequencies, not all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from keyveil.estimate.sizes import SizeLaw, Truncation, slope
from keyveil.mechanisms import KeyValueMechanism, Levels, SubsetSelection, build
from keyveil.mechanisms.oracles import COHORTS
from keyveil.numerics import parse_epsilon
from keyveil.plan.crowd import Crowd

Floats = NDArray[np.float64]

# What is known of a mean without data, that it lies in [-1, 1]: the variance of an even law there.
PRIOR_MEAN_VARIANCE = 1 / 3
# The end of the dial where both signs of a key share their bucket and no mean is known.
FREQUENCIES_ONLY = 1.0
# Hashes that a collector evaluates in seconds: about 10**9 a second.
MOST_HASHES = 1 << 29


@dataclass(frozen=True, slots=True, kw_only=True)
class Choosing:
    """The tuned numbers of a choice; `bench/tuning.py` shows what each of them changes."""

    typical_mean: float = 0.5
    """The mean at which errors are predicted: half of the way to an end, as ratings have it."""
    hopeless: float = 0.28
    """Where less than this part of the means' variance would be explained, frequencies come first;"""
    frequencies_first: float = 0.8
    """the dial rho is then set to this: not to 1, where means would not be known at all."""
    dear_levels: float = 0.05
    """Levels tell means better than signs; they may cost frequencies this much more error."""
    means_weigh: float = 2.0
    """Where both are wanted a mean's error counts with this power: twice what a frequency's does."""
    unmodelled: float = 0.15
    """The part of what truncation takes that is expected to stay wrong, whatever the number of users."""
    worst: float = 0.3
    """What truncation takes is by this part what it may take whatever tastes are, by the rest as modelled."""
    sharing: float = 1.0
    """So many reports share a hash where records hold one pair: what they share is then below their noise."""
    longest: float = 0.001
    """No padding length is tried beyond the records of all but this share of the users."""
    longer: float = 0.33
    """Each length tried is this much longer than the one before: noise grows by no more between two."""
    rounding: float = 1.0
    """Levels round a value by this part of the variance that signs do: none is lost at the ends, and half of
    the way to one three levels lose a third of what signs do. 1: no less is counted."""
    own_keys: int = 1000
    """Up to so many keys one may be named alone, by `subset`: with more of them hashes are as good, to a part
    in 80 up to epsilon 2 and in 35 at 4, and a set takes a bit a key. 0: keys are never asked for alone."""


CHOOSING = Choosing()


Member = KeyValueMechanism | SubsetSelection
# From how a mechanism is made at an epsilon to the most telling one that may be asked.
Allowed = Callable[[Callable[[Fraction], Any]], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A mechanism and the squared errors that it promises, averaged over the keys asked for."""

    mechanism: Member
    truncation: Truncation
    frequency_error: float
    mean_error: float

    def score(self, want: str, means_weigh: float = CHOOSING.means_weigh) -> float:
        """Small is good."""
        if want == "frequency":
            return self.frequency_error
        return self.mean_error if want == "mean" else self.frequency_error * self.mean_error**means_weigh


def best(
    epsilon: object,
    crowd: Crowd,
    *,
    at: Floats,
    reports: float,
    want: str = "both",
    tuning: Choosing = CHOOSING,
) -> Choice:
    """The choice with the smallest predicted error at the frequencies `at` from so many reports.

    Instead of an epsilon for all there may be an `Allowed`, which has one for each.
    """

    def least(want: str, rho: float) -> Choice:
        choices = options(epsilon, crowd, at=at, reports=reports, rho=rho, tuning=tuning)
        return min(choices, key=lambda choice: choice.score(want, tuning.means_weigh))

    if want == "distribution":
        # A dither tells how values are spread by signs alone, as noisy as it tells means.
        signed = options(epsilon, crowd, at=at, reports=reports, tuning=tuning, levels=False)
        return min(signed, key=lambda choice: choice.mean_error)
    chosen = least(want, FREQUENCIES_ONLY if want == "frequency" else 0.0)
    if want == "both" and chosen.mean_error > (1 - tuning.hopeless) * PRIOR_MEAN_VARIANCE:
        return least("frequency", tuning.frequencies_first)
    if want == "frequency" and crowd.n_keys <= tuning.own_keys:
        alone = own_key(epsilon, crowd, at=at, reports=reports, tuning=tuning)
        return min(chosen, alone, key=lambda choice: choice.frequency_error)
    return chosen


def options(
    epsilon: object,
    crowd: Crowd,
    *,
    at: Floats,
    reports: float,
    rho: float = 0.0,
    tuning: Choosing = CHOOSING,
    levels: bool = True,
) -> Iterator[Choice]:
    """Everything that may be chosen, but for `own_key`: it tells frequencies alone."""
    d, allowed = crowd.n_keys, allowed_at(epsilon)

    def made(name: str, l: int = 1, rho: float = 0.0, hashes: int = 0) -> KeyValueMechanism:
        built: KeyValueMechanism = allowed(lambda budget: _built(name, budget, d, l, rho, hashes))
        return built

    for l in lengths(crowd.law, tuning):
        cut = Truncation(law=crowd.law, l=l)
        hashes = cohorts(d, l, reports / tuning.sharing)
        yield promise(made("bucket", l, rho, hashes), cut, at, reports, tuning)
        yield promise(made("pckv-grr", l), cut, at, reports, tuning)
    everything = Truncation(law=crowd.law, l=d)
    signs = promise(made("kvue"), everything, at, reports, tuning)
    values = promise(made("levels"), everything, at, reports, tuning)
    is_dear = values.frequency_error > (1 + tuning.dear_levels) * signs.frequency_error
    yield values if levels and not is_dear else signs


def own_key(
    epsilon: object, crowd: Crowd, *, at: Floats, reports: float, tuning: Choosing = CHOOSING
) -> Choice:
    """`subset`: one of the own keys, evenly, so that a record is cut to one pair; nothing about means."""
    cut = Truncation(law=crowd.law, l=1)
    made = allowed_at(epsilon)(lambda budget: _subset(budget, crowd.n_keys))
    return promise(made, cut, at, reports, tuning)


def allowed_at(epsilon: object) -> Allowed:
    """What is built at an epsilon, or what somebody else allows."""
    if callable(epsilon):
        return cast(Allowed, epsilon)
    budget = parse_epsilon(epsilon)
    return lambda make: make(budget)


@cache
def _subset(epsilon: Fraction, n_keys: int) -> SubsetSelection:
    """Calibrated once, as the others are."""
    return SubsetSelection.for_epsilon(epsilon, n_keys=n_keys)


@cache
def _built(
    name: str, epsilon: Fraction, n_keys: int, l: int = 1, rho: float = 0.0, hashes: int = 0
) -> KeyValueMechanism:
    """A mechanism, calibrated once: long records take a tenth of a second."""
    more: dict[str, Any] = {"rho": rho, "cohorts": hashes} if hashes else {}
    built = build(name, epsilon, n_keys=n_keys, pairs_per_user=l, **more)
    return cast(KeyValueMechanism, built)


def promise(
    mechanism: Member,
    truncation: Truncation,
    at: Floats,
    reports: float,
    tuning: Choosing = CHOOSING,
) -> Choice:
    """Squared errors: first-order noise and what truncation leaves; means shrunk to what is known."""
    cut = truncation.share(at)
    grown = slope(truncation.frequency, cut, np.maximum(1e-6, cut / 100))
    spread = mechanism.moments.covariance(cut, tuning.typical_mean, mechanism.expected_asked(reports))
    left = truncation.left_out(at, tuning.unmodelled, tuning.worst)
    # Of keys that nobody holds nothing is known, and of no key's mean where signs are tied.
    noise = spread.of_mean(1.0, tuning.typical_mean)
    if isinstance(mechanism, Levels):
        spared = (1 - tuning.rounding) * (1 - tuning.typical_mean**2)
        noise = noise - spared * cut / mechanism.expected_asked(reports)
    known = cut**2 / (noise + (tuning.worst * tuning.unmodelled * truncation.unheard().part(cut) * cut) ** 2)
    of_mean = 1 / (1 / PRIOR_MEAN_VARIANCE + known)
    return Choice(
        mechanism=mechanism,
        truncation=truncation,
        frequency_error=float(np.mean(spread.frequency * grown**2 + left**2)),
        mean_error=float(np.mean(of_mean)),
    )


def lengths(law: SizeLaw, tuning: Choosing = CHOOSING) -> list[int]:
    """Padding lengths worth trying: up to what all but one in a thousand users hold, in steps of a third."""
    reached = np.cumsum(law.shares)
    largest = max(1.0, float(law.sizes[np.searchsorted(reached, (1 - tuning.longest) * reached[-1])]))
    tried, step = [1, 2, 3, 4], 1 + tuning.longer
    while tried[-1] * step < largest:
        tried.append(max(tried[-1] + 1, round(tried[-1] * step)))
    return [l for l in tried if l <= max(1, np.ceil(largest))]


def cohorts(n_keys: int, l: int, reports: float = 0.0) -> int:
    """As many public hashes as the noise asks for and a collector can evaluate in seconds.

    Collisions that reports share weigh less against noise by l squared, so long records need fewer hashes;
    and as noise falls with the number of reports, more of them need more.

    >>> cohorts(100, 1), cohorts(26_744, 1), cohorts(26_744, 100)
    (65536, 8192, 1024)
    >>> cohorts(100, 1, 10**6), cohorts(100, 3, 10**6), cohorts(100, 3, 10**9)
    (524288, 65536, 2097152)
    """
    wanted = min(int(max(COHORTS, reports)) // l**2, MOST_HASHES // (2 * n_keys))
    return int(max(1 << 10, 1 << max(0, wanted.bit_length() - 1)))
