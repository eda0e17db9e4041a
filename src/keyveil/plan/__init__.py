"""What a collection will be able to say, before a single report: predicted errors, and the best choice."""

from keyveil.plan.choice import Choice, Choosing, best, lengths, options
from keyveil.plan.crowd import Crowd
from keyveil.plan.predict import Candidate, Prediction, candidates
from keyveil.plan.solve import Plan, make_plan

__all__ = [
    "Candidate",
    "Choice",
    "Choosing",
    "Crowd",
    "Plan",
    "Prediction",
    "best",
    "candidates",
    "lengths",
    "make_plan",
    "options",
]
