"""How long one report takes on a device, in Python and in JavaScript, at two sizes of a domain.

    python bench/client.py               prints a table and rewrites bench/results/client.json

A report is drawn from the operating system's randomness, noised and encoded, envelope included; the
record is encoded before. The peer of the unary methods is the loop over keys that slicing replaced,
written out below: the ratio is what slicing gains. Medians of nine blocks. Microseconds belong to one
machine; trust the ratios. JavaScript needs Node, and is left out where there is none.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keyveil import Campaign
from keyveil.domain import Record, round_to_sign, sample_pair
from keyveil.mechanisms import Mechanism, SignedUnary
from keyveil.numerics import system_entropy
from keyveil.report import MINUS, PLUS
from keyveil.rounds import make_report

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results" / "client.json"
METHODS = ("pckv-ue", "ks-ue", "oue", "ue-sw", "pckv-grr", "kvue", "privkv", "bucket", "grr", "olh")
SIZES = (100, 5_850)
PAIRS = 5
# Microseconds that one report may take in Python; JavaScript may take twice as long.
GOALS = {("pckv-ue", 100): 150, ("pckv-ue", 5_850): 800, ("pckv-grr", 100): 50, ("pckv-grr", 5_850): 50}


def campaign(method: str, n_keys: int) -> Campaign:
    """A question about so many keys."""
    keys = tuple(f"key {code}" for code in range(n_keys))
    return Campaign(
        name="bench", epsilon=1, keys=keys, value_range=(0, 1), pairs_per_user=PAIRS, mechanism=method
    )


def held(asked: Campaign) -> dict[str, float]:
    """As many pairs as the padding length."""
    return dict.fromkeys(asked.keys[:PAIRS], 0.3)


def median_microseconds(work: Callable[[], object], runs: int) -> float:
    """The median over nine blocks of the time that one run takes."""
    blocks = []
    for _ in range(9):
        started = time.perf_counter()
        for _ in range(runs):
            work()
        blocks.append(1e6 * (time.perf_counter() - started) / runs)
    return statistics.median(blocks)


def device(mechanism: Mechanism, record: Record, tag: bytes) -> Callable[[], bytes]:
    """All that a device does for a record."""

    def work() -> bytes:
        words = system_entropy(mechanism.n_words)
        return make_report(mechanism, record, words, tag=tag, round=1, report_id=os.urandom(16))

    return work


def loop(mechanism: SignedUnary, record: Record) -> Callable[[], bytes]:
    """A unary report key by key."""
    channel = mechanism.channel

    def work() -> bytes:
        slot, rounding, *positions = system_entropy(mechanism.n_words)
        fake, fakes = channel.fake, 2 * channel.fake
        answer = bytearray(PLUS if w < fake else MINUS if w < fakes else 0 for w in positions)
        sampled = sample_pair(record, mechanism.pairs_per_user, slot)
        if sampled.code >= 0:
            sign = round_to_sign(sampled.level, rounding)
            answer[sampled.code] = channel.hear_own(sign, positions[sampled.code])
        return mechanism.layout.encode(bytes(answer))

    return work


def javascript(asked: list[tuple[str, Campaign, int]]) -> dict[tuple[str, int], float]:
    """The same reports by sdk/js in Node; nothing where there is no Node."""
    node = shutil.which("node")
    if node is None:
        return {}
    jobs = [
        {"name": name, "description": c.device_config(), "held": held(c), "runs": n} for name, c, n in asked
    ]
    run = subprocess.run(
        [node, str(ROOT / "sdk" / "js" / "bench.js")],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        check=True,
    )
    return {(one["name"], one["keys"]): one["microseconds"] for one in json.loads(run.stdout)}


def main() -> None:
    """All cells."""
    asked = [
        (method, campaign(method, n_keys), 40 if n_keys > 1_000 else 200)
        for method in METHODS
        for n_keys in SIZES
    ]
    in_node = javascript(asked)
    cells: list[dict[str, Any]] = []
    print(f"{'method':10} {'keys':>6} {'python us':>10} {'loop/slices':>12} {'node us':>9} {'goal us':>10}")
    for method, question, runs in asked:
        mechanism, n_keys = question.build(), question.domain.n_keys
        record = question.domain.encode(held(question))
        python = median_microseconds(device(mechanism, record, question.tag), runs)
        cell: dict[str, Any] = {"method": method, "keys": n_keys, "python_us": round(python, 1)}
        if isinstance(mechanism, SignedUnary):
            cell["loop_over_slices"] = round(median_microseconds(loop(mechanism, record), runs) / python, 2)
        if (method, n_keys) in in_node:
            cell["node_us"] = round(in_node[method, n_keys], 1)
        if (method, n_keys) in GOALS:
            cell["python_goal_us"] = GOALS[method, n_keys]
            cell["within_goal"] = python < GOALS[method, n_keys]
            cell["node_within_twice"] = cell.get("node_us", 0) < 2 * GOALS[method, n_keys]
        cells.append(cell)
        shown = (cell.get(name, "") for name in ("loop_over_slices", "node_us", "python_goal_us"))
        print("{:10} {:6} {:10.1f} {:>12} {:>9} {:>10}".format(method, n_keys, python, *shown), flush=True)
    busy = round(os.getloadavg()[0], 1)
    machine = {"python": platform.python_version(), "cores": os.cpu_count(), "load": busy}
    RESULTS.write_text(
        json.dumps({"machine": machine, "pairs_per_user": PAIRS, "cells": cells}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
