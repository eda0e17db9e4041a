"""Tallies become frequencies and means with standard errors; post-processing is separate and named."""

from keyveil.estimate.estimates import Estimates, estimate
from keyveil.estimate.post import STEPS, clip, none, step

__all__ = ["STEPS", "Estimates", "clip", "estimate", "none", "step"]
