"""kill -9 at any moment under senders that retry: every acknowledged report is counted, and counted once.

In a glass campaign every report owns a bucket, so that a loss is a 0 and a double count a 2: nothing can
hide in a sum. Campaigns are changed when their buckets are used up.
"""

import http.client
import json
import random
import secrets
import threading
import time

import numpy as np
import pytest
from collecting import answers, glass, make_question
from serving import Process

from keyveil.protocols import replay
from keyveil.report import Envelope, to_frames
from keyveil.tally import Tally

SIZE = 1 << 13
SENDERS = 8


class Senders:
    """Eight threads that send, and send again until they hear; what they heard is `heard`."""

    def __init__(self, ports, seed):
        self.ports, self.heard = ports, {}
        self.lock, self.go, self.rng = threading.Lock(), True, random.Random(seed)
        self.queue, self.campaigns, self.replays, self.refused = [], [], 0, 0
        self.threads = []

    def add(self, campaign, token):
        with self.lock:
            self.campaigns.append(campaign)
            self.queue += [(campaign, token, bucket) for bucket in range(SIZE)]

    def start(self):
        self.threads = [threading.Thread(target=self.work, args=(i,), daemon=True) for i in range(SENDERS)]
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.go = False
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive()

    def take(self, most):
        """Buckets of one campaign that nobody has sent."""
        with self.lock:
            if not self.queue:
                return None, None, []
            campaign, token, _ = self.queue[0]
            taken = []
            while self.queue and len(taken) < most and self.queue[0][0] is campaign:
                taken.append(self.queue.pop(0)[2])
            return campaign, token, taken

    def work(self, number):
        rng, connection, last = random.Random(number), None, None
        while self.go:
            if last is not None and rng.random() < 0.2:
                campaign, token, buckets, body = last
                self.replays += len(buckets)
            else:
                campaign, token, buckets = self.take(rng.choice((1, 1, 5, 40, 100)))
                if not buckets:
                    time.sleep(0.01)
                    continue
                reports = [
                    Envelope(
                        campaign=campaign.tag,
                        round=1,
                        report_id=secrets.token_bytes(16),
                        payload=bucket.to_bytes(2, "little"),
                    ).to_bytes()
                    for bucket in buckets
                ]
                body = to_frames(reports)
            while True:
                if connection is None:
                    port = rng.choice(self.ports)
                    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
                try:
                    connection.request(
                        "POST",
                        f"/v1/campaigns/{campaign.id}/reports",
                        body=body,
                        headers={"Authorization": f"Bearer {token}"},
                    )
                    answer = connection.getresponse()
                    said = answer.read()
                except (OSError, http.client.HTTPException):
                    connection.close()
                    connection = None
                    time.sleep(0.02)
                    continue
                if answer.status == 200:
                    break
                assert answer.status in (503,), said
                self.refused += 1
                time.sleep(0.05)
            statuses = json.loads(said)["reports"]
            assert set(statuses) <= {"accepted", "duplicate"}, statuses
            with self.lock:
                self.heard.setdefault(campaign.id, set()).update(buckets)
            last = campaign, token, buckets, body
        if connection is not None:
            connection.close()


def check(server, senders):
    """All that was acknowledged is there once; what was never sent is not there."""
    lost = doubled = acknowledged = 0
    for campaign in senders.campaigns:
        status, body = server.ask("GET", f"/v1/campaigns/{campaign.id}/rounds/1/tally", token=server.admin)
        assert status == 200, body
        counts = np.array(json.loads(body)["cells"]["support"][:SIZE])
        heard = sorted(senders.heard.get(campaign.id, ()))
        acknowledged += len(heard)
        lost += int((counts[heard] == 0).sum())
        doubled += int((counts > 1).sum())
        unsent = [bucket for other, _, bucket in senders.queue if other is campaign]
        assert not counts[unsent].any()
        status, body = server.ask("POST", f"/v1/campaigns/{campaign.id}/rounds/1/recount", token=server.admin)
        assert json.loads(body)["agrees"], body
    return acknowledged, lost, doubled


def refill(server, senders):
    """Another glass campaign when the buckets run low."""
    if len(senders.queue) < SIZE // 2:
        campaign = glass(SIZE, name=f"glass {len(senders.campaigns)}")
        senders.add(campaign, server.create(campaign)["device_token"])


def hear(least, server, senders):
    """Go on until enough was acknowledged, however slow the disk."""
    for _ in range(3000):
        refill(server, senders)
        time.sleep(0.1)
        if sum(map(len, senders.heard.values())) >= least:
            return
    raise AssertionError(f"fewer than {least} reports were acknowledged in five minutes")


@pytest.mark.parametrize(
    ("kills", "least"),
    [(5, 1000), pytest.param(100, 150_000, marks=[pytest.mark.nightly, pytest.mark.timeout(3600)])],
)
def test_killing_the_collector_loses_and_doubles_nothing(tmp_path, kills, least):
    url, rng = f"sqlite:///{tmp_path}/c.db", random.Random(kills)
    server = Process(url)
    senders = Senders([server.port], kills)
    refill(server, senders)
    senders.start()
    for _ in range(kills):
        refill(server, senders)
        time.sleep(rng.uniform(0.05, 1.5 if kills > 5 else 0.6))
        server.kill()
        server = Process(url, port=server.port, admin=server.admin)
    hear(least, server, senders)
    senders.stop()
    acknowledged, lost, doubled = check(server, senders)
    print(
        f"\n{kills} kills: {acknowledged} acknowledged, {lost} lost, {doubled} doubled, "
        f"{senders.replays} replayed"
    )
    server.stop()
    assert (lost, doubled) == (0, 0)


@pytest.mark.parametrize(
    ("kills", "of_database", "least"),
    [(3, 1, 500), pytest.param(50, 10, 50_000, marks=[pytest.mark.nightly, pytest.mark.timeout(3600)])],
)
def test_killing_collectors_and_the_database_loses_and_doubles_nothing(database, kills, of_database, least):
    url, rng = database.fresh(), random.Random(kills)
    first = Process(url)
    servers = [first, Process(url, admin=first.admin)]
    senders = Senders([server.port for server in servers], kills)
    refill(first, senders)
    senders.start()
    every = kills // of_database
    for step in range(kills):
        refill(servers[(step + 1) % 2], senders)
        time.sleep(rng.uniform(0.05, 1.5 if kills > 5 else 0.6))
        if step % every == every - 1:
            database.kill()
            time.sleep(rng.uniform(0, 0.3))
            database.start()
            wait_ready(servers)
        else:
            victim = step % 2
            servers[victim].kill()
            servers[victim] = Process(url, port=servers[victim].port, admin=first.admin)
    hear(least, servers[0], senders)
    senders.stop()
    acknowledged, lost, doubled = check(servers[0], senders)
    print(
        f"\n{kills} kills, {of_database} of the database: {acknowledged} acknowledged, {lost} lost, "
        f"{doubled} doubled, {senders.replays} replayed, {senders.refused} asked to wait"
    )
    for server in servers:
        server.stop()
    assert (lost, doubled) == (0, 0)


def wait_ready(servers):
    for server in servers:
        for _ in range(200):
            if server.ask("GET", "/readyz")[0] == 200:
                break
            time.sleep(0.05)


def test_sigterm_under_load_ends_soon_and_loses_nothing(tmp_path):
    url = f"sqlite:///{tmp_path}/c.db"
    server = Process(url)
    senders = Senders([server.port], 1)
    refill(server, senders)
    senders.start()
    hear(100, server, senders)
    seconds = server.stop()
    assert seconds < 10
    assert server.child.returncode == 0
    again = Process(url, port=server.port, admin=server.admin)
    time.sleep(0.3)
    senders.stop()
    acknowledged, lost, doubled = check(again, senders)
    again.stop()
    print(f"\nstopped in {seconds:.2f} s: {acknowledged} acknowledged, {lost} lost, {doubled} doubled")
    assert (lost, doubled) == (0, 0)
    assert acknowledged >= 100


# --- between two rounds ---


def described(process, campaign, *, patience=30):
    """What the collector says of a campaign, once it is between no rounds."""
    ends = time.monotonic() + patience
    while time.monotonic() < ends:
        said = json.loads(process.ask("GET", f"/v1/campaigns/{campaign.id}")[1])
        if said["round"] is not None or said["state"] != "open":
            return said
        time.sleep(0.05)
    raise AssertionError("the campaign did not go on")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", [3, pytest.param(30, marks=pytest.mark.nightly)])
def test_a_collector_killed_while_it_closes_rounds_goes_on_as_if_nothing_had_been(tmp_path, kills):
    """SIGKILL at any moment of a close: the round is open, or the next one is; the end is the same."""
    store, rng = f"sqlite:///{tmp_path}/collector.db", random.Random(9)
    campaign = make_question("auto", epsilon=3.0, users=2000)
    process, tallies, dealt = Process(store), [], 0
    token = process.create(campaign)["device_token"]
    while (said := described(process, campaign))["round"] is not None:
        asked = campaign.read_round(said["round"])
        path = f"/v1/campaigns/{campaign.id}"
        status, _ = process.ask(
            "POST", f"{path}/reports", to_frames(answers(campaign, asked, 60)), token=token
        )
        assert status == 200
        counted = json.loads(
            process.ask("GET", f"{path}/rounds/{asked.number}/tally", token=process.admin)[1]
        )
        tallies.append(Tally.from_json(json.dumps(counted)))
        for _ in range(kills // 3 if dealt < kills else 0):
            closing = threading.Thread(
                target=close_quietly, args=(process, f"{path}/rounds/{asked.number}/close")
            )
            closing.start()
            time.sleep(rng.uniform(0.0, 0.12))
            process.kill()
            closing.join()
            dealt += 1
            process = Process(store, admin=process.admin)
            now = described(process, campaign)["round"]
            if now is None or now["number"] != asked.number:
                break
        else:
            status, why = process.ask("POST", f"{path}/rounds/{asked.number}/close", token=process.admin)
            assert status == 200, why
    release = json.loads(process.ask("GET", f"/v1/campaigns/{campaign.id}/release", token=process.admin)[1])
    process.stop()
    outcome = replay(campaign.protocol(), campaign.id, tallies)
    assert release["metadata"]["users"] == outcome.raw.n_reports
    assert [row["frequency_se"] for row in release["rows"]] == pytest.approx(
        outcome.raw.frequency_se.tolist()
    )
    assert dealt >= min(kills, 2)


def close_quietly(process, path):
    """A close whose answer a kill may cut off."""
    try:
        process.ask("POST", path, token=process.admin)
    except (OSError, http.client.HTTPException):
        """Cut off."""
