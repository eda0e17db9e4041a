"""What a collection will be able to say, before a single report: predicted errors, and the best choice."""

from keyveil.plan.choice import Choice, best, lengths, options
from keyveil.plan.crowd import Crowd

__all__ = ["Choice", "Crowd", "best", "lengths", "options"]
