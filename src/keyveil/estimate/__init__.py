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

__all__ = [
    "STEPS",
    "Distribution",
    "Estimates",
    "bin_points",
    "clip",
    "estimate",
    "expectation_maximisation",
    "fake_share",
    "joint_maximisation",
    "none",
    "project",
    "step",
    "subtract_fakes",
    "wasserstein",
]
