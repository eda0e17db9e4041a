"""From reports to a tally: one vectorised pass per shape of report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import singledispatch
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from keyveil.errors import Refusal, ReportRejected
from keyveil.mechanisms import Mechanism, SampledIndex, SignedResponse, SignedUnary
from keyveil.report import MINUS, PLUS, Envelope, Symbol, Trits
from keyveil.tally.tally import Counts, Tally

if TYPE_CHECKING:
    from keyveil.campaign import Campaign

# Reports handled at once: keeps the unpacked trits of 6,000 keys within 25 MB.
_BLOCK = 4096

PlusMinusAsked = tuple[Counts, Counts, Counts]


def tally_reports(campaign: Campaign, reports: Iterable[bytes]) -> Tally:
    """The tally of a campaign's reports; refuses the first that is not one of them."""
    mechanism = campaign.build()
    total = count(mechanism, [], question=campaign.id)
    for block in _blocks(_payload(report, campaign.tag, i) for i, report in enumerate(reports)):
        total += count(mechanism, block, question=campaign.id)
    return total


def count(mechanism: Mechanism, payloads: Sequence[bytes], *, question: str) -> Tally:
    """The tally of answers in their byte form."""
    plus, minus, asked = count_answers(mechanism, payloads)
    return Tally(question=question, n_reports=len(payloads), plus=plus, minus=minus, asked=asked)


@singledispatch
def count_answers(mechanism: object, payloads: Sequence[bytes]) -> PlusMinusAsked:
    """Counts of PLUS, MINUS and asked per key; every shape of report registers its own."""
    raise TypeError(f"no way to count reports of {type(mechanism).__name__}; register count_answers for it")


@count_answers.register
def _(mechanism: SignedUnary, payloads: Sequence[bytes]) -> PlusMinusAsked:
    plus = np.zeros(mechanism.n_keys, dtype=np.int64)
    minus = np.zeros_like(plus)
    packed = _matrix(mechanism.layout, payloads)
    _refuse_non_canonical(mechanism.layout, packed)
    for place in range(4):
        trits = (packed >> (2 * place)) & 3
        width = len(range(place, mechanism.n_keys, 4))
        plus[place::4] = (trits == PLUS).sum(axis=0)[:width]
        minus[place::4] = (trits == MINUS).sum(axis=0)[:width]
    return plus, minus, np.full_like(plus, len(payloads))


@count_answers.register
def _(mechanism: SignedResponse, payloads: Sequence[bytes]) -> PlusMinusAsked:
    cells = _histogram(mechanism.layout, payloads)[: 2 * mechanism.n_keys].reshape(-1, 2)
    return cells[:, 0], cells[:, 1], np.full(mechanism.n_keys, len(payloads), dtype=np.int64)


@count_answers.register
def _(mechanism: SampledIndex, payloads: Sequence[bytes]) -> PlusMinusAsked:
    cells = _histogram(mechanism.layout, payloads).reshape(-1, 3)
    return cells[:, PLUS], cells[:, MINUS], cells.sum(axis=1)


def _payload(report: bytes, campaign: bytes, position: int) -> bytes:
    envelope = Envelope.from_bytes(report)
    if envelope.campaign != campaign:
        raise ReportRejected(
            Refusal.WRONG_CAMPAIGN, f"report {position} answers campaign {envelope.campaign.hex()[:12]}"
        )
    return envelope.payload


def _blocks(payloads: Iterator[bytes]) -> Iterator[list[bytes]]:
    while block := list(islice(payloads, _BLOCK)):
        yield block


def _matrix(layout: Trits | Symbol, payloads: Sequence[bytes]) -> NDArray[np.uint8]:
    for payload in payloads:
        if len(payload) != layout.n_bytes:
            layout.decode(payload)
    return np.frombuffer(b"".join(payloads), dtype=np.uint8).reshape(len(payloads), layout.n_bytes)


def _refuse_non_canonical(layout: Trits, packed: NDArray[np.uint8]) -> None:
    spare = np.uint8(0xFF << (2 * (layout.length % 4)) & 0xFF if layout.length % 4 else 0)
    bad = (packed & (packed >> 1) & 0x55).any(axis=1) | ((packed[:, -1] & spare) != 0)
    if bad.any():
        layout.decode(packed[bad.argmax()].tobytes())


def _histogram(layout: Symbol, payloads: Sequence[bytes]) -> Counts:
    packed = _matrix(layout, payloads)
    symbols = packed.astype(np.int64) @ (1 << (8 * np.arange(layout.n_bytes, dtype=np.int64)))
    if symbols.size and symbols.max() >= layout.size:
        layout.decode(packed[symbols.argmax()].tobytes())
    return np.bincount(symbols, minlength=layout.size).astype(np.int64)
