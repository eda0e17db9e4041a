"""What reports of mechanisms from the literature must look like.

Each function is registered with the table that its name belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from keyveil.audit.reports.noise import (
    FEWEST_EXPECTED,
    Finding,
    count_findings,
    in_range,
    index_findings,
    largest_finding,
    traced,
    unary_findings,
)
from keyveil.mechanisms import Bits
from keyveil.mechanisms.literature import Apart, BroadcastIndex, IndexedBoundaryBits
from keyveil.tally import Tally


@traced.register
def _(mechanism: Apart, trace: Tally) -> Iterator[Finding]:
    oracle = mechanism.oracle
    if isinstance(oracle, Bits):
        yield from unary_findings(
            trace, float(oracle.a), float(oracle.b), oracle.n_symbols, float(mechanism.loss), mechanism.n_keys
        )


@traced.register
def _(mechanism: IndexedBoundaryBits, trace: Tally) -> Iterator[Finding]:
    yield from index_findings(trace)
    own = float(mechanism.bits.a)
    yield from count_findings("shown", trace.cells["shown"], float(mechanism.bits.b), (own, own))


@traced.register
def _(mechanism: BroadcastIndex, trace: Tally) -> Iterator[Finding]:
    yield from index_findings(trace)
    chance, asked = np.array(mechanism.levels) / 2.0**64, trace.cells["index"].astype(float)
    spread = asked * chance * (1 - chance)
    enough = spread >= FEWEST_EXPECTED
    z = np.where(enough, trace.cells["coin"] - asked * chance, 0.0) / np.sqrt(np.where(enough, spread, 1.0))
    yield largest_finding("coin", z, "a key's public coin does not follow its public mean", np.arange(z.size))


@in_range.register
def _(mechanism: Apart, tally: Tally) -> Iterator[Finding]:
    # Whoever is heard with a key shows a sign that is true with chance p at most.
    p, heard = float(mechanism.sign.p), (tally.plus + tally.minus).astype(float)
    z = (np.maximum(tally.plus, tally.minus) - p * heard) / np.sqrt(np.maximum(heard * p * (1 - p), 1.0))
    kept = np.where(heard >= FEWEST_EXPECTED, np.maximum(z, 0.0), 0.0)
    yield largest_finding(
        "range", kept, "a key has more signs of one kind than noise lets through", np.arange(z.size)
    )
