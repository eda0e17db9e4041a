"""Bounds that are checked before work is done: bytes in flight, requests a second, connections."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable
from typing import Protocol

from keyveil.collector.problems import Problem
from keyveil.collector.tokens import Credential

# Callers who are remembered at once; the longest silent are forgotten, and start afresh.
_REMEMBERED = 4096


class Budget:
    """Bytes of uploads in memory, by who sent them; only touched on the event loop.

    A sender may hold no more than is still free: alone, half of all; beside another who does so too, a
    third. So there is always room for one who holds nothing.

    >>> budget = Budget(10)
    >>> budget.take("a", 5), budget.take("a", 1), budget.take("b", 2)
    (True, False, True)
    """

    def __init__(self, size: int) -> None:
        self._left = self._size = size
        self._held: dict[Hashable, int] = {}

    def take(self, sender: Hashable, size: int) -> bool:
        """Whether there is room, which is then taken."""
        held = self._held.get(sender, 0)
        if held + size > self._left - size:
            return False
        self._held[sender] = held + size
        self._left -= size
        return True

    def give(self, sender: Hashable, size: int) -> None:
        """Room that was taken before."""
        self._left += size
        left = self._held.get(sender, 0) - size
        if left > 0:
            self._held[sender] = left
        else:
            self._held.pop(sender, None)

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


class Bystanders:
    """How long an address that asks again and again, and brings nothing, is not listened to.

    A refusal, or a page for somebody without a token, costs the collector as much as some reports. About
    thirty a second are free; beyond them each connection that got one waits, up to half a second.

    >>> now = [0.0]
    >>> bystanders = Bystanders(clock=lambda: now[0])
    >>> for _ in range(60):
    ...     bystanders.note("10.0.0.1")
    >>> bystanders.pause("10.0.0.1"), bystanders.pause("10.0.0.2")
    (0.05, 0.0)
    >>> now[0] = 20.0; bystanders.pause("10.0.0.1")
    0.0
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: dict[str, tuple[float, float]] = {}

    def note(self, address: str) -> None:
        """One more that brought nothing."""
        count = self._count(address)
        self._counts.pop(address, None)
        if len(self._counts) >= _REMEMBERED:
            del self._counts[next(iter(self._counts))]
        self._counts[address] = count + 1, self._clock()

    def pause(self, address: str) -> float:
        """Seconds that an address waits now."""
        # Half of what is noted is forgotten in a second: thirty a second keep the count below fifty.
        return min(0.5, max(0.0, (self._count(address) - 50) / 200))

    def _count(self, address: str) -> float:
        now = self._clock()
        count, at = self._counts.get(address, (0.0, now))
        return count * math.pow(0.5, now - at)


class Connection(Protocol):
    """Somebody who is connected."""

    @property
    def is_answered(self) -> bool:
        """Whether a request is whole, and its answer on its way."""

    def abort(self) -> None:
        """Hang up."""


class Connections:
    """Who is connected, by address; where all places are taken, one who is not being answered makes room.

    It is the longest silent of the address that has the most, so idle connections keep nobody out, and
    whoever opens many loses their own. The last few places are spare: while all others are being answered,
    those who have one may ask, but not send reports.
    """

    def __init__(self, most: int, spare: int) -> None:
        self._most, self._spare = most, spare
        self._here: dict[str, dict[Connection, None]] = {}
        """The connections of each address, the longest silent first."""
        self._n_here = 0

    def __len__(self) -> int:
        return self._n_here

    def add(self, address: str, connection: Connection) -> bool:
        """Whether there is a place."""
        if self._n_here >= self._most and not self._make_room():
            return False
        self._here.setdefault(address, {})[connection] = None
        self._n_here += 1
        return True

    def may_upload(self, connection: Connection) -> bool:
        """Whether somebody has a place that is not spare, or gets one."""
        return self._n_here <= self._most - self._spare or self._make_room(besides=connection)

    def hear(self, address: str, connection: Connection) -> None:
        """Somebody is not silent."""
        here = self._here.get(address, {})
        if len(here) > 1 and connection in here:
            del here[connection]
            here[connection] = None

    def remove(self, address: str, connection: Connection) -> None:
        """Somebody hung up."""
        here = self._here.get(address, {})
        if connection in here:
            del here[connection]
            self._n_here -= 1
            if not here:
                del self._here[address]

    def _make_room(self, besides: Connection | None = None) -> bool:
        for address in sorted(self._here, key=lambda address: -len(self._here[address])):
            for connection in self._here[address]:
                if connection is not besides and not connection.is_answered:
                    self.remove(address, connection)
                    connection.abort()
                    return True
        return False


def _refusal(rate: float, left: float) -> Problem:
    return Problem("rate-limited", f"this token may send {rate:g} a second", retry_after=(1 - left) / rate)
