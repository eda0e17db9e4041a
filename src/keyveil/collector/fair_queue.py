"""Uploads that wait for the writer: a line a sender, served in turn.

Deficit round robin: each turn gives a line some credit, and its uploads leave while the credit covers their
work. So whoever sends much waits behind their own uploads, and an upload that is alone in its line leaves
with the next group, whatever others have sent.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import NamedTuple

from keyveil.collector.upload import Upload

# What a turn is worth: about 70 reports of 1.5 kB, as `Upload.work` counts them.
_CREDIT = 1 << 18


class Sender(NamedTuple):
    """Who sends: an address, and the token if there is one."""

    address: str
    token: str | None


class _Line:
    __slots__ = ("credit", "uploads")

    def __init__(self) -> None:
        self.uploads: deque[Upload] = deque()
        self.credit = 0


class FairQueue:
    """A line a sender.

    >>> queue = FairQueue()
    >>> for address, work in [("a", 9 << 18), ("a", 9 << 18), ("b", 1)]:
    ...     queue.put(Sender(address, None), Upload("", None, 0, [], size=work))
    >>> [upload.size for upload in queue.take(most=9, work=1 << 20)]
    [1, 2359296]
    """

    def __init__(self) -> None:
        self._lines: dict[Sender, _Line] = {}
        self._changed = threading.Condition()
        self._n_uploads = 0
        self._is_over = False

    def __len__(self) -> int:
        return self._n_uploads

    def put(self, sender: Sender, upload: Upload) -> None:
        """Wait behind what the sender has sent before."""
        with self._changed:
            line = self._lines.get(sender)
            if line is None:
                line = self._lines[sender] = _Line()
            line.uploads.append(upload)
            self._n_uploads += 1
            self._changed.notify()

    def take(self, *, most: int, work: int) -> list[Upload]:
        """The next group, waited for: so many uploads, or so much work, at most; none once all is over.

        The upload that reaches the bound is in it, so that any can be taken.
        """
        with self._changed:
            while not self._n_uploads and not self._is_over:
                self._changed.wait()
            group: list[Upload] = []
            while self._lines and len(group) < most and work > 0:
                work = self._serve(group, most, work)
            self._n_uploads -= len(group)
            return group

    def _serve(self, group: list[Upload], most: int, work: int) -> int:
        """Give the first line its turn; what is left of the group's work."""
        sender = next(iter(self._lines))
        line = self._lines.pop(sender)
        line.credit += _CREDIT
        uploads = line.uploads
        while uploads and uploads[0].work <= line.credit and len(group) < most and work > 0:
            upload = uploads.popleft()
            group.append(upload)
            line.credit -= upload.work
            work -= upload.work
        if uploads:
            self._lines[sender] = line
        return work

    def end(self) -> None:
        """Nothing more will come: whoever waits for uploads gets what is there, then none."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
