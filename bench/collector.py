"""How many reports a second a collector makes durable, beside a route of the same server that does nothing.

    python bench/collector.py [--seconds S] [--store sqlite|postgresql] [--overload S] [--json FILE]

One collector process, load from one other process over the loopback, on the machine's shared cores; so
the ratios say more than the numbers. What it cannot show: a network, a disk under other load, clients
that are far away. `no-op` is GET /healthz, which leaves before anything of the collector is asked.
"""

from __future__ import annotations

import argparse
import asyncio
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
from collecting import make_question
from serving import Process

from keyveil.report import Envelope

# 5,860 keys at two bits each, and the header: 1.5 kB a report.
KEYS = 5860
# Senders of single reports, of batches, and of ten times as much.
SINGLES, BATCHES, MANY = (256, 64), 16, 160


class Client:
    """One connection that sends requests and reads answers; no more than is needed."""

    def __init__(self, port):
        self.port, self.reader, self.writer = port, None, None

    async def ask(self, request):
        """The status and body of an answer."""
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 22)
        try:
            self.writer.writelines(request) if isinstance(request, tuple) else self.writer.write(request)
            head = await self.reader.readuntil(b"\r\n\r\n")
            lower = head.lower()
            at = lower.index(b"content-length:") + 15
            body = await self.reader.readexactly(int(lower[at : lower.index(b"\r", at)]))
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            return 0, b""
        if b"connection: close" in lower:
            self.close()
        return int(head[9:12]), body

    def close(self):
        """Hang up."""
        if self.writer is not None:
            self.writer.close()
            self.writer = None


class Source:
    """Reports of a unary campaign, with fresh ids and a few answers again and again."""

    def __init__(self, campaign, token, batch):
        self.campaign, self.batch = campaign, batch
        mechanism = campaign.build()
        rng = np.random.default_rng(1)
        length = mechanism.layout.n_bytes
        trits = rng.integers(0, 3, size=(batch, KEYS), dtype=np.uint8)
        payloads = [mechanism.layout.encode(bytes(row)) for row in trits]
        whole = [
            Envelope(campaign=campaign.tag, round=1, report_id=bytes(16), payload=payload).to_bytes()
            for payload in payloads
        ]
        size = len(whole[0])
        frames = np.zeros((batch, 4 + size), dtype=np.uint8)
        frames[:, :4] = np.frombuffer(size.to_bytes(4, "little"), dtype=np.uint8)
        frames[:, 4:] = np.frombuffer(b"".join(whole), dtype=np.uint8).reshape(batch, size)
        self.frames, self.ids = frames, slice(4 + 19, 4 + 35)
        body = batch * (4 + size)
        self.head = (
            f"POST /v1/campaigns/{campaign.id}/reports HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Bearer {token}\r\nContent-Type: application/octet-stream\r\n"
            f"Content-Length: {body}\r\n\r\n"
        ).encode()
        self.report_bytes = length + 35

    def request(self):
        """A request that was not sent before."""
        self.frames[:, self.ids] = np.frombuffer(os.urandom(16 * self.batch), dtype=np.uint8).reshape(-1, 16)
        return self.head + self.frames.tobytes()


NO_OP = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


async def load(port, make, clients, seconds, *, pause=0.0, backoff=0.0):
    """Closed loops; (answers with 200, refusals, latencies in seconds, elapsed).

    `backoff` is what refused senders wait: Retry-After, give or take a half.
    """
    done, refused, latencies = 0, 0, []
    ends = time.perf_counter() + seconds

    async def loop(client):
        nonlocal done, refused
        while (now := time.perf_counter()) < ends:
            status, _ = await client.ask(make())
            if status == 200:
                done += 1
                latencies.append(time.perf_counter() - now)
            else:
                refused += 1
                await asyncio.sleep(backoff * (0.5 + np.random.random()) if backoff else 0)  # noqa: NPY002
            if pause:
                await asyncio.sleep(pause)

    connections = [Client(port) for _ in range(clients)]
    started = time.perf_counter()
    await asyncio.gather(*(loop(client) for client in connections))
    elapsed = time.perf_counter() - started
    for client in connections:
        client.close()
    return done, refused, np.array(latencies), elapsed


def cpu(pid):
    """Seconds that a process has run, of all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def singles(server, run, single, senders, seconds):
    """Reports that come alone, beside requests that do nothing."""
    # Made beforehand: the sender's work would be taken for the collector's.
    prepared = [single.request() for _ in range(int(90_000 * seconds))]
    rounds, costs = [], []
    # No-op and reports take turns, so that both meet the same neighbours.
    for _ in range(3):
        start = cpu(server.child.pid)
        quiet = run(lambda: NO_OP, senders, seconds / 3)
        middle = cpu(server.child.pid)
        durable = run(prepared.pop, senders, seconds / 3)
        end = cpu(server.child.pid)
        rounds.append((quiet[0] / quiet[3], durable[0] / durable[3]))
        costs.append(((middle - start) / quiet[0], (end - middle) / durable[0]))
    no_op, one = (float(np.median(column)) for column in zip(*rounds, strict=True))
    return {
        "no_op_per_s": round(no_op),
        "single_per_s": round(one),
        "no_op_cpu_us": round(1e6 * float(np.median([cost for cost, _ in costs]))),
        "single_cpu_us": round(1e6 * float(np.median([cost for _, cost in costs]))),
        "single_share_of_no_op": round(float(np.median([d / q for q, d in rounds])), 3),
    }


def measure(store, seconds, overload):
    """All figures for one store."""
    found = {}
    # Room for fifty-odd batches, so that ten times as many senders as it takes are too many.
    server = Process(store, "--waiting-bytes", str(8 << 20))
    try:
        campaign = make_question(keys=tuple(f"k{i}" for i in range(KEYS)))
        token = server.create(campaign)["device_token"]
        single, batch = Source(campaign, token, 1), Source(campaign, token, 100)
        run = lambda *args, **named: uvloop.run(load(server.port, *args, **named))  # noqa: E731
        # What is loaded at the first use is there, and the sender's connections were met before.
        run(batch.request, 8, 2.0)
        run(single.request, 8, 1.0)
        for senders in SINGLES:
            found[f"singles_of_{senders}_senders"] = singles(server, run, single, senders, seconds)
        batches = run(batch.request, BATCHES, seconds)
        peak = batches[0] * 100 / batches[3]
        found |= {
            "batch_reports_per_s": round(peak),
            "batch_p99_ms_full_load": round(1000 * float(np.quantile(batches[2], 0.99)), 1),
            "report_bytes": batch.report_bytes,
        }
        # Half load: as many clients, each pausing so that half the peak is asked for.
        pause = BATCHES / (peak / 200)
        half = run(
            batch.request, BATCHES, seconds, pause=max(pause - float(np.median(batches[2])) / 4, 0.001)
        )
        found |= {
            "half_load_reports_per_s": round(half[0] * 100 / half[3]),
            "half_load_p99_ms": round(1000 * float(np.quantile(half[2], 0.99)), 1),
        }
        if overload:
            before = server.memory() / 2**20
            over = run(batch.request, MANY, overload, backoff=1.0)
            memory = server.memory() / 2**20
            # The store grows meanwhile, and a larger one is slower: the peak is taken once more.
            again = run(batch.request, BATCHES, seconds)
            later = again[0] * 100 / again[3]
            found |= {
                "overload_seconds": overload,
                "overload_goodput_per_s": round(over[0] * 100 / over[3]),
                "overload_share_of_peak": round(over[0] * 100 / over[3] / peak, 3),
                "overload_refused": over[1],
                "rss_mb_before": round(before),
                "peak_after_overload_per_s": round(later),
                "overload_share_of_mean_peak": round(2 * over[0] * 100 / over[3] / (peak + later), 3),
                "rss_mb_after": round(memory),
            }
        _, body = server.ask("GET", f"/v1/campaigns/{campaign.id}/rounds", token=server.admin)
        _, metrics = server.ask("GET", "/metrics", token=server.admin)
        accepted = int(metrics.decode().split('status="accepted"} ')[1].split()[0])
        found["stored"] = json.loads(body)["rounds"][0]["reports"]
        found["acknowledged_lost"] = accepted - found["stored"]
    finally:
        server.stop()
    return found


def on_stores(stores, measure):
    """What is measured on a fresh store of each kind, by its name; of both where none is chosen."""
    results = {}
    for store in stores or ["sqlite", "postgresql"]:
        if store == "sqlite":
            with tempfile.TemporaryDirectory() as folder:
                results[store] = measure(f"sqlite:///{folder}/c.db")
        else:
            from databases import Database, find_programs

            database = Database(find_programs())
            try:
                results[store] = measure(database.fresh())
            finally:
                database.close()
    return results


def main():
    """Print, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--overload", type=float, default=0.0)
    parser.add_argument("--store", choices=["sqlite", "postgresql"], action="append")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    results = on_stores(asked.store, lambda url: measure(url, asked.seconds, asked.overload))
    for store, found in results.items():
        print(store, json.dumps(found, indent=1))
    if asked.json:
        asked.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
