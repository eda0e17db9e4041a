"""Where it differs: estimates of segments side by side, pulled together, told apart, and made representative."""

from keyveil.estimate.breakdowns.cells import Cells
from keyveil.estimate.breakdowns.differences import (
    FALSE_ALARMS,
    Contrasts,
    Different,
    between,
    from_whole,
    most_different,
)
from keyveil.estimate.breakdowns.represent import design_effect, represent, weights_of
from keyveil.estimate.breakdowns.towards_whole import SPREADS, Shrunk, towards_whole

__all__ = [
    "FALSE_ALARMS",
    "SPREADS",
    "Cells",
    "Contrasts",
    "Different",
    "Shrunk",
    "between",
    "design_effect",
    "from_whole",
    "most_different",
    "represent",
    "towards_whole",
    "weights_of",
]
