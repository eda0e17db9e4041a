"""A whole protocol on a whole population: rounds, groups, tallies from their exact law."""

from __future__ import annotations

import numpy as np

from keyveil.protocols import EVERYBODY, Outcome, Round, Rounds
from keyveil.simulate.laws import draw_tally
from keyveil.simulate.population import Population


def play(
    protocol: Rounds, population: Population, rng: np.random.Generator, *, campaign: str = "simulation"
) -> Outcome:
    """The outcome of one run; every user has one public random place, which decides their group.

    >>> from keyveil.protocols import build_protocol
    >>> from keyveil.simulate import insecure_generator, synthetic
    >>> people, protocol = synthetic(users=500, keys=5), build_protocol("privkvm", 1, n_keys=5)
    >>> play(protocol, people, insecure_generator(1)).rounds
    3
    """
    places = rng.random(population.n_users)
    step: Round | Outcome = protocol.start(campaign)
    while isinstance(step, Round):
        asked = population
        if step.group != EVERYBODY:
            low, high = (float(end) for end in step.group)
            asked = asked.take(np.flatnonzero((low <= places) & (places < high)))
        if step.keys is not None:
            asked = asked.restrict(np.array(step.keys))
        step = protocol.next(step, draw_tally(step.mechanism, asked, rng, question=step.question))
    return step
