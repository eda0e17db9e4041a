"""Whether a campaign of 10^8 reports is as fast as one of 10^6: durable reports a second, and memory.

    python bench/ids.py [--stores sqlite,postgresql] [--sizes 1e6,1e8] [--seconds S] [--folder F] [--json
    FILE]

Ids are written as runs, as flushes would have left them: 10^8 of them take minutes and 2.2 GB (PostgreSQL 3
GB and its log). Then the same batches go through `commit_group`, in groups of 16 uploads of 512 reports, and
over HTTP from 16 senders. What it cannot show: a machine whose memory holds less than the runs, where a new
id reads a page from the disk about once in thirty times.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

import numpy as np
import uvloop
from collecting import make_question
from databases import Database, find_programs
from serving import Process

import collector
from keyveil.cli.console import progress
from keyveil.collector.campaigns.cache import CampaignCache
from keyveil.collector.store import open_store
from keyveil.collector.store.run_tables import id_hash, write_run
from keyveil.collector.store.runs import N_SLICES, draft
from keyveil.collector.writing.commit import commit_group
from keyveil.collector.writing.upload import Upload, UploadPart
from keyveil.report import Envelope

KEYS, BATCH, UPLOADS = 16, 512, 16
# What a slice's flushes make of its ids: runs of these sizes, the largest first.
SIZES = (1 << 18, 1 << 15, 1 << 12)


def question():
    """A small campaign: what is measured is ids."""
    return make_question("pckv-ue", keys=tuple(f"k{i}" for i in range(KEYS)))


# --- in processes of their own: what one has used, another does not have ---


def preload(url, count):
    """Write random ids into the first campaign's runs, slice by slice."""
    store, rng = open_store(url), np.random.default_rng()
    left = np.full(N_SLICES, int(count) // N_SLICES)
    made, waiting = np.zeros(N_SLICES, dtype=int), [[] for _ in range(N_SLICES)]
    with progress(f"{int(count):,} ids", int(left.sum())) as advance:
        while left.any():
            with store.write() as tx:
                hash_ = id_hash(tx)
                ids = rng.integers(0, 256, (1 << 20, 16), dtype=np.uint8)
                slices = hash_(ids).slices
                order = np.argsort(slices, kind="stable")
                ends = np.searchsorted(slices[order], np.arange(N_SLICES + 1))
                for at in range(N_SLICES):
                    waiting[at].append(ids[order[ends[at] : ends[at + 1]]])
                    size = next((size for size in SIZES if size <= left[at]), int(left[at]))
                    while size and sum(map(len, waiting[at])) >= size:
                        have = np.concatenate(waiting[at])
                        part, waiting[at] = have[:size], [have[size:]]
                        made[at] += 64 if size == SIZES[0] else 1
                        write_run(tx, 1, at, 1, int(made[at]), draft(part, hash_(part)))
                        left[at] -= size
                        advance(size)
                        size = next((size for size in SIZES if size <= left[at]), int(left[at]))
    store.close()
    print("{}")


def commit(url, seconds):
    """Reports a second through `commit_group`, and this process's memory."""
    store, cache, campaign = open_store(url), CampaignCache(), question()
    payload = bytes(campaign.build().layout.n_bytes)
    report = Envelope(campaign=campaign.tag, round=1, report_id=bytes(16), payload=payload).to_bytes()
    rows = np.tile(np.frombuffer(report, dtype=np.uint8), (BATCH * UPLOADS, 1))
    length = len(report)

    def group():
        rows[:, 19:35] = np.frombuffer(os.urandom(16 * len(rows)), dtype=np.uint8).reshape(-1, 16)
        return [
            Upload(
                campaign=campaign.id,
                token=None,
                n_reports=BATCH,
                parts=[UploadPart(1, length, part.tobytes(), range(BATCH))],
                size=part.nbytes,
            )
            for part in np.split(rows, UPLOADS)
        ]

    def write():
        uploads = group()
        grown = commit_group(store, cache, uploads, time.time())
        store.after_group()
        return sum(each.accepted for each in grown)

    # Until the memtable is full and its slices move.
    for _ in range((1 << 18) // len(rows) + 8):
        assert write() == len(rows)
    started, done, slowest, worked = time.perf_counter(), 0, 0.0, time.process_time()
    while (now := time.perf_counter()) < started + seconds:
        done += write()
        slowest = max(slowest, time.perf_counter() - now)
    elapsed, worked = time.perf_counter() - started, time.process_time() - worked
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    memory = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    store.close()
    found = {
        "reports_per_second": done / elapsed,
        "cpu_us_per_report": 1e6 * worked / done,
        "slowest_group": slowest,
        "rss_mb": memory,
    }
    print(json.dumps(found))


# --- the whole ---


def alone(name, *args):
    """Run a part of this script in a process of its own."""
    said = subprocess.run(
        [sys.executable, __file__, name, *map(str, args)], stdout=subprocess.PIPE, check=True
    ).stdout
    return json.loads(said)


def over_http(url, admin, token, seconds):
    """Reports a second over HTTP, and the collector's memory."""
    collector.KEYS = KEYS
    server, source = Process(url, admin=admin), collector.Source(question(), token, BATCH)
    uvloop.run(collector.load(server.port, source.request, UPLOADS, seconds / 2))
    done, refused, waits, elapsed = uvloop.run(collector.load(server.port, source.request, UPLOADS, seconds))
    found = {
        "reports_per_second": done * BATCH / elapsed,
        "refused": refused,
        "p99_ms": 1000 * float(np.quantile(waits, 0.99)),
        "rss_mb": server.memory() / 1e6,
    }
    server.stop(timeout=120)
    return found


def measure(url, count, seconds):
    """One store with so many ids."""
    server = Process(url)
    token = server.create(question())["device_token"]
    admin = server.admin
    server.stop(timeout=120)
    started = time.perf_counter()
    alone("preload", url, count)
    loaded = time.perf_counter() - started
    committed = alone("commit", url, seconds)
    return {
        "ids": count,
        "preload_seconds": loaded,
        "commit": committed,
        "http": over_http(url, admin, token, seconds),
    }


def main():
    """Every store and size, and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--stores", default="sqlite,postgresql")
    parser.add_argument("--sizes", default="1e6,1e8")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--folder", type=Path, help="where the stores are made, and removed again")
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results" / "ids.json")
    options = parser.parse_args()
    sizes, found = [int(float(size)) for size in options.sizes.split(",")], {}
    for kind in options.stores.split(","):
        found[kind] = []
        for count in sizes:
            with tempfile.TemporaryDirectory(dir=options.folder) as folder:
                # A campaign of PostgreSQL is measured up to half of that.
                size = min(count, 50_000_000) if kind == "postgresql" else count
                if kind == "sqlite":
                    row = measure(f"sqlite:///{folder}/c.db", size, options.seconds)
                else:
                    database = Database(find_programs(), options.folder)
                    try:
                        row = measure(database.fresh(), size, options.seconds)
                    finally:
                        database.close()
            found[kind].append(row)
            print(kind, json.dumps(row))
        for way in ("commit", "http"):
            first, last = (found[kind][at][way]["reports_per_second"] for at in (0, -1))
            print(f"{kind}, {way}: {last / first:.2f} of the rate at {sizes[0]:,}")
    options.json.write_text(json.dumps({"cores": os.cpu_count(), **found}, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["preload"]:
        preload(sys.argv[2], float(sys.argv[3]))
    elif sys.argv[1:2] == ["commit"]:
        commit(sys.argv[2], float(sys.argv[3]))
    else:
        main()
