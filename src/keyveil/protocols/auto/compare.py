"""What one round promises, and what two do: of the top, of its means, and of all keys.

One number each, small is good: the squared error of means, as `Choosing.means_weigh` has it, times that of
frequencies, which is the geometric mean of the top's and of the unbiased one of all others. Two rounds give
the keys behind the top to those who find the candidates, half of the users. A key of the top that they do not
find has no other answer; one that they find has both.
"""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np

from keyveil.estimate.sizes import SizeLaw, Truncation
from keyveil.mechanisms import Bucket
from keyveil.plan import Choice
from keyveil.plan.choice import PRIOR_MEAN_VARIANCE, promise
from keyveil.protocols.auto import groups
from keyveil.protocols.auto.choose import choose, interest, points_behind
from keyveil.protocols.auto.settings import Settings


def one_round(settings: Settings, low: Fraction, law: SizeLaw, choice: Choice) -> float:
    """Everybody behind this place is asked about all keys."""
    behind = points_behind(settings, settings.crowd(law, settings.n_keys))
    reports = float(1 - low - settings.tuning.check) * settings.users
    others = promise(choice.mechanism, choice.truncation, behind, reports, settings.tuning.choosing)
    return _score(settings, others.frequency_error, choice.frequency_error, choice.mean_error)


def two_rounds(settings: Settings, low: Fraction, law: SizeLaw, first: Bucket) -> float:
    """A part of them finds the candidates, as they are asked by `first`; the rest is asked about those."""
    tuning, crowd = settings.tuning, settings.crowd(law, settings.n_keys)
    group, cut = groups.discover(tuning, low), Truncation(law=law, l=first.pairs_per_user)
    reports = float(group[1] - group[0]) * settings.users
    at, behind = interest(settings, crowd), points_behind(settings, crowd)
    top, others = (
        promise(first, cut, each, reports, tuning.choosing).frequency_error for each in (at, behind)
    )
    count = min(settings.n_keys, tuning.fewest_tops * settings.top)
    last = float(crowd.at_ranks(np.array([float(count)]))[0])
    # A key is found where noise does not take it below the last of the candidates.
    found = float(np.mean([NormalDist().cdf((each - last) / math.sqrt(top)) for each in at]))
    part = float(crowd.keys(count).frequency.sum()) / max(law.mean, 1e-9)
    shorter = SizeLaw(sizes=law.sizes * min(1.0, part), shares=law.shares)
    again = choose(settings, shorter, count, 1 - groups.overlap(tuning, group[1])[1])
    both = 1 / (1 / top + 1 / again.frequency_error)
    return _score(
        settings,
        others,
        found * both + (1 - found) * top,
        found * again.mean_error + (1 - found) * PRIOR_MEAN_VARIANCE,
    )


def _score(settings: Settings, others: float, top: float, means: float) -> float:
    """Of what is wanted."""
    frequencies = math.sqrt(others * top)
    if settings.want == "frequency":
        return frequencies
    return means if settings.want != "both" else frequencies * means**settings.tuning.choosing.means_weigh
