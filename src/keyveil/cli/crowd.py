"""One report for each user in a file of pairs, with the secure bulk stream.

Where a round asks one group of the users, a user's place follows from the campaign and the user's name in the
file, so it is the same in every round, whoever else is in the file by then.

Users are taken in a random order, so that a report's place in the output tells nobody whose it is.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from keyveil.batch import Records, SecureStream, perturb_many
from keyveil.campaign import Campaign
from keyveil.errors import CampaignError
from keyveil.report import REPORT_ID_BYTES
from keyveil.rounds import Round
from keyveil.simulate.breakdowns import crossed
from keyveil.simulate.population import Population

# Reports made at once.
_BLOCK_BYTES = 1 << 24


def asked_about(campaign: Campaign, held: Population) -> tuple[Population, int]:
    """The same people with the keys that a campaign asks about, and how many pairs have others.

    Those count as "other" where the campaign has it, else they are left out.
    """
    codes = [campaign.domain.code_of(name) for name in held.names]
    meant = np.array([-1 if code is None else code for code in codes])[held.codes]
    users = np.repeat(np.arange(held.n_users), held.sizes)
    known = meant >= 0
    people = Population.from_pairs(
        users[known],
        meant[known],
        held.values[known],
        n_users=held.n_users,
        names=campaign.domain.key_names,
        value_range=held.value_range,
    )
    named = np.isin(np.array(held.names), campaign.domain.keys)[held.codes]
    return replace(people, user_names=held.user_names, labels=held.labels), int((~named).sum())


def as_crossed(campaign: Campaign, people: Population) -> Population:
    """The same people with what is asked about instead of keys: pairs of them, or keys by private segment."""
    crossing = campaign.domain.crossing
    if crossing is None:
        return people
    labels = None if people.labels is None else people.labels[:, 0].astype(np.int64)
    return crossed(people, crossing, labels)


class FileUsers:
    """The users of a file, as a campaign asks about them."""

    def __init__(self, campaign: Campaign, held: Population, asked: Round | None = None) -> None:
        if campaign.has_several_rounds and asked is None:
            raise CampaignError(
                f'"{campaign.mechanism}" has several rounds, and each follows from the tally before it; '
                "let a collector open them and use `keyveil send`, or choose a mechanism of one round"
            )
        self.campaign = campaign
        people, self.n_unknown = asked_about(campaign, held)
        self._people = as_crossed(campaign, people)
        self._round = campaign.only_round() if asked is None else asked
        self._people = self._asked_of(self._round)

    def _asked_of(self, asked: Round) -> Population:
        """Those of the round's group, with the keys it asks about."""
        head = self.campaign.id.encode()
        hashes = (hashlib.sha256(head + user.encode()).digest() for user in self.users)
        drawn = np.frombuffer(b"".join(digest[:8] for digest in hashes), dtype=">u8")
        low, high = (int(end * 2**64) for end in asked.group)
        # All ones below 2**64 are places; a group that ends at 1 has them all.
        people = self._people.take(np.flatnonzero((drawn >= low) & (drawn <= high - 1)))
        return people if asked.keys is None else people.restrict(np.array(asked.keys))

    @property
    def n_users(self) -> int:
        """How many users there are."""
        return self._people.n_users

    @property
    def users(self) -> list[str]:
        """Their names in the file, or their numbers where it says none."""
        names = self._people.user_names
        return [str(name) for name in (range(self.n_users) if names is None else names.tolist())]

    def keep(self, chosen: Sequence[bool]) -> None:
        """Ask only these of the users."""
        self._people = self._people.take(np.flatnonzero(np.asarray(chosen, dtype=bool)))

    @property
    def length(self) -> int:
        """The bytes of one report."""
        return self._round.report_bytes

    def blocks(self) -> Iterator[bytes]:
        """The reports, some megabytes at a time, joined."""
        return (reports for _, reports in self.answers())

    def answers(self, issue: Callable[[int], list[bytes]] | None = None) -> Iterator[tuple[list[str], bytes]]:
        """Users and their reports, joined, some megabytes at a time; under own ids, or those of `issue`."""
        # A random order by sorting random words of the operating system.
        words = np.frombuffer(secrets.token_bytes(8 * self.n_users), dtype=np.uint64)
        order, stream, users = np.argsort(words).astype(np.int64), SecureStream(), self.users
        size = max(1, _BLOCK_BYTES // self.length)
        for start in range(0, order.size, size):
            chosen = order[start : start + size]
            some, names = self._people.take(chosen), [users[place] for place in chosen.tolist()]
            records = Records(offsets=some.offsets, codes=some.codes, values=some.values)
            issued = None if issue is None else np.frombuffer(b"".join(issue(len(records))), dtype=np.uint8)
            reports = perturb_many(
                self._round.mechanism,
                records,
                tag=self._round.tag,
                round=self._round.number,
                stream=stream,
                ids=None if issued is None else issued.reshape(-1, REPORT_ID_BYTES),
                is_dithered=self._round.is_dithered,
                labels=self._labels(some),
            )
            yield names, reports.tobytes()

    def _labels(self, some: Population) -> NDArray[np.uint8] | None:
        """What their reports say in the clear: what a file says, where it says anything."""
        if not self._round.labels:
            return None
        other = np.zeros((some.n_users, len(self._round.labels)), dtype=np.uint8)
        return other if some.labels is None else some.labels
