"""A table of segments by keys: an unbiased estimate a cell, its standard error, and how skew its law may be.

Segments are disjoint, so rows are independent. A table is about the people whom a segment's reports were
drawn from: "no difference" is said of them, not of those who happened to answer. So the variance of the draw
is added to the noise's.

With thousands of cells what is said of all of them rests on tails far out, where a sum of few reports is not
normal. What a sum is skewed by is bounded: if one report adds at most w to an estimate, its third central
moment is at most w times its variance, so its skewness is at most w / standard error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyveil.errors import TallyError
from keyveil.estimate.estimates import Estimates, Floats
from keyveil.estimate.influence import Lever
from keyveil.estimate.series.observations import CLEAR_OF_ZERO
from keyveil.numerics import CONFIDENCE, two_sided_z

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cells:
    """Segments by keys, independent between segments; NaN with an infinite error where nothing is known.

    >>> cells = Cells.of_arrays([[0.2, 0.1], [0.3, np.nan]], [[0.1, 0.1], [0.1, 0.1]], users=[300, 100])
    >>> cells.whole.estimate.round(3).tolist(), cells.whole.standard_error.round(3).tolist()
    ([[0.225, 0.1]], [[0.079, 0.1]])
    """

    estimate: Floats
    standard_error: Floats
    pooled_error: Floats
    """What it would be if the segment were like its key's whole: no chance of the cell is in it."""
    users: Floats
    """How many reports each segment has, by which the whole weighs it."""
    unit: Floats
    """By key, what a difference is large or small beside: the key's own size, or 1 on a scale of values."""
    skewness: Floats
    """At most so skew is a cell's law."""
    hidden: Floats
    """So much may lie above a cell's interval, because records were cut."""

    def __post_init__(self) -> None:
        if self.estimate.ndim != 2 or not self.estimate.size:
            raise TallyError(f"expected a table of segments by keys, got shape {self.estimate.shape}")
        if self.users.shape != self.estimate.shape[:1]:
            raise TallyError(f"expected users of {len(self.estimate)} segments, got {self.users.size}")
        if np.any(self.standard_error[self.known] <= 0):
            raise TallyError("expected a standard error above 0 wherever something is known")

    @classmethod
    def of_arrays(
        cls,
        estimate: object,
        standard_error: object,
        users: object,
        *,
        pooled_error: object = None,
        unit: object = None,
        skewness: object = 0.0,
        hidden: object = 0.0,
    ) -> Cells:
        """From numbers; what is not finite in either array is not known.

        If nothing is said a key's unit is its size in the whole, the square of which noise makes no larger.
        """
        seen, error = np.array(estimate, dtype=float), np.array(standard_error, dtype=float)
        if seen.shape != error.shape:
            raise TallyError(f"expected a standard error an estimate, got {error.shape} for {seen.shape}")
        known = np.isfinite(seen) & np.isfinite(error)
        seen, error = np.where(known, seen, np.nan), np.where(known, error, np.inf)
        counts = np.array(users, dtype=float)
        if unit is None:
            size, noise = _whole(seen, error, counts)
            unit = np.sqrt(
                np.maximum(np.nan_to_num(size) ** 2 - np.nan_to_num(noise, posinf=np.inf) ** 2, 0.0)
            )
        return cls(
            estimate=seen,
            standard_error=error,
            pooled_error=error if pooled_error is None else np.where(known, np.asarray(pooled_error), np.inf),
            users=counts,
            unit=np.broadcast_to(np.asarray(unit, dtype=float), seen.shape[1:]).copy(),
            skewness=np.broadcast_to(np.asarray(skewness, dtype=float), seen.shape).copy(),
            hidden=np.broadcast_to(np.asarray(hidden, dtype=float), seen.shape).copy(),
        )

    @classmethod
    def of_frequencies(cls, segments: Sequence[Estimates]) -> Cells:
        """The frequencies of every segment's unprocessed estimates.

        A variance depends on the frequency, and what comes out low would look surer than it is where counts
        are small. So it is that of the larger of a cell and its key's whole.
        """
        heard = [segment.heard for segment in segments]
        users = np.array([segment.n_reports for segment in heard], dtype=float)
        share = np.clip([segment.frequency for segment in heard], 0.0, 1.0)
        whole = np.broadcast_to(users @ share / max(users.sum(), 1.0), share.shape)
        larger = np.maximum(share, whole)
        asked = np.maximum([segment.asked for segment in heard], 1)
        error, pooled = (
            np.sqrt([_variance(*each) for each in zip(heard, share, at, strict=True)])
            for at in (larger, whole)
        )
        loudest = np.array([loudest_report(segment) for segment in heard])[:, None] / asked
        return cls.of_arrays(
            [segment.frequency for segment in heard],
            error,
            users,
            pooled_error=pooled,
            skewness=loudest / error,
            hidden=[_hidden(segment) for segment in segments],
        )

    @classmethod
    def of_means(cls, segments: Sequence[Estimates]) -> Cells:
        """Means on the scale [-1, 1], of cells whose frequency lies far enough from 0.

        The ratio of two normal numbers has a skewness of 6 r c to first order, where r is the relative error
        of the lower and c the correlation of the ratio's error with it.
        """
        heard = [segment.heard for segment in segments]
        frequency, noise, mean, error, crossed = (
            np.array([getattr(segment, name) for segment in heard])
            for name in ("frequency", "frequency_se", "mean", "mean_se", "covariance")
        )
        unbiased = np.array([not segment.means_are_biased for segment in heard])[:, None]
        clear = unbiased & (frequency > CLEAR_OF_ZERO * noise)
        size = np.where(clear, frequency, 1.0)
        error = np.where(clear, error, np.inf)
        with np.errstate(invalid="ignore"):
            tied = np.where(clear, (crossed - mean * noise**2) / (size * error * noise), 0.0)
        return cls.of_arrays(
            np.where(clear, mean, np.nan),
            error,
            [segment.n_reports for segment in heard],
            unit=1.0,
            skewness=6 * np.where(clear, noise / size, 0.0) * np.minimum(np.abs(tied), 1.0),
            # Those who were not heard may have any value: both ends move, so the farther one counts.
            hidden=[2 * segment.unheard_part() for segment in segments],
        )

    @property
    def n_segments(self) -> int:
        """How many segments there are, heard or not."""
        return int(self.estimate.shape[0])

    @property
    def n_keys(self) -> int:
        """How many keys there are."""
        return int(self.estimate.shape[1])

    @property
    def known(self) -> Mask:
        """Where there is an estimate."""
        return np.isfinite(self.estimate)

    @property
    def share(self) -> Floats:
        """Each segment's part of its key's whole, among the segments where the key is known."""
        return _share(self.known, self.users)

    @property
    def whole(self) -> Cells:
        """All segments together, weighed by their reports: a table of one row."""
        estimate, error = _whole(self.estimate, self.standard_error, self.users)
        with np.errstate(invalid="ignore"):
            third = np.where(self.known, self.skewness * (self.share * self.standard_error) ** 3, 0.0).sum(
                axis=0
            )
            skewness = np.nan_to_num(third / error**3)
        hidden = (self.share * self.hidden).sum(axis=0)
        return Cells.of_arrays(
            estimate[None],
            error[None],
            [self.users.sum()],
            unit=self.unit,
            skewness=skewness[None],
            hidden=hidden[None],
        )

    def interval(self, confidence: float = CONFIDENCE) -> tuple[Floats, Floats]:
        """Every cell alone; NaN where nothing is known."""
        reach = two_sided_z(confidence) * np.where(self.known, self.standard_error, np.nan)
        return self.estimate - reach, self.estimate + reach + self.hidden


def reach(skewness: Floats, z: float) -> Floats:
    """How many errors a skew estimate lies from the truth as rarely as a normal one lies z from it, at most.

    The first term that Cornish and Fisher add to a normal quantile, on both sides, since only the size of
    the skewness is known.

    >>> reach(np.array([0.0, 0.3]), 4.0).tolist()
    [4.0, 4.75]
    """
    far: Floats = z + skewness * max(z * z - 1, 0.0) / 6
    return far


def _share(known: Mask, users: Floats) -> Floats:
    weights = known * users[:, None]
    share: Floats = weights / np.maximum(weights.sum(axis=0), np.finfo(float).tiny)
    return share


def _whole(estimate: Floats, error: Floats, users: Floats) -> tuple[Floats, Floats]:
    """The estimate and error of every key's whole; NaN and infinite where no segment knows it."""
    known = np.isfinite(estimate)
    share, some = _share(known, users), (known * users[:, None]).sum(axis=0) > 0
    total = (share * np.where(known, estimate, 0.0)).sum(axis=0)
    noise = np.sqrt((share**2 * np.where(known, error, 0.0) ** 2).sum(axis=0))
    return np.where(some, total, np.nan), np.where(some, noise, np.inf)


def loudest_report(raw: Estimates) -> float:
    """The most that one report adds to a sum of reports; 0 where nothing is known of it."""
    return raw.lever.weight if isinstance(raw.lever, Lever) else 0.0


def _variance(segment: Estimates, share: Floats, at: Floats) -> Floats:
    """Of noise and of the draw, if the frequency were another than what came out."""
    noise, moments = segment.frequency_se**2, segment.moments
    drawn = at * (1 - at) / max(segment.n_reports, 1)
    if moments is None:
        return noise + drawn
    asked = np.maximum(segment.asked, 1)
    own, other = (moments.covariance(each, 0.0, asked).frequency for each in (share, at))
    total: Floats = noise + (other - own) + (0.0 if moments.drawn else drawn)
    return total


def _hidden(segment: Estimates) -> Floats:
    if segment.unheard is None:
        return np.zeros(segment.frequency.size)
    return segment.unheard.most(segment.heard.frequency_interval()[1])
