"""The memtable of the embedded store: what it holds in the order of arrival, and its runs do not yet.

A group writes its ids in one place, as they come, and keeps them here, in memory. Once there are 2^18, the
next slice of the largest campaign is flushed into a run (`runs`) whenever a slice's worth of others has come;
what a small campaign has is flushed whole. What a group adds to its tally waits here too. After a crash all
of it is read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from keyveil.collector.store.runs import N_SLICES
from keyveil.tally import Tally

Place = tuple[int, int]
"""A campaign's number and a round's."""
SlicesOf = Callable[[list[bytes]], list[int]]
"""The slices to which ids belong."""


class WriteBatch:
    """What one transaction adds: ids and their rounds by campaign, and tallies as they are with them."""

    def __init__(self) -> None:
        self.round_of: dict[int, dict[bytes, int]] = {}
        self.sums: dict[Place, Tally] = {}

    def known(self, campaign: int, ids: Iterable[bytes]) -> set[bytes]:
        """Those of the ids that are here."""
        here = self.round_of.get(campaign)
        return {name for name in ids if name in here} if here else set()

    def claim(self, place: Place, ids: Iterable[bytes]) -> None:
        """These ids are known from now on."""
        campaign, round_ = place
        self.round_of.setdefault(campaign, {}).update(dict.fromkeys(ids, round_))

    def forget(self, campaign: int) -> None:
        """All of a campaign."""
        self.round_of.pop(campaign, None)
        _without(self.sums, campaign)


class Memtable:
    """Ids by campaign and slice, and the tallies as they are with them.

    >>> pending, memtable = WriteBatch(), Memtable()
    >>> pending.claim((1, 1), [bytes(16)])
    >>> memtable.update(pending, lambda ids: [5] * len(ids))
    >>> memtable.known(1, [bytes(16), bytes([1] * 16)]) == {bytes(16)}
    True
    >>> memtable.in_slice(1, 5), memtable.n_ids(1)
    (1, 1)
    """

    def __init__(self) -> None:
        self.sums: dict[Place, Tally] = {}
        self._round_of: dict[int, dict[bytes, int]] = {}
        self._slices: dict[int, list[list[bytes]]] = {}

    def known(self, campaign: int, ids: Iterable[bytes]) -> set[bytes]:
        """Those of the ids that are here."""
        here = self._round_of.get(campaign)
        return {name for name in ids if name in here} if here else set()

    def update(self, pending: WriteBatch, slices_of: SlicesOf) -> None:
        """Add what a transaction has committed."""
        for campaign, round_of in pending.round_of.items():
            slices = self._slices.setdefault(campaign, [[] for _ in range(N_SLICES)])
            self._round_of.setdefault(campaign, {}).update(round_of)
            names = list(round_of)
            for name, at in zip(names, slices_of(names), strict=True):
                slices[at].append(name)
        self.sums.update(pending.sums)

    def ids(self, campaign: int, slices: Iterable[int]) -> Iterator[tuple[int, list[bytes]]]:
        """The ids of some slices by round."""
        here, round_of = self._slices.get(campaign), self._round_of.get(campaign, {})
        names = [name for at in slices for name in here[at]] if here else []
        by_round: dict[int, list[bytes]] = {}
        for name in names:
            by_round.setdefault(round_of[name], []).append(name)
        yield from sorted(by_round.items())

    def copied(self, campaign: int) -> list[list[tuple[int, bytes]]]:
        """The ids of a campaign with their rounds, slice by slice, as they are now."""
        here, round_of = self._slices.get(campaign), self._round_of.get(campaign, {})
        return [[(round_of[name], name) for name in names] for names in here] if here else []

    def n_ids(self, campaign: int | None = None) -> int:
        """How many ids are here, of one campaign or of all."""
        if campaign is None:
            return sum(map(len, self._round_of.values()))
        return len(self._round_of.get(campaign, ()))

    def in_slice(self, campaign: int, at: int) -> int:
        """How many ids a slice of a campaign holds."""
        return len(self._slices[campaign][at])

    def forget(self, campaign: int, slices: Sequence[int]) -> None:
        """These slices of a campaign are in runs now, and its tallies are up to date."""
        here, round_of = self._slices.get(campaign, []), self._round_of.get(campaign, {})
        for at in slices if here else ():
            for name in here[at]:
                del round_of[name]
            here[at].clear()
        if not round_of:
            self._slices.pop(campaign, None)
            self._round_of.pop(campaign, None)
        _without(self.sums, campaign)

    @property
    def campaigns(self) -> list[int]:
        """The campaigns that have something here."""
        return sorted({no for no, _ in self.sums}.union(self._round_of))


def _without(sums: dict[Place, Tally], campaign: int) -> None:
    for place in [place for place in sums if place[0] == campaign]:
        del sums[place]
