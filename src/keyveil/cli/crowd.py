"""One report for each user in a file of pairs, with the secure bulk stream.

Users are taken in a random order, so that a report's place in the output tells nobody whose it is.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from keyveil.batch import Records, SecureStream, perturb_many
from keyveil.campaign import Campaign
from keyveil.errors import CampaignError
from keyveil.report import HEADER_BYTES
from keyveil.simulate.pairs import read_pairs
from keyveil.simulate.population import Population

# Reports made at once.
_BLOCK_BYTES = 1 << 24


class Crowd:
    """The users of a file, as a campaign asks about them."""

    def __init__(self, campaign: Campaign, path: Path) -> None:
        if campaign.has_several_rounds:
            raise CampaignError(
                f'"{campaign.mechanism}" has several rounds, and each follows from the tally before it; '
                "a file of reports holds one round, so choose a mechanism of one round or use a collector"
            )
        self.campaign = campaign
        low, high = campaign.domain.value_range
        held = read_pairs(path, value_range=(low, high), clamp=True)
        codes = [campaign.domain.code_of(name) for name in held.names]
        asked = np.array([-1 if code is None else code for code in codes])[held.codes]
        users = np.repeat(np.arange(held.n_users), held.sizes)
        known = asked >= 0
        self.n_unknown = int((~known).sum())
        self.n_repeated = held.repeated_rows
        self._people = Population.from_pairs(
            users[known],
            asked[known],
            held.values[known],
            n_users=held.n_users,
            names=campaign.domain.names,
        )
        self._mechanism = campaign.build()

    @property
    def n_users(self) -> int:
        """How many users there are."""
        return self._people.n_users

    @property
    def length(self) -> int:
        """The bytes of one report."""
        return HEADER_BYTES + self._mechanism.layout.n_bytes

    def blocks(self) -> Iterator[bytes]:
        """The reports, some megabytes at a time, joined."""
        # A random order by sorting random words of the operating system.
        words = np.frombuffer(secrets.token_bytes(8 * self.n_users), dtype=np.uint64)
        order, stream = np.argsort(words).astype(np.int64), SecureStream()
        size = max(1, _BLOCK_BYTES // self.length)
        for start in range(0, order.size, size):
            some = self._people.take(order[start : start + size])
            records = Records(offsets=some.offsets, codes=some.codes, values=some.values)
            yield perturb_many(self._mechanism, records, tag=self.campaign.tag, stream=stream).tobytes()
