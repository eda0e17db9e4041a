"""How many sealed reports a second a relay makes durable, beside a no-op; and what opening them costs.

    python bench/relay.py [--seconds S] [--json FILE]

One relay process, load from one other process over the loopback, on the machine's shared cores. The reports
are no reports: a relay cannot tell. Its collector is away while it is measured, so that the load has the
cores that the relay leaves, and then comes back: how long it takes until all has gone. Opening is
`open_batch`, on one core, of what was really sealed. What it cannot show: a network, a disk under other load.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

import numpy as np
import uvloop
from collecting import make_question, make_reports
from relaying import relayed
from serving import Process

from collector import NO_OP, load
from keyveil.collector.writing.batches import open_batch
from keyveil.collector.writing.upload import Batch
from keyveil.report import to_frames
from keyveil.sealing import SEALED_OVERHEAD, OpeningKey, SealedHeader, SealingKey

# A bucket's report, and a unary one of 5,860 keys.
SIZES = {"bucket": 100, "pckv-ue": 5860}
PER_REQUEST, SENDERS, BATCH = 100, 16, 10_000
N_OPENED = 20_000


class SealedSource:
    """Requests of sealed reports that were not sent before."""

    def __init__(self, campaign, key):
        length = campaign.only_round().report_bytes + SEALED_OVERHEAD
        self.length, head = length, SealedHeader(key, 1).to_bytes()
        frames = np.zeros((PER_REQUEST, 4 + length), dtype=np.uint8)
        frames[:, :4] = np.frombuffer(length.to_bytes(4, "little"), dtype=np.uint8)
        frames[:, 4 : 4 + len(head)] = np.frombuffer(head, dtype=np.uint8)
        self.frames, self.fresh = frames, slice(4 + len(head), 4 + len(head) + 32)
        self.head = (
            f"POST /v1/campaigns/{campaign.id}/sealed HTTP/1.1\r\nHost: x\r\n"
            f"Content-Type: application/octet-stream\r\nContent-Length: {frames.size}\r\n\r\n"
        ).encode()

    def request(self):
        """The next one."""
        random = np.frombuffer(os.urandom(32 * PER_REQUEST), dtype=np.uint8)
        self.frames[:, self.fresh] = random.reshape(-1, 32)
        return self.head + self.frames.tobytes()


def measure(mechanism, keys, seconds):
    """The figures for reports of one length."""
    with tempfile.TemporaryDirectory() as folder:
        collector = Process(f"sqlite:///{folder}/c.db")
        campaign = relayed(
            make_question, mechanism, keys=tuple(f"k{i}" for i in range(keys)), batch=BATCH, pairs_per_user=2
        )
        collector.create(campaign)
        _, said = collector.ask("POST", "/v1/tokens", {"role": "relay"}, token=collector.admin)
        options = ("--to", collector.url, "--token", json.loads(said)["token"], "--refresh", "1")
        relay = Process(f"sqlite:///{folder}/r.db", *options, command="relay")
        relay.ask("GET", f"/v1/campaigns/{campaign.id}")
        _, said = relay.ask("GET", "/v1/keys")
        key = bytes.fromhex(json.loads(said)["keys"][0]["id"])
        collector.stop()
        source = SealedSource(campaign, key)
        run = lambda *args: uvloop.run(load(relay.port, *args))  # noqa: E731
        run(source.request, 8, 1.0)
        rounds = []
        for _ in range(3):
            quiet = run(lambda: NO_OP, SENDERS, seconds / 3)
            durable = run(source.request, SENDERS, seconds / 3)
            rounds.append((quiet[0] / quiet[3], durable[0] / durable[3]))
        _, said = relay.ask("GET", "/v1/relay", token=relay.admin)
        [carried] = json.loads(said)["rounds"]
        memory = relay.memory() / 2**20
        collector = Process(f"sqlite:///{folder}/c.db", port=collector.port, admin=collector.admin)
        relay.ask("POST", f"/v1/campaigns/{campaign.id}/rounds/1/end", token=relay.admin)
        started = time.perf_counter()
        while True:
            _, said = relay.ask("GET", "/metrics", token=relay.admin)
            forwarded = float(said.decode().split("\nkeyveil_relay_forwarded_reports ")[1].split()[0])
            [now] = json.loads(relay.ask("GET", "/v1/relay", token=relay.admin)[1])["rounds"]
            if not now["waiting"] and forwarded >= sum(now["batches"]):
                break
            if time.perf_counter() - started > 600:
                raise SystemExit("the relay did not empty itself in ten minutes")
            time.sleep(0.2)
        elapsed = time.perf_counter() - started
        relay.stop(60)
        collector.stop()
        no_op, requests = (float(np.median(column)) for column in zip(*rounds, strict=True))
        return {
            "sealed_bytes": source.length,
            "no_op_per_s": round(no_op),
            "durable_per_s": round(PER_REQUEST * requests),
            "requests_share_of_no_op": round(requests / no_op, 3),
            "taken": carried["waiting"] + sum(carried["batches"]),
            "rss_mb": round(memory),
            "forwarded_per_s": round(forwarded / elapsed),
        }


def opening():
    """Reports a second that one core seals and opens."""
    campaign, private = relayed(make_question), OpeningKey.fresh()
    key, reports = SealingKey(private.public), make_reports(campaign, 50)
    started = time.perf_counter()
    sealed = [key.seal(reports[at % 50], campaign=campaign.id, round=1) for at in range(N_OPENED)]
    sealing = time.perf_counter() - started
    body = to_frames(sealed)
    named = {"tag": campaign.tag, "campaign": campaign.id, "token": "", "most": N_OPENED}
    started = time.process_time()
    opened = open_batch(body, Batch("ab" * 16, 1, N_OPENED, 0), keys=lambda _: {private.id: private}, **named)
    taken = time.process_time() - started
    assert not opened.refused, opened.refused
    return {"sealing_us": round(1e6 * sealing / N_OPENED, 1), "opened_per_s": round(N_OPENED / taken)}


def main():
    """Print, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=9.0)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    found = {"opening": opening()}
    found |= {mechanism: measure(mechanism, keys, asked.seconds) for mechanism, keys in SIZES.items()}
    print(json.dumps(found, indent=1))
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
