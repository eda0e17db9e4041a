"""towards the whole: what all segments say of each of them (empirical Bayes).

A cell's estimate is noise around its truth; the other segments of its key show where that may lie. Given how
far segments of a key differ, each is pulled towards what all say together:

    y_sk  ~  N(x_sk, v_sk)            the unbiased estimate; v_sk as if the segment were like the whole,
                                      since an error that follows its own estimate would weigh low ones more
    x_sk  ~  N(m_k, (r_k u_k)**2)     u_k the key's unit; m_k anywhere
    r_k   ~  G                        no difference with some chance, else near one spread, by a factor of 1.5

All of it is integrated out: m_k exactly, r_k over `SPREADS`, G over all that there may be, weighed by what
all keys together say of it. So a cell's posterior is a mixture, whose mean and variance are the answer,
and nothing that was estimated is taken for known. The raw estimate stays beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from keyveil.estimate.breakdowns.cells import Cells, Mask
from keyveil.estimate.estimates import Floats
from keyveil.numerics import CONFIDENCE, two_sided_z

STEP = "towards the whole"
# How far segments may differ, in units of a key: the likelihood hardly tells steps of a half apart.
SPREADS = (0.0, 0.03, 0.06, 0.1, 0.15, 0.25, 0.4, 0.6, 1.0, 1.5)
# The chance that segments of a key do not differ, and by what factor keys that do are apart.
_ALIKE, _FACTOR = (0.0, 0.5, 0.9), 1.5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shrunk:
    """Segments by keys, each pulled towards its key's whole; NaN where nothing is known of a cell."""

    estimate: Floats
    standard_error: Floats
    hidden: Floats
    spreads: Floats
    """The share of keys whose segments differ by each of `SPREADS`."""
    steps: tuple[str, ...] = (STEP,)

    def interval(self, confidence: float = CONFIDENCE) -> tuple[Floats, Floats]:
        """Every cell alone."""
        reach = two_sided_z(confidence) * self.standard_error
        return self.estimate - reach, self.estimate + reach + self.hidden


def towards_whole(cells: Cells) -> Shrunk:
    """Each cell pulled towards its key's whole, as far as the segments of keys are alike.

    >>> alike = Cells.of_arrays(np.full((4, 9), 0.2), np.full((4, 9), 0.05), users=[1000] * 4)
    >>> towards_whole(alike).standard_error.round(3).max()
    np.float64(0.026)
    """
    known = cells.known
    value = np.where(known, cells.estimate, 0.0)
    noise = np.where(known, cells.pooled_error, np.inf) ** 2
    fits = [_Fit.of(value, noise, known, (spread * cells.unit) ** 2) for spread in SPREADS]
    likely = np.array([fit.likelihood for fit in fits])
    shares, belief = mixing(likely, np.asarray(known.any(axis=0)))
    mean, square = np.zeros_like(value), np.zeros_like(value)
    for fit, weight in zip(fits, belief, strict=True):
        mean += weight * fit.mean
        square += weight * (fit.variance + fit.mean**2)
    return Shrunk(
        estimate=np.where(known, mean, np.nan),
        standard_error=np.where(known, np.sqrt(np.maximum(square - mean**2, 0.0)), np.nan),
        hidden=cells.hidden,
        spreads=shares,
    )


@dataclass(frozen=True, slots=True)
class _Fit:
    """Cells if the segments of a key differ by so much: posterior means and variances, and how likely."""

    mean: Floats
    variance: Floats
    likelihood: Floats

    @classmethod
    def of(cls, value: Floats, noise: Floats, known: Mask, apart: Floats) -> _Fit:
        weight = np.where(known, 1 / (noise + apart), 0.0)
        total = np.maximum(weight.sum(axis=0), np.finfo(float).tiny)
        centre = (weight * value).sum(axis=0) / total
        off = (weight * (value - centre) ** 2).sum(axis=0)
        logs = np.where(known, np.log(np.where(known, weight, 1.0)), 0.0).sum(axis=0)
        noise = np.where(known, noise, 0.0)
        # How much of a cell is the centre's: all where segments do not differ.
        pull = np.where(known, noise / np.maximum(noise + apart, np.finfo(float).tiny), 0.0)
        return cls(
            mean=value + pull * (centre - value),
            variance=noise * (1 - pull) + pull**2 / total,
            likelihood=(logs - np.log(total) - off) / 2,
        )


def mixing(likely: Floats, known: Mask) -> tuple[Floats, Floats]:
    """How spreads are shared out over all keys, and what is believed of each key's.

    `likely` are log-likelihoods by spread and key; keys that are not `known` count for nothing.
    """
    chances, laws = np.exp(likely - likely.max(axis=0)), _laws()
    fit = laws @ chances
    together = np.log(fit[:, known]).sum(axis=1)
    weight = np.exp(together - together.max())
    belief = chances * (laws.T @ (weight[:, None] / fit))
    belief /= belief.sum(axis=0)
    return laws.T @ weight / weight.sum(), belief


@cache
def _laws() -> Floats:
    """Every G that there may be, a row each."""
    steps = np.log(SPREADS[1:])
    around = np.exp(-(((steps - steps[:, None]) / np.log(_FACTOR)) ** 2) / 2)
    around /= around.sum(axis=1, keepdims=True)
    rows = [np.concatenate([[alike], (1 - alike) * near]) for alike in _ALIKE for near in around]
    return np.array(rows)
