"""Sends what waits from a thread, and lets a program that ends wait for it, but never long.

A device has one such thread at most: started when something is to be sent, asleep while the collector asks
for patience, gone when nothing is left to do. It is a daemon, so it keeps no program alive by itself. When
the program ends, an attempt that was asked for gets `exit_timeout` seconds more, all devices together; one
that sleeps gets none, for what waits is on the disk and is sent the next time.

A fork takes no thread along: the child starts one of its own when it is asked to.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from weakref import WeakSet

# One attempt, for so many seconds; in how many the next is worth making, None where none is.
Attempt = Callable[[float], float | None]

_LIVE: WeakSet[Background] = WeakSet()


class _Turn:
    """What the thread and those who ask for it share, in one process."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.changed = threading.Condition()
        self.resting = threading.Event()
        self.resting.set()
        self.timeout = 0.0
        self.is_asked = self.is_running = self.is_closed = False

    def begin(self) -> float:
        """Take up what was asked, or what is due: the seconds that an attempt has."""
        with self.changed:
            self.is_asked = False
            self.resting.clear()
            return self.timeout

    def goes_on(self, wait: float | None) -> bool:
        """Sleep until the next attempt is due or asked for; no, where the thread is to end."""
        with self.changed:
            if not self.is_asked:
                self.resting.set()
                if wait is not None and not self.is_closed:
                    self.changed.wait(wait)
            self.is_running = not self.is_closed and (self.is_asked or wait is not None)
            if not self.is_running:
                self.resting.set()
            return self.is_running


class Background:
    """The thread of one device.

    >>> attempts = []
    >>> background = Background(attempts.append, exit_timeout=3.0)
    >>> background.start(10.0)
    >>> background.rest(10.0), attempts
    (True, [10.0])
    """

    def __init__(self, attempt: Attempt, exit_timeout: float) -> None:
        self._attempt, self.exit_timeout = attempt, exit_timeout
        self._turn = _Turn()

    def start(self, timeout: float) -> None:
        """Ask for an attempt of at most so many seconds; returns at once."""
        turn = self._here()
        with turn.changed:
            if turn.is_closed:
                return
            turn.timeout, turn.is_asked = timeout, True
            turn.resting.clear()
            turn.changed.notify()
            if turn.is_running:
                return
            # A host that is shutting down starts no threads; what waits is sent next time.
            with suppress(RuntimeError):
                threading.Thread(target=self._run, args=(turn,), name="keyveil-upload", daemon=True).start()
                turn.is_running = True
            if not turn.is_running:
                turn.resting.set()
        _wait_for_it_at_exit(self)

    def rest(self, timeout: float) -> bool:
        """Wait for the attempt that was asked for, at most so many seconds; whether it is over."""
        return self._here().resting.wait(max(timeout, 0.0))

    def close(self) -> None:
        """Make no attempt any more, but for one that is under way."""
        turn = self._here()
        with turn.changed:
            turn.is_closed = True
            turn.changed.notify()

    def _here(self) -> _Turn:
        if self._turn.process != os.getpid():
            self._turn = _Turn()
        return self._turn

    def _run(self, turn: _Turn) -> None:
        while turn.goes_on(self._attempt(turn.begin())):
            pass


def _wait_for_it_at_exit(background: Background) -> None:
    if not _LIVE:
        atexit.unregister(_wait_for_all)
        atexit.register(_wait_for_all)
    _LIVE.add(background)


def _wait_for_all() -> None:
    """Give what is under way the time that it may have; the longest of them is all that a program waits."""
    started = time.monotonic()
    # Whoever presses a key to end the program sooner may.
    with suppress(KeyboardInterrupt):
        for background in list(_LIVE):
            background.rest(background.exit_timeout - (time.monotonic() - started))
