"""How reports of mechanisms from the literature are counted and traced.

Each function is registered with the table that its name belongs to.
"""

from __future__ import annotations

import numpy as np

from keyveil.mechanisms import Bits
from keyveil.mechanisms.literature import Apart, BroadcastIndex, IndexedBoundaryBits
from keyveil.report import ABSENT, MINUS, PLUS, Row, Symbol
from keyveil.tally.bits import count_bits
from keyveil.tally.count import Cells, CountedCells, asked_of_all, count_answers, read_symbols, symbol_counts
from keyveil.tally.payloads import Payloads
from keyveil.tally.trace import Answers, fingerprints, histogram, named_cells, trace_cells


@count_answers.register
def _(mechanism: BroadcastIndex, payloads: Payloads) -> CountedCells:
    counts, bad = symbol_counts(mechanism.layout, payloads)
    cells = counts.reshape(-1, 2, 3).sum(axis=1)
    return CountedCells({"plus": cells[:, PLUS], "minus": cells[:, MINUS], "asked": cells.sum(axis=1)}, bad)


@count_answers.register
def _(mechanism: IndexedBoundaryBits, payloads: Payloads) -> CountedCells:
    d, bins = mechanism.n_keys, mechanism.bins
    symbols, bad = read_symbols(mechanism.layout, payloads)
    index, symbol = np.divmod(symbols, (1 << bins) + 1)
    said = symbol > 0
    keys, shown = index[said], symbol[said] - 1
    bits = [np.bincount(keys[(shown >> place) & 1 == 1], minlength=d) for place in range(bins)]
    cells = {
        "asked": np.bincount(index, minlength=d),
        "held": np.bincount(keys, minlength=d),
        "bits": np.stack(bits, axis=1),
    }
    return CountedCells(cells, bad)


@count_answers.register
def _(mechanism: Apart, payloads: Payloads) -> CountedCells:
    d, layout = mechanism.n_keys, mechanism.layout
    if isinstance(layout, Symbol):
        counts, bad = symbol_counts(layout, payloads)
        down, up = counts.reshape(-1, 2).T
    else:
        assert isinstance(layout, Row)
        byte, bit = divmod(layout.length - 1, 8)
        is_up = payloads.data[payloads.starts + byte] >> bit & 1 == 1
        bad = np.zeros(len(payloads), dtype=np.bool_)
        up, bad[is_up] = count_bits(layout, payloads.only(is_up))
        down, bad[~is_up] = count_bits(layout, payloads.only(~is_up))
    return CountedCells({"plus": up[:d], "minus": down[:d], "asked": asked_of_all(d, bad)}, bad)


@trace_cells.register
def _(mechanism: Apart, answers: Answers) -> Cells:
    if isinstance(mechanism.oracle, Bits):
        return {
            **named_cells(answers[:, :-1] != ABSENT, mechanism.oracle.n_symbols),
            "prints": fingerprints(answers),
        }
    return {}


@trace_cells.register
def _(mechanism: IndexedBoundaryBits, answers: Answers) -> Cells:
    index, symbol = np.divmod(answers, (1 << mechanism.bins) + 1)
    shown = symbol[symbol > 0] - 1
    bits = sum((shown >> place) & 1 for place in range(mechanism.bins))
    return {
        "index": histogram(index, mechanism.n_keys),
        "shown": histogram(np.asarray(bits, dtype=np.int64), mechanism.bins + 1),
    }


@trace_cells.register
def _(mechanism: BroadcastIndex, answers: Answers) -> Cells:
    index, rest = np.divmod(answers, 6)
    return {
        "index": histogram(index, mechanism.n_keys),
        "coin": histogram(index[rest < 3], mechanism.n_keys),
    }
