"""What plans foresee of populations that nobody tuned to, beside what simulations find.

    python bench/plan.py [--quick] [--animal NAME,..] [--users N,..]     rewrites bench/results/plan.csv

Predicted is what a plan says that was given the population itself, as by `keyveil plan --from`. The band is
that of a plan that was told how many people there are, what nine in ten hold at most, and how skewed keys
are. Goals, beyond two standard errors of what was simulated: predicted over simulated between 0.8 and 1.25,
for frequencies of all keys and means of the top, and simulated errors within the band. What misses a goal is
marked.

Frequencies of mechanisms of one round are unbiased, means are cut to their range; `auto`'s are as published.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import time
from pathlib import Path

from keyveil.simulate.foresight import foresee
from keyveil.simulate.zoo import ZOO, make

RESULTS = Path(__file__).parent / "results" / "plan.csv"
EPSILONS = (0.5, 1.0, 2.0, 4.0)
# As many as are simulated in some minutes; errors of larger crowds follow the same laws.
USERS = (20_000,)
LOW, HIGH = 0.8, 1.25
# Runs of a cell; frequencies are then known to a few percent, `auto` has twice as many.
RUNS = 4


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three populations, two budgets; writes nothing")
    parser.add_argument("--animal", default=",".join(ZOO))
    parser.add_argument("--users", default=",".join(map(str, USERS)))
    given = parser.parse_args()
    names = given.animal.split(",")[: 3 if given.quick else None]
    rows, started = [], time.perf_counter()
    head = f"{'population':12}{'users':>8}{'eps':>5} {'mechanism':10}{'frequency':>32}{'ratio':>7}"
    print(f"{head}{'mean':>30}{'ratio':>7}")
    for users in map(int, given.users.split(",")):
        for name in names:
            people = make(name, users=users, seed=1)
            for epsilon in EPSILONS[1::2] if given.quick else EPSILONS:
                for told in foresee(name, people, epsilon, runs=RUNS, seed=1):
                    missed = told.misses(LOW, HIGH)
                    fields = {
                        key: float(f"{value:.5g}") if isinstance(value, float) else value
                        for key, value in told.to_fields().items()
                    }
                    rows.append({**fields, "missed": " ".join(missed)})
                    print(
                        f"{name:12}{users:>8,}{epsilon:>5g} {told.mechanism:10}"
                        f"{_span(told.frequency_predicted, told.frequency_low, told.frequency_high):>32}"
                        f"{told.frequency_ratio:>7.2f}"
                        f"{_span(told.mean_predicted, told.mean_low, told.mean_high):>30}"
                        f"{told.mean_ratio:>7.2f}" + (f"  misses {', '.join(missed)}" if missed else ""),
                        flush=True,
                    )
    off = sum(bool({"frequency", "mean"} & set(str(row["missed"]).split())) for row in rows)
    outside = sum("_band" in str(row["missed"]) for row in rows)
    print(
        f"{off} of {len(rows)} cells are off by more than {LOW} to {HIGH}, {outside} are outside of a band; "
        f"{time.perf_counter() - started:.0f} s",
        file=sys.stderr,
    )
    if given.quick or given.animal != ",".join(ZOO):
        return
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _span(error: float, low: float, high: float) -> str:
    return "-" if math.isnan(error) else f"{error:.3g} ({low:.3g} to {high:.3g})"


if __name__ == "__main__":
    main()
