"""Tallies become frequencies, means and distributions; post-processing is separate and named."""

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
from keyveil.estimate.estimates import Estimates, estimate
from keyveil.estimate.post import STEPS, clip, none, step
from keyveil.estimate.shares import QUARTERS, Shares, below, in_parts, value_shares

__all__ = [
    "QUARTERS",
    "STEPS",
    "Distribution",
    "Estimates",
    "Shares",
    "below",
    "bin_points",
    "clip",
    "estimate",
    "expectation_maximisation",
    "fake_share",
    "in_parts",
    "joint_maximisation",
    "none",
    "project",
    "step",
    "subtract_fakes",
    "value_shares",
    "wasserstein",
]
