"""The device's side of a campaign: the record goes in, one report comes out.

Needs nothing but the standard library. One report is made whatever the record holds, an empty one
included; its length and the number of random words behind it depend on the campaign alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from keyveil.campaign import Campaign
from keyveil.errors import EntropyError
from keyveil.numerics import Entropy, InsecureSeededEntropy, system_entropy
from keyveil.report import REPORT_ID_BYTES, Envelope


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
        self._mechanism = campaign.build()
        self._entropy = entropy

    def report(self, held: Mapping[str, float]) -> bytes:
        """The report for what a user holds; by the rules of `keyveil.domain` for odd values."""
        mechanism = self._mechanism
        record = self._campaign.domain.encode(held)
        answer = mechanism.perturb(record, self._entropy(mechanism.n_words))
        return Envelope(
            campaign=self._campaign.tag,
            round=1,
            report_id=os.urandom(REPORT_ID_BYTES),
            payload=mechanism.layout.encode(answer),
        ).to_bytes()
