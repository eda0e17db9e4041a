"""The threads that write reports: whatever waits becomes one transaction.

While a group is being committed the next one gathers, so groups are as large as the load makes them and
nobody waits for a timer. An embedded store has one thread; where a commit is mostly waiting for another
process a second one prepares its group meanwhile. An upload is answered after its commit. The queue is
bounded in uploads and in bytes; beyond that, uploads are refused before their bodies are read.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

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
    """A queue and the threads that empty it."""

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
        # None says to a thread that nothing more will come.
        self._queue: SimpleQueue[Upload | None] = SimpleQueue()
        self._is_stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads = [
            threading.Thread(target=self._work, name=f"keyveil-writer-{number}", daemon=True)
            for number in range(store.writers)
        ]
        metrics.gauges["keyveil_waiting_uploads"] = (
            "Uploads that wait for the writer.",
            self._queue.qsize,
        )

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin; answers are given on this loop."""
        self._loop = loop
        for thread in self._threads:
            thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether every thread that should write does."""
        return all(thread.is_alive() for thread in self._threads)

    @property
    def is_full(self) -> bool:
        """Whether an upload would be refused."""
        return self._queue.qsize() >= self._settings.waiting_uploads

    @property
    def n_waiting(self) -> int:
        """Uploads in the queue."""
        return self._queue.qsize()

    def put(self, upload: Upload, done: Any = None) -> Any:
        """Queue an upload; only called on the loop. `done`, or the future returned, hears of its commit."""
        if self._is_stopping:
            raise Problem("stopping", retry_after=self._settings.retry_after)
        if self.is_full:
            raise Problem("overloaded", retry_after=self._settings.retry_after)
        assert self._loop is not None
        upload.done = self._loop.create_future() if done is None else done
        self._queue.put(upload)
        return upload.done

    def stop(self) -> None:
        """Write what waits, then end."""
        self._is_stopping = True
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    # --- the threads ---

    def _work(self) -> None:
        is_last = False
        while not is_last:
            group, is_last = self._next_group()
            if not group:
                continue
            started = time.perf_counter()
            grown = self._commit(group)
            self._metrics.committed(time.perf_counter() - started)
            self._answer(group)
            self._tell(grown)
            self._after()

    def _after(self) -> None:
        """A flush that fails is tried again after the next reports."""
        try:
            self._store.after_group()
        except Exception as error:
            why = str(error) if isinstance(error, StoreError) else type(error).__name__
            self._log.event("not-flushed", why=why)

    def _tell(self, grown: list[Grown]) -> None:
        """A round may be complete; whatever happens then, this thread goes on."""
        for growth in grown:
            try:
                self._grown(growth)
            except Exception as error:
                self._log.event("fault", where="round", kind=type(error).__name__, campaign=growth.campaign)

    def _next_group(self) -> tuple[list[Upload], bool]:
        """What waits, up to the size of a group; and whether it is time to end."""
        limits, size = self._settings, 0
        group: list[Upload] = []
        upload = self._queue.get()
        while upload is not None:
            group.append(upload)
            size += upload.size
            if len(group) >= limits.group_uploads or size >= limits.group_bytes:
                return group, False
            try:
                upload = self._queue.get_nowait()
            except Empty:
                return group, False
        return group, True

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
            if len(group) > 1:
                # One upload must not fail its neighbours.
                return [grown for upload in group for grown in self._commit([upload])]
            self._log.event("fault", where="writer", kind=type(error).__name__)
            code = "internal"
        for upload in group:
            upload.problem = Problem(
                code, retry_after=None if code == "internal" else self._settings.retry_after
            )
        return []

    def _answer(self, group: list[Upload]) -> None:
        counts: Counter[str] = Counter()
        accepted: dict[str, int] = {}
        for upload in group:
            if upload.problem is not None:
                continue
            if upload.statuses is None:
                accepted[upload.campaign] = accepted.get(upload.campaign, 0) + upload.n_reports
            else:
                counts.update(upload.statuses)
                self._metrics.count_campaign(upload.campaign, Counter(upload.statuses))
        for campaign, n_reports in accepted.items():
            counts["accepted"] += n_reports
            self._metrics.count_campaign(campaign, {"accepted": n_reports})
        self._metrics.count_reports(counts)
        assert self._loop is not None
        # A loop that has ended has nobody left who waits.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(_deliver, group)


def _deliver(group: list[Upload]) -> None:
    for upload in group:
        # Two that hold each other, and a body, would stay until somebody looks for rubbish.
        done, upload.done = upload.done, None
        if not done.done():
            done.set_result(upload)
