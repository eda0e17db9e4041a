"""What hostile devices say to mechanisms from the literature, and what comes of it.

Each function is registered with the table that its name belongs to.
"""

from __future__ import annotations

import numpy as np

from keyveil.attack.hostile import Orders, by_sign, hide_among_noise, indexed_answers, say
from keyveil.attack.poisoning import Floats, debiased_frequency, read
from keyveil.mechanisms import Response
from keyveil.mechanisms.literature import Apart, BroadcastIndex, IndexedBoundaryBits
from keyveil.report import ABSENT, MINUS, PLUS
from keyveil.simulate.answers import Answers
from keyveil.tally import Tally


@say.register
def _(mechanism: BroadcastIndex, orders: Orders, rng: np.random.Generator) -> Answers:
    return indexed_answers(mechanism, orders, rng, 6, by_sign(orders.said, ABSENT, PLUS, MINUS))


@say.register
def _(mechanism: IndexedBoundaryBits, orders: Orders, rng: np.random.Generator) -> Answers:
    shown = by_sign(orders.said, 0, 1 + (1 << (mechanism.bins - 1)), 2)
    return indexed_answers(mechanism, orders, rng, (1 << mechanism.bins) + 1, shown)


@say.register
def _(mechanism: Apart, orders: Orders, rng: np.random.Generator) -> Answers:
    d, up = mechanism.n_keys, orders.said.sign >= 0
    if isinstance(mechanism.oracle, Response):
        return 2 * (orders.in_turn if orders.said.heard else np.full(orders.reports, d)) + up
    answers = hide_among_noise(mechanism, orders, rng, (mechanism.oracle.n_symbols + 1,))
    answers[:, list(orders.targets)] = int(orders.said.heard)
    answers[:, -1] = up
    return answers


@read.register
def _(mechanism: IndexedBoundaryBits, tally: Tally) -> tuple[Floats, Floats]:
    frequency = debiased_frequency(mechanism, tally.cells["held"], tally.cells["asked"])
    return frequency, np.full(mechanism.n_keys, np.nan)


@read.register
def _(mechanism: Apart, tally: Tally) -> tuple[Floats, Floats]:
    frequency = debiased_frequency(mechanism, tally.plus + tally.minus, tally.cells["asked"])
    return frequency, mechanism.heard_mean(tally.plus.astype(float), tally.minus.astype(float))
