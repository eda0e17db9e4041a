"""Uploads that wait for the writer: small ones first, large ones in pieces, senders in turn.

Whoever sends a report should not wait for whoever sends ten thousand, and no name tells one from the other: a
whole fleet may share a token and an address. So an upload waits by its size. Small ones leave with the next
group, all of them if they fit; of large ones a group takes no more than of small ones, but some: also the
group between two lots of small ones, whose senders are just being answered. Within either kind senders take
turns: deficit round robin, where each turn gives a line some credit, and its uploads leave while the credit
covers their work. What nobody else wants is anybody's.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import NamedTuple

from keyveil.collector.writing.upload import Upload

# What a turn is worth: about 70 reports of 1.5 kB, as `Upload.work` counts them. What is no more is small.
TURN = 1 << 18
# What a large upload is cut into, and a group has of them at least.
PIECE = TURN // 2
# Seconds within which those who sent something small are expected to send again; and that a group of large
# ones alone waits for them: about what an answer and the next request take.
_SOON, _A_MOMENT = 0.1, 0.001


class Sender(NamedTuple):
    """Who sends: an address, and the token if there is one."""

    address: str
    token: str | None


class _SenderLine:
    __slots__ = ("credit", "uploads")

    def __init__(self) -> None:
        self.uploads: deque[Upload] = deque()
        self.credit = 0


class _SenderLines:
    """A line a sender."""

    def __init__(self) -> None:
        self._lines: dict[Sender, _SenderLine] = {}

    def put(self, sender: Sender, upload: Upload) -> None:
        """Wait behind what the sender has sent before."""
        line = self._lines.get(sender)
        if line is None:
            line = self._lines[sender] = _SenderLine()
        line.uploads.append(upload)

    def take(self, most: int, work: int) -> list[Upload]:
        """So many uploads, or so much work, at most; the one that reaches the bound is among them."""
        taken: list[Upload] = []
        while self._lines and len(taken) < most and work > 0:
            sender = next(iter(self._lines))
            line = self._lines.pop(sender)
            line.credit += TURN
            uploads = line.uploads
            while uploads and uploads[0].work <= line.credit and len(taken) < most and work > 0:
                upload = uploads.popleft()
                taken.append(upload)
                line.credit -= upload.work
                work -= upload.work
            if uploads:
                self._lines[sender] = line
        return taken


class FairQueue:
    """Small uploads and large ones, a line a sender.

    >>> queue = FairQueue()
    >>> for address, size in [("a", 9 << 18), ("a", 9 << 18), ("b", 100)]:
    ...     queue.put(Sender(address, None), Upload("", None, 0, [], size=size))
    >>> [upload.size for upload in queue.take(most=9, work=1 << 20)]
    [100, 2359296]
    """

    def __init__(self) -> None:
        self._small, self._large = _SenderLines(), _SenderLines()
        self._changed = threading.Condition()
        self._n_uploads = self._n_pieces = 0
        self._small_at, self._small_work = -_SOON, 0
        self._is_over = False

    def __len__(self) -> int:
        """Uploads of which something waits."""
        return self._n_uploads

    def put(self, sender: Sender, *pieces: Upload) -> None:
        """Wait: an upload, or the pieces of a large one."""
        lines = self._small if len(pieces) == 1 and pieces[0].work <= TURN else self._large
        with self._changed:
            for piece in pieces:
                lines.put(sender, piece)
            self._n_uploads += 1
            self._n_pieces += len(pieces)
            self._changed.notify()

    def take(self, *, most: int, work: int) -> list[Upload]:
        """The next group, waited for: so many uploads, or so much work, at most; none once all is over."""
        with self._changed:
            while True:
                while not self._n_pieces and not self._is_over:
                    self._changed.wait()
                group = self._next(most, work)
                # Somebody else may have taken what there was, while this thread waited for small ones.
                if group or self._is_over:
                    break
            self._n_pieces -= len(group)
            self._n_uploads -= sum(upload.is_last for upload in group)
            return group

    def _next(self, most: int, work: int) -> list[Upload]:
        group = self._small.take(most, work)
        if not group and self.are_small_expected and not self._is_over:
            self._changed.wait(_A_MOMENT)
            group = self._small.take(most, work)
        if group:
            self._small_at, self._small_work = time.monotonic(), sum(upload.work for upload in group)
        if self.are_small_expected:
            work = min(work, max(PIECE, self._small_work))
        return group + self._large.take(most - len(group), work)

    @property
    def are_small_expected(self) -> bool:
        """Whether somebody who sends little at a time would wait for what is done now."""
        return time.monotonic() - self._small_at < _SOON

    def end(self) -> None:
        """Nothing more will come: whoever waits for uploads gets what is there, then none."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
