"""What remains of epsilon when reports lose their sender: amplification by shuffling.

Where somebody trusted strips names, addresses and order from n reports before the collector sees them,
a report hides among the others. What the collector then learns of one user is bounded by a central
(epsilon, delta), far below the local epsilon of the report. Three bounds, each safe whatever the others sent,
in ascending knowledge of the mechanism:

    closed_form   any mechanism of local epsilon0; one line, needs epsilon0 <= ln(n / (16 ln(4/delta)))
    by_clones     any mechanism of local epsilon0, summed exactly (`clones`)
    by_blanket    a mechanism of which it is known how much of a report says nothing (`blanket`)

A relay makes them come true: another operator, who does not pool data with the collector's. Without one
whoever runs the collector sees reports with their connections, and the local epsilon is all there is. A
hash's cohort must travel inside the shuffled report (it does), and a user who reports twice is not
protected by these numbers once but twice.
"""

from keyveil.shuffle.best import Shuffled, hiding, keeps, largest_local, shuffled
from keyveil.shuffle.blanket import Blanket, blanket_delta, blanket_of, by_blanket
from keyveil.shuffle.clones import by_clones, clones_delta, closed_form
from keyveil.shuffle.promise import Allowance, Promise
from keyveil.shuffle.smallest import DELTA

__all__ = [
    "DELTA",
    "Allowance",
    "Blanket",
    "Promise",
    "Shuffled",
    "blanket_delta",
    "blanket_of",
    "by_blanket",
    "by_clones",
    "clones_delta",
    "closed_form",
    "hiding",
    "keeps",
    "largest_local",
    "shuffled",
]
