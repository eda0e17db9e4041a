"""Steps with dates, and what changed since a wave: tests on the raw estimates, at a stated rate of false
alarms.

A stretch of waves a..b is *level* if at every split t of it the mean before and the mean after (weighted by
precision) differ by at most z standard errors. With y normal, the variances known and the level constant,
one split fails with chance 2 Phi(-z). A key's true stretches have at most W - 1 splits together, so for

    z = Phi^-1(1 - rate / (2 d (W - 1)))

all true stretches of all d keys are level at once but for a chance of `rate`, however many steps there are
(Bonferroni: nothing is assumed of how keys or splits depend on each other). Then

- the fewest level stretches into which a key's waves can be cut are at most the true ones: no step is
  counted that did not happen;
- where they are as many as the true ones, the true steps are among the cuts into as few: the first and the
  last wave at which the i-th step can be cut hold it, for all keys at once, with chance 1 - rate.

[Frick] Frick, Munk, Sieling: Multiscale Change Point Inference, JRSS B 2014, whose argument this is, with
one statistic a stretch instead of one for every part of it: a bump whose two sides cancel may go unseen.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.errors import TallyError
from keyveil.estimate.estimates import Floats
from keyveil.estimate.series.observations import Observations
from keyveil.numerics import CONFIDENCE, two_sided_z

Bools = NDArray[np.bool_]

FALSE_ALARMS = 0.05
# A stretch that nothing was heard in has no weight to divide by.
_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A key's level changed between wave `after` and the next one."""

    key: int
    after: int
    """The likeliest wave before the step."""
    earliest: int
    """The first wave that may be the last before the step."""
    latest: int
    size: float
    low: float
    """Of all sizes that are found at most 5 % lie outside their intervals."""
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A key did not stay at one level from a wave on."""

    key: int
    size: float
    """The level after the clearest split minus the one before it."""
    standard_error: float


class _Sums(NamedTuple):
    """Cumulated precision and weighted values of waves by keys, a row of zeros first."""

    precision: Floats
    value: Floats

    @classmethod
    def of(cls, seen: Observations) -> _Sums:
        value = np.where(seen.heard, seen.estimate, 0.0) * seen.precision
        return cls(
            *(np.vstack([np.zeros(seen.n_keys), each.cumsum(axis=0)]) for each in (seen.precision, value))
        )

    def gaps(self, first: int, last: int) -> tuple[Floats, Floats]:
        """Mean after minus mean before every split of waves first..last, and its standard error."""
        inner = slice(first + 1, last + 1)
        left, right = (
            self.precision[inner] - self.precision[first],
            self.precision[last + 1] - self.precision[inner],
        )
        both = (left > 0) & (right > 0)
        left, right = np.where(both, left, 1.0), np.where(both, right, 1.0)
        before = (self.value[inner] - self.value[first]) / left
        after = (self.value[last + 1] - self.value[inner]) / right
        return np.where(both, after - before, 0.0), np.where(both, np.sqrt(1 / left + 1 / right), np.inf)

    def clearest(self, first: int, last: int) -> Floats:
        """The largest gap of waves first..last in standard errors, by key."""
        gap, error = self.gaps(first, last)
        most: Floats = np.abs(gap / error).max(axis=0, initial=0.0)
        return most


def alarm_level(n_keys: int, n_splits: int, false_alarms: float = FALSE_ALARMS) -> float:
    """How many standard errors a gap must have, for so many keys with so many splits each.

    >>> round(alarm_level(1, 25), 2), round(alarm_level(50, 25), 2)
    (3.09, 4.11)
    """
    if not 0 < false_alarms < 1:
        raise TallyError(f"expected a rate of false alarms between 0 and 1, got {false_alarms:g}")
    return -NormalDist().inv_cdf(false_alarms / (2 * max(1, n_keys) * max(1, n_splits)))


def steps(seen: Observations, false_alarms: float = FALSE_ALARMS) -> tuple[Step, ...]:
    """Every step that must have happened, by key and wave.

    >>> risen = Observations.of_arrays([[0.1]] * 6 + [[0.3]] * 6, [[0.03]] * 12)
    >>> [(each.after, each.earliest, each.latest, round(each.size, 2)) for each in steps(risen)]
    [(5, 5, 5, 0.2)]
    """
    level = _level(seen, seen.n_waves - 1, false_alarms)
    sums = _Sums.of(seen)
    moved = np.flatnonzero(sums.clearest(0, seen.n_waves - 1) > level)
    is_level = _is_level(_Sums.of(seen.only(moved)), seen.n_waves, level)
    cuts = [(int(key), _cut(seen.only([key]), is_level[:, :, place])) for place, key in enumerate(moved)]
    count = sum(len(places) for _, places in cuts)
    z = two_sided_z(1 - (1 - CONFIDENCE) * max(count, 1) / max(count, int(_tested(seen).sum()), 1))
    return tuple(step for key, places in cuts for step in _steps_of(seen.only([key]), key, places, z))


def changed_since(seen: Observations, wave: int, false_alarms: float = FALSE_ALARMS) -> tuple[Change, ...]:
    """Which keys did not stay at one level from `wave` to the last one.

    The rate holds for all keys and every `wave` that may be asked about, at once: "since 3" is only said
    where "since 2" is, and of the waves since which a key truly stays, one comes first. For an earlier end
    ask about `seen.between(0, end)`.

    >>> risen = Observations.of_arrays([[0.1]] * 6 + [[0.3]] * 6, [[0.03]] * 12)
    >>> len(changed_since(risen, 2)), len(changed_since(risen, 6))
    (1, 0)
    """
    last = seen.n_waves - 1
    if not 0 <= wave < last:
        raise TallyError(f"expected a wave from 0 to {last - 1}, so that another follows, got {wave}")
    gap, error = _Sums.of(seen).gaps(wave, last)
    best = np.abs(gap / error).argmax(axis=0)
    return tuple(
        Change(key=int(key), size=float(gap[best[key], key]), standard_error=float(error[best[key], key]))
        for key in np.flatnonzero(surely_changed(seen, false_alarms) > wave)
    )


def surely_changed(seen: Observations, false_alarms: float = FALSE_ALARMS) -> NDArray[np.int64]:
    """Of how many of the first waves each key is known to have changed since: `changed_since` of all at once.

    >>> risen = Observations.of_arrays([[0.1]] * 6 + [[0.3]] * 6, [[0.03]] * 12)
    >>> surely_changed(risen).tolist()
    [6]
    """
    last = seen.n_waves - 1
    sums, changed = _Sums.of(seen), _tested(seen)
    waves = np.zeros(seen.n_keys, dtype=np.int64)
    for first in range(last):
        changed = changed & (sums.clearest(first, last) > _level(seen, last - first, false_alarms))
        waves += changed
    return waves


def _tested(seen: Observations) -> Bools:
    """Keys that were heard twice or more: of others nothing can be said, and nothing wrong."""
    tested: Bools = seen.heard.sum(axis=0) > 1
    return tested


def _level(seen: Observations, n_splits: int, false_alarms: float) -> float:
    return alarm_level(int(_tested(seen).sum()), n_splits, false_alarms)


class _Place(NamedTuple):
    """A step: after which wave, likeliest, first and last."""

    after: int
    earliest: int
    latest: int


def _is_level(sums: _Sums, waves: int, level: float) -> Bools:
    """Which stretches are level, by first wave, last wave and key."""
    found = np.zeros((waves, waves, sums.value.shape[1]), dtype=bool)
    for a, b in itertools.combinations_with_replacement(range(waves), 2):
        found[a, b] = sums.clearest(a, b) <= level
    return found


def _cut(seen: Observations, is_level: Bools) -> list[_Place]:
    """The steps between the fewest level stretches of one key; of as few, those that fit best."""
    waves, sums = seen.n_waves, _Sums.of(seen)
    squares = np.where(seen.heard, seen.estimate, 0.0) ** 2 * seen.precision
    square = np.concatenate([[0.0], squares[:, 0].cumsum()])
    weight, value = sums.precision[:, 0], sums.value[:, 0]
    # Until wave b: how few stretches, how well they fit, and where the last one starts.
    fewest, misfit, start = [0], [0.0], [0]
    for b in range(waves):
        best = (waves + 1, math.inf, 0)
        for a in np.flatnonzero(is_level[: b + 1, b]).tolist():
            mass = max(float(weight[b + 1] - weight[a]), _TINY)
            off = float(square[b + 1] - square[a] - (value[b + 1] - value[a]) ** 2 / mass)
            best = min(best, (fewest[a] + 1, misfit[a] + off, a))
        fewest.append(best[0])
        misfit.append(best[1])
        start.append(best[2])
    rest = _fewest_after(is_level)
    total, places, end = fewest[waves], [], waves
    while (end := start[end]) > 0:
        count = fewest[end]
        # A cut after wave t - 1 can be the count-th if count stretches end there and the others suffice.
        may = [t for t in range(1, waves) if fewest[t] <= count and rest[t] <= total - count]
        places.append(_Place(end - 1, may[0] - 1, may[-1] - 1))
    return places[::-1]


def _fewest_after(is_level: Bools) -> list[int]:
    """How few level stretches cover the waves from each one on."""
    waves = len(is_level)
    rest = [0] * (waves + 1)
    for a in range(waves - 1, -1, -1):
        rest[a] = 1 + min(rest[b + 1] for b in range(a, waves) if is_level[a, b])
    return rest


def _steps_of(seen: Observations, key: int, places: list[_Place], z: float) -> list[Step]:
    """One key's steps, each with the gap between the means of the stretches on its two sides.

    The likeliest cut, not the waves that surely lie on one side: those were found by the same noise, and gaps
    between them are a twentieth too large.
    """
    sums, found = _Sums.of(seen), []
    cuts = [-1, *(place.after for place in places), seen.n_waves - 1]
    for before, place, behind in zip(cuts, places, cuts[2:], strict=False):
        gap, error = sums.gaps(before + 1, behind)
        size, reach = float(gap[place.after - before - 1, 0]), z * float(error[place.after - before - 1, 0])
        found.append(Step(key=key, **place._asdict(), size=size, low=size - reach, high=size + reach))
    return found
