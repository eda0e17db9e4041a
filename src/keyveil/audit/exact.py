"""The certificate: how far apart two records' reports can be, computed from the integers.

Small kernels are enumerated: every subset of keys, every value at an end of its range (values in
between only mix those), every answer, all as fractions. Large ones have a closed form, and a
witness: two records and an answer whose ratio is computed from the same kernel. Where the witness
reaches the closed form, the number is exact; otherwise it is a bound.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from keyveil.domain import Record
from keyveil.mechanisms import Mechanism, Witness
from keyveil.numerics import epsilon_above

# Probabilities that an enumeration may evaluate: about two seconds.
LARGEST_ENUMERATION = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The largest ratio between two records' chances of one answer, and where it is reached."""

    ratio: Fraction
    witness: Witness
    method: str

    @property
    def epsilon(self) -> float:
        """The smallest float not below ln(ratio)."""
        return epsilon_above(self.ratio)


def certify(mechanism: Mechanism) -> Certificate:
    """The exact privacy loss of a mechanism: enumerated where it is small, else in closed form.

    >>> from keyveil.mechanisms import build
    >>> round(certify(build("privkv", 1, n_keys=3)).epsilon, 6)
    0.71907
    """
    if enumeration_size(mechanism) <= LARGEST_ENUMERATION:
        return enumerate_loss(mechanism)
    return closed_form_loss(mechanism)


def closed_form_loss(mechanism: Mechanism) -> Certificate:
    """The mechanism's own formula, checked against its witness."""
    witness = mechanism.witness()
    reached = mechanism.lift(witness.answer, witness.first) / mechanism.lift(witness.answer, witness.second)
    if reached > mechanism.loss:
        raise AssertionError(
            f"{type(mechanism).__name__}: a witness exceeds the closed form; its proof is wrong"
        )
    method = "closed form, reached" if reached == mechanism.loss else "closed form, bound"
    return Certificate(ratio=mechanism.loss, witness=witness, method=method)


def enumerate_loss(mechanism: Mechanism) -> Certificate:
    """The largest ratio over all extreme records and all answers."""
    records = list(extreme_records(mechanism.n_keys))
    best: tuple[Fraction, Witness] | None = None
    for answer in mechanism.answers():
        chances = [mechanism.probability(answer, record) for record in records]
        high = max(range(len(records)), key=chances.__getitem__)
        low = min(range(len(records)), key=chances.__getitem__)
        if chances[high] == 0:
            continue  # nobody ever sends it
        if chances[low] == 0:
            raise AssertionError(f"{type(mechanism).__name__}: an answer is impossible for one record")
        ratio = chances[high] / chances[low]
        if best is None or ratio > best[0]:
            best = ratio, Witness(records[high], records[low], answer)
    assert best is not None, "a mechanism has at least one answer"
    return Certificate(ratio=best[0], witness=best[1], method="enumeration")


def extreme_records(n_keys: int) -> Iterator[Record]:
    """Every subset of the keys, every value at an end of its range."""
    for states in itertools.product((None, 1.0, -1.0), repeat=n_keys):
        yield Record.of({code: value for code, value in enumerate(states) if value is not None})


def enumeration_size(mechanism: Mechanism) -> int:
    """How many probabilities an enumeration evaluates, without evaluating any; cut off when too many."""
    if mechanism.n_keys > LARGEST_ENUMERATION.bit_length():
        return LARGEST_ENUMERATION + 1
    answers = sum(1 for _ in itertools.islice(mechanism.answers(), LARGEST_ENUMERATION))
    return int(3**mechanism.n_keys) * answers
