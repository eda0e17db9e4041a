"""The certificate of a protocol: what all rounds together can tell of one user.

Reports of different rounds are independent given the record, so the loss of a pair of records is the
product of the rounds' own largest ratios for that pair, over the rounds that one user meets. Small
protocols are enumerated pair by pair. Otherwise the rounds' losses are multiplied: exact where one
pair is the worst of every round, a bound anyway.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from keyveil.audit.exact import Certificate, certify, enumeration_size, extreme_records
from keyveil.domain import Record
from keyveil.numerics import epsilon_above
from keyveil.protocols import Protocol, Round, total_loss

# Ratios that an enumeration of pairs may form: about five seconds.
LARGEST_OVER_PAIRS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolCertificate:
    """The largest loss over all rounds that one user may meet, and each round's own."""

    ratio: Fraction
    method: str
    stages: tuple[tuple[Round, Certificate], ...]

    @property
    def epsilon(self) -> float:
        """The smallest float not below ln(ratio)."""
        return epsilon_above(self.ratio)


def certify_protocol(protocol: Protocol) -> ProtocolCertificate:
    """The total privacy loss of a protocol.

    >>> from keyveil.protocols import build_protocol
    >>> certificate = certify_protocol(build_protocol("privkvm", 1, n_keys=2, rounds=2))
    >>> round(certificate.epsilon, 6), certificate.method
    (0.867208, 'enumeration')
    """
    stages = tuple((stage, certify(stage.mechanism)) for stage in protocol.stages())
    rounds = [stage for stage, _ in stages]
    groups = sorted(stage.group for stage in rounds)
    if all(one[1] <= other[0] for one, other in pairwise(groups)):
        # Nobody meets two rounds.
        certificate = max((own for _, own in stages), key=lambda own: own.ratio)
        return ProtocolCertificate(ratio=certificate.ratio, method=certificate.method, stages=stages)
    records = 3**protocol.n_keys
    if sum(enumeration_size(stage.mechanism) * records for stage in rounds) <= LARGEST_OVER_PAIRS:
        return ProtocolCertificate(ratio=_over_pairs(protocol, rounds), method="enumeration", stages=stages)
    return ProtocolCertificate(ratio=total_loss(rounds), method="product of the rounds", stages=stages)


def _over_pairs(protocol: Protocol, rounds: list[Round]) -> Fraction:
    """The largest product of ratios over all pairs of extreme records, at the place that meets the most."""
    records = list(extreme_records(protocol.n_keys))
    tables = [_chances(stage, records) for stage in rounds]
    places = {stage.group[0] for stage in rounds}
    met = [
        [
            table
            for stage, table in zip(rounds, tables, strict=True)
            if stage.group[0] <= place < stage.group[1]
        ]
        for place in places
    ]
    pairs = range(len(records))
    return max(
        math.prod(
            (max(x / y for x, y in zip(table[one], table[other], strict=True) if x) for table in tables),
            start=Fraction(1),
        )
        for tables in met
        for one in pairs
        for other in pairs
    )


def _chances(stage: Round, records: list[Record]) -> list[list[Fraction]]:
    """Pr[answer | record] of one round, a row a record."""
    answers = list(stage.mechanism.answers())
    narrowed = [stage.narrow(record) for record in records]
    return [[stage.mechanism.probability(answer, record) for answer in answers] for record in narrowed]
