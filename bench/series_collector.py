"""A year of weekly waves on one collector: what it takes to store them, to list them, to release them.

    python bench/series_collector.py [--waves N] [--users N] [--keys N] [--json FILE]

Every wave is answered by so many people (`kvue`, one pair each, popularity by Zipf's law, a step in one key
half way), whose reports the batch engine makes; a collector takes them, 10,000 an upload, by its own intake,
under a clock that goes from wave to wave. Then `keyveil serve` opens the store anew, at a time after the last
wave, and is asked over HTTP: everything is asked twice, because the first answer fills caches.

What this cannot show: a year of real time, and devices. Seconds belong to one machine and to its other work.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

import numpy as np
from collecting import NOW, Caller, make_series
from serving import Process

from keyveil.batch import InsecureSeededStream, Records
from keyveil.batch.perturb import perturb_many

WEEK, UPLOAD = 7 * 86400.0, 10_000


def people(rng, users, keys, shift):
    """Who holds what, and how much: one pair each."""
    popularity = 1 / np.arange(1, keys + 1)
    popularity[4] *= 1 + shift
    codes = rng.choice(keys, size=users, p=popularity / popularity.sum())
    return Records(offsets=np.arange(users + 1), codes=codes, values=rng.uniform(-1, 1, users))


def fill(url, options):
    """A collector that sees all waves: its admin token, the series, the seconds of taking and of closing."""
    now, rng, stream = [NOW], np.random.default_rng(24), InsecureSeededStream(24)
    caller = Caller(url, clock=lambda: now[0])
    names = tuple(f"app-{no}" for no in range(options.keys))
    series = make_series(
        "kvue", waves=options.waves, keys=names, pairs_per_user=1, epsilon=2.0, unit="minutes"
    )
    body = {"campaign": json.loads(series.canonical_json)}
    token = caller("POST", "/v1/series", token=caller.admin, json_body=body).json["device_token"]
    taking = 0.0
    for number in range(1, options.waves + 1):
        now[0] = NOW + (number - 1) * WEEK + 1
        caller.collector.calendar.tick()
        caller.collector.running.tick()
        wave = series.wave(number)
        asked = wave.only_round()
        held = people(rng, options.users, options.keys, 1.0 if 2 * number > options.waves else 0.0)
        reports = perturb_many(
            asked.mechanism, held, tag=asked.tag, stream=stream, is_dithered=asked.is_dithered
        )
        for first in range(0, options.users, UPLOAD):
            some = [row.tobytes() for row in reports[first : first + UPLOAD]]
            started = time.perf_counter()
            statuses = caller.send(wave, some, token=token)
            taking += time.perf_counter() - started
            assert statuses == ["accepted"] * len(some)
        print(f"\rwave {number} of {options.waves}", end="", flush=True)
    print()
    now[0] = NOW + options.waves * WEEK + 2 * 86400.0
    started = time.perf_counter()
    caller.collector.running.tick()
    closing = time.perf_counter() - started
    admin = caller.admin
    caller.close()
    return admin, series, taking, closing


def ask(server, path):
    """Seconds of the first answer and of the second, and its bytes."""
    seconds = []
    for _ in range(2):
        started = time.perf_counter()
        status, said = server.ask("GET", path, token=server.admin)
        seconds.append(round(time.perf_counter() - started, 3))
        assert status == 200, said
    return *seconds, said


def resident(pid):
    """Megabytes of memory that a process has now, and had at most."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    said = dict(line.split(":", 1) for line in lines)
    return tuple(round(int(said[name].split()[0]) / 1024) for name in ("VmRSS", "VmHWM"))


def main():
    """Fill, ask, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--waves", type=int, default=52)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--keys", type=int, default=50)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "c.db"
        admin, series, taking, closing = fill(f"sqlite:///{store}", options)
        after = NOW + options.waves * WEEK + 3 * 86400.0
        clock = f"import time; time.time = time.clock_gettime = lambda *_: {after}\n"
        server = Process(f"sqlite:///{store}", admin=admin, before=clock)
        try:
            before, _ = resident(server.child.pid)
            path = f"/v1/series/{series.id}"
            found = {
                "waves": options.waves,
                "reports_a_wave": options.users,
                "keys": options.keys,
                "store_mb": round(store.stat().st_size / (1 << 20)),
                "reports_per_s_taken": round(options.waves * options.users / taking),
                "closing_the_last_wave_s": round(closing, 3),
                "resident_mb_at_start": before,
            }
            for name, asked in (
                ("series_list", "/v1/series"),
                ("series_view", path),
                ("waves", f"{path}/waves"),
                ("campaign_list", "/v1/campaigns"),
                ("release_json", f"{path}/release"),
                ("release_csv", f"{path}/release?format=csv"),
                ("release_parquet", f"{path}/release?format=parquet"),
            ):
                first, second, said = ask(server, asked)
                found |= {f"{name}_s": first, f"{name}_again_s": second, f"{name}_kb": len(said) >> 10}
                if name == "release_json":
                    metadata = json.loads(said)["metadata"]
                    found["steps"] = [[step["key"], step["after"]] for step in metadata["steps"]]
            found["resident_mb"], found["resident_mb_most"] = resident(server.child.pid)
        finally:
            server.kill()
    for name, value in found.items():
        print(f"{name:28} {value}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
