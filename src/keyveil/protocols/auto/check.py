"""How long the records are that hold popular keys: how much of the modelled truncation is real."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from keyveil.estimate.shrink import NO_ANCHOR, Anchor, shrink
from keyveil.mechanisms import EncodedOracle, PopularSize
from keyveil.mechanisms.symbol.encoded import PopularSizeResponse
from keyveil.protocols.auto import groups
from keyveil.protocols.auto.answers import Answers
from keyveil.protocols.auto.measure import Measured
from keyveil.protocols.auto.settings import Settings
from keyveil.rounds import Round


def is_due(settings: Settings, main: Round) -> bool:
    """Whether the main round left anybody behind it, as it does where it cuts records."""
    return main.group[1] < 1 and settings.holds_several


def ask(settings: Settings, main: Measured, anchor: Anchor | None) -> Round:
    """Those behind the main group, about the keys that look popular."""
    guess = shrink(main.seen, anchor=anchor or NO_ANCHOR, top=settings.top, tuning=settings.tuning.shrinking)
    popular = np.argsort(-guess.frequency, kind="stable")[: settings.top]
    held = float(np.maximum(guess.frequency[popular], 0).sum())
    return ask_about(settings, main.round, tuple(sorted(popular.tolist())), held)


def ask_about(settings: Settings, main: Round, popular: tuple[int, ...], held: float) -> Round:
    """Those behind the main group, about these keys, of which a user is taken to hold so many."""
    l, tuning = main.mechanism.pairs_per_user, settings.tuning
    starts = {l + 1, *(math.ceil(times * l) + 1 for times in tuning.check_classes)}
    group = groups.check(tuning)
    mechanism = settings.allowance(group)(
        lambda epsilon: PopularSizeResponse.for_epsilon(
            epsilon,
            n_keys=settings.n_keys if main.keys is None else len(main.keys),
            popular=popular,
            most=max(1, math.ceil(tuning.most_popular * held)),
            starts=(1, *sorted(starts)),
        )
    )
    return settings.round(main.campaign, main.number + 1, "check", mechanism, group, main.keys)


def apply(settings: Settings, answers: Answers, main: Measured) -> Measured:
    """What the main round says, with what those who checked say about truncation."""
    found = answers.heard("check")
    if found is None:
        return main
    match found.round.mechanism:
        case EncodedOracle(encoder=PopularSize() as asked, oracle=oracle):
            model, shares = settings.tuning.size_model, main.seen.frequency
            cut = main.cut.checked(asked, oracle, found.tally, shares, model)
            return main._replace(seen=replace(main.seen, truncation=cut))
    raise found.unreadable()
