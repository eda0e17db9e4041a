"""The sign of one value a user: asked of a small group, read as the anchor of all means."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from keyveil.estimate.shrink import Anchor
from keyveil.estimate.sizes import SizeLaw
from keyveil.mechanisms.channel import share
from keyveil.mechanisms.symbol.encoded import OwnSignResponse
from keyveil.protocols.auto import groups, holders
from keyveil.protocols.auto.answers import Answers
from keyveil.protocols.auto.choose import choose
from keyveil.protocols.auto.settings import Settings
from keyveil.rounds import Round


class Values(NamedTuple):
    """Where means lie on the whole, and how many users hold any pair."""

    anchor: Anchor
    law: SizeLaw


def are_needed(settings: Settings, law: SizeLaw) -> bool:
    """Whether the keys together would leave it open where means lie, so that a group is spent on it."""
    crowd = settings.crowd(law, settings.n_keys)
    choice = choose(settings, law, settings.n_keys, Fraction(1))
    asked = choice.mechanism.expected_asked(settings.users)
    cut = choice.truncation.share(crowd.frequency)
    noise = choice.mechanism.moments.covariance(cut, 0.0, asked).signed
    weight = crowd.counts * cut**2 / (noise + (settings.tuning.shrinking.spread * cut) ** 2)
    return not np.sum(weight) > 1 / settings.tuning.anchored**2


def ask(settings: Settings, campaign: str, number: int) -> Round:
    """The second round, or the first where there is nothing to learn about sizes."""
    group = groups.values(settings)
    mechanism = settings.allowance(group)(
        lambda epsilon: OwnSignResponse.for_epsilon(epsilon, n_keys=settings.n_keys)
    )
    return settings.round(campaign, number, "values", mechanism, group)


def read(settings: Settings, answers: Answers) -> Values | None:
    """The mean of one value a user, and how many hold any; None where nobody answered."""
    found = answers.heard("values")
    if found is None:
        return None
    oracle, n = found.round.mechanism, found.tally.n_reports
    a, b = float(oracle.a), float(oracle.b)
    _, plus, minus = share(a, b, found.tally.cells["support"], n)
    held = min(1.0, max(plus + minus, settings.tuning.fewest_holders))
    error = math.sqrt((2 * b + (a - b) * held) / n) / (a - b)
    mean = min(1.0, max(-1.0, (plus - minus) / held))
    sizes, shares = np.array([0.0, 1.0]), np.array([1 - held, held])
    return Values(Anchor(mean, error / held), SizeLaw(sizes=sizes, shares=shares, mean_error=error))


def anchor(settings: Settings, answers: Answers, sizes: SizeLaw) -> Anchor | None:
    """Where means lie on the whole, if anybody answered: of one pair of each, of as many as they hold."""
    found = read(settings, answers)
    if found is None:
        return None
    # Where nothing is expected of the centre all of the answer speaks of it, as in the first version.
    return found.anchor._replace(law=sizes if settings.tuning.shrinking.centre < math.inf else None)


def law(settings: Settings, answers: Answers) -> SizeLaw:
    """How many users hold their one pair; all of them, where nobody answered."""
    if not answers.were_asked("values"):
        return holders.law(answers, settings.tuning)
    found = read(settings, answers)
    return SizeLaw.exactly(1) if found is None else found.law
