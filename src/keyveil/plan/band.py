"""How far a prediction may be off because the crowd is a guess: its error for those who may come instead.

    skew        keys half and one and a half times as skewed as was guessed, and all equally popular
    sizes       records above the mean size twice as far above it, or all as long as the longest usual ones
    means       of keys, between the middle and an end of the range, about the middle, or all over the range
    tastes      the longest records hold what all hold, or what nobody else does
    growth      values grow with the length of a record

What no guess changes, how far the plan's own arithmetic is off, widens every band by a tenth.

Where data were counted they say all of that; what may come instead is then what a guess from them would be.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from keyveil.estimate.sizes import SizeLaw
from keyveil.plan.crowd import Crowd
from keyveil.plan.predict import Prediction

# Popularities of apps, words and films have exponents from a half to one and a half; 1 is the usual guess.
_SKEWS = (1.5, 0.5)
# Means of keys that all lie in one half of the range, as most ratings do.
_HIGH_MEANS = (0.0, 0.95)
# Means that hardly differ, so that what all keys together say tells each, and means that fill the range.
_CLOSE_MEANS, _WIDE_MEANS = (-0.3, 0.3), (-0.9, 0.9)
# How far predictions for the very people were off by themselves (bench/results/plan.csv).
_OWN = 1.1
# How much more or less skewed the keys of the longest records are: as far apart as the zoo has it.
_TASTE = 0.6
# Values of records e times as long lie a seventh of the range higher: as the zoo has it.
_GROWTH = 0.3
# The part of a size above the mean is doubled.
_LONGER = 2.0


def alternatives(crowd: Crowd) -> tuple[Crowd, ...]:
    """Who may come instead of the crowd that is planned for; what changes most comes first.

    >>> one, several = SizeLaw.exactly(1), SizeLaw(sizes=np.array([1.0, 5.0]), shares=np.array([0.5, 0.5]))
    >>> [len(alternatives(Crowd(users=9, n_keys=20, law=law))) for law in (one, several)]
    [6, 11]
    """
    if crowd.counted is not None:
        guess = replace(crowd, counted=None)
        return (guess, replace(guess, law=longer(crowd.law, crowd.n_keys)))
    others = [replace(crowd, skew=skew) for skew in _skews(crowd.skew)]
    others[2:2] = [replace(crowd, means=means) for means in (_HIGH_MEANS, _CLOSE_MEANS, _WIDE_MEANS)]
    if crowd.law.sizes.max(initial=0.0) > 1:
        others.insert(5, replace(crowd, law=longer(crowd.law, crowd.n_keys)))
        others.append(replace(crowd, law=SizeLaw.exactly(crowd.usual_size)))
        others += [replace(crowd, taste=taste) for taste in (-_TASTE, _TASTE)]
        others.append(replace(crowd, growth=_GROWTH))
    return tuple(others)


def _skews(guess: float) -> tuple[float, ...]:
    """What keys may be instead: equally popular, more skewed, and less."""
    return (0.0, *(times * guess for times in _SKEWS)) if guess else _SKEWS


def longer(law: SizeLaw, n_keys: int) -> SizeLaw:
    """The same law with a longer tail; nobody holds more than there is.

    >>> longer(SizeLaw(sizes=np.array([1.0, 5.0]), shares=np.array([0.5, 0.5])), 6).sizes.tolist()
    [1.0, 6.0]
    """
    over = np.maximum(law.sizes - law.mean, 0.0)
    return replace(law, sizes=np.minimum(law.sizes + (_LONGER - 1) * over, max(n_keys, law.mean)))


def banded(prediction: Prediction, others: Iterable[Prediction]) -> Prediction:
    """A prediction with the least and the largest error among it and those for other crowds."""
    everyone = [prediction, *others]
    frequency = _span([each.frequency_rmse for each in everyone])
    mean = _span([each.mean_rmse for each in everyone])
    return replace(
        prediction,
        frequency_low=frequency[0],
        frequency_high=frequency[1],
        mean_low=mean[0],
        mean_high=mean[1],
    )


def _span(errors: list[float]) -> tuple[float, float]:
    known = [error for error in errors if not np.isnan(error)]
    return (min(known) / _OWN, max(known) * _OWN) if known else (float("nan"), float("nan"))
