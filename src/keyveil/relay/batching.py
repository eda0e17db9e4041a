"""When a batch is made, of whom, and in which order.

Who answered one round and sealed to one key hide together. A batch goes when at least twice as many wait as
must go together: it takes all but one batch's worth, whichever they are, so those who are left can always go
together, too. When the round ends, the last batch takes everybody who waits - what would have been a small
last batch is merged into the one before - and where they are fewer than must go together, they are thrown
away. No batch is ever smaller than the campaign says.

Who goes, and in which order, is drawn with the operating system's generator: each of those who wait gets 64
random bits, and they go in the order of these. The order in which they came is written nowhere from then on.

A large batch is drawn in parts, each a transaction of its own, so that nobody waits for all of it; it leaves
only when its last part is drawn. A process that is killed in between goes on where it was.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable

import numpy as np

from keyveil.collector.campaigns.access import NOBODY
from keyveil.relay.settings import RelaySettings
from keyveil.relay.store import FORMING, CarriedRound, Crowd, OutgoingBatch, RelayStore, RelayTransaction
from keyveil.report import to_frames

_FRAME_BYTES = 4
_ID_BYTES = 16
_KEY_BYTES = 8


class Batching:
    """Turns those who wait into batches."""

    def __init__(
        self,
        store: RelayStore,
        settings: RelaySettings,
        *,
        earliest: Callable[[], float],
        tell: Callable[..., None],
    ) -> None:
        self._store, self._settings, self._earliest, self._tell = store, settings, earliest, tell

    def tick(self) -> int:
        """Ends rounds whose time is over, and makes the batches that are due; how many."""
        self._end_due()
        n_made = 0
        with self._store.read() as tx:
            unfinished, crowds = tx.batches("state = ?", (FORMING,)), tx.crowds()
            rounds = {each.no: each for each in tx.rounds()}
        for batch in unfinished:
            self._draw(batch)
            n_made += 1
        busy = {(batch.round, batch.key) for batch in unfinished}
        for crowd in crowds:
            if (crowd.round, crowd.key) in busy:
                # Some of those who were counted are in the batch by now.
                continue
            round = rounds[crowd.round]
            size = size_of_next(round, crowd)
            if size:
                self._draw(self._begin(round, crowd, size))
                n_made += 1
            elif round.ended_at is not None:
                self._discard(round, crowd)
        return n_made

    def end(self, round: CarriedRound, *, actor: str, why: str) -> bool:
        """Take nothing more to a round, and send who waits; whether it was open."""
        with self._store.write() as tx:
            did_end = tx.end_round(round.no, now=self._earliest(), why=why)
            if did_end:
                self._note(tx, round, "round-ended", f"{round.number} {why}", actor)
        return did_end

    def _end_due(self) -> None:
        with self._store.read() as tx:
            rounds = tx.rounds()
        now = self._earliest()
        for each in rounds:
            if each.ended_at is None and each.ends_at is not None and now >= each.ends_at:
                self.end(each, actor=NOBODY, why="its time is over")
                self._tell("round-ended", round=each.number, why="time")

    def _begin(self, round: CarriedRound, crowd: Crowd, size: int) -> OutgoingBatch:
        settings = self._settings
        by_size = settings.part_bytes // (round.length + _FRAME_BYTES)
        id, per_part = secrets.token_hex(_ID_BYTES), max(1, min(settings.part_reports, by_size))
        with self._store.write() as tx:
            if round.ended_at is not None:
                # Those who are no batch of their own go with the others, and it is said how many they are.
                said = f"{size} of round {round.number}, {size % round.batch} of them merged into it"
                self._note(tx, round, "last-batch", said)
            return tx.begin_batch(id, round.no, crowd.key, size, per_part)

    def _draw(self, batch: OutgoingBatch) -> None:
        """The parts of a batch that are still to be drawn."""
        with self._store.read() as tx:
            first, waiting = tx.drawn(batch.no), tx.waiting(batch.round, batch.key)
        left = batch.size - first * batch.per_part
        order = shuffled_order(len(waiting))[:left]
        drawn = [waiting[at] for at in order]
        for part in range(first, batch.n_parts):
            nos, drawn = drawn[: batch.per_part], drawn[batch.per_part :]
            with self._store.write() as tx:
                tx.add_part(batch, part, nos, to_frames(tx.reports_at(nos)))
        self._tell("batch-made", batch=batch.id, reports=batch.size)

    def _discard(self, round: CarriedRound, crowd: Crowd) -> None:
        with self._store.write() as tx:
            n = tx.discard(crowd.round, crowd.key)
            self._note(tx, round, "discarded", f"{n} of round {round.number}: fewer than {round.batch}")
        self._tell("discarded", round=round.number, reports=n, why=f"fewer than {round.batch}")

    def _note(
        self, tx: RelayTransaction, round: CarriedRound, act: str, detail: str, actor: str = NOBODY
    ) -> None:
        """A line of the log of acts."""
        campaign = tx.id_of(round.campaign)
        tx.log(at=self._earliest(), token=actor, act=act, campaign=campaign, detail=detail)


def size_of_next(round: CarriedRound, crowd: Crowd) -> int:
    """How many go together now; none while there are too few.

    >>> from types import SimpleNamespace as Some
    >>> def size(batch, n_waiting, ended_at=None):
    ...     return size_of_next(Some(batch=batch, ended_at=ended_at), Some(n_waiting=n_waiting))
    >>> size(10, 19), size(10, 20), size(10, 35), size(10, 19, ended_at=1.0), size(10, 9, ended_at=1.0)
    (0, 10, 25, 19, 0)
    """
    if round.ended_at is not None:
        return crowd.n_waiting if crowd.n_waiting >= round.batch else 0
    return crowd.n_waiting - round.batch if crowd.n_waiting >= 2 * round.batch else 0


def shuffled_order(n: int, random: Callable[[int], bytes] = os.urandom) -> list[int]:
    """The numbers below n in an order from the operating system's generator, each order as likely as any.

    Two that draw the same 64 bits are drawn anew, so no order is favoured.

    >>> sorted(shuffled_order(5))
    [0, 1, 2, 3, 4]
    """
    while True:
        keys = np.frombuffer(random(_KEY_BYTES * n), dtype="<u8")
        if len(np.unique(keys)) == n:
            order: list[int] = keys.argsort().tolist()
            return order
