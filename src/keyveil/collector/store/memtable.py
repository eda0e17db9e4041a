"""The memtable of the embedded store: what it holds in the order of arrival, and its trees do not yet.

Ids are random, so writing each group's to their tree would touch a page a report, and the more pages
the larger the tree. A group therefore writes its ids in one place, as they come, and keeps them here, in
memory. Every few thousand reports one slice of them, those that begin alike, is flushed to the tree: it
meets few pages, and many ids a page. What a group adds to its tally waits here too. After a crash all of it
is read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from keyveil.tally import Tally

Place = tuple[int, int]
"""A campaign's number and a round's."""
# The upper six bits of an id's first byte tell its slice.
N_SLICES, _SHIFT = 64, 2


class Pending:
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

    >>> pending, memtable = Pending(), Memtable()
    >>> pending.claim((1, 1), [bytes(16)])
    >>> memtable.update(pending)
    >>> memtable.known(1, [bytes(16), bytes([1] * 16)]) == {bytes(16)}
    True
    """

    def __init__(self) -> None:
        self.sums: dict[Place, Tally] = {}
        self._slices: dict[int, list[dict[bytes, int]]] = {}

    def known(self, campaign: int, ids: Iterable[bytes]) -> set[bytes]:
        """Those of the ids that are here."""
        slices = self._slices.get(campaign)
        return {name for name in ids if name in slices[slice_of(name)]} if slices else set()

    def update(self, pending: Pending) -> None:
        """Add what a transaction has committed."""
        for campaign, round_of in pending.round_of.items():
            slices = self._slices.setdefault(campaign, [{} for _ in range(N_SLICES)])
            for name, round_ in round_of.items():
                slices[slice_of(name)][name] = round_
        self.sums.update(pending.sums)

    def ids(self, campaign: int, at: int) -> Iterator[tuple[int, list[bytes]]]:
        """The ids of a slice by round, in the order of the tree."""
        here = self._slices[campaign][at] if campaign in self._slices else {}
        for round_ in sorted(set(here.values())):
            yield round_, sorted(name for name, of in here.items() if of == round_)

    def n_ids(self, at: int) -> int:
        """How many ids a slice holds, of all campaigns."""
        return sum(len(slices[at]) for slices in self._slices.values())

    def forget(self, campaign: int, slices: Iterable[int]) -> None:
        """These slices of a campaign are in the tree now, and its tallies are up to date."""
        here = self._slices.get(campaign, [])
        for at in slices if here else ():
            here[at].clear()
        if not any(here):
            self._slices.pop(campaign, None)
        _without(self.sums, campaign)

    @property
    def campaigns(self) -> list[int]:
        """The campaigns that have something here."""
        return sorted({no for no, _ in self.sums}.union(self._slices))


def slice_of(name: bytes) -> int:
    """The slice to which an id belongs."""
    return name[0] >> _SHIFT


def _without(sums: dict[Place, Tally], campaign: int) -> None:
    for place in [place for place in sums if place[0] == campaign]:
        del sums[place]
