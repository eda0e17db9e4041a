"""Frequencies where everybody holds one pair, asked for by keys alone: `subset`, `grr`, `oue`, `olh`, `auto`.

    python bench/one_pair.py            prints a table and rewrites bench/results/one_pair.json

Squared errors of all keys together, nothing clipped, beside those that each mechanism's own variance
promises; the comparison is of the promised ones. `auto` is told that frequencies are wanted and collects by
its whole protocol; its errors are those of the unbiased numbers. What it cannot show: users of several pairs,
who are heard for one of them only. `olh` is drawn with ideal hashing.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from keyveil.mechanisms import build
from keyveil.mechanisms.channel import share
from keyveil.protocols import build_protocol
from keyveil.simulate import Population, draw_tally, insecure_generator, play, synthetic

RESULTS = Path(__file__).parent / "results" / "one_pair.json"
MECHANISMS, KEYS, EPSILONS = ("subset", "grr", "oue", "olh"), (10, 20, 100), (0.5, 1, 2, 4)
Floats = NDArray[np.float64]
USERS, REPEATS, SEED = 20_000, 1000, 17
# A whole protocol takes longer than a tally.
AUTO, AUTO_REPEATS = "auto", 200


def main() -> None:
    """Everybody at every number of keys and epsilon, and how many times subset's error they have."""
    rows: list[dict[str, object]] = []
    for n_keys in KEYS:
        people = synthetic(users=USERS, keys=n_keys, pairs_per_user=1, seed=SEED)
        target = np.bincount(people.codes, minlength=n_keys) / people.n_users
        for epsilon in EPSILONS:
            best = 0.0
            for place, name in enumerate((*MECHANISMS, AUTO)):
                rng = insecure_generator(SEED, n_keys, int(2 * epsilon), place)
                run = collected if name == AUTO else drawn
                errors, promised = run(name, epsilon, people, target, rng)
                best = best or promised
                rows.append(
                    {
                        "keys": n_keys,
                        "epsilon": epsilon,
                        "mechanism": name,
                        "measured": float(f"{errors.mean():.4g}"),
                        "measured_se": float(f"{errors.std(ddof=1) / math.sqrt(errors.size):.2g}"),
                        "promised": float(f"{promised:.4g}"),
                        "times_subset": round(promised / float(f"{best:.4g}"), 2),
                    }
                )
                print(*rows[-1].values(), sep="\t", flush=True)
    RESULTS.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


def drawn(
    name: str, epsilon: float, people: Population, target: Floats, rng: np.random.Generator
) -> tuple[Floats, float]:
    """Squared errors of a mechanism's reports, and what its variance promises."""
    n_keys = people.n_keys
    mechanism = build(name, epsilon, n_keys=n_keys)
    a, b, errors = float(mechanism.a), float(mechanism.b), np.empty(REPEATS)
    for repeat in range(REPEATS):
        heard = draw_tally(mechanism, people, rng).cells["support"][:n_keys]
        errors[repeat] = np.sum((share(a, b, heard, USERS) - target) ** 2)
    return errors, sum(mechanism.variance(float(f), USERS, USERS) for f in target)


def collected(
    name: str, epsilon: float, people: Population, target: Floats, rng: np.random.Generator
) -> tuple[Floats, float]:
    """Squared errors of a protocol's unbiased numbers, and what the variance of its large group promises."""
    protocol = build_protocol(name, epsilon, n_keys=people.n_keys, users=USERS, want="frequency")
    errors = np.array(
        [np.sum((play(protocol, people, rng).raw.frequency - target) ** 2) for _ in range(AUTO_REPEATS)]
    )
    main = next(stage for stage in protocol.stages() if stage.purpose == "collect")
    told = float(main.size) * USERS
    return errors, sum(main.mechanism.variance(float(f), told, told) for f in target)


if __name__ == "__main__":
    main()
