"""Whether the 95 % intervals of `auto` hold where it cuts long records.

    python bench/long_records.py [--data FOLDER] [--repeats 10] [--only NAME,...]

For every population and epsilon: how many of the intervals hold the share of users who hold the key, over
the top 50 keys and over all. `whole` are the intervals of a release, which go through the size model and
allow for what it misses; `cut` are what noise alone would give, about the records as they were cut. `mean`
are those of the means, which stay the same. `longer` says how many times as long the release's are.
Sets that are not at hand are named and skipped; rows of others stay as they are.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from statistics import fmean

import numpy as np

from accuracy import population
from keyveil.estimate import Estimates
from keyveil.protocols import build_protocol
from keyveil.simulate import Population, insecure_generator, play

RESULTS = Path(__file__).parent / "results" / "long_records.csv"
POPULATIONS = ("movie-like", "rent_the_runway", "jester_1", "book_crossing_explicit")
EPSILONS, SEED, TOP = (0.5, 1.0, 2.0, 4.0), 5, 50
Row = dict[str, str]


def holds(ends: tuple[np.ndarray, np.ndarray], truth: np.ndarray) -> np.ndarray:
    """Which intervals hold the truth."""
    low, high = ends
    return (low <= truth) & (truth <= high)


def measure(name: str, people: Population, epsilon: float, repeats: int) -> Row:
    """A row of the table."""
    frequency, mean = people.frequency(), people.mean()
    top = np.argsort(-frequency, kind="stable")[:TOP]
    protocol = build_protocol(
        "auto", epsilon, n_keys=people.n_keys, pairs_per_user=people.typical_size(), users=people.n_users
    )
    found: dict[str, list[float]] = {}
    for repeat in range(repeats):
        whole = play(protocol, people, insecure_generator(SEED, int(2 * epsilon), repeat)).raw
        cut: Estimates = whole if whole.unbiased is None else whole.unbiased
        for about, each in (("whole", whole), ("cut", cut)):
            held = holds(each.frequency_interval(), frequency)
            found.setdefault(f"top_{about}", []).append(float(held[top].mean()))
            found.setdefault(f"all_{about}", []).append(float(held.mean()))
        found.setdefault("top_mean", []).append(float(holds(whole.mean_interval(), mean)[top].mean()))
        longer = float(np.median(whole.frequency_se[top] / cut.frequency_se[top]))
        found.setdefault("longer", []).append(longer)
    figures = {name: f"{fmean(values):.3f}" for name, values in found.items()}
    return {"population": name, "epsilon": f"{epsilon:g}", "repeats": str(repeats), **figures}


def main() -> None:
    """Print, and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--only", default=",".join(POPULATIONS))
    asked = parser.parse_args()
    rows: dict[tuple[str, str], Row] = {}
    if RESULTS.exists():
        with RESULTS.open(newline="", encoding="utf-8") as file:
            rows = {(row["population"], row["epsilon"]): row for row in csv.DictReader(file)}
    for name in asked.only.split(","):
        try:
            people = population(name, asked.data)
        except FileNotFoundError as missing:
            print(f"skipped {name}: {missing}")
            continue
        for epsilon in EPSILONS:
            row = measure(name, people, epsilon, asked.repeats)
            print(*row.values(), sep="\t", flush=True)
            rows[name, row["epsilon"]] = row
        with RESULTS.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(row), lineterminator="\n")
            writer.writeheader()
            writer.writerows(sorted(rows.values(), key=lambda each: POPULATIONS.index(each["population"])))


if __name__ == "__main__":
    main()
