"""Where it differs: contrasts of segments, with intervals and lists that hold for a whole table together.

A contrast of a key is a sum of its cells with known weights that add up to 0: a segment less the whole, a
segment less another. Segments are independent, so its variance is the sum of theirs, and what it is skewed by
at most the sum of what they are. Of c contrasts each is given the level 5 % / c (Bonferroni: nothing is
assumed of how keys vary together). So in 95 of 100 tables all intervals hold at once, and of 100 tables
without any difference at most 5 have one that is called so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyveil.errors import DomainError
from keyveil.estimate.breakdowns.cells import Cells, reach
from keyveil.estimate.estimates import Floats
from keyveil.numerics import CONFIDENCE, two_sided_z

FALSE_ALARMS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contrasts:
    """Contrasts by keys; NaN where a cell that one needs is not known."""

    estimate: Floats
    standard_error: Floats
    skewness: Floats
    below: Floats
    """So much further down it may lie, because records were cut."""
    above: Floats

    @property
    def made(self) -> int:
        """How many statements there are."""
        return int(np.isfinite(self.estimate).sum())

    def interval(self, confidence: float = CONFIDENCE) -> tuple[Floats, Floats]:
        """Each contrast alone."""
        return self._interval(two_sided_z(confidence))

    def simultaneous(self, confidence: float = CONFIDENCE) -> tuple[Floats, Floats]:
        """All of them together, whichever are looked at."""
        return self._interval(two_sided_z(1 - (1 - confidence) / max(self.made, 1)))

    def _interval(self, z: float) -> tuple[Floats, Floats]:
        far = self.standard_error * reach(self.skewness, z)
        return self.estimate - far - self.below, self.estimate + far + self.above


@dataclass(frozen=True, slots=True, kw_only=True)
class Different:
    """A cell that surely differs from its key's whole."""

    segment: int
    key: int
    size: float
    """The segment less the whole."""
    low: float
    """Of all that is listed, and all that is not, every size lies between its ends in 95 of 100 tables."""
    high: float

    @property
    def least(self) -> float:
        """How different it is at least."""
        return max(self.low, -self.high)


def from_whole(cells: Cells) -> Contrasts:
    """Every segment less the whole that it is a part of.

    >>> cells = Cells.of_arrays([[0.1], [0.3]], [[0.03], [0.04]], users=[100, 300])
    >>> found = from_whole(cells)
    >>> found.estimate.round(3).ravel().tolist(), found.standard_error.round(4).ravel().tolist()
    ([-0.15, 0.05], [0.0375, 0.0125])
    """
    share, whole = cells.share, cells.whole
    own = np.where(cells.known, cells.standard_error, 0.0)
    third = cells.skewness * own**3
    # A cell has weight 1 - share in its own contrast, and -share in those of all others.
    rest = np.maximum(whole.standard_error**2 - (share * own) ** 2, 0.0)
    variance = ((1 - share) * own) ** 2 + rest
    others = (share**3 * third).sum(axis=0) - share**3 * third
    # One segment is its own whole: nothing is left to be said of it.
    said = cells.known & (variance > 0)
    spread = np.where(said, np.sqrt(variance), np.nan)
    own_hidden = (1 - share) * cells.hidden
    return Contrasts(
        estimate=np.where(said, cells.estimate - whole.estimate, np.nan),
        standard_error=spread,
        skewness=np.where(said, ((1 - share) ** 3 * third + others) / spread**3, 0.0),
        below=whole.hidden - share * cells.hidden,
        above=own_hidden,
    )


def between(cells: Cells) -> tuple[NDArray[np.int64], Contrasts]:
    """Every segment less every later one: the pairs of segments, and what lies between them.

    >>> cells = Cells.of_arrays([[0.1], [0.3]], [[0.03], [0.04]], users=[100, 300])
    >>> pairs, found = between(cells)
    >>> pairs.tolist(), found.estimate.round(3).tolist(), found.standard_error.round(3).tolist()
    ([[0, 1]], [[-0.2]], [[0.05]])
    """
    first, second = np.triu_indices(cells.n_segments, 1)
    if not first.size:
        raise DomainError("one segment has no other to differ from")
    error = cells.standard_error
    estimate = cells.estimate[first] - cells.estimate[second]
    known = np.isfinite(estimate)
    spread = np.where(known, np.hypot(error[first], error[second]), np.nan)
    with np.errstate(invalid="ignore"):
        third = cells.skewness[first] * error[first] ** 3 + cells.skewness[second] * error[second] ** 3
        skewness = np.where(known, third / spread**3, 0.0)
    return np.stack([first, second], axis=1), Contrasts(
        estimate=estimate,
        standard_error=spread,
        skewness=skewness,
        below=cells.hidden[second],
        above=cells.hidden[first],
    )


def most_different(cells: Cells, false_alarms: float = FALSE_ALARMS) -> tuple[Different, ...]:
    """The cells that surely differ from their key's whole, those that differ most for sure first.

    >>> cells = Cells.of_arrays([[0.1, 0.2], [0.3, 0.2]], np.full((2, 2), 0.02), users=[300, 300])
    >>> [(each.segment, each.key, round(each.size, 2)) for each in most_different(cells)]
    [(0, 0, -0.1), (1, 0, 0.1)]
    """
    found = from_whole(cells)
    low, high = found.simultaneous(1 - false_alarms)
    segments, keys = np.nonzero((low > 0) | (high < 0))
    listed = [
        Different(
            segment=int(s),
            key=int(k),
            size=float(found.estimate[s, k]),
            low=float(low[s, k]),
            high=float(high[s, k]),
        )
        for s, k in zip(segments, keys, strict=True)
    ]
    return tuple(sorted(listed, key=lambda each: (-each.least, each.key, each.segment)))
