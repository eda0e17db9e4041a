"""kill -9 of relay and collector at any moment: what a relay acknowledged is counted once, in whole batches.

And an outage of the collector, under load, that loses nothing.
"""

import json
import random
import sqlite3
import threading
import time

import pytest
from collecting import glass
from sending import SIZE, Senders, check
from serving import Process

from keyveil.sealing import SealingKey

BATCH = 300


class SealedSenders(Senders):
    """Devices that seal what they say."""

    suffix = "sealed"
    key = None

    def make(self, campaign, buckets):
        return [
            self.key.seal(report, campaign=campaign.id, round=1) for report in super().make(campaign, buckets)
        ]


def start_relay(store, collector, token, *, port=0, admin=None):
    """`keyveil relay`, whose thread looks for work often."""
    return Process(
        store,
        "--to",
        collector,
        "--token",
        token,
        "--refresh",
        "0.2",
        port=port,
        admin=admin,
        command="relay",
    )


class Pair:
    """A collector and a relay as processes, devices that send, and whoever kills."""

    def __init__(self, folder, seed):
        self.stores = f"sqlite:///{folder}/c.db", f"sqlite:///{folder}/r.db"
        self.collector = Process(self.stores[0])
        _, said = self.collector.ask("POST", "/v1/tokens", {"role": "relay"}, token=self.collector.admin)
        self.token = json.loads(said)["token"]
        self.relay = start_relay(self.stores[1], self.collector.url, self.token)
        self.senders = SealedSenders([self.relay.port], seed)
        self.refill()
        _, said = self.relay.ask("GET", "/v1/keys")
        SealedSenders.key = SealingKey(bytes.fromhex(json.loads(said)["keys"][0]["public"]))
        self.senders.start()

    def refill(self):
        """Another campaign when the buckets run low; a relay knows it before its collector is killed."""
        if len(self.senders.queue) < SIZE // 2:
            changes = {"relay": "required", "batch": BATCH}
            campaign = glass(SIZE, name=f"glass {len(self.senders.campaigns)}", **changes)
            self.collector.create(campaign)
            assert self.relay.ask("GET", f"/v1/campaigns/{campaign.id}")[0] == 200
            self.senders.add(campaign, None)

    def kill(self, who):
        """One of them, at once; another process takes its place."""
        if who == "relay":
            self.relay.kill()
            self.relay = start_relay(
                self.stores[1],
                self.collector.url,
                self.token,
                port=self.relay.port,
                admin=self.relay.admin,
            )
        else:
            self.collector.kill()
            self.collector = Process(self.stores[0], port=self.collector.port, admin=self.collector.admin)

    def hear(self, least):
        """Go on until enough was acknowledged."""
        ends = time.monotonic() + 300
        while sum(map(len, self.senders.heard.values())) < least:
            assert time.monotonic() < ends, "too few were acknowledged in five minutes"
            self.refill()
            time.sleep(0.05)

    def settle(self):
        """No more is sent; every round ends at the relay, and its last batch arrives."""
        self.senders.stop()
        for campaign in self.senders.campaigns:
            path = f"/v1/campaigns/{campaign.id}/rounds/1/end"
            status, said = self.relay.ask("POST", path, token=self.relay.admin)
            assert status == 200, said
        ends = time.monotonic() + 120
        while time.monotonic() < ends:
            rounds = self.status()
            arrived = sum(map(sum, self.batches().values()))
            if arrived == sum(sum(round["batches"]) for round in rounds) and not any(
                round["waiting"] for round in rounds
            ):
                return rounds
            time.sleep(0.1)
        raise AssertionError("the last batches did not arrive")

    def status(self):
        """What the relay carries."""
        return json.loads(self.relay.ask("GET", "/v1/relay", token=self.relay.admin)[1])["rounds"]

    def batches(self):
        """What each batch brought to the collector, by campaign."""
        with sqlite3.connect(f"file:{self.stores[0].removeprefix('sqlite:///')}?mode=ro", uri=True) as db:
            rows = db.execute(
                "select campaigns.id, sum(received) from batch_parts join campaigns on no = campaign "
                "group by campaign, batch_parts.id"
            ).fetchall()
        found = {}
        for campaign, received in rows:
            found.setdefault(campaign, []).append(received)
        return found

    def stop(self):
        self.relay.stop(40)
        self.collector.stop()


@pytest.mark.parametrize(
    ("kills", "least"),
    [(6, 3000), pytest.param(100, 60_000, marks=[pytest.mark.nightly, pytest.mark.timeout(3600)])],
)
def test_killing_relay_and_collector_loses_and_doubles_nothing(tmp_path, kills, least):
    pair, rng = Pair(tmp_path, kills), random.Random(kills)
    for step in range(kills):
        pair.refill()
        time.sleep(rng.uniform(0.05, 0.8 if kills > 10 else 0.5))
        pair.kill(("relay", "collector")[step % 2])
    pair.hear(least)
    rounds = pair.settle()
    acknowledged, lost, doubled = check(pair.collector, pair.senders)
    thrown_away = sum(round["discarded"] for round in rounds)
    sizes = [size for each in pair.batches().values() for size in each]
    print(
        f"\n{kills} kills: {acknowledged} acknowledged, {lost - thrown_away} lost, {doubled} doubled, "
        f"{pair.senders.replays} replayed, {len(sizes)} batches of {min(sizes)} to {max(sizes)}, "
        f"{thrown_away} thrown away at the end"
    )
    pair.stop()
    # Of a round to which fewer came than must go together nothing goes, and that is said.
    assert thrown_away < BATCH * len(rounds)
    assert (lost, doubled) == (thrown_away, 0)
    assert min(sizes) >= BATCH


@pytest.mark.parametrize(
    "seconds", [4, pytest.param(60, marks=[pytest.mark.nightly, pytest.mark.timeout(600)])]
)
def test_an_outage_of_the_collector_under_load_loses_nothing(tmp_path, seconds):
    pair = Pair(tmp_path, 5)
    pair.hear(1000)
    # There are campaigns enough for the whole outage: none can be made meanwhile.
    for _ in range(1 + seconds // 4):
        pair.senders.queue, before = [], pair.senders.queue
        pair.refill()
        pair.senders.queue = before + pair.senders.queue
    pair.collector.kill()
    before = sum(map(len, pair.senders.heard.values()))
    time.sleep(seconds)
    during = sum(map(len, pair.senders.heard.values())) - before
    status, said = pair.relay.ask("GET", "/readyz")
    assert (status, bool(json.loads(said)["failing"])) == (200, True), said
    pair.collector = Process(pair.stores[0], port=pair.collector.port, admin=pair.collector.admin)
    rounds = pair.settle()
    _, lost, doubled = check(pair.collector, pair.senders)
    thrown_away = sum(round["discarded"] for round in rounds)
    print(f"\n{seconds} s away: {during} taken meanwhile, {lost - thrown_away} lost, {doubled} doubled")
    pair.stop()
    assert during > 200 * seconds
    assert (lost, doubled) == (thrown_away, 0)


def test_a_relay_that_is_told_to_stop_ends_soon(tmp_path):
    pair = Pair(tmp_path, 6)
    pair.hear(500)
    stopping = threading.Thread(target=pair.senders.stop)
    seconds = pair.relay.stop()
    assert seconds < 10
    assert pair.relay.child.returncode == 0
    pair.relay = start_relay(
        pair.stores[1], pair.collector.url, pair.token, port=pair.relay.port, admin=pair.relay.admin
    )
    stopping.start()
    stopping.join()
    rounds = pair.settle()
    _, lost, doubled = check(pair.collector, pair.senders)
    pair.stop()
    assert (lost, doubled) == (sum(round["discarded"] for round in rounds), 0)
