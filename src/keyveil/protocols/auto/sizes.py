"""How many pairs users hold: asked of a small group in classes, read as a law of sizes."""

from __future__ import annotations

from keyveil.estimate.shrink import Total
from keyveil.estimate.sizes import SizeLaw, size_classes
from keyveil.mechanisms import EncodedOracle, SizeClass
from keyveil.mechanisms.symbol.encoded import SizeClassResponse, SizeClassWave
from keyveil.protocols.auto import groups, values
from keyveil.protocols.auto.answers import Answered, Answers
from keyveil.protocols.auto.settings import Settings
from keyveil.protocols.auto.tuning import Tuning
from keyveil.rounds import Round


def ask(settings: Settings, campaign: str) -> Round:
    """The first round, where records may hold several pairs."""
    mechanism = question(settings, settings.n_keys)
    return settings.round(campaign, 1, "sizes", mechanism, groups.sizes(settings))


def question(settings: Settings, n_keys: int) -> EncodedOracle:
    """How many of these keys a user holds."""
    tuning = settings.tuning
    largest = min(tuning.size_reach * settings.pairs_per_user, n_keys)
    starts = size_classes(largest, tuning.size_model)
    asks = SizeClassResponse if len(starts) <= tuning.few_classes else SizeClassWave
    return asks.for_epsilon(settings.epsilon, n_keys=n_keys, starts=starts)


def law(settings: Settings, answers: Answers) -> SizeLaw:
    """How many pairs users hold; as declared, where nobody answered."""
    if not settings.holds_several:
        return values.law(settings, answers)
    found = answers.heard("sizes")
    return SizeLaw.exactly(settings.pairs_per_user) if found is None else read(found, settings.tuning)


def read(found: Answered, tuning: Tuning) -> SizeLaw:
    """What a group answered about its sizes."""
    match found.round.mechanism:
        case EncodedOracle(encoder=SizeClass() as classes, oracle=oracle):
            return SizeLaw.from_answers(classes, oracle, found.tally, tuning.size_model)
    raise found.unreadable()


def total(law: SizeLaw) -> Total:
    """How many pairs there are in all, a user, and how sure that is."""
    return Total(law.mean, max(law.mean_error, 1e-9))
