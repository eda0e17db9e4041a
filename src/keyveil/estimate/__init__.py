"""Tallies become frequencies, means and distributions; post-processing is separate and named."""

import keyveil.estimate.literature  # noqa: F401  # registers what it knows
from keyveil.estimate.collisions import uncollide
from keyveil.estimate.distribution import (
    Distribution,
    bin_points,
    expectation_maximisation,
    fake_share,
    joint_maximisation,
    project,
    subtract_fakes,
    wasserstein,
)
from keyveil.estimate.estimates import Estimates, Hidden, estimate
from keyveil.estimate.influence import HOSTILE_SHARE, Lever, Levers, Pull, Shift, lever
from keyveil.estimate.intervals import (
    RankRanges,
    detectable_frequency,
    difference_se,
    rank_ranges,
    simultaneous_interval,
    tied_with,
)
from keyveil.estimate.post import READABLE, STEPS, clip, none, readable, step
from keyveil.estimate.quantiles import quantile_interval
from keyveil.estimate.shapes import marked, shapes
from keyveil.estimate.shares import QUARTERS, Shares, below, in_parts, value_shares
from keyveil.estimate.spread import Spread, dithered_spread, flat_levels, windowed_spread

__all__ = [
    "HOSTILE_SHARE",
    "QUARTERS",
    "READABLE",
    "STEPS",
    "Distribution",
    "Estimates",
    "Hidden",
    "Lever",
    "Levers",
    "Pull",
    "RankRanges",
    "Shares",
    "Shift",
    "Spread",
    "below",
    "bin_points",
    "clip",
    "detectable_frequency",
    "difference_se",
    "dithered_spread",
    "estimate",
    "expectation_maximisation",
    "fake_share",
    "flat_levels",
    "in_parts",
    "joint_maximisation",
    "lever",
    "marked",
    "none",
    "project",
    "quantile_interval",
    "rank_ranges",
    "readable",
    "shapes",
    "simultaneous_interval",
    "step",
    "subtract_fakes",
    "tied_with",
    "uncollide",
    "value_shares",
    "wasserstein",
    "windowed_spread",
]
