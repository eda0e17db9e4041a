"""How long a device takes to seal a report for a relay, and a collector to open one.

    python bench/sealing.py              prints a table and rewrites bench/results/sealing.json

At the lengths of reports to 100 keys by `bucket` and to 100 and 5,850 keys by `pckv-ue`. What a device does
beside sealing, its ledger's transactions and the framing, is in the upload of a whole queue to a relay that
answers at once. The median of nine blocks, one core. Microseconds belong to one machine.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
import time
from pathlib import Path
from typing import Any

from client import campaign, held, median_microseconds
from keyveil import Campaign
from keyveil.cli.spool import ENDLESS, Spool
from keyveil.client import Reporter
from keyveil.client.answer import HttpAnswer
from keyveil.report import read_frames
from keyveil.sealing import OpeningKey, SealingKey

RESULTS = Path(__file__).resolve().parent / "results" / "sealing.json"
SIZES = (("bucket", 100), ("pckv-ue", 100), ("pckv-ue", 5_850))
SEAL_GOAL_US, OPEN_GOAL = 150, 15_000
QUEUED = 5_000


def sealing(asked: Campaign) -> dict[str, Any]:
    """One length: microseconds to seal, and reports opened a second."""
    report, key = Reporter(asked).report(held(asked)), OpeningKey.fresh()
    seal = SealingKey(key.public).seal
    to_seal = median_microseconds(lambda: seal(report, campaign=asked.id, round=1), 300)
    bodies = [seal(report, campaign=asked.id, round=1)[11:] for _ in range(1000)]
    to_open = median_microseconds(lambda: key.open_each(bodies, campaign=asked.id, round=1), 1) / len(bodies)
    return {
        "bytes": len(report),
        "seal_us": round(to_seal, 1),
        "within_goal": to_seal <= SEAL_GOAL_US,
        "opened_a_second": round(1e6 / to_open),
        "opening_within_goal": 1e6 / to_open >= OPEN_GOAL,
    }


def uploading(asked: Campaign) -> dict[str, float]:
    """Microseconds a report of a queue that is sealed and uploaded."""
    key, one = OpeningKey.fresh().public.hex(), Reporter(asked)

    def exchange(url: str, body: bytes | None, timeout: float, largest: int) -> HttpAnswer:
        assert body is not None
        statuses = ["accepted" for _ in read_frames(body)]
        return HttpAnswer(status=200, body=json.dumps({"reports": statuses}).encode())

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spool"
        spool = Spool(path, asked.id, 1)
        device = Reporter(
            asked,
            ledger=path,
            relay="https://relay.example",
            sealing_key=key,
            exchange=exchange,
            limits=ENDLESS,
        )
        assert device.enable()
        spool.put((f"user {number}", one.report({})) for number in range(QUEUED))
        started = time.perf_counter()
        assert device.upload(600)
        return {"upload_us": round(1e6 * (time.perf_counter() - started) / QUEUED, 1)}


def main() -> None:
    """All lengths."""
    cells = []
    print(f"{'method':10} {'keys':>6} {'bytes':>6} {'seal us':>8} {'opened/s':>9} {'upload us':>10}")
    for method, n_keys in SIZES:
        asked = campaign(method, n_keys)
        asked = Campaign.from_said(
            json.loads(asked.canonical_json) | {"relay": "required", "batch": 1000}, is_described=True
        )
        cell = {"method": method, "keys": n_keys, **sealing(asked), **uploading(asked)}
        cells.append(cell)
        shown = (cell[name] for name in ("bytes", "seal_us", "opened_a_second", "upload_us"))
        print("{:10} {:6} {:6} {:8} {:9} {:10}".format(method, n_keys, *shown), flush=True)
    busy = round(os.getloadavg()[0], 1)
    machine = {"python": platform.python_version(), "cores": os.cpu_count(), "load": busy}
    goals = {"seal_us": SEAL_GOAL_US, "opened_a_second": OPEN_GOAL}
    RESULTS.write_text(json.dumps({"machine": machine, "goals": goals, "cells": cells}, indent=1) + "\n")


if __name__ == "__main__":
    main()
