"""The device's side of a campaign: the record goes in, one report comes out.

Needs nothing but the standard library. One report is made whatever the record holds, an empty one
included; its length and the number of random words behind it depend on the campaign alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol

from keyveil.campaign import Campaign
from keyveil.domain import Record
from keyveil.errors import EntropyError
from keyveil.mechanisms import Mechanism, make_report
from keyveil.numerics import Entropy, InsecureSeededEntropy, system_entropy
from keyveil.report import REPORT_ID_BYTES


class OpenRound(Protocol):
    """What a device must know of the round that it answers."""

    @property
    def number(self) -> int:
        """Which round it is."""

    @property
    def mechanism(self) -> Mechanism:
        """How to answer."""

    def narrow(self, record: Record) -> Record:
        """What of a record is asked about."""


class Reporter:
    """Turns what a user holds into a noised report.

    >>> campaign = Campaign(name="apps", epsilon=1.0, keys=("maps", "mail"), value_range=(0, 60),
    ...                     pairs_per_user=2, mechanism="pckv-ue")
    >>> len(Reporter(campaign).report({"maps": 12.0}))
    36
    """

    def __init__(self, campaign: Campaign, *, entropy: Entropy = system_entropy) -> None:
        if isinstance(entropy, InsecureSeededEntropy):
            raise EntropyError("a device must not draw repeatable noise; leave `entropy` out")
        self._campaign = campaign
        self._entropy = entropy
        self._mechanism = None if campaign.has_several_rounds else campaign.build()

    def report(self, held: Mapping[str, float], round: OpenRound | None = None) -> bytes:
        """The report for what a user holds, by the rules of `keyveil.domain` for odd values.

        A campaign of several rounds needs the round that is open.
        """
        record = self._campaign.domain.encode(held)
        if round is None:
            mechanism = self._mechanism or self._campaign.build()
        else:
            mechanism, record = round.mechanism, round.narrow(record)
        return make_report(
            mechanism,
            record,
            self._entropy(mechanism.n_words),
            tag=self._campaign.tag,
            round=1 if round is None else round.number,
            report_id=os.urandom(REPORT_ID_BYTES),
        )
