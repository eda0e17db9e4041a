"""Smoothing, a step with a name: what all waves together say of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keyveil.estimate.estimates import Floats
from keyveil.estimate.series.observations import Observations
from keyveil.estimate.series.season import find_season
from keyveil.estimate.series.segments import GRID, Grid, levels
from keyveil.numerics import CONFIDENCE, two_sided_z

SMOOTH, SEASON = "smooth", "season"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Smoothed:
    """Every wave's level given all waves, by wave and key; NaN for a key that was never heard.

    A wave that nothing was heard in has an estimate, too, and a wider interval.
    """

    estimate: Floats
    standard_error: Floats
    hidden: Floats
    """As it was observed: a cut hides what it hides, however many waves there are."""
    steps: tuple[str, ...]
    season_p_value: float | None = None
    """How likely chance alone would show such a season, at most; None where there is none."""

    def interval(self, confidence: float = CONFIDENCE) -> tuple[Floats, Floats]:
        """Around every smoothed estimate; not cut to any range."""
        reach = two_sided_z(confidence) * self.standard_error
        return self.estimate - reach, self.estimate + reach + self.hidden


def smooth(seen: Observations, *, period: int | None = None, grid: Grid = GRID) -> Smoothed:
    """Levels that stay, drift or jump, as the keys together show; with a season where they show one.

    `period` says after how many waves a season would repeat: 7 where waves are days, else None.

    >>> still = Observations.of_arrays([[0.2], [0.3], [0.1], [0.2]], [[0.1]] * 4)
    >>> found = smooth(still)
    >>> found.estimate.round(2).ravel().tolist(), bool(found.standard_error.max() < 0.1), found.steps
    ([0.2, 0.2, 0.2, 0.2], True, ('smooth',))
    """
    season = None if period is None else find_season(seen, period)
    found = levels(seen if season is None else seen.less(season.part), grid)
    estimate, variance = found.estimate, found.variance
    if season is not None:
        # A smoother that is wide against a season passes none of it on: its error and the level's add.
        estimate, variance = estimate + season.part, variance + season.variance
    return Smoothed(
        estimate=estimate,
        standard_error=np.sqrt(variance),
        hidden=seen.hidden,
        steps=(SMOOTH,) if season is None else (SEASON, SMOOTH),
        season_p_value=None if season is None else season.p_value,
    )
