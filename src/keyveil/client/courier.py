"""Takes what waits to where it goes: batch by batch, to the collector or sealed through a relay.

The campaign says which ways there are, the application which it takes, and the ledger which was taken before.
Where a campaign requires a relay nothing goes to the collector, whatever fails.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from keyveil.campaign import REQUIRED, Campaign
from keyveil.client import transport
from keyveil.client.ledger import Ledger
from keyveil.client.permission import require_consent
from keyveil.client.queue import DIRECTLY, THROUGH_RELAY, Limits, Queue, Waiting
from keyveil.errors import TransportError
from keyveil.sealing import KEY_BYTES, SealedHeader, key_id

if TYPE_CHECKING:
    from keyveil.client.ledger import Account
    from keyveil.client.sealer import Sealer

# What a relay says of a report whose key the collector lists no more.
_UNKNOWN_KEY = "unknown-key"


class Route(NamedTuple):
    """A way, and where it begins."""

    way: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where an application says that reports go, and to which key they are sealed if it says that too."""

    collector: str | None = None
    relay: str | None = None
    sealing_key: bytes | None = None

    def route(self, campaign: Campaign, id: str | None = None) -> Route:
        """The way of a campaign's reports, or a refusal; with an id, of another wave of its series.

        >>> apps = Campaign(name="apps", epsilon=1.0, keys=("maps", "mail"), value_range=(0, 60),
        ...                 pairs_per_user=2, mechanism="pckv-ue", relay="required", batch=1000)
        >>> collector, relay = "https://collect.example.org", "https://relay.example.org"
        >>> Addresses(collector=collector, relay=relay).route(apps).url[:25]
        'https://relay.example.org'
        >>> Addresses(collector=collector).route(apps)
        Traceback (most recent call last):
            ...
        keyveil.errors.TransportError: the campaign takes reports through a relay only; pass relay='https://...'
        """
        at = f"/v1/campaigns/{id or campaign.id}"
        if self.relay is not None:
            if not campaign.is_relayed:
                raise TransportError(
                    "the campaign takes no reports through a relay; leave relay= out", code="not-relayed"
                )
            base = transport.checked(self.relay, "a relay").rstrip("/")
            self._check_keys_can_be_known()
            return Route(THROUGH_RELAY, f"{base}{at}/sealed")
        if campaign.relay == REQUIRED:
            raise TransportError(
                "the campaign takes reports through a relay only; pass relay='https://...'",
                code="relay-required",
            )
        if self.collector is None:
            raise TransportError("no collector is known; pass collector='https://...'", code="no-collector")
        base = transport.checked(self.collector).rstrip("/")
        return Route(DIRECTLY, f"{base}{at}/reports")

    def _check_keys_can_be_known(self) -> None:
        """Refuse to take the relay's word alone for the collector's key."""
        if self.sealing_key is not None:
            return
        if self.collector is None or transport.is_same_place(self.collector, self.relay or ""):
            raise TransportError(
                "keys are asked of the relay and of the collector at another address; pass "
                "collector='https://...' beside relay=, or the collector's key as sealing_key=",
                code="no-collector",
            )


def read_key(digits: str) -> bytes:
    """A collector's public key, as an application ships it.

    >>> read_key("ab" * 31)
    Traceback (most recent call last):
        ...
    ValueError: a sealing key is 64 hexadecimal digits, got 62 characters
    """
    if re.fullmatch("[0-9a-fA-F]{64}", digits) is None:
        raise ValueError(f"a sealing key is {2 * KEY_BYTES} hexadecimal digits, got {len(digits)} characters")
    return bytes.fromhex(digits)


class Courier:
    """Sends one campaign's reports, which it knows by its id.

    `direct` and `relayed` take them to the collector and to a relay, each with the token for it; `plain` asks
    both for keys, with none.
    """

    def __init__(
        self,
        campaign: str,
        limits: Limits,
        addresses: Addresses,
        *,
        direct: transport.Exchange,
        relayed: transport.Exchange,
        plain: transport.Exchange,
    ) -> None:
        self._campaign, self._limits, self._addresses = campaign, limits, addresses
        self._direct, self._relayed, self._plain = direct, relayed, plain
        self._sealer: Sealer | None = None

    def send_all(self, ledger: Ledger, route: Route, timeout: float) -> str:
        """Batches until nothing is left; raises where one fails, or time is over."""
        ends = time.monotonic() + timeout
        settled, refused, why = 0, 0, ""
        while batch := self._next_batch(ledger, route):
            if route.way == THROUGH_RELAY:
                batch = self._sealed(ledger, batch, ends - time.monotonic())
            left = ends - time.monotonic()
            if left <= 0:
                raise TransportError(f"{settled} reports settled, the rest waits; the time was over")
            one = self._send(ledger, route, batch, left)
            settled, refused = settled + len(one.statuses), refused + one.counts.count(False)
            why = one.why or why
        return f"{settled} reports settled" + (f", {refused} of them refused ({why})" if refused else "")

    def _next_batch(self, ledger: Ledger, route: Route) -> list[Waiting]:
        with ledger.transaction() as account:
            require_consent(account)
            queue = self._queue(account)
            queue.check_way(route.way)
            batch = queue.batch()
            if batch and queue.wait():
                raise TransportError(
                    f"the next attempt is due in {queue.wait():.0f} s", retry_after=queue.wait()
                )
            if batch and route.way == DIRECTLY:
                queue.take_way(DIRECTLY)
            return batch

    def _send(self, ledger: Ledger, route: Route, batch: list[Waiting], timeout: float) -> transport.Settled:
        """One batch; reports of which a relay knows the key no more wait on."""
        if route.way == DIRECTLY:
            bodies, exchange = [one.report for one in batch], self._direct
        else:
            bodies, exchange = [one.sealed for one in batch if one.sealed is not None], self._relayed
        if not bodies:
            # Somebody else has settled it meanwhile.
            return transport.Settled([])
        with self._backing_off(ledger):
            settled = transport.send(route.url, bodies, timeout=timeout, exchange=exchange)
        stale, judged = [], []
        for one, status, counts in zip(batch, settled.statuses, settled.counts, strict=True):
            if route.way == THROUGH_RELAY and status == _UNKNOWN_KEY:
                stale.append(one)
            else:
                judged.append((one.report, counts))
        with ledger.transaction() as account:
            queue = self._queue(account)
            if judged:
                queue.settle(judged, settled.why)
            failure = self._seal_again(queue, stale) if stale else None
        if failure is not None:
            raise failure
        return settled

    def _sealed(self, ledger: Ledger, batch: list[Waiting], timeout: float) -> list[Waiting]:
        """The batch as it is sealed, once and for all; committed, with the way, before any of it is sent."""
        bare = [one.report for one in batch if one.sealed is None]
        with self._backing_off(ledger):
            fresh = dict(zip(bare, self._seal(bare, timeout), strict=True)) if bare else {}
        with ledger.transaction() as account:
            require_consent(account)
            queue = self._queue(account)
            queue.take_way(THROUGH_RELAY)
            return queue.keep_sealed([Waiting(report, sealed or fresh[report]) for report, sealed in batch])

    def _seal(self, reports: list[bytes], timeout: float) -> list[bytes]:
        if self._sealer is None:
            from keyveil.client.sealer import Sealer

            assert self._addresses.relay is not None, "only what goes through a relay is sealed"
            self._sealer = Sealer(
                self._campaign,
                relay=self._addresses.relay,
                collector=self._addresses.collector,
                shipped=self._addresses.sealing_key,
                exchange=self._plain,
            )
        return self._sealer.seal(reports, timeout=timeout)

    def _seal_again(self, queue: Queue, stale: list[Waiting]) -> TransportError:
        """Forget how these were sealed, but for those to the key that was shipped: no other will do."""
        shipped = self._addresses.sealing_key
        own = None if shipped is None else key_id(shipped)
        others = [one for one in stale if one.sealed and SealedHeader.read(one.sealed).key != own]
        queue.forget_sealed(others)
        if self._sealer is not None:
            self._sealer.ask_anew()
        if own is None or len(others) == len(stale):
            words = f"the relay knows the key of {len(stale)} reports no more; they wait to be sealed anew"
            failure = TransportError(words)
        else:
            words = f"the relay takes nothing that is sealed to the key that was shipped, {own.hex()}"
            failure = TransportError(f"{words}; {len(stale)} reports wait", code="keys-differ")
        queue.back_off(failure)
        return failure

    @contextmanager
    def _backing_off(self, ledger: Ledger) -> Iterator[None]:
        """A request that fails puts off the next."""
        try:
            yield
        except TransportError as error:
            with ledger.transaction() as account:
                self._queue(account).back_off(error)
            raise

    def _queue(self, account: Account) -> Queue:
        return Queue(account, self._campaign, self._limits)
