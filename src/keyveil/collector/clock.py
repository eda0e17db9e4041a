"""The time that a collector believes: neither a jump ahead nor one back ends or revives anything for good.

It runs with a clock that cannot be set, from where the wall clock stood. A wall clock that jumps is in doubt
until it has gone on for ten minutes from where it jumped to; then it is believed. While it is in doubt,
what cannot be undone waits until both say that it is time, and who asks meanwhile is asked to come again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

# Seconds that two readings may differ by: time servers move clocks by less at a time.
_TOLERANCE = 5.0
# Seconds after which a clock that jumped is believed.
_BELIEVED_AFTER = 600.0


# Seconds that nobody can set; where the system says so, those asleep are among them.
since_boot: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
)


class Clock:
    """A wall clock, and a steady one beside it; `jumped` hears by how many seconds they came apart.

    >>> wall, steady = [1000.0], [0.0]
    >>> clock = Clock(lambda: wall[0], steady=lambda: steady[0])
    >>> wall[0] += 86400.0
    >>> clock.now(), clock.earliest(), clock.latest(), clock.doubt
    (1000.0, 1000.0, 87400.0, 86400.0)
    >>> wall[0] += 600.0; steady[0] += 600.0
    >>> clock.now(), clock.doubt
    (88000.0, 0.0)
    """

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        *,
        steady: Callable[[], float] = since_boot,
        jumped: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._wall, self._steady, self._jumped = wall, steady, jumped
        self._lock = threading.Lock()
        self._offset, self._latest = wall() - steady(), 0.0
        self._doubted: float | None = None
        """Where the wall clock stands since it jumped, beside the steady one."""
        self._since = 0.0

    def now(self) -> float:
        """The time; it goes back only where a clock that was set back is believed."""
        with self._lock:
            return self._read()[0]

    def earliest(self) -> float:
        """The time that has surely come."""
        with self._lock:
            return min(self._read())

    def latest(self) -> float:
        """The time that may have come."""
        with self._lock:
            return max(self._read())

    @property
    def doubt(self) -> float:
        """How many seconds the wall clock is ahead of what is believed, if it jumped."""
        return 0.0 if self._doubted is None else self._doubted - self._offset

    def _read(self) -> tuple[float, float]:
        """What is believed, and what the wall clock says if it is in doubt."""
        steady, wall = self._steady(), self._wall()
        offset = wall - steady
        if abs(offset - self._offset) <= _TOLERANCE:
            self._offset, self._doubted = offset, None
        elif self._doubted is None or abs(offset - self._doubted) > _TOLERANCE:
            self._doubted, self._since = offset, steady
            self._jumped(offset - self._offset)
        elif steady - self._since >= _BELIEVED_AFTER:
            self._offset, self._doubted, self._latest = offset, None, 0.0
        self._latest = max(self._latest, steady + self._offset)
        return self._latest, self._latest if self._doubted is None else wall
