"""What did not go as planned: nobody gave a size, or the answers contradict what was declared."""

from __future__ import annotations

import math

import numpy as np

from keyveil.estimate import Estimates
from keyveil.estimate.sizes import SizeLaw, Truncation, class_ends
from keyveil.mechanisms import EncodedOracle, SizeClass
from keyveil.protocols.auto.answers import Answered, Answers
from keyveil.protocols.auto.settings import Settings


def notes(
    settings: Settings, answers: Answers, law: SizeLaw, first: Estimates, cut: Truncation
) -> tuple[str, ...]:
    """All of them, from the law of sizes and the first unbiased frequencies of all keys."""
    return (*of_sizes(settings, answers, law), *other_skew(settings, first, cut))


def of_sizes(settings: Settings, answers: Answers, law: SizeLaw) -> list[str]:
    """What went otherwise with sizes."""
    if not answers.were_asked("sizes"):
        return []
    found = answers.heard("sizes")
    if found is None:
        return [f"nobody told a size; {settings.pairs_per_user} pairs are taken for it"]
    return other_sizes(settings, found, law)


def other_sizes(settings: Settings, found: Answered, law: SizeLaw) -> list[str]:
    """What contradicts the declared number of pairs, that of nine users in ten."""
    match found.round.mechanism:
        case EncodedOracle(encoder=SizeClass(starts=starts)) as mechanism:
            largest, odds = class_ends(starts, settings.tuning.size_model), float(mechanism.loss)
        case _:
            raise found.unreadable()
    tuning, declared = settings.tuning, settings.pairs_per_user
    error = tuning.surely * (odds + 1) / (odds - 1) / math.sqrt(found.tally.n_reports)
    said = f"pairs_per_user is {declared}, but "
    if law.shares[largest > declared / tuning.other_sizes].sum() < 0.1 and error < 0.1:
        return [f"{said}nine users in ten hold at most half of that"]
    if law.shares[largest >= tuning.other_sizes * declared].sum() > max(0.1, error):
        return [f"{said}more than one user in ten holds about twice as many or more"]
    return []


def other_skew(settings: Settings, raw: Estimates, cut: Truncation) -> list[str]:
    """What contradicts the assumed skew: how frequent the key of a typical pair is.

    That is sum f**2 / sum f. Squared estimates exceed squares by their variance, a small part of
    which may be wrong.
    """
    tuning, crowd = settings.tuning, settings.crowd(cut.law, settings.n_keys)
    share = cut.share(crowd.frequency)
    whole = max(float(crowd.counts @ share), 1e-12)
    variance = np.where(np.isfinite(raw.frequency_se), raw.frequency_se, 0.0) ** 2
    squares = float(np.sum(raw.frequency**2 - variance))
    doubt = (variance.sum() / tuning.skew_doubt) ** 2
    noise = 2 * np.sum(variance**2) + 4 * max(squares, 0.0) * variance.mean() + doubt
    seen, error = max(squares, 0.0) / whole, tuning.surely * math.sqrt(float(noise)) / whole
    assumed = float(crowd.counts @ share**2) / whole
    if assumed / tuning.other_skew <= seen + error and seen - error <= assumed * tuning.other_skew:
        return []
    return [
        f"with a skew of {settings.skew:g} the key of a typical pair would have frequency {assumed:.2g}, "
        f"found was {seen:.2g}"
    ]
