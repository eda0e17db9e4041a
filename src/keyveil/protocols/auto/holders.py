"""How many users hold their one pair, where nobody is asked for a value: the large group says it too."""

from __future__ import annotations

import math

import numpy as np

from keyveil.estimate.sizes import SizeLaw
from keyveil.mechanisms import SubsetSelection
from keyveil.protocols.auto.answers import Answered, Answers
from keyveil.protocols.auto.tuning import Tuning
from keyveil.protocols.auto.unbiased import unbiased

# What is known of a share without data, that it lies in [0, 1]: the mean and variance of an even law there.
EVEN_MEAN, EVEN_VARIANCE = 1 / 2, 1 / 12


def law(answers: Answers, tuning: Tuning) -> SizeLaw:
    """What the large group says, and that a share lies between 0 and 1; all of them, before it is asked."""
    found = answers.heard("collect") or answers.heard("discover")
    if found is None:
        return SizeLaw.exactly(1)
    held, variance = _added_up(found)
    known, even = 1 / variance, 1 / EVEN_VARIANCE
    held = (held * known + EVEN_MEAN * even) / (known + even)
    held = min(1.0, max(held, tuning.fewest_holders))
    error = math.sqrt(1 / (known + even))
    return SizeLaw(sizes=np.array([0.0, 1.0]), shares=np.array([1 - held, held]), mean_error=error)


def _added_up(found: Answered) -> tuple[float, float]:
    """The sum of all frequencies, and its variance: at most that of as many independent numbers."""
    raw, mechanism = unbiased(found), found.round.mechanism
    held = float(raw.frequency.sum())
    if isinstance(mechanism, SubsetSelection):
        # The shares of all symbols add up to 1, so this is what those who hold nothing leave.
        nothing, n = min(1.0, max(0.0, 1 - held)), found.tally.n_reports
        return held, float(mechanism.variance(nothing, n, n))
    return held, float(np.sum(raw.frequency_se**2))
