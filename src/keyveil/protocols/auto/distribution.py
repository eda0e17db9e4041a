"""Where distributions are wanted, and signs do not tell them: nearly all tell noisy values of all keys.

    sizes      3 %, where records may hold several pairs
    collect    the rest, by `ue-sw` or `ue-sw:extremal`, whichever promises the smaller error of shares

Nothing is shrunk and no truncation is undone: the size model is about how often keys are held, and knows
nothing of how their values are spread.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from keyveil.estimate.sizes import SizeLaw, Truncation
from keyveil.mechanisms import Mechanism, UeSw, build
from keyveil.plan import Candidate, lengths
from keyveil.plan.predict import DISTRIBUTIONS
from keyveil.protocols.auto import sizes
from keyveil.protocols.auto.answers import Answers
from keyveil.protocols.auto.notes import of_sizes
from keyveil.protocols.auto.opening import Opening
from keyveil.protocols.auto.settings import Settings
from keyveil.protocols.base import Outcome
from keyveil.protocols.one_round import UnarySquareWave
from keyveil.rounds import Group, Round


def ask(settings: Settings, opening: Opening, law: SizeLaw) -> Round:
    """Everybody who is left."""
    group = opening.low, Fraction(1)
    mechanism = choose(settings, law, group).mechanism
    return settings.round(opening.campaign, opening.number, "collect", mechanism, group)


def choose(settings: Settings, law: SizeLaw, group: Group) -> Candidate:
    """The split of the budget and the padding length with the smallest error of shares of values."""
    crowd, allowed = settings.crowd(law, settings.n_keys), settings.allowance(group)
    options = {"bins": settings.tuning.bins}

    def made(name: str, l: int) -> Mechanism:
        return allowed(
            lambda epsilon: build(name, epsilon, n_keys=settings.n_keys, pairs_per_user=l, **options)
        )

    tried = (
        Candidate(name=name, epsilon=float(settings.epsilon), mechanism=made(name, l), options=options)
        for name in DISTRIBUTIONS
        for l in lengths(law, settings.tuning.choosing)
        if l <= settings.n_keys
    )
    return min(tried, key=lambda each: each.share_rmse(crowd, None, settings.top))


def is_told(answers: Answers) -> bool:
    """Whether the large group was asked for distributions."""
    return answers.were_asked("collect") and isinstance(answers.opened("collect").round.mechanism, UeSw)


def outcome(settings: Settings, answers: Answers) -> Outcome:
    """What `ue-sw` makes of the answers; frequencies are those of records as they were cut."""
    found = answers.required("collect")
    read = UnarySquareWave(mechanism=found.round.mechanism).read(found.tally)
    size = found.round.size
    return replace(
        read,
        raw=read.raw.told_within(size),
        published=read.published.told_within(size),
        notes=_notes(settings, answers, found.round.mechanism.pairs_per_user),
        rounds=answers.n_rounds,
    )


def _notes(settings: Settings, answers: Answers, l: int) -> tuple[str, ...]:
    """What the sizes say, where any were asked for."""
    if not settings.holds_several:
        return ()
    law = sizes.law(settings, answers)
    said = of_sizes(settings, answers, law)
    if Truncation(law=law, l=l).is_idle:
        return tuple(said)
    return (*said, f"records are cut to {l} pairs; frequencies and distributions are those of cut ones")
