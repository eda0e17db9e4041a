"""What a collection will be able to say, before a single report: predicted errors, and the best choice."""

from keyveil.plan.band import alternatives
from keyveil.plan.central import Central
from keyveil.plan.choice import Choice, Choosing, best, lengths, options
from keyveil.plan.crowd import Crowd, even_sizes, tailed_sizes
from keyveil.plan.predict import Candidate, Prediction, candidates
from keyveil.plan.solve import Plan, make_plan
from keyveil.plan.strata import Kept, Strata

__all__ = [
    "Candidate",
    "Central",
    "Choice",
    "Choosing",
    "Crowd",
    "Kept",
    "Plan",
    "Prediction",
    "Strata",
    "alternatives",
    "best",
    "candidates",
    "even_sizes",
    "lengths",
    "make_plan",
    "options",
    "tailed_sizes",
]
