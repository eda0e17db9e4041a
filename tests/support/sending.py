"""Senders that retry, each report in a bucket of its own: a loss is a 0 and a double count a 2.

Campaigns are changed when their buckets are used up.
"""

import http.client
import json
import random
import secrets
import threading
import time

import numpy as np
from collecting import glass

from keyveil.report import Envelope, to_frames

SIZE = 1 << 13
SENDERS = 8


class Senders:
    """Eight threads that send, and send again until they hear; what they heard is `heard`."""

    suffix = "reports"

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

    def make(self, campaign, buckets):
        """The reports that say these buckets."""
        return [
            Envelope(
                campaign=campaign.tag,
                round=1,
                report_id=secrets.token_bytes(16),
                payload=bucket.to_bytes(2, "little"),
            ).to_bytes()
            for bucket in buckets
        ]

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
                body = to_frames(self.make(campaign, buckets))
            while True:
                if connection is None:
                    port = rng.choice(self.ports)
                    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
                try:
                    connection.request(
                        "POST",
                        f"/v1/campaigns/{campaign.id}/{self.suffix}",
                        body=body,
                        headers={} if token is None else {"Authorization": f"Bearer {token}"},
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
