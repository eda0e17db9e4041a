"""A relay in this process, beside a collector in this process: nothing happens until it is asked for."""

import io
from urllib.parse import urlsplit

from collecting import ServiceCaller

from keyveil.client.answer import HttpAnswer
from keyveil.collector.clock import Clock
from keyveil.collector.logs import Log
from keyveil.collector.settings import Settings
from keyveil.errors import TransportError
from keyveil.relay.app import RelayApplication
from keyveil.relay.relay import Relay
from keyveil.relay.settings import RelaySettings
from keyveil.relay.store import open_relay_store
from keyveil.report import to_frames
from keyveil.sealing import SealingKey


class RelayCaller(ServiceCaller):
    """Requests to a relay whose collector is a `Caller`; `is_away` takes the collector away."""

    def __init__(self, store, caller, *, settings=None, **changes):
        self.caller, self.is_away, self.asked, self.out = caller, False, [], io.StringIO()
        answer = caller("POST", "/v1/tokens", token=caller.admin, json_body={"role": "relay"})
        self.collector_token = answer.json["token"]
        clock = caller.clock
        self.relay = Relay(
            open_relay_store(store),
            collector="http://127.0.0.1:1",
            token=None,
            settings=settings or Settings(tick=3600),
            relay_settings=RelaySettings(**({"refresh": 3600, "lead": 60} | changes)),
            exchange=self.exchange,
            clock=Clock(clock, steady=clock),
            log=Log(self.out),
        )
        # The collector's event loop is this thread's.
        self.relay.forwarding.start = lambda: None
        self.admin = self.relay.access.first_token()
        super().__init__(RelayApplication(self.relay))

    def exchange(self, url, body, timeout, largest):
        """What goes to the collector."""
        if self.is_away:
            raise TransportError("no answer from the collector")
        parts = urlsplit(url)
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        self.asked.append((path, body))
        method, token = ("GET", None) if body is None else ("POST", self.collector_token)
        answer = self.caller(method, path, body, token=token)
        assert len(answer.body) <= largest
        return HttpAnswer(status=answer.status, body=answer.body)

    # --- shorthands ---

    def key(self):
        """The key to which devices seal now."""
        return SealingKey(bytes.fromhex(self("GET", "/v1/keys").json["keys"][0]["public"]))

    def seal(self, campaign, reports, round=1, key=None):
        """Reports as devices send them."""
        key = key or self.key()
        return [key.seal(report, campaign=campaign.id, round=round) for report in reports]

    def send(self, campaign, sealed, *, token=None, headers=()):
        """The statuses of sealed reports."""
        answer = self(
            "POST", f"/v1/campaigns/{campaign.id}/sealed", to_frames(sealed), token=token, headers=headers
        )
        return answer.json["reports"] if answer.status == 200 else answer

    def turn(self):
        """What goes on in the background, once."""
        self.relay.refresh()
        self.relay.tick()
        return self.relay.forwarding.forward_all()

    def rounds(self):
        """What the relay says that it carries."""
        return self("GET", "/v1/relay", token=self.admin).json["rounds"]

    def end(self, campaign, round=1):
        """Nothing more is taken to a round."""
        return self("POST", f"/v1/campaigns/{campaign.id}/rounds/{round}/end", token=self.admin)
