"""Frequencies where everybody holds one pair and keys alone are asked: `subset`, `grr`, `oue`, `olh`.

    python bench/one_pair.py            prints a table and rewrites bench/results/one_pair.json

Squared errors of all keys together, nothing clipped, beside those that each mechanism's own variance
promises; the comparison is of the promised ones. What it cannot show: users of several pairs, who are heard
for one of them only. `olh` is drawn with ideal hashing.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np

from keyveil.mechanisms import build
from keyveil.mechanisms.channel import share
from keyveil.simulate import draw_tally, insecure_generator, synthetic

RESULTS = Path(__file__).parent / "results" / "one_pair.json"
MECHANISMS, KEYS, EPSILONS = ("subset", "grr", "oue", "olh"), (10, 20, 100), (0.5, 1, 2, 4)
USERS, REPEATS, SEED = 20_000, 1000, 17


def main() -> None:
    """Every mechanism at every number of keys and epsilon, and how many times subset's error it has."""
    rows = []
    for n_keys in KEYS:
        people = synthetic(users=USERS, keys=n_keys, pairs_per_user=1, seed=SEED)
        target = np.bincount(people.codes, minlength=n_keys) / people.n_users
        for epsilon in EPSILONS:
            for place, name in enumerate(MECHANISMS):
                mechanism = build(name, epsilon, n_keys=n_keys)
                rng = insecure_generator(SEED, n_keys, int(2 * epsilon), place)
                a, b, errors = float(mechanism.a), float(mechanism.b), np.empty(REPEATS)
                for repeat in range(REPEATS):
                    heard = draw_tally(mechanism, people, rng).cells["support"][:n_keys]
                    errors[repeat] = np.sum((share(a, b, heard, USERS) - target) ** 2)
                promised = sum(mechanism.variance(float(f), USERS, USERS) for f in target)
                best = rows[-place]["promised"] if place else promised
                rows.append(
                    {
                        "keys": n_keys,
                        "epsilon": epsilon,
                        "mechanism": name,
                        "measured": float(f"{errors.mean():.4g}"),
                        "measured_se": float(f"{errors.std(ddof=1) / math.sqrt(REPEATS):.2g}"),
                        "promised": float(f"{promised:.4g}"),
                        "times_subset": round(promised / float(best), 2),
                    }
                )
                print(*rows[-1].values(), sep="\t", flush=True)
    RESULTS.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
