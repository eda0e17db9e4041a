"""Bounds that are checked before work is done: bytes in flight, requests a second."""

from __future__ import annotations

import time
from collections.abc import Callable

from keyveil.collector.problems import Problem
from keyveil.collector.tokens import Credential

# Callers who are remembered at once; the longest silent are forgotten, and start afresh.
_REMEMBERED = 4096


class Budget:
    """Bytes of uploads in memory; only touched on the event loop.

    >>> budget = Budget(10)
    >>> budget.take(8), budget.take(8)
    (True, False)
    """

    def __init__(self, size: int) -> None:
        self._left = self._size = size

    def take(self, size: int) -> bool:
        """Whether there is room, which is then taken."""
        if size > self._left:
            return False
        self._left -= size
        return True

    def give(self, size: int) -> None:
        """Room that was taken before."""
        self._left += size

    @property
    def taken(self) -> int:
        """Bytes in use."""
        return self._size - self._left


class Rates:
    """A bucket a credential, filled at its rate, as deep as two seconds of it.

    A caller may overdraw once: what a request costs is known when its body has been read. One is spent
    when it is admitted, and whoever comes to their body after another has overdrawn is refused.

    >>> now = [0.0]
    >>> rates = Rates(clock=lambda: now[0])
    >>> from keyveil.collector.tokens import Role
    >>> slow = Credential(id="a", hash=b"", role=Role.DEVICE, campaign=None, rate=10.0)
    >>> rates.check(slow); rates.spend(slow, 50)
    >>> rates.check(slow)
    Traceback (most recent call last):
        ...
    keyveil.collector.problems.Problem: this token may send 10 a second
    >>> now[0] = 4.0; rates.check(slow)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def check(self, credential: Credential) -> None:
        """Refuse a caller who has overdrawn."""
        if credential.rate is not None and (left := self._left(credential, credential.rate)) <= 0:
            raise _refusal(credential.rate, left)

    def charge(self, credential: Credential, cost: float) -> None:
        """What a request that was admitted turned out to cost, the one included that it spent then."""
        if credential.rate is not None and (left := self._left(credential, credential.rate)) <= -1:
            # Admissions alone leave more than that: another has overdrawn meanwhile.
            raise _refusal(credential.rate, left)
        self.spend(credential, cost - 1)

    def spend(self, credential: Credential, cost: float) -> None:
        """Take something out of a bucket, whatever is in it."""
        if credential.rate is None:
            return
        left = self._left(credential, credential.rate)
        self._buckets.pop(credential.id, None)
        if len(self._buckets) >= _REMEMBERED:
            del self._buckets[next(iter(self._buckets))]
        self._buckets[credential.id] = (left - cost, self._clock())

    def _left(self, credential: Credential, rate: float) -> float:
        full = max(2 * rate, 1.0)
        left, at = self._buckets.get(credential.id, (full, self._clock()))
        return min(full, left + rate * (self._clock() - at))


def _refusal(rate: float, left: float) -> Problem:
    return Problem("rate-limited", f"this token may send {rate:g} a second", retry_after=(1 - left) / rate)
