"""One epsilon towards the collector, without a relay and with one: devices, relay and collector over HTTP.

    python bench/relayed_path.py [--data FOLDER] [--runs 5] [--users N]

rent_the_runway (105,508 users, 5,850 keys) at central epsilon 1 and delta 1e-8, by what part is honest.
Through the relay: `keyveil send --relay` noises and seals each record as a device does, `keyveil relay`
forwards, the collector opens, counts and releases; each round's local epsilon is the largest that its batch
allows. Beside it `auto` at local epsilon 1, simulated by the exact law of its tallies. A gain is the local
figure over the relayed one.

What it cannot show: devices that come over days, and a relay that somebody else runs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

import numpy as np
import pyarrow.parquet as pq
from serving import Process

from keyveil.campaign import Campaign
from keyveil.protocols import build_protocol
from keyveil.simulate import Population, Truth, insecure_generator, play
from keyveil.simulate.pairs import read_pairs

RESULTS = Path(__file__).parent / "results" / "relayed_path.json"
KEYVEIL = Path(sys.executable).with_name("keyveil")
SET, TOP, SEED = "rent_the_runway", 50, 23
CENTRAL, DELTA, LOCAL = 1.0, 1e-8, 1.0
# What is compared with is noisy itself, and soon simulated.
LOCAL_RUNS = 25
# A round is noised for the largest epsilon that its batch allows, and for no more than this.
LARGEST_LOCAL = 8.0
LOW, HIGH = 2.0, 10.0
# What must be shown: a gain is at least so large.
GOALS = {"frequency_mse_raw": 500, "frequency_mse_top": 40, "width_top": 10, "mean_mse_top": 3}


def main() -> None:
    """Run both, print, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--users", type=int, help="Only the first so many people.")
    parser.add_argument("--honest", default="0.5,1", help="Shares of a batch that are taken to be honest.")
    asked = parser.parse_args()
    if asked.data is None or not (asked.data / f"{SET}.parquet").is_file():
        print("skipped: it needs rent_the_runway.parquet; pass --data FOLDER")
        return
    with tempfile.TemporaryDirectory(prefix="keyveil-path-") as folder:
        pairs = _pairs(asked.data, asked.users, Path(folder))
        people = read_pairs(pairs)
        truth = Truth.of(people)
        local = [_local(people, truth, run) for run in range(LOCAL_RUNS)]
        print("local", json.dumps(_means(local)), flush=True)
        relayed = {
            honest: _means(list(_relayed(people, truth, pairs, asked.runs, float(honest), Path(folder))))
            for honest in asked.honest.split(",")
        }
    beside = _means(local)
    found: dict[str, Any] = {
        "users": people.n_users,
        "runs": asked.runs,
        "local_runs": LOCAL_RUNS,
        "central_epsilon": CENTRAL,
        "delta": DELTA,
        "goals": GOALS,
        "local": beside,
        "relayed": {
            honest: {
                **figures,
                "gains": {name: round(beside[name] / figures[name], 2) for name in GOALS},
            }
            for honest, figures in relayed.items()
        },
    }
    print(json.dumps(found, indent=1))
    if asked.users is None:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")


def _pairs(data: Path, users: int | None, folder: Path) -> Path:
    """The set, or the pairs of its first users."""
    path = data / f"{SET}.parquet"
    if users is None:
        return path
    table = pq.read_table(path)
    few = folder / "few.parquet"
    pq.write_table(table.filter(table["user"].to_numpy() < users), few)
    return few


def _means(runs: list[dict[str, float]]) -> dict[str, float]:
    """Of each figure, with its standard error."""
    made = {}
    for name in runs[0]:
        values = np.array([run[name] for run in runs if name in run])
        made[name] = float(f"{values.mean():.5g}")
        made[f"{name}_se"] = (
            float(f"{values.std(ddof=1) / np.sqrt(values.size):.2g}") if values.size > 1 else 0.0
        )
    return made


def _figures(truth: Truth, rows: dict[str, np.ndarray]) -> dict[str, float]:
    """The errors of what is raw and of what is published; means on [-1, 1]."""
    best = np.argsort(-truth.frequency, kind="stable")[:TOP]
    held = best[np.isfinite(truth.mean[best])]
    mean = np.nan_to_num(rows["mean"], nan=0.0)
    within = (rows["low"] <= truth.frequency) & (truth.frequency <= rows["high"])
    return {
        "frequency_mse_raw": float(np.mean((rows["raw"] - truth.frequency) ** 2)),
        "frequency_mse_top": float(np.mean((rows["top"] - truth.frequency)[best] ** 2)),
        "width_top": float(np.mean((rows["high"] - rows["low"])[best])),
        "mean_mse_top": float(np.mean((mean - truth.mean)[held] ** 2)),
        "coverage_top": float(np.mean(within[best])),
    }


def _local(people: Population, truth: Truth, run: int) -> dict[str, float]:
    """`auto` at the same epsilon by local noise alone."""
    most = max(1, int(np.quantile(people.sizes, 0.9)))
    protocol = build_protocol("auto", LOCAL, n_keys=people.n_keys, pairs_per_user=most, users=people.n_users)
    outcome = play(protocol, people, insecure_generator(SEED, run))
    low, high = outcome.raw.frequency_interval()
    return _figures(
        truth,
        {
            "raw": outcome.raw.frequency,
            # What a table of the top keys shows.
            "top": outcome.published.frequency_top,
            "mean": outcome.published.mean,
            "low": low,
            "high": high,
        },
    )


# --- through the relay ---


def _relayed(
    people: Population, truth: Truth, pairs: Path, runs: int, honest: float, folder: Path
) -> Iterator[dict[str, float]]:
    """A campaign for each run, over HTTP from everybody's record to the release."""
    collector = Process(f"sqlite:///{folder}/{honest:g}-c.db")
    _, said = collector.ask("POST", "/v1/tokens", {"role": "relay"}, token=collector.admin)
    options = ("--to", collector.url, "--token", json.loads(said)["token"], "--refresh", "0.2")
    relay = Process(f"sqlite:///{folder}/{honest:g}-r.db", *options, command="relay")
    try:
        for run in range(runs):
            campaign = _campaign(people, f"through a relay, run {run}", honest)
            collector.create(campaign)
            started = time.perf_counter()
            while (number := _open_round(collector, relay, campaign)) is not None:
                _answer(collector, relay, campaign, pairs, folder / f"{honest:g}-{run}.spool")
                _finish(collector, relay, campaign, number)
            figures = _read_release(collector, campaign, people, truth)
            figures["seconds"] = time.perf_counter() - started
            print(f"run {run}", json.dumps(figures), flush=True)
            yield figures
    finally:
        relay.stop(60)
        collector.stop()


def _campaign(people: Population, name: str, honest: float) -> Campaign:
    """`auto` in batches of nearly all of the people: 100,000 of 105,508."""
    batch = people.n_users * 100_000 // 105_508
    asked = {
        "keys": tuple(map(str, people.names)),
        "value_range": (LOW, HIGH),
        "pairs_per_user": max(1, int(np.quantile(people.sizes, 0.9))),
        "mechanism": "auto",
        "users": people.n_users,
        "owner": "bench/relayed_path.py",
        "purpose": "to see what a relay saves",
        "expires": "2099-01-01",
        "relay": "required",
        "batch": batch,
        "central_epsilon": CENTRAL,
        "delta": DELTA,
        "honest": honest,
    }
    return Campaign(name=name, epsilon=LARGEST_LOCAL, **asked)


def _open_round(
    collector: Process, relay: Process, campaign: Campaign, patience: float = 120.0
) -> int | None:
    """The number of the open round, once the relay knows of it; None where the campaign is over."""
    path, ends = f"/v1/campaigns/{campaign.id}", time.monotonic() + patience
    while time.monotonic() < ends:
        said, mirrored = (json.loads(each.ask("GET", path)[1]) for each in (collector, relay))
        if said["round"] is not None and said["round"] == mirrored["round"]:
            return int(said["round"]["number"])
        if said["round"] is None and said["state"] != "open":
            return None
        time.sleep(0.1)
    raise SystemExit("the campaign did not go on")


def _answer(collector: Process, relay: Process, campaign: Campaign, pairs: Path, spool: Path) -> None:
    """Everybody's device answers, if the round is for it."""
    _, said = collector.ask("GET", "/v1/keys")
    key = json.loads(said)["keys"][0]["public"]
    subprocess.run(
        [
            KEYVEIL,
            "send",
            f"{relay.url}/v1/campaigns/{campaign.id}",
            pairs,
            "--relay",
            relay.url,
            "--sealing-key",
            key,
            "--spool",
            spool,
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )


def _finish(collector: Process, relay: Process, campaign: Campaign, number: int) -> None:
    """The round ends at the relay, its last batch arrives, and it is closed at the collector."""
    path = f"/v1/campaigns/{campaign.id}/rounds"
    status, said = relay.ask("POST", f"{path}/{number}/end", token=relay.admin)
    assert status == 200, said
    [carried] = [one for one in json.loads(said)["rounds"] if one["round"] == number]
    assert not carried["discarded"], carried
    while True:
        [round] = [
            one
            for one in json.loads(collector.ask("GET", path, token=collector.admin)[1])["rounds"]
            if one["number"] == number
        ]
        if round["reports"] >= sum(carried["batches"]):
            break
        time.sleep(0.1)
    status, said = collector.ask("POST", f"{path}/{number}/close", token=collector.admin, timeout=300)
    assert status == 200, said


def _read_release(
    collector: Process, campaign: Campaign, people: Population, truth: Truth
) -> dict[str, float]:
    """The errors of the release, and what it says of the central epsilon."""
    path = f"/v1/campaigns/{campaign.id}/release?post=published"
    status, said = collector.ask("GET", path, token=collector.admin, timeout=300)
    assert status == 200, said
    release = json.loads(said)
    by_key = {row["key"]: row for row in release["rows"]}
    rows = [by_key[str(name)] for name in people.names]

    def column(name: str) -> np.ndarray[Any, Any]:
        return np.array([np.nan if row[name] is None else row[name] for row in rows], dtype=float)

    figures = _figures(
        truth,
        {
            "raw": column("frequency_raw"),
            "top": column("frequency_top"),
            "mean": (column("mean") - LOW) / (HIGH - LOW) * 2 - 1,
            "low": column("frequency_low"),
            "high": column("frequency_high"),
        },
    )
    central = release["metadata"]["central"]
    assert central["epsilon"] is not None, central["words"]
    assert central["epsilon"] <= CENTRAL, central
    return figures | {"central": central["epsilon"]}


if __name__ == "__main__":
    main()
