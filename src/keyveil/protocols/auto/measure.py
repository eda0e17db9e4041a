"""The large group: everybody about all keys (`collect`), or the rest about the candidates (`measure`)."""

from __future__ import annotations

from typing import NamedTuple

from keyveil.estimate import Estimates
from keyveil.estimate.shrink import Evidence
from keyveil.estimate.sizes import SizeLaw, Truncation
from keyveil.plan import Choice
from keyveil.protocols.auto import groups
from keyveil.protocols.auto.answers import Answered
from keyveil.protocols.auto.choose import choose
from keyveil.protocols.auto.discover import Candidates
from keyveil.protocols.auto.opening import Opening
from keyveil.protocols.auto.settings import Settings
from keyveil.protocols.auto.unbiased import cut_by, unbiased
from keyveil.rounds import Round


class Measured(NamedTuple):
    """What a large group answered: unbiased estimates about its records, cut or whole."""

    round: Round
    raw: Estimates
    seen: Evidence

    @property
    def cut(self) -> Truncation:
        """How its records were cut."""
        return self.seen.truncation


def ask_all(settings: Settings, opening: Opening, choice: Choice) -> Round:
    """Everybody who is left, about all keys."""
    group = groups.main(settings.tuning, opening.low, choice)
    return settings.round(opening.campaign, opening.number, "collect", choice.mechanism, group)


def ask_again(settings: Settings, before: Round, candidates: Candidates) -> Round:
    """Everybody who is left, about the candidates."""
    low, keys = before.group[1], candidates.keys
    choice = choose(settings, candidates.law, len(keys), 1 - low, is_top=True)
    group = groups.main(settings.tuning, low, choice)
    return settings.round(before.campaign, before.number + 1, "measure", choice.mechanism, group, keys)


def read(found: Answered, law: SizeLaw) -> Measured:
    """What a large group of users with these sizes answered, before truncation was checked."""
    raw = unbiased(found)
    return Measured(found.round, raw, Evidence.of(raw, cut_by(found.round.mechanism, law)))
