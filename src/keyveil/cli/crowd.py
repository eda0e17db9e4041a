"""One report for each user in a file of pairs, by the device's own code, in as many processes as help.

Users are taken in a random order, so that a report's place in the output tells nobody whose it is.
"""

from __future__ import annotations

import multiprocessing
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from keyveil.campaign import Campaign
from keyveil.client.noise import noised
from keyveil.errors import CampaignError
from keyveil.mechanisms import Mechanism
from keyveil.report import HEADER_BYTES
from keyveil.simulate.pairs import read_pairs
from keyveil.simulate.population import Floats, Ints, Population

# Users a task: a few tenths of a second of work at thousands of keys.
_TASK = 256
# Fewer random words than this are drawn before a second process has started.
_WORTH_A_PROCESS = 5_000_000


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

    def blocks(self, processes: int | None = None) -> Iterator[bytes]:
        """The reports, some hundred at a time, joined."""
        if processes is None:
            work = self.n_users * self._mechanism.n_words
            processes = 1 if work < _WORTH_A_PROCESS else _cores()
        if processes == 1:
            yield from map(_block, self._tasks())
            return
        # A fresh interpreter shares no lock with this one's threads.
        with multiprocessing.get_context("spawn").Pool(processes) as pool:
            yield from pool.imap_unordered(_block, self._tasks())

    def _tasks(self) -> Iterator[_Task]:
        # A random order by sorting random words of the operating system.
        words = np.frombuffer(secrets.token_bytes(8 * self.n_users), dtype=np.uint64)
        order = np.argsort(words).astype(np.int64)
        for start in range(0, order.size, _TASK):
            some = self._people.take(order[start : start + _TASK])
            yield self.campaign.tag, self._mechanism, some.offsets, some.codes, some.values


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_Task = tuple[bytes, Mechanism, Ints, Ints, Floats]


def _block(task: _Task) -> bytes:
    tag, mechanism, offsets, codes, values = task
    people = Population(names=(), offsets=offsets, codes=codes, values=values)
    return b"".join(noised(tag, mechanism, record) for record in people.records())
