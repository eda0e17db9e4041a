"""Many keys at once: intervals that all hold together, ranks, and what n reports can find at all.

An interval of 95 % misses one key in twenty. What is said of all keys together, or of the keys that
came out on top, needs wider ones. The correction is Bonferroni's: with c statements each may fail
with chance 5 % / c. It assumes nothing about how keys vary together. Sidak's is narrower by less than
0.3 % and wants joint normality, which rare keys do not give.

Ranks come from differences. Two keys' estimates are not independent: of two pairs that a user holds,
a report speaks for one at the other's expense, so covariances are mostly negative and a difference
is less sure than that of independent estimates. How negative at most is known from the mechanism up
to the share of users who hold both keys (`mechanisms.moments`), itself at most the smaller of the two
frequencies. No sign is assumed; a positive covariance only makes this too careful:

    Var(f_j - f_k) <= Var f_j + Var f_k + 2 rivalry(f_j, f_k) / n.

All d (d - 1) / 2 differences hold together, so what is said of any pair, chosen after seeing the
data or not, is covered. Normal laws throughout: some ten expected reports a key are enough.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.errors import DomainError
from keyveil.estimate.estimates import Estimates, Floats
from keyveil.mechanisms import Moments
from keyveil.numerics import CONFIDENCE, two_sided_z

Ints = NDArray[np.int64]

# Chance to find a key that is as frequent as `detectable_frequency` says.
POWER = 0.9

# Differences taken at once.
_BLOCK = 1 << 20


class RankRanges(NamedTuple):
    """For each key the highest and the lowest rank it may have; 1 is the most frequent."""

    best: Ints
    worst: Ints


def simultaneous_interval(raw: Estimates, confidence: float = CONFIDENCE) -> tuple[Floats, Floats]:
    """Frequency intervals that hold for all keys together; not cut to [0, 1].

    >>> from keyveil.estimate import estimate
    >>> from keyveil.mechanisms import build
    >>> from keyveil.tally import Tally
    >>> tally = Tally.of(question="q", n_reports=5000, plus=[2300, 560], minus=[240, 540], asked=[5000] * 2)
    >>> low, high = simultaneous_interval(estimate(build("pckv-ue", 2, n_keys=2), tally))
    >>> low.round(2).tolist(), high.round(2).tolist()
    ([0.97, 0.05], [1.08, 0.13])
    """
    return raw.frequency_interval(_of_each(confidence, raw.frequency.size))


def difference_se(raw: Estimates, moments: Moments | None, first: Ints, second: Ints) -> Floats:
    """At most this is the standard error of frequency[first] - frequency[second].

    Without moments nothing is known of how the two vary together: then the errors add.
    """
    if moments is None:
        added: Floats = raw.frequency_se[first] + raw.frequency_se[second]
        return added
    f, g = (np.clip(raw.frequency[codes], 0.0, 1.0) for codes in (first, second))
    apart = raw.frequency_se[first] ** 2 + raw.frequency_se[second] ** 2
    together: Floats = np.sqrt(apart + 2 * moments.rivalry(f, g) / max(raw.n_reports, 1))
    return together


def rank_ranges(raw: Estimates, moments: Moments | None, confidence: float = CONFIDENCE) -> RankRanges:
    """Ranks that hold for all keys together: at worst behind all but those that are surely below.

    Where variances are linear in the frequency, as they are where everybody is asked about every key,
    those surely above a key are the first ones in order and those surely below it the last: the squared
    gap is convex in the other's frequency, the variance of the difference linear. Both ends are then found
    by halving. Otherwise d**2 comparisons are made: a second for ten thousand keys.
    """
    if raw.unheard is None and _is_linear(np.clip(raw.frequency, 0.0, 1.0), raw.frequency_se**2):
        return _ranges_by_halving(raw, moments, confidence)
    return _ranges_by_pairs(raw, moments, confidence)


def _is_linear(frequency: Floats, variance: Floats) -> bool:
    low, high = int(np.argmin(frequency)), int(np.argmax(frequency))
    run = max(frequency[high] - frequency[low], np.finfo(float).tiny)
    line = variance[low] + (variance[high] - variance[low]) * (frequency - frequency[low]) / run
    return bool(np.allclose(variance, line, rtol=1e-6, atol=0.0))


def _ranges_by_halving(raw: Estimates, moments: Moments | None, confidence: float) -> RankRanges:
    d = raw.frequency.size
    order, places = np.argsort(-raw.frequency, kind="stable"), np.arange(d)
    z = _z_of_pairs(confidence, d)

    def is_apart(others: Ints) -> NDArray[np.bool_]:
        gap = np.abs(raw.frequency[order[others]] - raw.frequency[order])
        return gap > z * difference_se(raw, moments, order[others], order)

    def halve(near: Ints, far: Ints) -> Ints:
        """For each place the first, from its own towards an end, that differs for sure; `far` is beyond."""
        while (np.abs(far - near) > 1).any():
            middle = (near + far) // 2
            apart = is_apart(np.clip(middle, 0, d - 1))
            near, far = np.where(apart, near, middle), np.where(apart, middle, far)
        return far

    above = halve(places, np.full(d, -1)) + 1
    below = d - halve(places, np.full(d, d))
    best, worst = np.empty(d, dtype=np.int64), np.empty(d, dtype=np.int64)
    best[order], worst[order] = 1 + above, d - below
    return RankRanges(best, worst)


def _ranges_by_pairs(raw: Estimates, moments: Moments | None, confidence: float) -> RankRanges:
    d = raw.frequency.size
    above, below = np.zeros(d, dtype=np.int64), np.zeros(d, dtype=np.int64)
    rows = max(1, _BLOCK // d)
    for start in range(0, d, rows):
        codes = np.arange(start, min(d, start + rows))
        surely = _compare(raw, moments, codes, confidence)
        above[codes], below[codes] = (surely < 0).sum(axis=1), (surely > 0).sum(axis=1)
    return RankRanges(1 + above, d - below)


def tied_with(raw: Estimates, moments: Moments, rank: int, confidence: float = CONFIDENCE) -> Ints:
    """The keys that cannot be distinguished from the one at this rank, itself among them; highest first.

    A table of the top t is sure of its members where all of these are in it or all are outside.
    """
    order = np.argsort(-raw.frequency, kind="stable")
    if not 1 <= rank <= order.size:
        raise DomainError(f"expected a rank from 1 to {order.size}, got {rank}")
    surely = _compare(raw, moments, order[rank - 1 : rank], confidence)[0]
    tied: Ints = order[surely[order] == 0]
    return tied


def detectable_frequency(
    moments: Moments, asked: float, n_keys: int, *, confidence: float = CONFIDENCE, power: float = POWER
) -> float:
    """The frequency that stands out from keys nobody holds, with chance `power`.

    Of `n_keys` keys without holders none exceeds z(1 - 5 % / d) standard errors in 95 of 100
    collections; a key must lie z(power) above that. Only everybody's noise counts, so a key that is
    found at all by few reports wants a little more.

    >>> from keyveil.mechanisms import build
    >>> round(detectable_frequency(build("bucket", 1, n_keys=100).moments, 10**6, 100), 4)
    0.0124
    """
    alarm = -NormalDist().inv_cdf((1 - confidence) / n_keys)
    return (alarm + NormalDist().inv_cdf(power)) * math.sqrt(moments.frequency_noise / asked)


def _of_each(confidence: float, statements: int) -> float:
    """The confidence that each of so many statements needs (Bonferroni)."""
    return 1 - (1 - confidence) / max(statements, 1)


def _z_of_pairs(confidence: float, n_keys: int) -> float:
    """For what is said of all pairs of keys together."""
    return two_sided_z(_of_each(confidence, n_keys * (n_keys - 1) // 2))


def _compare(raw: Estimates, moments: Moments | None, codes: Ints, confidence: float) -> Ints:
    """For each of these keys against every key: 1 surely above, -1 surely below, 0 undecided.

    Where records were cut, a key is above another only if it is above all that may be hidden of that.
    """
    heard, d = raw.heard if raw.unheard is not None else raw, raw.frequency.size
    z = _z_of_pairs(confidence, d)
    first, second = codes[:, None], np.arange(d)[None, :]
    gap = heard.frequency[first] - heard.frequency[second]
    hidden = (
        np.zeros(d) if raw.unheard is None else raw.unheard.most(heard.frequency + z * heard.frequency_se)
    )
    least = np.abs(gap) - np.where(gap > 0, hidden[second], hidden[first])
    surely: Ints = np.sign(gap).astype(np.int64) * (least > z * difference_se(heard, moments, first, second))
    return surely
