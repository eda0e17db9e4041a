"""Where it differs: segments side by side, compared and made representative; keys held together."""

from keyveil.estimate.breakdowns.cells import Cells
from keyveil.estimate.breakdowns.differences import (
    FALSE_ALARMS,
    Contrasts,
    Different,
    between,
    from_whole,
    most_different,
)
from keyveil.estimate.breakdowns.pairs import TOWARDS_CHANCE, Together, pairs_together
from keyveil.estimate.breakdowns.population import design_effect, represent, weights_of
from keyveil.estimate.breakdowns.private import by_segment, of_all, segment_shares
from keyveil.estimate.breakdowns.shrunk import SPREADS, Shrunk, towards_whole

__all__ = [
    "FALSE_ALARMS",
    "SPREADS",
    "TOWARDS_CHANCE",
    "Cells",
    "Contrasts",
    "Different",
    "Shrunk",
    "Together",
    "between",
    "by_segment",
    "design_effect",
    "from_whole",
    "most_different",
    "of_all",
    "pairs_together",
    "represent",
    "segment_shares",
    "towards_whole",
    "weights_of",
]
