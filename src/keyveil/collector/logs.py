"""One JSON object a line on stderr. What is logged is chosen field by field: no address, token or body."""

from __future__ import annotations

import json
import sys
import time
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
