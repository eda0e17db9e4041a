"""Where records are long: half of the users find the candidates, a few tell how many of them they hold."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from keyveil.estimate import Estimates
from keyveil.estimate.shrink import Evidence, Shrunk, shrink
from keyveil.estimate.sizes import SizeLaw
from keyveil.mechanisms import Bucket
from keyveil.plan import Choice
from keyveil.plan.choice import FREQUENCIES_ONLY, cohorts
from keyveil.protocols.auto import compare, groups, sizes
from keyveil.protocols.auto.answers import Answered, Answers
from keyveil.protocols.auto.choose import choose_behind
from keyveil.protocols.auto.opening import Opening
from keyveil.protocols.auto.settings import Settings
from keyveil.protocols.auto.tuning import COMPARED_SINCE
from keyveil.protocols.auto.unbiased import cut_by, unbiased
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


def pays(settings: Settings, opening: Opening, choice: Choice, law: SizeLaw) -> bool:
    """Whether two rounds beat one: asked for, or records long, keys many, and the two promise less error."""
    if settings.rounds:
        return settings.rounds == 2
    tuning = settings.tuning
    if choice.mechanism.pairs_per_user < tuning.long or settings.n_keys < tuning.few_tops * settings.top:
        return False
    if settings.version < COMPARED_SINCE or settings.kept is not None:
        return True
    return compare.two_rounds(settings, opening.low, law, _question(settings, opening.low, choice)) < (
        compare.one_round(settings, opening.low, law, choice)
    )


def ask(settings: Settings, opening: Opening, choice: Choice, law: SizeLaw) -> Round:
    """Frequencies alone: both signs of a key share their bucket, if a bucket is what tells most."""
    group = groups.discover(settings.tuning, opening.low)
    if settings.kept is not None:
        mechanism = choose_behind(settings, law, group).mechanism
        return settings.round(opening.campaign, opening.number, "discover", mechanism, group)
    asked = _question(settings, opening.low, choice)
    return settings.round(opening.campaign, opening.number, "discover", asked, group)


def _question(settings: Settings, low: Fraction, choice: Choice) -> Bucket:
    """What those who find the candidates are asked, where nothing is promised of them."""
    group = groups.discover(settings.tuning, low)
    l, reports = choice.mechanism.pairs_per_user, float(group[1] - group[0]) * settings.users
    return Bucket.for_epsilon(
        settings.epsilon,
        n_keys=settings.n_keys,
        pairs_per_user=l,
        rho=FREQUENCIES_ONLY,
        cohorts=cohorts(settings.n_keys, l, reports / settings.tuning.choosing.sharing),
    )


def read(settings: Settings, found: Answered, law: SizeLaw) -> Discovered:
    """The frequencies of all keys, before the candidates are measured."""
    raw = unbiased(found)
    seen = Evidence.of(raw, cut_by(found.round.mechanism, law))
    shrunk = shrink(seen, total=sizes.total(law), top=settings.top, tuning=settings.tuning.shrinking)
    return Discovered(raw, seen, shrunk)


def candidates(settings: Settings, found: Discovered) -> tuple[int, ...]:
    """The keys that may well belong to the top: not too few, and no more than can be asked about."""
    in_top, tuning = found.shrunk.in_top, settings.tuning
    likely = int((in_top > tuning.likely).sum())
    count = min(max(likely, tuning.fewest_tops * settings.top), tuning.most_candidates, settings.n_keys)
    return tuple(sorted(np.argsort(-in_top, kind="stable")[:count].tolist()))


def part_of(found: Discovered, keys: tuple[int, ...]) -> float:
    """Which part of all pairs is of the candidates."""
    frequency = found.shrunk.frequency
    return min(1.0, float(frequency[list(keys)].sum() / max(frequency.sum(), 1e-12)))


def ask_overlap(settings: Settings, before: Round, keys: tuple[int, ...], part: float = 1.0) -> Round:
    """How many of the candidates a user holds, of whose pairs they are this part."""
    group = groups.overlap(settings.tuning, before.group[1])
    mechanism = sizes.question(settings, len(keys), group, 1.0 if settings.kept is None else part)
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
