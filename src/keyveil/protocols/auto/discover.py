"""Where records are long: half of the users find the candidates, a few tell how many of them they hold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keyveil.estimate import Estimates, estimate, uncollide
from keyveil.estimate.shrink import Evidence, Shrunk, shrink
from keyveil.estimate.sizes import SizeLaw, Truncation
from keyveil.mechanisms import Bucket
from keyveil.plan import Choice
from keyveil.plan.choice import FREQUENCIES_ONLY, cohorts
from keyveil.protocols.auto import groups, sizes
from keyveil.protocols.auto.answers import Answered, Answers
from keyveil.protocols.auto.opening import Opening
from keyveil.protocols.auto.settings import Settings
from keyveil.rounds import Round


class Discovered(NamedTuple):
    """Unbiased frequencies of all keys, what they say, and what they say together."""

    raw: Estimates
    seen: Evidence
    shrunk: Shrunk


class Candidates(NamedTuple):
    """The keys that may well belong to the top, and how many of them users hold."""

    keys: tuple[int, ...]
    law: SizeLaw


def pays(settings: Settings, choice: Choice) -> bool:
    """Whether two rounds beat one: asked for, or records are long and keys many."""
    if settings.rounds:
        return settings.rounds == 2
    tuning = settings.tuning
    return (
        choice.mechanism.pairs_per_user >= tuning.long and settings.n_keys >= tuning.few_tops * settings.top
    )


def ask(settings: Settings, opening: Opening, choice: Choice) -> Round:
    """Frequencies alone: both signs of a key share their bucket."""
    l, group = choice.mechanism.pairs_per_user, groups.discover(settings.tuning, opening.low)
    reports = float(group[1] - group[0]) * settings.users
    mechanism = Bucket.for_epsilon(
        settings.epsilon,
        n_keys=settings.n_keys,
        pairs_per_user=l,
        rho=FREQUENCIES_ONLY,
        cohorts=cohorts(settings.n_keys, l, reports / settings.tuning.choosing.sharing),
    )
    return settings.round(opening.campaign, opening.number, "discover", mechanism, group)


def read(settings: Settings, found: Answered, law: SizeLaw) -> Discovered:
    """The frequencies of all keys, before the candidates are measured."""
    match found.round.mechanism:
        case Bucket() as mechanism:
            raw = uncollide(mechanism, estimate(mechanism, found.tally)).told_within(found.round.size)
        case _:
            raise found.unreadable()
    seen = Evidence.of(raw, Truncation(law=law, l=mechanism.pairs_per_user))
    shrunk = shrink(seen, total=sizes.total(law), top=settings.top, tuning=settings.tuning.shrinking)
    return Discovered(raw, seen, shrunk)


def candidates(settings: Settings, found: Discovered) -> tuple[int, ...]:
    """The keys that may well belong to the top: not too few, and no more than can be asked about."""
    in_top, tuning = found.shrunk.in_top, settings.tuning
    likely = int((in_top > tuning.likely).sum())
    count = min(max(likely, tuning.fewest_tops * settings.top), tuning.most_candidates, settings.n_keys)
    return tuple(sorted(np.argsort(-in_top, kind="stable")[:count].tolist()))


def ask_overlap(settings: Settings, before: Round, keys: tuple[int, ...]) -> Round:
    """How many of the candidates a user holds."""
    mechanism = sizes.question(settings, len(keys))
    group = groups.overlap(settings.tuning, before.group[1])
    return settings.round(before.campaign, before.number + 1, "overlap", mechanism, group, keys)


def read_overlap(settings: Settings, answers: Answers) -> Candidates:
    """The candidates, and how many users hold; as many as of all keys, where nobody answered."""
    opened, heard = answers.opened("overlap"), answers.heard("overlap")
    if opened.round.keys is None:
        raise opened.unreadable()
    law = sizes.law(settings, answers)
    if heard is not None:
        law = sizes.read(heard, settings.tuning, law.mean)
    return Candidates(opened.round.keys, law)
