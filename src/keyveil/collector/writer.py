"""The one thread that writes reports: whatever waits becomes one transaction.

While a group is being committed the next one gathers, so groups are as large as the load makes them and
nobody waits for a timer. An upload is answered after its commit. The queue is bounded in uploads and in
bytes; beyond that, uploads are refused before their bodies are read.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence

from keyveil.collector.commit import Grown, commit_group
from keyveil.collector.logs import Log
from keyveil.collector.metrics import Metrics
from keyveil.collector.problems import Problem
from keyveil.collector.rounds import Book
from keyveil.collector.settings import Settings
from keyveil.collector.store import Store
from keyveil.collector.upload import Upload
from keyveil.errors import StoreError

# Seconds that a store which failed is left alone.
_PAUSE = 0.2


class Writer:
    """A queue and the thread that empties it."""

    def __init__(
        self,
        store: Store,
        book: Book,
        settings: Settings,
        *,
        clock: Callable[[], float],
        metrics: Metrics,
        log: Log,
        grown: Callable[[Grown], None],
    ) -> None:
        self._store, self._book, self._settings = store, book, settings
        self._clock, self._metrics, self._log, self._grown = clock, metrics, log, grown
        self._queue: deque[Upload] = deque()
        self._wake = threading.Condition(threading.Lock())
        self._is_stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._work, name="keyveil-writer", daemon=True)
        metrics.gauges["keyveil_waiting_uploads"] = (
            "Uploads that wait for the writer.",
            lambda: len(self._queue),
        )

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin; answers are given on this loop."""
        self._loop = loop
        self._thread.start()

    @property
    def is_full(self) -> bool:
        """Whether an upload would be refused."""
        return len(self._queue) >= self._settings.waiting_uploads

    @property
    def n_waiting(self) -> int:
        """Uploads in the queue."""
        return len(self._queue)

    def put(self, upload: Upload) -> asyncio.Future[Upload]:
        """The future of an upload that was queued; only called on the loop."""
        if self._is_stopping:
            raise Problem("stopping", retry_after=self._settings.retry_after)
        if self.is_full:
            raise Problem("overloaded", retry_after=self._settings.retry_after)
        assert self._loop is not None
        done: asyncio.Future[Upload] = self._loop.create_future()
        upload.done = done
        with self._wake:
            self._queue.append(upload)
            self._wake.notify()
        return done

    def stop(self) -> None:
        """Write what waits, then end."""
        with self._wake:
            self._is_stopping = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join()

    # --- the thread ---

    def _work(self) -> None:
        while group := self._next_group():
            started = time.perf_counter()
            grown = self._commit(group)
            self._metrics.committed(time.perf_counter() - started)
            self._answer(group)
            for growth in grown:
                self._grown(growth)

    def _next_group(self) -> list[Upload]:
        """What waits, up to the size of a group; nothing when it is time to end."""
        with self._wake:
            while not self._queue and not self._is_stopping:
                self._wake.wait()
            group: list[Upload] = []
            size = 0
            while (
                self._queue
                and len(group) < self._settings.group_uploads
                and size < self._settings.group_bytes
            ):
                group.append(self._queue.popleft())
                size += group[-1].size
            return group

    def _commit(self, group: Sequence[Upload]) -> list[Grown]:
        try:
            return commit_group(self._store, self._book, group, self._clock())
        except StoreError as error:
            campaigns = {upload.campaign for upload in group}
            if error.damaged and len(campaigns) > 1:
                # What is damaged may belong to one of them.
                return [
                    grown
                    for name in sorted(campaigns)
                    for grown in self._commit([upload for upload in group if upload.campaign == name])
                ]
            self._log.event("not-written", uploads=len(group), why=str(error))
            code = "campaign-damaged" if error.damaged else "store-unavailable"
            time.sleep(_PAUSE)
        except Exception as error:
            self._log.event("fault", where="writer", kind=type(error).__name__, uploads=len(group))
            code = "internal"
        for upload in group:
            upload.problem = Problem(
                code, retry_after=None if code == "internal" else self._settings.retry_after
            )
        return []

    def _answer(self, group: list[Upload]) -> None:
        counts: Counter[str] = Counter()
        for upload in group:
            if upload.problem is None:
                became = (
                    Counter({"accepted": upload.n_reports})
                    if upload.statuses is None
                    else Counter(upload.statuses)
                )
                counts.update(became)
                self._metrics.count_campaign(upload.campaign, became)
        self._metrics.count_reports(counts)
        assert self._loop is not None
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_deliver, group)


def _deliver(group: list[Upload]) -> None:
    for upload in group:
        if not upload.done.done():
            upload.done.set_result(upload)
