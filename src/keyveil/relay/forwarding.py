"""To the collector, exactly once: a batch's parts go one after the other, and again until they are taken.

A part that is sent again is counted once: the collector knows its reports by their ids, and notes what each
part of a batch brought. It answers a repeat as it answered the first time. While it is away, everything
waits on disk; attempts go on with full jitter, up to a minute apart.

A batch that comes when its round is over, or whose campaign is gone, counts for nobody: it is thrown away,
and the log says so. Nothing of what the collector answers goes back to a device.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable

from keyveil.client.answer import HttpAnswer
from keyveil.client.transport import Exchange
from keyveil.errors import KeyveilError, StoreError
from keyveil.relay.settings import RelaySettings
from keyveil.relay.store import FORWARDED, READY, REFUSED, OutgoingBatch, RelayStore

_LARGEST_ANSWER = 1 << 14
_FIRST_WAIT = 0.5
# Seconds after which a forwarder with nothing to do looks again, whether it was woken or not.
_IDLE = 1.0
# With these codes a collector will never take the batch.
_FINAL = frozenset({"round-closed", "unknown-campaign", "campaign-expired", "not-relayed"})


class Forwarding:
    """The thread that sends batches."""

    def __init__(
        self,
        store: RelayStore,
        settings: RelaySettings,
        *,
        collector: str,
        exchange: Exchange,
        campaign_of: Callable[[int], str],
        tell: Callable[..., None],
    ) -> None:
        self._store, self._settings, self._exchange = store, settings, exchange
        self._collector, self._campaign_of, self._tell = collector.rstrip("/"), campaign_of, tell
        self._wake, self._is_stopping = threading.Event(), False
        self._failures = 0
        self.failing = ""
        """Why the last attempt failed, if it did."""
        self.n_forwarded = 0
        """Reports that the collector has taken since this process started."""
        self._thread = threading.Thread(target=self._work, name="keyveil-forwarder", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the request that is under way."""
        self._is_stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(self._settings.timeout + 1)

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs, or has not been started."""
        return self._thread.is_alive() or self._thread.ident is None

    def wake(self) -> None:
        """There may be something to do."""
        self._wake.set()

    def forward_all(self) -> bool:
        """Send what is ready; whether all was dealt with. A batch that is not taken holds up no other."""
        with self._store.read() as tx:
            ready = tx.batches("state = ?", (READY,))
        is_done = True
        for batch in ready:
            try:
                is_done = self._forward(batch) and is_done
            except StoreError:
                raise
            except (KeyveilError, OSError) as error:
                # Nobody answers.
                self._fail(str(error))
                return False
        if is_done:
            self._failures, self.failing = 0, ""
        return is_done

    def _work(self) -> None:
        while not self._is_stopping:
            try:
                is_done = self.forward_all()
            except StoreError as error:
                self._fail(f"the relay's own store: {error}")
                is_done = False
            except Exception as error:
                # Whatever it is, the next attempt is made: what waits must not wait for ever.
                self._tell("fault", where="forwarder", kind=type(error).__name__)
                self._fail("see the log")
                is_done = False
            self._wake.wait(_IDLE if is_done else self._pause())
            self._wake.clear()

    def _forward(self, batch: OutgoingBatch) -> bool:
        while not self._is_stopping:
            with self._store.read() as tx:
                following = tx.next_part(batch.no)
            if following is None:
                self._settle(batch, FORWARDED)
                return True
            part, reports = following
            answer = self._send(batch, part, reports)
            if answer.status == 200:
                with self._store.write() as tx:
                    n_before = tx.left_of(batch.no)
                    tx.take_part(batch.no, part)
                    self.n_forwarded += n_before - tx.left_of(batch.no)
            elif _code(answer) in _FINAL:
                self._tell("batch-refused", batch=batch.id, why=answer.said)
                self._settle(batch, REFUSED)
                return True
            else:
                self._fail(f"the collector answered {answer.said}")
                return False
        return False

    def _send(self, batch: OutgoingBatch, part: int, reports: bytes) -> HttpAnswer:
        with self._store.read() as tx:
            [round] = [each for each in tx.rounds() if each.no == batch.round]
        where = f"{self._collector}/v1/campaigns/{self._campaign_of(round.campaign)}/batches"
        asked = f"batch={batch.id}&round={round.number}&size={batch.size}&part={part}&parts={batch.n_parts}"
        return self._exchange(f"{where}?{asked}", reports, self._settings.timeout, _LARGEST_ANSWER)

    def _settle(self, batch: OutgoingBatch, state: str) -> None:
        with self._store.write() as tx:
            left = tx.left_of(batch.no)
            tx.set_state(batch.no, state)
            tx.note_discarded(batch.round, left)
        self._tell(f"batch-{state}", batch=batch.id, reports=batch.size - left)

    def _fail(self, why: str) -> None:
        if why != self.failing:
            self._tell("not-forwarded", why=why)
        self.failing = why
        self._failures += 1

    def _pause(self) -> float:
        """Seconds until the next attempt."""
        ceiling = min(self._settings.longest_wait, _FIRST_WAIT * 2.0 ** min(self._failures, 16))
        return random.SystemRandom().uniform(0.0, ceiling)


def _code(answer: HttpAnswer) -> str:
    """The collector's code for a refusal."""
    try:
        return str(json.loads(answer.body)["code"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
