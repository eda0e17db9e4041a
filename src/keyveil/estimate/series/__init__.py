"""A series: the same question in many waves; levels, seasons, steps with dates, and what changed."""

from keyveil.estimate.series.observations import Observations
from keyveil.estimate.series.season import Season, find_season
from keyveil.estimate.series.segments import GRID, Grid, Levels, Motion, levels
from keyveil.estimate.series.smooth import Smoothed, smooth
from keyveil.estimate.series.steps import (
    FALSE_ALARMS,
    Change,
    Step,
    alarm_level,
    changed_since,
    steps,
    surely_changed,
)

__all__ = [
    "FALSE_ALARMS",
    "GRID",
    "Change",
    "Grid",
    "Levels",
    "Motion",
    "Observations",
    "Season",
    "Smoothed",
    "Step",
    "alarm_level",
    "changed_since",
    "find_season",
    "levels",
    "smooth",
    "steps",
    "surely_changed",
]
