"""Who is asked what: every place in [0, 1) belongs to one group, so everybody answers once.

    0 ... sizes ... values ............ collect ............ check ... 1
    0 ... sizes ... values ... discover ... overlap ... measure ... check ... 1

Groups are drawn as rounds are opened, each from where the one before ended.
"""

from __future__ import annotations

import math
from fractions import Fraction

from keyveil.plan import Choice
from keyveil.protocols.auto.settings import Settings
from keyveil.protocols.auto.tuning import Tuning
from keyveil.rounds import Group


def sizes(settings: Settings) -> Group:
    """Nobody, where records hold one pair."""
    return Fraction(0), settings.tuning.sizes if settings.holds_several else Fraction(0)


def values(settings: Settings) -> Group:
    """As many as tell what `anchors` would without noise, which keeps tanh(epsilon / 2) of a sign.

    Where a promise is made a small group tells the less the smaller it is: the central epsilon at least.
    """
    low, tuning = sizes(settings)[1], settings.tuning
    epsilon = float(settings.epsilon) if settings.kept is None else settings.kept.central
    kept = math.tanh(epsilon / 2) ** 2
    wanted = max(tuning.fewest_values, Fraction(round(tuning.anchors / kept), settings.users))
    return low, low + min(tuning.most_values, wanted)


def discover(tuning: Tuning, low: Fraction) -> Group:
    """A part of those left."""
    return low, low + tuning.discover * (1 - low)


def overlap(tuning: Tuning, low: Fraction) -> Group:
    """A few."""
    return low, min(Fraction(1), low + tuning.overlap)


def main(tuning: Tuning, low: Fraction, choice: Choice) -> Group:
    """The rest; those who check truncation come after it, if there is any."""
    return low, Fraction(1) if choice.truncation.is_idle else 1 - tuning.check


def check(tuning: Tuning) -> Group:
    """The last few, who are left out by `main` where they are needed."""
    return 1 - tuning.check, Fraction(1)
