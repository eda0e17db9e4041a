"""A season: the same pattern over every seven waves, if the data show one.

A key's waves are y_t = x_t + c_(t mod 7) + noise, c summing to 0 and x a random walk whose drift is read
off differences over seven waves, which no season moves:

    E (y_(t+7) - y_t)**2 = 7 drift**2 + s_t**2 + s_(t+7)**2.

The smaller of a key's drift and the one all keys share is never taken: too small a drift would find seasons
where there are none. c is fitted by generalised least squares; where there is no season, T = c' V^-1 c has
the chi-square law of six degrees. Two p-values, of the largest T (times the number of keys) and of the sum
of all (six degrees a key): one sees a season of one key, the other one that all share and none shows alone.
The series has a season if twice the smaller is at most 5 %. Then every key's c is shrunk towards 0 by a
spread that is learnt over keys: keys without a season get none, and a season by false alarm hardly counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from keyveil.estimate.estimates import Floats
from keyveil.estimate.series.observations import Observations

FALSE_SEASONS = 0.05
# Two whole periods say what repeats; a third says that it does.
FEWEST_PERIODS = 3
# Spreads of a season in standard errors of a wave; 0 is none. The finest is lost in the noise of a year.
_SPREADS = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)
_BLOCK = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Season:
    """What repeats, by wave and key, its variance, and how likely chance alone would show as much."""

    part: Floats
    variance: Floats
    p_value: float


def find_season(seen: Observations, period: int = 7) -> Season | None:
    """The season of all keys; None where there are too few waves, or the data show none."""
    if seen.n_waves < FEWEST_PERIODS * period:
        return None
    lasting = np.flatnonzero(seen.heard.sum(axis=0) >= FEWEST_PERIODS * period)
    if not lasting.size:
        return None
    rows = max(1, _BLOCK // seen.n_waves**2)
    fits = [_fit(seen.only(lasting[at : at + rows]), period) for at in range(0, lasting.size, rows)]
    coefficient, precision = (np.concatenate([fit[part] for fit in fits]) for part in (0, 1))
    p_value = _chance(np.einsum("kp,kpq,kq->k", coefficient, precision, coefficient), period - 1)
    if p_value > FALSE_SEASONS:
        return None
    mean, variance = _shrunk(coefficient, precision, seen.unit[lasting])
    basis = _basis(period)[np.arange(seen.n_waves) % period]
    part, doubt = np.zeros((2, seen.n_waves, seen.n_keys))
    part[:, lasting] = basis @ mean.T
    doubt[:, lasting] = np.einsum("tp,kpq,tq->tk", basis, variance, basis)
    return Season(part=part, variance=doubt, p_value=p_value)


def _basis(period: int) -> Floats:
    """An orthonormal basis of the patterns that sum to 0, one a column."""
    patterns = np.eye(period)[:, 1:] - 1 / period
    basis: Floats = np.linalg.qr(patterns)[0]
    return basis


def _drift(seen: Observations, period: int) -> Floats:
    """The variance of a wave's drift, in squares of each key's unit: the larger of its own and all keys'."""
    first, later = seen.estimate[:-period], seen.estimate[period:]
    noise = seen.standard_error[:-period] ** 2 + seen.standard_error[period:] ** 2
    both = np.isfinite(first) & np.isfinite(later)
    over = np.where(both, (later - first) ** 2 - noise, 0.0).sum(axis=0) / np.maximum(both.sum(axis=0), 1)
    own = np.maximum(over, 0.0) / period / seen.unit**2
    drift: Floats = np.maximum(own, own.mean())
    return drift


def _fit(seen: Observations, period: int) -> tuple[Floats, Floats]:
    """Each key's coefficients in the basis, and their precision, by generalised least squares."""
    waves = np.arange(seen.n_waves)
    walk = np.minimum(waves[:, None], waves)[None] * _drift(seen, period)[:, None, None]
    weight = (seen.precision * seen.unit**2).T
    # (D + S^-1)^-1 S^-1 = S (1 + D S)^-1 ...: a wave that was not heard has weight 0 and takes no part.
    solved = np.linalg.inv(np.eye(waves.size) + weight[:, :, None] * walk)
    inverse = solved * weight[:, None, :]
    level = np.ones((waves.size, 1))
    design = np.concatenate([level, _basis(period)[waves % period]], axis=1)
    value = np.where(seen.heard, seen.estimate, 0.0).T
    normal = design.T @ inverse @ design
    answer = np.linalg.solve(normal, design.T @ inverse @ value[:, :, None])[:, :, 0]
    across = normal[:, 1:, :1]
    precision = normal[:, 1:, 1:] - across @ np.swapaxes(across, 1, 2) / normal[:, :1, :1]
    return answer[:, 1:], precision / seen.unit[:, None, None] ** 2


def _shrunk(coefficient: Floats, precision: Floats, unit: Floats) -> tuple[Floats, Floats]:
    """Posterior means and covariances of all coefficients, the mixture over spreads being learnt."""
    size = coefficient.shape[1]
    noise = np.linalg.inv(precision) / unit[:, None, None] ** 2
    value = coefficient / unit[:, None]
    spreads = np.array(_SPREADS)[:, None, None, None] ** 2 * np.eye(size)
    total = noise + spreads
    solved = np.linalg.solve(total, np.broadcast_to(value[..., None], (len(_SPREADS), *value.shape, 1)))
    law = -(value[:, None] @ solved)[..., 0, 0] / 2 - np.linalg.slogdet(total)[1] / 2
    chance = np.exp(law - law.max(axis=0))
    weights = np.full(len(_SPREADS), 1 / len(_SPREADS))
    for _ in range(200):
        shares = chance * weights[:, None]
        shares /= shares.sum(axis=0)
        weights = (shares.sum(axis=1) + 1 / len(_SPREADS)) / (value.shape[0] + 1)
    means = (spreads @ solved)[..., 0]
    own = spreads - spreads @ np.linalg.solve(total, np.broadcast_to(spreads, total.shape))
    mean = np.einsum("gk,gkp->kp", shares, means)
    off = means - mean
    covariance = np.einsum("gk,gkpq->kpq", shares, own + off[..., :, None] * off[..., None, :])
    return unit[:, None] * mean, unit[:, None, None] ** 2 * covariance


def _chance(statistics: Floats, degrees: int) -> float:
    """How likely chance alone would show as much: twice the smaller of two p-values, at most 1."""
    one = statistics.size * chi_square_tail(float(statistics.max()), degrees)
    all_together = chi_square_tail(float(statistics.sum()), degrees * statistics.size)
    return min(1.0, 2 * min(one, all_together))


def chi_square_tail(value: float, degrees: int) -> float:
    """The chance of more than `value`, for an even number of degrees.

    >>> round(chi_square_tail(12.591587, 6), 6), round(chi_square_tail(1074.679, 1000), 4)
    (0.05, 0.05)
    """
    half = value / 2
    if half <= 0:
        return 1.0
    logs = (place * math.log(half) - half - math.lgamma(place + 1) for place in range(degrees // 2))
    return min(1.0, math.fsum(math.exp(each) for each in logs))
