"""How many pairs users hold: asked of a small group in classes, read as a law of sizes."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from keyveil.estimate.shrink import Total
from keyveil.estimate.sizes import SizeLaw, size_classes, with_tail
from keyveil.mechanisms import EncodedOracle, SizeClass
from keyveil.mechanisms.symbol.encoded import SizeClassResponse, SizeClassWave
from keyveil.protocols.auto import groups, values
from keyveil.protocols.auto.answers import Answered, Answers
from keyveil.protocols.auto.settings import Settings
from keyveil.protocols.auto.tuning import Tuning
from keyveil.rounds import Group, Round


def ask(settings: Settings, campaign: str) -> Round:
    """The first round, where records may hold several pairs."""
    group = groups.sizes(settings)
    return settings.round(campaign, 1, "sizes", question(settings, settings.n_keys, group), group)


def question(settings: Settings, n_keys: int, group: Group, part: float = 1.0) -> EncodedOracle:
    """How many of these keys a user holds, which are this part of what there is to hold."""
    tuning, usual = settings.tuning, math.ceil(part * settings.pairs_per_user)
    expected, largest = (min(reach * usual, n_keys) for reach in (tuning.size_reach, tuning.size_tail))
    model = tuning.size_model
    coarse = with_tail(size_classes(expected, model), largest, model)

    def made(epsilon: Fraction) -> EncodedOracle:
        resolved = model.resolves(float(epsilon))
        fine = with_tail(
            size_classes(expected, replace(model, every=max(model.every, resolved))), largest, model
        )
        starts = fine if len(fine) <= resolved else coarse
        asks = SizeClassResponse if len(starts) <= max(tuning.few_classes, resolved) else SizeClassWave
        return asks.for_epsilon(epsilon, n_keys=n_keys, starts=starts)

    return settings.allowance(group)(made)


def law(settings: Settings, answers: Answers) -> SizeLaw:
    """How many pairs users hold; as declared, where nobody answered."""
    if not settings.holds_several:
        return values.law(settings, answers)
    found = answers.heard("sizes")
    if found is None:
        return SizeLaw.exactly(settings.pairs_per_user)
    # The mean of exponential sizes of which nine in ten are at most what is declared.
    return read(found, settings.tuning, settings.pairs_per_user / math.log(10))


def read(found: Answered, tuning: Tuning, expected: float) -> SizeLaw:
    """What a group answered about its sizes, of which this mean was expected."""
    model = tuning.size_model
    match found.round.mechanism:
        case EncodedOracle(encoder=SizeClass() as classes, oracle=oracle):
            mean = expected if model.expected_users else None
            return SizeLaw.from_answers(classes, oracle, found.tally, model, expected=mean)
    raise found.unreadable()


def total(law: SizeLaw) -> Total:
    """How many pairs there are in all, a user, and how sure that is."""
    return Total(law.mean, max(law.mean_error, 1e-9))
