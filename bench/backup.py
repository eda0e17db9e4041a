"""A backup of a large store while reports come in: how long it takes, whom it delays, whether it is whole.

    python bench/backup.py [--gigabytes G] [--uploads PER_SECOND] [--json FILE]

One collector process with an embedded store is filled over HTTP, then sent single reports at a steady
pace; in the middle of that a backup is asked for. The copy is opened by a collector of its own: its tally
must be what its reports say, and it must know every report that was acknowledged before the backup was
asked for.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

import numpy as np
import uvloop
from collecting import make_question
from serving import Process

from collector import KEYS, Client, Source, load

# Connections that share the pace.
SENDERS = 64


async def paced(port, source, per_second, is_over, waits, known):
    """Single reports at a steady pace; the ids of those that were acknowledged, with the time."""
    at = source.ids

    async def line(place):
        client, step = Client(port), SENDERS / per_second
        due = time.perf_counter() + step * place / SENDERS
        while not is_over.is_set():
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            request = source.request()
            status, _ = await client.ask(request)
            waits.append((time.perf_counter(), time.perf_counter() - due, status))
            if status == 200:
                head = len(source.head)
                known.append((time.perf_counter(), request[head + at.start : head + at.stop]))
            # One that is late is sent at once: the pace is kept on average.
            due += step
        client.close()

    await asyncio.gather(*map(line, range(SENDERS)))


async def fetch(port, token, path):
    """Ask for a backup and write it to a file; the seconds until its first byte, and in all."""
    started = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    writer.write(f"GET /v1/backup HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    assert b" 200 " in head.partition(b"\r\n")[0], head
    first = time.perf_counter() - started
    with path.open("wb") as out:
        while size := int(await reader.readuntil(b"\r\n"), 16):
            out.write(await reader.readexactly(size))
            await reader.readexactly(2)
    writer.close()
    return first, time.perf_counter() - started


async def measure(server, source, per_second, copy):
    """The pace, with a backup in the middle."""
    is_over, waits, known = asyncio.Event(), [], []
    sending = asyncio.ensure_future(paced(server.port, source, per_second, is_over, waits, known))
    await asyncio.sleep(10.0)
    asked = time.perf_counter()
    first, took = await fetch(server.port, server.admin, copy)
    done = time.perf_counter()
    is_over.set()
    await sending
    spans = {"before": (0.0, asked), "during": (asked, done)}
    found = {"first_byte_s": round(first, 1), "seconds": round(took, 1)}
    for name, (low, high) in spans.items():
        here = [(wait, status) for at, wait, status in waits if low <= at < high]
        length = min(10.0, high - low) if name == "before" else high - low
        found[f"uploads_per_s_{name}"] = round(sum(status == 200 for _, status in here) / length)
        found[f"p99_ms_{name}"] = round(1000 * float(np.quantile([wait for wait, _ in here], 0.99)), 1)
        found[f"refused_{name}"] = sum(status != 200 for _, status in here)
    return found, [name for at, name in known if at < asked]


def examine(copy, server, campaign, token, known, source):
    """Open the copy as a collector would: recount it, and send it again what it must know."""
    restored = Process(f"sqlite:///{copy}", admin=server.admin)
    try:
        path = f"/v1/campaigns/{campaign.id}"
        said = json.loads(
            restored.ask("POST", f"{path}/rounds/1/recount", token=server.admin, timeout=600)[1]
        )
        missing = 0
        for start in range(0, len(known), 500):
            names = known[start : start + 500]
            frames = np.repeat(source.frames, len(names), axis=0)
            frames[:, source.ids] = np.frombuffer(b"".join(names), dtype=np.uint8).reshape(-1, 16)
            answer = restored.ask("POST", f"{path}/reports", frames.tobytes(), token=token)[1]
            missing += sum(status != "duplicate" for status in json.loads(answer)["reports"])
        return {
            "copy_reports": said["tally_reports"],
            "recount_agrees": said["agrees"],
            "acknowledged_before": len(known),
            "missing": missing,
        }
    finally:
        restored.stop()


def main():
    """Fill, measure, examine, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--uploads", type=int, default=1000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store, copy = Path(folder) / "c.db", Path(folder) / "copy.db"
        server = Process(f"sqlite:///{store}", env={"TMPDIR": folder})
        try:
            campaign = make_question(keys=tuple(f"k{i}" for i in range(KEYS)))
            token = server.create(campaign)["device_token"]
            single, batch = Source(campaign, token, 1), Source(campaign, token, 100)
            while store.stat().st_size < options.gigabytes * (1 << 30):
                uvloop.run(load(server.port, batch.request, 16, 2.0))
                print(f"\rfilled {store.stat().st_size / (1 << 30):.2f} GB", end="", flush=True)
            print()
            found, known = uvloop.run(measure(server, single, options.uploads, copy))
        finally:
            server.stop()
        found = {
            "store_gb": round(store.stat().st_size / (1 << 30), 2),
            "copy_gb": round(copy.stat().st_size / (1 << 30), 2),
            **found,
            **examine(copy, server, campaign, token, known, single),
        }
    for name, value in found.items():
        print(f"{name:24} {value}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
