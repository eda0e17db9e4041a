"""Which mechanism and padding length suit the sizes that were found."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyveil.estimate.sizes import SizeLaw
from keyveil.plan import Choice, Crowd, best
from keyveil.protocols.auto.settings import Settings


def choose(settings: Settings, law: SizeLaw, n_keys: int, share: Fraction) -> Choice:
    """What suits these sizes and so many keys, if this share of the users answers."""
    crowd = settings.crowd(law, n_keys)
    return best(
        settings.epsilon,
        crowd,
        at=interest(settings, crowd),
        want=settings.want,
        reports=float(share) * settings.users,
        tuning=settings.tuning.choosing,
    )


def interest(settings: Settings, crowd: Crowd) -> NDArray[np.float64]:
    """The frequencies whose errors count: the top without its head, whose popularity is a guess."""
    top = min(settings.top, crowd.n_keys)
    return crowd.at_ranks(
        np.linspace(max(1.0, top * settings.tuning.top_head), top, settings.tuning.top_points)
    )
