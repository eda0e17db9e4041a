"""What the embedded store's blocks hold and its trees do not yet.

Ids are random, so writing each group's to their tree would touch a page a report. A group therefore
writes its block alone, in one place; its ids and what it adds to the tally stay here, in memory, until
a few thousand reports make a pass over the tree worth its while. After a crash they are read again
from the blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from keyveil.tally import Tally

Place = tuple[int, int]
"""A campaign's number and a round's."""


class Young:
    """Ids by campaign and round, and the tallies as they are with them.

    >>> young = Young()
    >>> young.claim((1, 1), [bytes(16)])
    >>> young.known(1, [bytes(16), bytes([1] * 16)]) == {bytes(16)}
    True
    """

    def __init__(self) -> None:
        self.round_of: dict[int, dict[bytes, int]] = {}
        self.sums: dict[Place, Tally] = {}

    def __len__(self) -> int:
        return sum(map(len, self.round_of.values()))

    def known(self, campaign: int, ids: Iterable[bytes]) -> set[bytes]:
        """Those of the ids that are here."""
        here = self.round_of.get(campaign)
        return {name for name in ids if name in here} if here else set()

    def claim(self, place: Place, ids: Iterable[bytes]) -> None:
        """These ids are known from now on."""
        campaign, round_ = place
        self.round_of.setdefault(campaign, {}).update(dict.fromkeys(ids, round_))

    def ids(self, place: Place) -> list[bytes]:
        """The ids of a round, in the order of the tree."""
        campaign, round_ = place
        return sorted(name for name, of in self.round_of.get(campaign, {}).items() if of == round_)

    def update(self, newer: Young) -> None:
        """Add what a transaction has committed."""
        for campaign, of_ids in newer.round_of.items():
            self.round_of.setdefault(campaign, {}).update(of_ids)
        self.sums.update(newer.sums)

    def forget(self, campaigns: Iterable[int]) -> None:
        """These campaigns are all in the trees now."""
        for campaign in campaigns:
            self.round_of.pop(campaign, None)
            for place in [place for place in self.sums if place[0] == campaign]:
                del self.sums[place]

    @property
    def campaigns(self) -> Mapping[int, list[Place]]:
        """The campaigns that are here, with their rounds."""
        found: dict[int, list[Place]] = {}
        for place in sorted(self.sums):
            found.setdefault(place[0], []).append(place)
        return found
