"""`auto` on populations that nobody tuned to, against the papers' mechanisms at their own best length.

    python bench/zoo.py [--quick] [--animal NAME,..] [--users N,..]     rewrites rows of bench/results/zoo.csv

A gain is the squared error of the best paper's mechanism over ours; above 1 is better. Goals: no gain below
0.95 beyond two standard errors, intervals that hold the truth in at least 93 % of cases, informative ones of
means too, and an error that falls with the number of users in every row. What misses a goal is marked.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import time
from pathlib import Path

from keyveil.simulate.referee import Verdict, referee
from keyveil.simulate.zoo import ZOO, make

RESULTS = Path(__file__).parent / "results" / "zoo.csv"
EPSILONS = (0.5, 1.0, 2.0, 4.0)
USERS = (2_000, 20_000, 200_000, 1_000_000)
LEAST_GAIN, LEAST_COVERED = 0.95, 0.93
# Repeats of a cell: enough for coverage to be known to about .02 with 50 keys, fewer where runs are long.
REPEATS = {2_000: 20, 20_000: 10, 200_000: 5, 1_000_000: 3}
Row = dict[str, str]


def misses(verdict: Verdict, repeats: int) -> list[str]:
    """Which goals a cell misses, beyond two standard errors."""
    said = []
    for what in ("frequency_gain", "frequency_gain_top", "mean_gain_top"):
        gain, error = getattr(verdict, what), getattr(verdict, f"{what}_se")
        if gain + 2 * (0 if math.isnan(error) else error) < LEAST_GAIN:
            said.append(what)
    trials = repeats * min(50, verdict.keys)
    for what in ("frequency_coverage", "mean_coverage", "mean_coverage_informative"):
        part = getattr(verdict, what)
        if part + 2 * math.sqrt(0.05 * 0.95 / trials) < LEAST_COVERED:
            said.append(what)
    return said


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two sizes, two budgets")
    parser.add_argument("--animal", default=",".join(ZOO))
    parser.add_argument("--users", default=",".join(map(str, USERS)))
    parser.add_argument("--mechanism", default="auto")
    given = parser.parse_args()
    sizes = [int(word) for word in given.users.split(",")][: 2 if given.quick else None]
    rows, started, bad = read(), time.perf_counter(), 0
    print(
        f"{'population':12}{'users':>10}{'eps':>5}{'freq':>8}{'top':>8}{'mean':>8}{'cov':>7}{'mean':>7}{'inf':>7}"
    )
    for name in given.animal.split(","):
        for users in sizes:
            crowd, repeats = make(name, users=users, seed=1), REPEATS.get(users, 4)
            for epsilon in EPSILONS[1::2] if given.quick else EPSILONS:
                verdict = referee(name, crowd, given.mechanism, epsilon, repeats=repeats, seed=1)
                missed = misses(verdict, repeats)
                bad += bool(missed)
                row = {name: text_of(value) for name, value in verdict.to_fields().items()}
                rows[place(row)] = row | {"missed": " ".join(missed)}
                if not given.quick and given.mechanism == "auto":
                    write(rows)
                numbers = (verdict.frequency_gain, verdict.frequency_gain_top, verdict.mean_gain_top)
                covered = (
                    verdict.frequency_coverage,
                    verdict.mean_coverage,
                    verdict.mean_coverage_informative,
                )
                print(
                    f"{name:12}{users:>10,}{epsilon:>5g}"
                    + "".join(f"{gain:>8.2f}" for gain in numbers)
                    + "".join(f"{part:>7.2f}" for part in covered)
                    + (f"  misses {', '.join(missed)}" if missed else ""),
                    flush=True,
                )
    print(f"{bad} cells miss a goal; {time.perf_counter() - started:.0f} s", file=sys.stderr)


def text_of(value: object) -> str:
    """Three digits of a number; nothing where there is none."""
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def place(row: Row) -> tuple[int, int, float]:
    """Where a row stands in the table."""
    return list(ZOO).index(row["population"]), int(row["users"]), float(row["epsilon"])


def read() -> dict[tuple[int, int, float], Row]:
    """The rows that there are."""
    if not RESULTS.exists():
        return {}
    with RESULTS.open(newline="", encoding="utf-8") as file:
        return {place(row): row for row in csv.DictReader(file)}


def write(rows: dict[tuple[int, int, float], Row]) -> None:
    """All rows, in the order of the zoo."""
    with RESULTS.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(next(iter(rows.values()))), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[each] for each in sorted(rows))


if __name__ == "__main__":
    main()
