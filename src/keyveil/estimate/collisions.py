"""What heavy keys add to others because users of one cohort share a hash, which is known, and taken off.

A report's cohort and its hash are public. Over all hashes a symbol x shares its bucket with a symbol y in one
cohort of g, and unbiased estimates rely on that; over the R hashes that there are it is another part q of
them, and what is estimated is not the share of x but

    share(x) + sum(M(x, y) share(y) for the other symbols y),      M(x, y) = (q(x, y) - 1/g) g / (g - 1)

with M of 0 on average and of 1/((g - 1) R) in its square: more reports leave it as it is. Every M is known
before anybody answers, so what keys of a known share add is subtracted, a control variate. Nothing is stored
for it, and it costs a decoding or two: the sum over y is what the heavy keys' own buckets would support.
What keys too light to be known add stays, and is added to the variance.

Records of several pairs bend that line: who holds two keys owns one bucket for both where they collide.
Holders of y who hold x as well add nothing to x, a part share(x) of them if keys are held independently, and
two keys of one record add together another thing than apart. That is in the variance as it is for keys held
independently, twice over. Where tastes are closer it may be more, up to all that was subtracted, so
`plan.choice` gives so many cohorts to so many reports that this is a fraction of the noise.

Who moves a heavy key moves by M what it adds to others: five standard deviations of a sum of M over all that
were taken off are in the bound on hostile devices (`Lever.echo`), which is of first order then.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.estimate.estimates import Estimates, mean_error, mean_of, plausible
from keyveil.estimate.influence import Lever
from keyveil.mechanisms import Bucket
from keyveil.mechanisms.moments import Covariance
from keyveil.tally.hashing import signed_buckets, signed_supports

Floats = NDArray[np.float64]

# Below this part of the noise shared collisions are left alone, as few cohorts as there may be.
_WORTH_IT = 0.01
# Keys are known, and worth subtracting, from so many standard errors on: noise adds a sixteenth of what goes.
_KNOWN = 4.0
# Steps end where no key moves by more than this part of its standard error: two, of many cohorts.
_SETTLED = 0.01
# Where so many do not settle it, cohorts are too few to tell keys apart: all of it is left to the variance.
_STEPS = 30
# Heavy keys times cohorts: as many hashes as one decoding of a small domain.
_MOST = 1 << 22
# Cells of a block of cohorts: what stays in a core's cache.
_BLOCK = 1 << 18
# Shares as integers, so that they are added up by the decoder's own sums.
_UNIT = 1 << 30


def uncollide(mechanism: object, made: Estimates) -> Estimates:
    """Estimates without what keys added to each other through hashes; the same where nothing is to be seen.

    >>> from keyveil.estimate import estimate
    >>> from keyveil.tally import Tally
    >>> mechanism = Bucket.for_epsilon(2, n_keys=2, cohorts=16)
    >>> tally = Tally.of(question="q", n_reports=10**6, asked=[10**6] * 2,
    ...                  plus=[350_000, 160_000], minus=[130_000, 160_000])
    >>> raw = estimate(mechanism, tally)
    >>> made = uncollide(mechanism, raw)
    >>> made.steps, raw.frequency.round(3).tolist(), made.frequency.round(3).tolist()
    (('uncollide',), [0.592, 0.18], [0.643, 0.198])
    """
    if not isinstance(mechanism, Bucket) or not made.n_reports:
        return made
    added = shared_collisions(mechanism, made.frequency, made.signed, made.frequency_se)
    if added is None:
        return made
    frequency, signed = made.frequency - added.frequency, made.signed - added.signed
    mean = mean_of(signed, frequency)
    noise = mechanism.moments.covariance(np.clip(frequency, 0.0, 1.0), plausible(mean), made.asked)
    spread = Covariance(
        frequency=made.frequency_se**2 + added.frequency_variance,
        signed=noise.signed + added.signed_variance,
        crossed=noise.crossed,
    )
    pull = made.lever
    if isinstance(pull, Lever):
        pull = replace(pull, echo=5 * math.sqrt(added.keys * _square(mechanism)))
    return replace(
        made,
        frequency=frequency,
        frequency_se=np.sqrt(spread.frequency),
        signed=signed,
        signed_se=np.sqrt(spread.signed),
        covariance=spread.crossed,
        mean=mean,
        mean_se=mean_error(mean, frequency, spread),
        steps=(*made.steps, "uncollide"),
        lever=pull,
    )


class Collisions(NamedTuple):
    """What shared collisions add to frequencies and signed parts, and the variance that is left of it."""

    frequency: Floats
    signed: Floats
    frequency_variance: Floats
    signed_variance: Floats
    keys: int
    """How many were taken off."""


def shared_collisions(
    mechanism: Bucket, frequency: Floats, signed: Floats, frequency_se: Floats
) -> Collisions | None:
    """What heavy keys add to all others; None where noise hides it.

    >>> mechanism = Bucket.for_epsilon(2, n_keys=3, cohorts=16)
    >>> found = shared_collisions(mechanism, np.array([0.9, 0, 0]), np.zeros(3), np.full(3, 0.001))
    >>> found.frequency.round(2).tolist()
    [-0.07, -0.04, -0.01]
    """
    rho = float(mechanism.rho)
    squares = rho * frequency**2 + (1 - rho) * (frequency**2 + np.minimum(signed**2, frequency**2)) / 2
    known = squares - frequency_se**2
    each = _square(mechanism)
    if 2 / (1 + rho) * known.sum() * each < _WORTH_IT * float(np.median(frequency_se)) ** 2:
        return None
    held = np.clip(frequency, 0.0, 1.0) if mechanism.pairs_per_user > 1 else np.zeros_like(frequency)
    untied = 1 - rho if rho < 1 else np.inf
    of_frequency, of_signed = np.zeros_like(frequency), np.zeros_like(signed)
    for _ in range(_STEPS):
        # Heavy keys collide with each other too: their shares without that are found in a few steps.
        share = np.clip(frequency - of_frequency, 0.0, 1.0)
        heavy = _heavy(mechanism, share, frequency_se)
        lean = np.clip(signed - of_signed, -share, share)[heavy]
        plus, minus = (1 - held) * _added(
            mechanism, heavy, (share[heavy] + lean) / 2, (share[heavy] - lean) / 2
        )
        before, of_frequency, of_signed = of_frequency, (plus + minus) / (1 + rho), (plus - minus) / untied
        if np.all(np.abs(of_frequency - before) <= _SETTLED * frequency_se):
            left = max(0.0, float(known.sum() - known[heavy].sum()))
            variance = each * (left + _bent(held, share[heavy]))
            break
    else:
        heavy = heavy[:0]
        of_frequency, of_signed = np.zeros_like(frequency), np.zeros_like(signed)
        variance = np.full_like(frequency, each * float(squares.sum()))
    return Collisions(
        frequency=of_frequency,
        signed=of_signed,
        frequency_variance=2 * variance / (1 + rho),
        signed_variance=2 * variance / untied,
        keys=heavy.size,
    )


def _square(mechanism: Bucket) -> float:
    """What M is in its square, on average over all hashes."""
    return 1 / ((mechanism.buckets - 1) * mechanism.cohorts)


def _bent(held: Floats, heavy: Floats) -> Floats:
    """The squares of what two keys in one record may add to each other, and together to any third.

    >>> _bent(np.array([0.5, 0.0]), np.array([1.0, 0.5])).tolist()
    [0.5625, 0.25]
    """
    squares = heavy**2
    total = float(squares.sum())
    both = min((total**2 - float((squares**2).sum())) / 2, total) if held.any() else 0.0
    return both + held**2 * total


def _heavy(mechanism: Bucket, share: Floats, error: Floats) -> NDArray[np.int64]:
    """The keys that are known well enough, the heaviest of them if there are too many."""
    known = np.flatnonzero(share > _KNOWN * error)
    most = max(1, _MOST // mechanism.cohorts)
    return np.sort(known[np.argsort(-share[known], kind="stable")[:most]])


def _added(mechanism: Bucket, heavy: NDArray[np.int64], up: Floats, down: Floats) -> Floats:
    """The sum of M(x, y) share(y) over the heavy symbols y, for both signs of every key x."""
    g, cohorts, rho = mechanism.buckets, mechanism.cohorts, float(mechanism.rho)
    weights = np.concatenate([up, down])
    total = np.zeros((2, mechanism.n_keys))
    block = max(1, _BLOCK // max(g, weights.size))
    for start in range(0, cohorts, block):
        here = np.arange(start, min(cohorts, start + block))
        places = np.concatenate(signed_buckets(mechanism, here[:, None], heavy[None, :]), axis=1)
        cells = ((here - start)[:, None] * g + places).ravel()
        shares = np.bincount(cells, np.tile(weights, here.size), here.size * g)
        filled = np.flatnonzero(shares)
        times = np.rint(shares[filled] * _UNIT).astype(np.int64)
        total += np.array(signed_supports(mechanism, filled + start * g, times)) / _UNIT
    added: Floats = (total / cohorts - weights.sum() / g) * g / (g - 1)
    # A key's own two symbols are what is estimated, and how often they share a bucket was counted on.
    added[0, heavy] -= up + rho * down
    added[1, heavy] -= down + rho * up
    return added
