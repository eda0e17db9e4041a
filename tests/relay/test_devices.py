"""Devices as applications have them, a relay, a collector: each report arrives once, by the relay alone."""

from urllib.parse import urlsplit

import pytest
from relays import RelayCaller

from keyveil.client import Code, Reporter
from keyveil.client.answer import HttpAnswer

COLLECTOR, RELAY = "https://collector.example", "https://relay.example"
HELD = {"app-1": 30.0, "app-2": 5.0}


class Network:
    """A device's requests, answered by the two; who was asked for what."""

    def __init__(self, caller, relay):
        self.places = {COLLECTOR: caller, RELAY: relay}
        self.asked, self.loses, self.relay_token = [], 0, None

    def __call__(self, url, body, timeout, largest):
        parts = urlsplit(url)
        place = f"{parts.scheme}://{parts.netloc}"
        self.asked.append(f"{place} {parts.path.rpartition('/')[2]}")
        headers = [] if body is None else [("content-type", "application/octet-stream")]
        token = self.relay_token if place == RELAY else None
        answer = self.places[place](
            "GET" if body is None else "POST", parts.path, body, headers=headers, token=token
        )
        if body is not None and self.loses:
            self.loses -= 1
            return HttpAnswer(status=502, retry_after=0.0)
        return HttpAnswer(status=answer.status, body=answer.body, retry_after=0.0)


@pytest.fixture
def network(caller, relay):
    return Network(caller, relay)


@pytest.fixture
def devices(tmp_path, campaign, network):
    """So many devices, each with a ledger of its own; they ask the relay what the round is."""

    def make(count, first=0, **options):
        url = f"{RELAY}/v1/campaigns/{campaign.id}"
        made = []
        for number in range(first, first + count):
            device = Reporter.connect(
                url,
                ledger=tmp_path / f"{number}.db",
                relay=RELAY,
                exchange=network,
                **({"collector": COLLECTOR} | options),
            )
            assert device.enable()
            made.append(device)
        return made

    return make


def counted(caller, campaign):
    return caller.collector.readout.tally(campaign.id, 1)


def test_what_devices_say_arrives_once_whatever_is_sent_again(caller, campaign, relay, network, devices):
    crowd = devices(24)
    reports = [device.report(HELD) for device in crowd]
    for device in crowd:
        device.submit(HELD)
        network.loses = 1
        assert device.upload().code is Code.WAITING
        assert device.upload()
        device.submit({"app-3": 1.0})
        assert device.upload()
    relay.end(campaign)
    assert relay.turn()
    assert counted(caller, campaign) == campaign.tally(reports)
    assert not [
        asked for asked in network.asked if asked.startswith(COLLECTOR) and not asked.endswith("keys")
    ]


def test_with_a_shipped_key_the_collector_meets_no_device(caller, campaign, relay, network, devices):
    key = relay.key().public.hex()
    crowd = devices(12, collector=None, sealing_key=key)
    for device in crowd:
        device.submit(HELD)
        assert device.upload()
    assert not [asked for asked in network.asked if asked.startswith(COLLECTOR)]
    relay.end(campaign)
    assert relay.turn()
    assert counted(caller, campaign).n_reports == 12


def test_a_key_is_retired_while_a_device_is_away(caller, campaign, relay, network, devices):
    [early] = devices(1)
    early.submit(HELD)
    old = relay.key()
    # It knows a key and has sealed; nobody took it.
    network.places[RELAY] = RelayAway(relay)
    assert early.upload().code is Code.WAITING
    network.places[RELAY] = relay
    caller("POST", "/v1/keys", token=caller.admin)
    assert caller("DELETE", f"/v1/keys/{old.id.hex()}", token=caller.admin).status == 204
    relay.relay.refresh()
    assert early.upload().code is Code.WAITING
    assert early.flush(30.0)
    crowd = devices(11, first=1)
    for device in crowd:
        device.submit(HELD)
        assert device.upload()
    relay.end(campaign)
    assert relay.turn()
    everybody = [device.report({}) for device in (early, *crowd)]
    assert counted(caller, campaign) == campaign.tally(everybody)


class RelayAway:
    """A relay that lists keys and takes nothing."""

    def __init__(self, relay):
        self.relay = relay

    def __call__(self, method, *arguments, **options):
        return HttpAnswer(status=503) if method == "POST" else self.relay(method, *arguments, **options)


def test_the_collector_takes_nothing_directly_and_devices_never_try(caller, campaign, network, devices):
    [device] = devices(1)
    direct = Reporter(campaign, ledger=device._book().path, collector=COLLECTOR, exchange=network)
    direct.submit(HELD)
    before = len(network.asked)
    assert direct.upload().code is Code.RELAY_REQUIRED
    assert len(network.asked) == before


def test_what_comes_after_the_end_is_settled(campaign, relay, devices):
    [late] = devices(1)
    late.submit(HELD)
    relay.end(campaign)
    receipt = late.upload()
    assert receipt
    assert "round-closed" in receipt.detail
    assert late.status().traffic.waiting == 0


def test_a_relay_that_wants_a_token_of_its_own(tmp_path, caller, campaign, monkeypatch):
    guarded = RelayCaller(f"sqlite:///{tmp_path}/g.db", caller, uploads="token")
    try:
        assert guarded("GET", f"/v1/campaigns/{campaign.id}").status == 200
        made = guarded(
            "POST",
            f"/v1/campaigns/{campaign.id}/tokens",
            token=guarded.admin,
            json_body={"role": "device"},
        )
        seen = []

        def exchange(url, body, timeout, largest, *, token=None):
            seen.append((urlsplit(url).netloc, token))
            network = Network(caller, guarded)
            network.relay_token = token
            return network(url, body, timeout, largest)

        monkeypatch.setattr("keyveil.client.transport.exchange", exchange)
        options = {"ledger": tmp_path / "d.db", "relay": RELAY, "collector": COLLECTOR, "token": "collectors"}
        without = Reporter(campaign, **options)
        without.enable()
        without.submit(HELD)
        assert without.upload().code is Code.TOKEN_REFUSED
        assert Reporter(campaign, **options, relay_token=made.json["token"]).flush(5.0)
        assert "collectors" not in {token for _, token in seen}
        assert {token for host, token in seen if host == "collector.example"} == {None}
    finally:
        guarded.close()


def test_whoever_asks_whether_it_is_welcome_hears_it(campaign, relay):
    """`keyveil send` asks with an empty batch, before it asks anybody."""
    assert relay.send(campaign, []) == []
