"""Which mechanism and padding length suit the sizes that were found."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyveil.estimate.sizes import SizeLaw
from keyveil.plan import Choice, Crowd, best
from keyveil.protocols.auto.settings import Settings
from keyveil.rounds import Group

# Where answers hide among others noise is small, and an interval of a top key is as long as what a cut may
# hide: the length for those is then chosen by that, not by what it most likely hides.
_PROMISED_WORST = 1.0


def choose(settings: Settings, law: SizeLaw, n_keys: int, share: Fraction, is_top: bool = False) -> Choice:
    """What suits these sizes and so many keys, of the top or all, if this share of the users answers."""
    crowd = settings.crowd(law, n_keys)
    # Those who check truncation may come out of this share.
    asked = share - settings.tuning.check if settings.holds_several else share
    epsilon: object = settings.epsilon
    tuning = settings.tuning.choosing
    if settings.kept is not None:
        epsilon = settings.allowance((1 - asked, Fraction(1)))
        if is_top:
            tuning = replace(tuning, worst=_PROMISED_WORST)
    return best(
        epsilon,
        crowd,
        at=interest(settings, crowd),
        want=settings.want,
        reports=float(share) * settings.users,
        tuning=tuning,
    )


def choose_behind(settings: Settings, law: SizeLaw, group: Group) -> Choice:
    """What suits a group's questions about the keys behind the top: those of the top are asked again."""
    crowd = settings.crowd(law, settings.n_keys)
    return best(
        settings.allowance(group),
        crowd,
        at=points_behind(settings, crowd),
        want=settings.want,
        reports=float(group[1] - group[0]) * settings.users,
        tuning=settings.tuning.choosing,
    )


def points_behind(settings: Settings, crowd: Crowd) -> NDArray[np.float64]:
    """Frequencies of the keys behind the top, from its last to the rarest."""
    last = min(settings.top, settings.n_keys)
    return crowd.at_ranks(np.linspace(last, settings.n_keys, settings.tuning.top_points))


def interest(settings: Settings, crowd: Crowd) -> NDArray[np.float64]:
    """The frequencies whose errors count: the top without its head, whose popularity is a guess."""
    top = min(settings.top, crowd.n_keys)
    return crowd.at_ranks(
        np.linspace(max(1.0, top * settings.tuning.top_head), top, settings.tuning.top_points)
    )
