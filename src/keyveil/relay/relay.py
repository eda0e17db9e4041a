"""A relay without HTTP: what it takes, makes batches of and forwards, and what it says of itself."""

from __future__ import annotations

import threading
from collections.abc import Callable

from keyveil.client import transport
from keyveil.client.transport import Exchange
from keyveil.collector.campaigns.access import Access
from keyveil.collector.campaigns.cache import StoredCampaign
from keyveil.collector.campaigns.host import Host
from keyveil.collector.clock import Clock
from keyveil.collector.logs import Log
from keyveil.collector.problems import Problem
from keyveil.collector.settings import Settings
from keyveil.errors import KeyveilError
from keyveil.relay.batching import Batching
from keyveil.relay.campaigns import Campaigns
from keyveil.relay.forwarding import Forwarding
from keyveil.relay.messages import CarriedRoundView, RelayStatus
from keyveil.relay.settings import RelaySettings
from keyveil.relay.store import RelayStore


class Relay(Host):
    """All that a relay does, over a store."""

    store: RelayStore

    def __init__(
        self,
        store: RelayStore,
        *,
        collector: str,
        token: str | None,
        settings: Settings | None = None,
        relay_settings: RelaySettings | None = None,
        exchange: Exchange | None = None,
        clock: Clock | None = None,
        log: Log | None = None,
    ) -> None:
        super().__init__(store, settings=settings, clock=clock, log=log)
        self.collector = transport.checked(collector).rstrip("/")
        self.access, self.relay_settings = Access(self), relay_settings or RelaySettings()
        # What anybody may ask is asked without the token.
        public = exchange or transport.exchange
        self.campaigns = Campaigns(
            store,
            collector=self.collector,
            settings=self.relay_settings,
            exchange=public,
            now=self.clock.now,
            tell=self.log.event,
        )
        self.batching = Batching(
            store, self.relay_settings, earliest=self.clock.earliest, tell=self.log.event
        )
        self.forwarding = Forwarding(
            store,
            self.relay_settings,
            collector=self.collector,
            exchange=exchange or transport.with_token(token),
            campaign_of=self._id_of,
            tell=self.log.event,
        )
        self._making = threading.Lock()
        self._unreached = ""
        gauges = self.metrics.gauges
        gauges["keyveil_relay_waiting_reports"] = ("Sealed reports in no batch yet.", self._count_waiting)
        gauges["keyveil_relay_forwarded_reports"] = (
            "Sealed reports that the collector has taken since the start.",
            lambda: self.forwarding.n_forwarded,
        )
        gauges["keyveil_relay_discarded_reports"] = (
            "Sealed reports that were thrown away: too few to hide, or too late.",
            self._count_discarded,
        )
        gauges["keyveil_relay_collector_failing"] = (
            "Whether the last attempt to reach the collector failed.",
            lambda: float(bool(self.forwarding.failing or self._unreached)),
        )

    def find(self, id: str) -> StoredCampaign | None:
        """A campaign, if it was met before; nobody is asked."""
        return self.campaigns.find(id)

    def known(self, id: str) -> StoredCampaign:
        """A campaign; the collector is asked for one that was never met."""
        return self.campaigns.known(id)

    # --- what goes on in the background ---

    def tick(self) -> None:
        """Make the batches that are due; ask for the keys if a device knows one that is not known here."""
        if self.campaigns.wants_keys:
            self._ask(self.campaigns.refresh_keys)
        with self._making:
            n_made = self.batching.tick()
        if n_made:
            self.forwarding.wake()
        ended = "" if self.forwarding.is_alive else "the thread that forwards has ended"
        self.ailing = "; ".join(filter(None, (self._unreached, self.forwarding.failing, ended)))

    def refresh(self) -> None:
        """Ask the collector what there is now."""
        self._ask(self.campaigns.refresh)

    def _ask(self, question: Callable[[], None]) -> None:
        try:
            question()
        except KeyveilError as error:
            if str(error) != self._unreached:
                self.log.event("not-reached", why=str(error))
            self._unreached = str(error)
        else:
            self._unreached = ""

    def tidy(self) -> None:
        """Forget the digests of rounds that ended long ago."""
        with self.store.write() as tx:
            tx.forget_digests(self.clock.earliest() - self.relay_settings.known_for)

    # --- what operators do and see ---

    def end_round(self, actor: str, id: str, number: int) -> RelayStatus:
        """Take nothing more to a round; who waits goes, or is thrown away where they are too few."""
        known = self.known(id)
        with self.store.read() as tx:
            round = tx.round(known.no, number)
        if round is None:
            raise Problem("unknown-round")
        with self._making:
            self.batching.end(round, actor=actor, why="ended by hand")
        self.tick()
        return self.status(id)

    def status(self, id: str | None = None) -> RelayStatus:
        """The rounds that are carried, how many wait, and how large the batches were that went."""
        with self.store.read() as tx:
            rounds, crowds, batches = tx.rounds(), tx.crowds(), tx.batches()
            ids = {no: campaign for no, campaign, _ in tx.views()}
        return RelayStatus(
            collector=self.collector,
            failing=self.ailing,
            rounds=[
                CarriedRoundView(
                    campaign=ids[round.campaign],
                    round=round.number,
                    batch=round.batch,
                    waiting=sum(crowd.n_waiting for crowd in crowds if crowd.round == round.no),
                    batches=[batch.size for batch in batches if batch.round == round.no],
                    discarded=round.discarded,
                    ends_at=round.ends_at,
                    ended_at=round.ended_at,
                    why=round.why,
                )
                for round in rounds
                if id is None or ids[round.campaign] == id
            ],
        )

    def _id_of(self, no: int) -> str:
        with self.store.read() as tx:
            return tx.id_of(no)

    def _count_waiting(self) -> float:
        with self.store.read() as tx:
            return float(sum(crowd.n_waiting for crowd in tx.crowds()))

    def _count_discarded(self) -> float:
        with self.store.read() as tx:
            return float(sum(round.discarded for round in tx.rounds()))
