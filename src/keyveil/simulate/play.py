"""A whole protocol on a whole population: rounds, groups, tallies from their exact law."""

from __future__ import annotations

import numpy as np

from keyveil.protocols import EVERYBODY, Outcome, Protocol, Round
from keyveil.simulate.laws import draw_tally
from keyveil.simulate.population import Floats, Population
from keyveil.tally import Tally


def play(
    protocol: Protocol,
    population: Population,
    rng: np.random.Generator,
    *,
    campaign: str = "simulation",
    twins: int = 1,
) -> Outcome:
    """The outcome of one run; every user has one public random place, which decides their group.

    With `twins` every record belongs to that many users, each of whom reports for themselves.

    >>> from keyveil.protocols import build_protocol
    >>> from keyveil.simulate import insecure_generator, synthetic
    >>> people, protocol = synthetic(users=500, keys=5), build_protocol("privkvm", 1, n_keys=5)
    >>> play(protocol, people, insecure_generator(1)).rounds
    3
    """
    places = rng.random((twins, population.n_users))
    step: Round | Outcome = protocol.start(campaign)
    history: list[tuple[Round, Tally]] = []
    while isinstance(step, Round):
        first, *others = (_answers(step, population, row, rng) for row in places)
        history.append((step, sum(others, start=first)))
        step = protocol.next(history)
    return step


def _answers(step: Round, population: Population, places: Floats, rng: np.random.Generator) -> Tally:
    """What those say who belong to the round's group."""
    asked = population
    if step.group != EVERYBODY:
        low, high = (float(end) for end in step.group)
        asked = asked.take(np.flatnonzero((low <= places) & (places < high)))
    if step.keys is not None:
        asked = asked.restrict(np.array(step.keys))
    return draw_tally(step.mechanism, asked, rng, question=step.question, dither=step.dither)
