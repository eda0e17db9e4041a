"""How long simulation takes, per mechanism and epsilon, beside the simulation report by report.

    python bench/speed.py [--data FOLDER]      prints a table and rewrites bench/results/speed.json

FOLDER holds the real data sets as Parquet files; those that are missing are listed as skipped. The
peer is the slow path, one report at a time through the client's own code, on the same population:
the ratio is what drawing tallies from their exact law gains. Seconds belong to one machine; trust
the ratios.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from keyveil.mechanisms import build
from keyveil.numerics import InsecureSeededEntropy
from keyveil.protocols import build_protocol
from keyveil.simulate import Population, insecure_generator, perturb_all, play, run, synthetic
from keyveil.simulate.pairs import read_pairs
from keyveil.tally import count

RESULTS = Path(__file__).parent / "results" / "speed.json"
REAL = ("womens_clothing", "rent_the_runway", "book_crossing_explicit")
MECHANISMS = ("privkv", "kvue", "pckv-ue", "pckv-grr", "ks-ue")
EPSILON, REPEATS, SLOW_USERS = 1.0, 5, 2000


def populations(folder: Path | None) -> tuple[dict[str, Population], list[str]]:
    """Synthetic and real populations, and the names of those that are not there."""
    found = {"synthetic n=1e6 d=100": synthetic(users=10**6, keys=100, seed=1)}
    skipped = []
    for name in REAL:
        path = (folder or Path()) / f"{name}.parquet"
        if folder is not None and path.is_file():
            found[name] = read_pairs(path)
        else:
            skipped.append(name)
    return found, skipped


def slow_seconds_per_user(name: str, population: Population) -> float:
    """Seconds a user of the slow path, measured on the first few users."""
    users = SLOW_USERS if population.n_keys < 20_000 else SLOW_USERS // 50
    few = Population(
        names=population.names,
        offsets=population.offsets[: users + 1],
        codes=population.codes,
        values=population.values,
    )
    mechanism = build(name, EPSILON, n_keys=few.n_keys, pairs_per_user=population.typical_size())
    started = time.perf_counter()
    count(mechanism, list(perturb_all(mechanism, few, InsecureSeededEntropy(1))), question="bench")
    return (time.perf_counter() - started) / users


def main() -> None:
    """All cells."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with the real data sets as Parquet")
    found, skipped = populations(parser.parse_args().data)
    cells = []
    print(f"{'population':26}{'mechanism':11}{'users':>10}{'keys':>9}  s / repeat   x slow path")
    for title, population in found.items():
        for name in MECHANISMS:
            cell = run(population, [name], [EPSILON], repeats=REPEATS)[0]
            fast = cell.seconds / REPEATS
            gain = slow_seconds_per_user(name, population) * population.n_users / fast
            cells.append(
                {
                    "population": title,
                    "mechanism": name,
                    "users": population.n_users,
                    "keys": population.n_keys,
                    "seconds_per_repeat": round(fast, 4),
                    "times_faster_than_slow_path": round(gain),
                }
            )
            print(
                f"{title:26}{name:11}{population.n_users:10}{population.n_keys:9}{fast:12.3f}{gain:14.0f}",
                flush=True,
            )
    people, protocol = (
        found["synthetic n=1e6 d=100"],
        build_protocol("privkvm", EPSILON, n_keys=100, rounds=10),
    )
    started = time.perf_counter()
    play(protocol, people, insecure_generator(1))
    ten_rounds = time.perf_counter() - started
    print(f"ten rounds of privkvm, 1e6 users, 100 keys: {ten_rounds:.2f} s")
    for name in skipped:
        print(f"skipped {name}: no {name}.parquet; pass --data FOLDER")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(
        json.dumps(
            {"cells": cells, "privkvm_ten_rounds_seconds": round(ten_rounds, 3), "skipped": skipped}, indent=1
        )
        + "\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
