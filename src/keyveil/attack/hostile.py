"""What hostile devices send: noise, made-up records, and the loudest reports there are.

    random message   an answer drawn evenly from all that exist: does not know the protocol
    random pair      an honest report about one made-up pair: knows it, and looks like anybody
    say              the same few words about chosen keys in every report: the maximal gain

`say` makes the reports that `estimate.influence.Lever` reckons with, for every shape. A crude one is silent
about all else; a hidden one draws the rest as noise would, where a report has a rest. Where ids are handed
out a device has the index or the hash that its id gives: it speaks up where that is of use, or is silent.

[Cao] Cao, Jia, Gong, USENIX Security 2021 (random item, random message, maximal gain); [Wu] Wu, Cao, Jia,
Gong, USENIX Security 2022 (the same for key-value data).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch

import numpy as np

from keyveil.errors import MechanismError
from keyveil.estimate.influence import Statement
from keyveil.mechanisms import (
    Bits,
    Bucket,
    EncodedOracle,
    Hashed,
    IndexedBoundary,
    Mechanism,
    Response,
    SampledIndex,
    Selection,
    SignedResponse,
    SignedUnary,
    UeSw,
)
from keyveil.report import ABSENT, MINUS, PLUS, Row, Subset, Trits
from keyveil.simulate.answers import Answers, draw_answers, first_in_turn
from keyveil.simulate.population import Ints, Population
from keyveil.tally.hashing import bucket_of_many, signed_buckets

# Hashes that a device tries for.
TRIED = 1 << 16


def random_message(mechanism: Mechanism, n: int, rng: np.random.Generator) -> Answers:
    """Answers drawn evenly from all there are.

    >>> from keyveil.mechanisms import build
    >>> random_message(build("pckv-ue", 1, n_keys=4), 3, np.random.default_rng(1)).shape
    (3, 4)
    """
    layout = mechanism.layout
    if isinstance(layout, Trits):
        return rng.integers(0, 3, (n, layout.length)).astype(np.uint8)
    if isinstance(layout, Row):
        return rng.integers(0, layout.size, (n, layout.length))
    if isinstance(layout, Subset):
        return first_in_turn(rng.random((n, layout.length)), layout.chosen)
    return rng.integers(0, layout.size, n)


def random_pair(mechanism: Mechanism, n: int, rng: np.random.Generator) -> Answers:
    """Honest reports of users who each hold one made-up pair."""
    made_up = Population(
        names=[""] * mechanism.n_keys,
        offsets=np.arange(n + 1),
        codes=rng.integers(0, mechanism.n_keys, n),
        values=rng.uniform(-1.0, 1.0, n),
    )
    return draw_answers(mechanism, made_up, rng)


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What `reports` hostile devices are ordered to say of which keys."""

    targets: tuple[int, ...]
    said: Statement
    reports: int
    hidden: bool = False
    """Whether all else is drawn as noise rather than left silent."""

    @property
    def in_turn(self) -> Ints:
        """A target for every report that has room for one."""
        return np.array(self.targets, dtype=np.int64)[np.arange(self.reports) % len(self.targets)]


@singledispatch
def say(mechanism: object, orders: Orders, rng: np.random.Generator) -> Answers:
    """Answers that follow orders: about all targets at once where a report has room, else in turn."""
    raise MechanismError(f"no hostile report is defined for {type(mechanism).__name__}")


@say.register
def _(mechanism: SignedUnary, orders: Orders, rng: np.random.Generator) -> Answers:
    answers = hide_among_noise(mechanism, orders, rng, (mechanism.n_keys,))
    answers[:, list(orders.targets)] = by_sign(orders.said, ABSENT, PLUS, MINUS)
    return answers


@say.register
def _(mechanism: UeSw, orders: Orders, rng: np.random.Generator) -> Answers:
    answers = hide_among_noise(mechanism, orders, rng, (mechanism.n_padded,))
    answers[:, list(orders.targets)] = by_sign(orders.said, ABSENT, mechanism.channel.window.n_out, 1)
    return answers


@say.register
def _(mechanism: SignedResponse, orders: Orders, rng: np.random.Generator) -> Answers:
    if not orders.said.heard:
        return 2 * (mechanism.n_keys + rng.integers(0, mechanism.pairs_per_user, orders.reports))
    return 2 * orders.in_turn + (orders.said.sign < 0)


@say.register
def _(mechanism: SampledIndex, orders: Orders, rng: np.random.Generator) -> Answers:
    return indexed_answers(mechanism, orders, rng, 3, by_sign(orders.said, ABSENT, PLUS, MINUS))


@say.register
def _(mechanism: IndexedBoundary, orders: Orders, rng: np.random.Generator) -> Answers:
    symbol = by_sign(orders.said, ABSENT, mechanism.bins, 1)
    return indexed_answers(mechanism, orders, rng, mechanism.bins + 1, symbol)


@say.register
def _(mechanism: EncodedOracle, orders: Orders, rng: np.random.Generator) -> Answers:
    oracle = mechanism.oracle
    if isinstance(oracle, Hashed):
        aims = np.array(orders.targets)

        def hit(cohorts: Ints) -> Ints:
            return bucket_of_many(cohorts[:, None], aims[None, :], oracle.buckets)

        return _aimed(mechanism, hit, orders, rng, oracle.cohorts, oracle.buckets)
    if isinstance(oracle, Response):
        return orders.in_turn if orders.said.heard else np.full(orders.reports, mechanism.n_keys)
    if isinstance(oracle, Selection):
        return _aimed_sets(oracle, orders, rng)
    assert isinstance(oracle, Bits)
    answers = hide_among_noise(mechanism, orders, rng, (oracle.n_symbols,))
    answers[:, list(orders.targets)] = int(orders.said.heard)
    return answers


@say.register
def _(mechanism: Bucket, orders: Orders, rng: np.random.Generator) -> Answers:
    aims = np.array(orders.targets)

    def hit(cohorts: Ints) -> Ints:
        up, down = signed_buckets(mechanism, cohorts[:, None], aims[None, :])
        # What is not aimed at counts against: a mean wants one sign without the other.
        if orders.said.sign > 0:
            return np.concatenate([up, np.where(up == down, -1, up)], axis=1)
        if orders.said.sign < 0:
            return np.concatenate([down, np.where(up == down, -1, down)], axis=1)
        return np.concatenate([up, down], axis=1)

    return _aimed(mechanism, hit, orders, rng, mechanism.cohorts, mechanism.buckets)


def _aimed_sets(oracle: Selection, orders: Orders, rng: np.random.Generator) -> Answers:
    """The targets, or anything but them, and the rest of a set: the last symbols, or drawn ones."""
    n, d = orders.reports, oracle.n_symbols
    turn = rng.random((n, d)) if orders.hidden else np.tile(np.linspace(1.0, 0.0, d), (n, 1))
    # Where there are more targets than a set has room for, each gets its turn.
    turn[:, list(orders.targets)] = rng.random((n, len(orders.targets))) + (
        -1.0 if orders.said.heard else 2.0
    )
    return first_in_turn(turn, oracle.chosen)


def indexed_answers(
    mechanism: Mechanism, orders: Orders, rng: np.random.Generator, symbols: int, symbol: int
) -> Ints:
    """What is said of a target. Where ids are handed out, an id gives the key: silence if it is no target."""
    if not mechanism.issued:
        return symbols * orders.in_turn + symbol
    index: Ints = rng.integers(0, mechanism.n_keys, orders.reports)
    return symbols * index + np.where(np.isin(index, orders.targets), symbol, ABSENT)


def _aimed(
    mechanism: Mechanism,
    hit: Callable[[Ints], Ints],
    orders: Orders,
    rng: np.random.Generator,
    n_cohorts: int,
    buckets: int,
) -> Ints:
    """In every cohort the bucket that hits most (or least); the best cohort of all, if it may be chosen."""
    n = orders.reports
    tried = rng.integers(0, n_cohorts, n) if mechanism.issued else np.arange(min(n_cohorts, TRIED))
    hits = hit(tried)
    score = np.stack([(hits == bucket).sum(axis=1) for bucket in range(buckets)], axis=1)
    if not orders.said.heard:
        score = -score
    bucket = score.argmax(axis=1)
    answers: Ints = tried * buckets + bucket
    if mechanism.issued:
        return answers
    best = score.max(axis=1)
    loudest: Ints = answers[best == best.max()]
    return np.resize(loudest, n)


def hide_among_noise(
    mechanism: Mechanism, orders: Orders, rng: np.random.Generator, shape: tuple[int, ...]
) -> Answers:
    """Silence about all other keys, or what a user who holds nothing would say of them."""
    n = orders.reports
    if not orders.hidden:
        return np.zeros((n, *shape), dtype=np.int64 if isinstance(mechanism, UeSw) else np.uint8)
    nothing = np.zeros(0)
    holds_nothing = Population(
        names=[""] * mechanism.n_keys,
        offsets=np.zeros(n + 1, dtype=np.int64),
        codes=nothing.astype(np.int64),
        values=nothing,
    )
    return draw_answers(mechanism, holds_nothing, rng)


def by_sign(said: Statement, silent: int, up: int, down: int) -> int:
    """The symbol for a statement: silence, or one of two signs."""
    return silent if not said.heard else up if said.sign >= 0 else down
