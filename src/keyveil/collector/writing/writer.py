"""The threads that write reports, by group commit: whatever waits becomes one transaction.

While a group is being committed the next one gathers, so groups are as large as the load makes them and
nobody waits for a timer. Senders take turns (`fair_queue`). An embedded store has one thread; where a
commit is mostly waiting for another process a second one prepares its group meanwhile, and takes it only
then: what came while the first was preparing goes together. An upload is answered after its commit. The
queue is bounded in uploads and in bytes; beyond that, uploads are refused before their bodies are read.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from keyveil.collector.campaigns.cache import CampaignCache, RoundGrowth
from keyveil.collector.logs import Log
from keyveil.collector.metrics import Metrics
from keyveil.collector.problems import Problem
from keyveil.collector.settings import Settings
from keyveil.collector.store import Store
from keyveil.collector.store.base import AccessStore
from keyveil.collector.writing.commit import commit_group
from keyveil.collector.writing.fair_queue import PIECE, FairQueue, Sender
from keyveil.collector.writing.upload import Upload
from keyveil.errors import StoreError

# Seconds that a store which failed is left alone.
_PAUSE = 0.2
# Seconds that a writer waits for another to prepare its group: that one may be waiting for a lock.
_LONGEST_TURN = 0.05


class _Turn:
    """The right to take a group and prepare it, until it ends."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._is_held = lock.acquire(timeout=_LONGEST_TURN)

    def end(self) -> None:
        """The next may; more than once is once."""
        if self._is_held:
            self._is_held = False
            self._lock.release()


class Writer:
    """A queue and the threads that empty it; what is done with a group is a subclass's."""

    def __init__(
        self,
        store: AccessStore,
        settings: Settings,
        *,
        clock: Callable[[], float],
        metrics: Metrics,
        log: Log,
        filled: Callable[[RoundGrowth], None] = lambda _: None,
    ) -> None:
        self._store, self._settings = store, settings
        self._clock, self._metrics, self._log, self._filled = clock, metrics, log, filled
        self._queue = FairQueue()
        self._preparing = threading.Lock()
        self._is_stopping = False
        self.failing = ""
        """Why the last group could not be written, if it could not."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads = [
            threading.Thread(target=self._work, name=f"keyveil-writer-{number}", daemon=True)
            for number in range(store.writers)
        ]
        metrics.gauges["keyveil_waiting_uploads"] = (
            "Uploads that wait for the writer.",
            self._queue.__len__,
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
        return len(self._queue) >= self._settings.waiting_uploads

    @property
    def are_small_expected(self) -> bool:
        """Whether somebody who sends little at a time would wait for what is done now."""
        return self._queue.are_small_expected

    @property
    def n_waiting(self) -> int:
        """Uploads in the queue."""
        return len(self._queue)

    def put(self, sender: Sender, upload: Upload, done: Any = None) -> Any:
        """Queue an upload; only called on the loop. `done`, or the future returned, hears of its commit."""
        if self._is_stopping:
            raise Problem("stopping", retry_after=self._settings.retry_after)
        if self.is_full:
            raise Problem("overloaded", retry_after=self._settings.retry_after)
        assert self._loop is not None
        upload.done = self._loop.create_future() if done is None else done
        waited_for = upload.done
        pieces = upload.pieces(PIECE)
        if pieces[0] is not upload:
            # The pieces count what they hold, and that is what may still be accepted.
            self._count(upload.campaign, Counter(upload.read or ()) - Counter({"accepted": upload.n_reports}))
        now = time.perf_counter()
        for piece in pieces:
            piece.queued_at = now
        self._queue.put(sender, *pieces)
        return waited_for

    def stop(self) -> None:
        """Write what waits, then end."""
        self._is_stopping = True
        self._queue.end()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    # --- the threads ---

    def _work(self) -> None:
        while True:
            turn = _Turn(self._preparing)
            group = self._queue.take(most=self._settings.group_uploads, work=self._settings.group_work)
            if not group:
                turn.end()
                return
            started = time.perf_counter()
            grown = self._commit(group, turn.end)
            turn.end()
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

    def _tell(self, grown: list[RoundGrowth]) -> None:
        """A round may be complete; whatever happens then, this thread goes on."""
        for growth in filter(lambda each: each.is_full, grown):
            try:
                self._filled(growth)
            except Exception as error:
                self._log.event("fault", where="round", kind=type(error).__name__, campaign=growth.campaign)

    def _commit(
        self, group: Sequence[Upload], prepared: Callable[[], None] = lambda: None
    ) -> list[RoundGrowth]:
        try:
            grown = self._write(group, self._clock(), prepared)
            self.failing = ""
            return grown
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
            code, why = "campaign-damaged" if error.damaged else "store-unavailable", str(error)
            self.failing = "" if error.damaged else why
            time.sleep(_PAUSE)
        except Exception as error:
            if len(group) > 1:
                # One upload must not fail its neighbours.
                return [grown for upload in group for grown in self._commit([upload])]
            self._log.event("fault", where="writer", kind=type(error).__name__)
            code, why = "internal", ""
        for upload in group:
            upload.problem = Problem(
                code, why, retry_after=None if code == "internal" else self._settings.retry_after
            )
        return []

    def _write(self, group: Sequence[Upload], now: float, prepared: Callable[[], None]) -> list[RoundGrowth]:
        """A group in one transaction; `prepared` is called when all is done but the commit."""
        raise NotImplementedError

    def _count(self, campaign: str, statuses: Counter[str]) -> None:
        if statuses:
            self._metrics.count_campaign(campaign, statuses)
            self._metrics.count_reports(statuses)

    def _answer(self, group: list[Upload]) -> None:
        now = time.perf_counter()
        self._metrics.uploaded(now - upload.queued_at for upload in group)
        accepted: dict[str, int] = {}
        for upload in group:
            if upload.problem is not None:
                continue
            if upload.statuses is None:
                accepted[upload.campaign] = accepted.get(upload.campaign, 0) + upload.n_reports
            else:
                self._count(upload.campaign, Counter(upload.statuses))
        for campaign, n_reports in accepted.items():
            self._count(campaign, Counter(accepted=n_reports))
        assert self._loop is not None
        # A loop that has ended has nobody left who waits.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(_deliver, group)


class ReportWriter(Writer):
    """A writer that counts reports."""

    def __init__(self, store: Store, cache: CampaignCache, settings: Settings, **named: Any) -> None:
        super().__init__(store, settings, **named)
        self._reports, self._cache = store, cache

    def _write(self, group: Sequence[Upload], now: float, prepared: Callable[[], None]) -> list[RoundGrowth]:
        return commit_group(self._reports, self._cache, group, now, prepared)


def _deliver(group: list[Upload]) -> None:
    for piece in group:
        upload = piece.written()
        if upload is None:
            continue
        # Upload and future refer to each other: the cycle would keep the body until a garbage collection.
        done, upload.done = upload.done, None
        if not done.done():
            done.set_result(upload)
