"""A search for keys that nobody listed, played out on a population whose keys are names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from keyveil.domain.texts import THE_REST
from keyveil.mechanisms import PrefixBucket
from keyveil.protocols import Outcome, Protocol
from keyveil.protocols.unknown import OpenKeys
from keyveil.rounds import Round
from keyveil.simulate.laws import draw_prefixes, draw_tally
from keyveil.simulate.population import Population
from keyveil.tally import Tally


def search(protocol: Protocol, keys: OpenKeys, population: Population, rng: np.random.Generator) -> Outcome:
    """What a protocol of open keys ends with; every user has a place, and answers its group's round.

    The law is that of devices, in O(n l) and what decoding takes: real hashes, real buckets.
    """
    numbers = [keys.code.number(name) for name in population.names]
    shown = [keys.code.name(number) or "" for number in numbers]
    places = rng.random(population.n_users)
    history: list[tuple[Round, Tally]] = []
    step: Round | Outcome = protocol.start("simulation")
    while isinstance(step, Round):
        low, high = (float(end) for end in step.group)
        part = population.take(np.flatnonzero((low <= places) & (places < high)))
        if isinstance(step.mechanism, PrefixBucket):
            cells = draw_prefixes(step.mechanism, part, numbers, rng)
            tally = Tally.of(question=step.question, n_reports=part.n_users, **cells)
        else:
            assert step.names is not None
            part = named(part, shown, step.names)
            tally = draw_tally(step.mechanism, part, rng, question=step.question, dither=step.dither)
        history.append((step, tally))
        step = protocol.next(history)
    return step


def named(population: Population, shown: Sequence[str], names: Sequence[str]) -> Population:
    """The users with the keys that are asked about by name, an ellipsis standing for all others."""
    place = {name: code for code, name in enumerate(names)}
    rest = place.get(THE_REST, -1)
    codes = np.array([place.get(name, rest) for name in shown], dtype=np.int64)[population.codes]
    users = np.repeat(np.arange(population.n_users), population.sizes)
    asked = codes >= 0
    return Population.from_pairs(
        users[asked],
        codes[asked],
        population.values[asked],
        n_users=population.n_users,
        names=tuple(names),
        value_range=population.value_range,
    )
