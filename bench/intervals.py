"""How often the 95 % intervals of every method cover, for frequent and for rare keys.

    python bench/intervals.py [METHOD ...]    prints a table and rewrites the methods' rows of
                                             bench/results/coverage.csv; all methods if none is named

20,000 users, 50 keys, up to three pairs a user (one where a method tells keys alone, since a user of several
then tells one of them by chance). Popularity follows Zipf's law or is even; of each the first five keys
and the last five are looked at. 2,000 collections a cell, so that ten thousand intervals stand behind a
number and its standard error is 0.002.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

from keyveil.methods import METHODS, mechanism_of
from keyveil.protocols import Protocol, build_protocol
from keyveil.simulate import Population, coverage, insecure_generator, synthetic

RESULTS = Path(__file__).parent / "results" / "coverage.csv"
USERS, KEYS, PAIRS, RUNS, SEED = 20_000, 50, 3, 2000, 12
EPSILONS, SKEWS = (0.5, 1, 2, 4), {"Zipf": 1.0, "uniform": 0.0}
GROUPS = {"frequent": slice(0, 5), "rare": slice(-5, None)}
# What is read off another method's reports has its intervals. A name's place is a part of its seed: new ones
# come last.
NEW = ("subset",)
NAMES = (
    *(name for name in METHODS if mechanism_of(name) == name and name not in NEW),
    "privkvm-star oue",
    *NEW,
)
# `auto` has those of the mechanism it chooses; long_records.py measures what cutting records does to them.
MEASURED = tuple(name for name in NAMES if name != "auto")
KEYS_ONLY = ("grr", "oue", "olh", "subset")
Row = dict[str, str | float]


def people(name: str, popularity: str, users: int = USERS) -> Population:
    """Those whom a method is measured on."""
    pairs = 1 if name in KEYS_ONLY else PAIRS
    return synthetic(users=users, keys=KEYS, pairs_per_user=pairs, skew=SKEWS[popularity], seed=SEED)


def protocol(name: str, epsilon: float) -> Protocol:
    """A method as it is asked for; distributions, which no frequency needs, short ones of one key."""
    method, _, oracle = name.partition(" ")
    options: dict[str, object] = {"bins": 8, "only": (KEYS - 1,)} if method == "ue-sw" else {}
    if oracle:
        options["oracle"] = oracle
    return build_protocol(method, epsilon, n_keys=KEYS, pairs_per_user=PAIRS, **options)


def measure(name: str, runs: int = RUNS) -> Iterator[Row]:
    """A row for every epsilon and popularity."""
    for epsilon in EPSILONS:
        for place, popularity in enumerate(SKEWS):
            rng = insecure_generator(SEED, NAMES.index(name), int(2 * epsilon), place)
            found = coverage(protocol(name, epsilon), people(name, popularity), rng, runs=runs)
            row: Row = {"method": name, "epsilon": epsilon, "popularity": popularity}
            for group, keys in GROUPS.items():
                row[group] = round(float(found.frequency[keys].mean()), 4)
                row[f"{group}_mean"] = round(float(found.mean[keys].mean()), 4)
                row[f"{group}_mean_known"] = round(float(found.known[keys].mean()), 4)
            yield row


def main() -> None:
    """Measure what is asked for and keep the other rows."""
    wanted = sys.argv[1:] or MEASURED
    kept = {}
    if RESULTS.exists():
        with RESULTS.open(newline="", encoding="utf-8") as file:
            kept = {(row["method"], row["epsilon"], row["popularity"]): row for row in csv.DictReader(file)}
    for name in wanted:
        for row in measure(name):
            print(*row.values(), sep="\t", flush=True)
            kept[name, str(row["epsilon"]), str(row["popularity"])] = row  # type: ignore[assignment]
        with RESULTS.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(next(iter(kept.values()))), lineterminator="\n")
            writer.writeheader()
            writer.writerows(sorted(kept.values(), key=lambda each: NAMES.index(each["method"])))


if __name__ == "__main__":
    main()
