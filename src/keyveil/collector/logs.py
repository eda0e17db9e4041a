"""One JSON object a line on stderr. What is logged is chosen field by field: no address, token or body.

A stranger who is refused again and again must not fill a disk: of refusals of one code the first is logged at
once, then how many came in each ten seconds.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import IO, Any


class Log:
    r"""Events of a collector.

    >>> import io
    >>> out = io.StringIO()
    >>> Log(out, clock=lambda: 0.0).event("started", store="sqlite")
    >>> out.getvalue()
    '{"at": "1970-01-01T00:00:00.000Z", "event": "started", "store": "sqlite"}\n'
    """

    def __init__(self, out: IO[str] | None = None, *, clock: Any = time.time) -> None:
        self._out = out or sys.stderr
        self._clock = clock
        self.lost = 0
        """Lines that could not be written: a full disk must not stop who only wanted to tell of it."""

    def event(self, event: str, **fields: object) -> None:
        """Something that an operator may want to know."""
        now = self._clock()
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z"
        try:
            print(json.dumps({"at": at, "event": event, **fields}), file=self._out, flush=True)
        except (OSError, ValueError):
            self.lost += 1


class Refusals:
    r"""Refusals in the log, by their code.

    >>> import io
    >>> out, now = io.StringIO(), [0.0]
    >>> refusals = Refusals(Log(out, clock=lambda: 0.0), clock=lambda: now[0])
    >>> for _ in range(5): refusals.note("no-token")
    >>> now[0] = 11.0
    >>> refusals.flush()
    >>> [json.loads(line)["count"] for line in out.getvalue().splitlines()]
    [1, 4]
    """

    def __init__(
        self, log: Log, *, seconds: float = 10.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log, self._seconds, self._clock = log, seconds, clock
        self._lock = threading.Lock()
        self._since: dict[str, tuple[float, int]] = {}
        """When a code was logged last, and how many came since."""

    def note(self, code: str) -> None:
        """One more."""
        with self._lock:
            at, count = self._since.get(code, (-self._seconds, 0))
            is_due = self._clock() - at >= self._seconds
            self._since[code] = (self._clock(), 0) if is_due else (at, count + 1)
        if is_due:
            self._log.event("refused", code=code, count=count + 1)

    def flush(self) -> None:
        """Log what was not logged yet, if it is time."""
        with self._lock:
            due = {
                code: count
                for code, (at, count) in self._since.items()
                if count and self._clock() - at >= self._seconds
            }
            self._since.update(dict.fromkeys(due, (self._clock(), 0)))
        for code, count in due.items():
            self._log.event("refused", code=code, count=count)


class LibraryLog(logging.Handler):
    """What libraries log, as events of ours; what a stranger can bring about is counted like a refusal."""

    def __init__(self, log: Log, refusals: Refusals) -> None:
        super().__init__(logging.WARNING)
        self._to, self._refusals = log, refusals

    def emit(self, record: logging.LogRecord) -> None:
        """One record: its text without what is put into it, which may be a stranger's; an error's type."""
        text = str(record.msg)[:80]
        if record.levelno < logging.ERROR:
            self._refusals.note(f"{record.name}: {text}")
            return
        kind = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
        self._to.event("fault", where=record.name, why=text, kind=kind)
