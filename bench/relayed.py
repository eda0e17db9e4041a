"""What a relay is worth: `auto` under a central promise against `auto` at the same epsilon without a relay.

    python bench/relayed.py [--data FOLDER] [--repeats 5]      writes bench/results/relayed.json; ten minutes

rent_the_runway (105,508 users, 5,850 keys), central epsilon 1 at delta 1e-8, one batch of at least 100,000,
by the share of a batch that is honest. Both sides are simulated: tallies come from their exact law. `goal` is
how many times smaller a figure should be. Local epsilons are those of each round as it was opened.

With half of a batch honest the unbiased numbers of all keys and the intervals miss their goals: a local
epsilon is less by ln 2 then, and noise twice as large. More users for the keys behind the top, or longer
records in the round about the top, meet either and lose another.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from keyveil.numerics import epsilon_above
from keyveil.protocols import Outcome, Promise, Protocol, Round, build_protocol
from keyveil.simulate import Population, Truth, insecure_generator, measure, play
from keyveil.simulate.metrics import top_keys
from keyveil.simulate.pairs import read_pairs

RESULTS = Path(__file__).parent / "results" / "relayed.json"
CENTRAL, DELTA, BATCH, TOP, SEED = 1.0, 1e-8, 100_000, 50, 5
# No group is asked at more: what is promised allows less anyway.
LARGEST = 9.0
GOALS = {"frequency_mse_unbiased": 500, "frequency_mse_top": 40, "frequency_width_top": 10, "mean_mse_top": 3}


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    if given.data is None or not (given.data / "rent_the_runway.parquet").is_file():
        print("skipped: it needs rent_the_runway.parquet; pass --data FOLDER")
        return
    people = read_pairs(given.data / "rent_the_runway.parquet")
    truth = Truth.of(people)
    local = run(build(people, CENTRAL), people, truth, given.repeats)
    result: dict[str, Any] = {
        "users": people.n_users,
        "keys": people.n_keys,
        "central": CENTRAL,
        "delta": DELTA,
        "batch": BATCH,
        "repeats": given.repeats,
        "goal": GOALS,
        "local": local,
        "relayed": {},
    }
    print(f"{'':24}" + "".join(f"{name:>26}" for name in GOALS))
    show("local", local, local)
    for honest in (0.5, 1.0):
        protocol = build(people, LARGEST, Promise(CENTRAL, DELTA, BATCH, honest))
        found = run(protocol, people, truth, given.repeats)
        times = {name: round(local[name] / found[name], 1) for name in GOALS}
        result["relayed"][f"{honest:g}"] = found | {"times_smaller": times}
        show(f"honest {honest:g}", found, local)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def build(people: Population, epsilon: float, promise: Promise | None = None) -> Protocol:
    """`auto` for these people."""
    return build_protocol(
        "auto",
        epsilon,
        n_keys=people.n_keys,
        pairs_per_user=people.typical_size(),
        users=people.n_users,
        promise=promise,
    )


class Noted:
    """A protocol, and what its last course asked at which epsilon."""

    def __init__(self, protocol: Protocol) -> None:
        self.protocol, self.rounds = protocol, {}

    def start(self, campaign: str) -> Round:
        """The first round, noted."""
        return self._noted(self.protocol.start(campaign))

    def next(self, history: Any) -> Round | Outcome:
        """What follows, noted."""
        step = self.protocol.next(history)
        return self._noted(step) if isinstance(step, Round) else step

    def _noted(self, step: Round) -> Round:
        self.rounds[step.purpose] = round(epsilon_above(step.mechanism.loss), 3)
        return step


def run(protocol: Protocol, people: Population, truth: Truth, repeats: int) -> dict[str, Any]:
    """Mean figures over the repeats, their standard errors, and the epsilons of the last course's rounds."""
    best, rows = top_keys(truth.frequency, TOP), []
    noted = Noted(protocol)
    for repeat in range(repeats):
        outcome = play(noted, people, insecure_generator(SEED, repeat))
        errors = measure(truth, outcome.published, TOP, raw=outcome.raw)
        low, high = outcome.raw.frequency_interval()
        rows.append(
            {
                "frequency_mse_unbiased": float(np.mean((outcome.raw.frequency - truth.frequency) ** 2)),
                "frequency_mse_top": errors.frequency_mse_top,
                "frequency_width_top": float(np.mean((high - low)[best])),
                "mean_mse_top": errors.mean_mse_top,
                "frequency_coverage": errors.frequency_coverage,
                "mean_coverage": errors.mean_coverage,
            }
        )
    figures: dict[str, Any] = {}
    for name in rows[0]:
        values = np.array([row[name] for row in rows])
        figures[name] = float(f"{values.mean():.4g}")
        figures[f"{name}_se"] = (
            float(f"{values.std(ddof=1) / math.sqrt(repeats):.2g}") if repeats > 1 else None
        )
    return figures | {"epsilons": dict(noted.rounds)}


def show(name: str, found: dict[str, Any], local: dict[str, Any]) -> None:
    """One row: each figure, and how many times smaller than the local one it is."""
    cells = (f"{found[goal]:.3g} ({local[goal] / found[goal]:.1f} x)" for goal in GOALS)
    print(f"{name:24}" + "".join(f"{cell:>26}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
