"""Seals what goes through a relay, to a key that the relay and the collector both list.

A relay that named the key alone could name its own and read what it carries. A collector that did could give
each device a key of its own and know who is who. So a device asks both, and seals to the newest of the
collector's keys that the relay lists too: a relay takes reports for listed keys alone, the same for all.
A key that the application ships (`sealing_key`) stands above both, and nobody is asked.

Loaded when something is to be sealed; what seals is a package that is not in the standard library.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from keyveil.client.transport import Exchange
from keyveil.errors import TransportError
from keyveil.report import Envelope
from keyveil.sealing import KEY_BYTES, SUITE, SealingKey, require_sealing

# Seconds for which keys that were asked for are believed, bytes that a list of them has at most, and keys.
_FRESH, _LARGEST_LIST, _MOST_KEYS = 300.0, 64 << 10, 200


class Sealer:
    """Seals the reports of one campaign.

    >>> from keyveil.sealing import OpeningKey
    >>> key, report = OpeningKey.fresh(), bytes([1]) + bytes(40)
    >>> sealer = Sealer("ab" * 32, relay="https://relay.example.org", shipped=key.public)
    >>> (sealed,) = sealer.seal([report], timeout=1.0)
    >>> key.open(sealed, campaign="ab" * 32, round=0) == report
    True
    """

    def __init__(
        self,
        campaign: str,
        *,
        relay: str,
        collector: str | None = None,
        shipped: bytes | None = None,
        exchange: Exchange | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        require_sealing()
        self._campaign, self._relay, self._collector = campaign, relay, collector
        self._exchange, self._clock = exchange, clock
        self._shipped = None if shipped is None else SealingKey(shipped)
        self._asked: tuple[float, SealingKey] | None = None

    def seal(self, reports: Sequence[bytes], *, timeout: float) -> list[bytes]:
        """The reports as the collector alone reads them; asks for keys where none was shipped."""
        key = self._key(timeout)
        try:
            return [
                key.seal(report, campaign=self._campaign, round=Envelope.from_bytes(report).round)
                for report in reports
            ]
        except ValueError:
            raise TransportError(
                f"key {key.id.hex()} is none that a report can be sealed to; the reports wait",
                code="keys-differ",
            ) from None

    def ask_anew(self) -> None:
        """Forget the key: the relay takes it no more."""
        self._asked = None

    def _key(self, timeout: float) -> SealingKey:
        if self._shipped is not None:
            return self._shipped
        if self._asked is None or self._clock() >= self._asked[0]:
            self._asked = self._clock() + _FRESH, self._shared_key(timeout)
        return self._asked[1]

    def _shared_key(self, timeout: float) -> SealingKey:
        """The newest of the collector's keys that the relay lists too."""
        assert self._collector is not None, "without a key that was shipped both are asked"
        ends = self._clock() + timeout
        at_relay = set(self._list(self._relay, timeout))
        at_collector = self._list(self._collector, ends - self._clock())
        shared = next((public for public in at_collector if public in at_relay), None)
        if shared is None:
            raise TransportError(
                f"the relay lists {len(at_relay)} keys and the collector {len(at_collector)}, and they share "
                "none; the reports wait",
                code="keys-differ",
            )
        return SealingKey(shared)

    def _list(self, base: str, timeout: float) -> list[bytes]:
        """The public keys at an address, the newest first."""
        assert self._exchange is not None, "whoever asks for keys needs an exchange"
        host = urlsplit(base).netloc
        answer = self._exchange(f"{base.rstrip('/')}/v1/keys", None, timeout, _LARGEST_LIST)
        if answer.status != 200:
            raise TransportError(
                f"expected keys from {host}, got {answer.said}; the reports wait",
                code=answer.refusal,
                retry_after=answer.retry_after,
            )
        try:
            said = json.loads(answer.body)
            suite, keys = said["suite"], [bytes.fromhex(key["public"]) for key in said["keys"][:_MOST_KEYS]]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise TransportError(f"expected a list of keys from {host}, got none; the reports wait") from None
        if suite != SUITE or {len(key) for key in keys} - {KEY_BYTES}:
            raise TransportError(
                f"expected keys of {SUITE} from {host}, got others; the reports wait, update keyveil",
                code="keys-differ",
            )
        return keys
