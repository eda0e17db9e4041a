"""Unclipped variance of frequencies where users hold many pairs: bucket against the papers' mechanisms.

    python bench/variance.py            prints a table and rewrites bench/results/variance.json

The movie-like population, l = 100, nothing clipped or shrunk. Estimates are measured against what they
are unbiased for, the share of users whose record, cut to l pairs at random, holds the key. Beside the
measured mean squared error stands the one that the mechanism's own moments promise.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np

from keyveil.estimate import estimate
from keyveil.mechanisms import build
from keyveil.simulate import draw_tally, insecure_generator
from keyveil.simulate.datasets import SYNTHETIC

RESULTS = Path(__file__).parent / "results" / "variance.json"
MECHANISMS, EPSILONS, LENGTH, REPEATS, SEED = ("pckv-ue", "ks-ue", "pckv-grr", "bucket"), (1, 3), 100, 6, 11


def main() -> None:
    """Every mechanism at every epsilon, and how many times bucket's error each one's is."""
    people = SYNTHETIC["movie-like"]()
    kept = np.repeat(np.minimum(1.0, LENGTH / np.maximum(people.sizes, 1)), people.sizes)
    target = np.bincount(people.codes, weights=kept, minlength=people.n_keys) / people.n_users
    rows = []
    for epsilon in EPSILONS:
        for name in MECHANISMS:
            options = {"cohorts": 4096} if name == "bucket" else {}
            mechanism = build(name, epsilon, n_keys=people.n_keys, pairs_per_user=LENGTH, **options)
            errors = []
            for repeat in range(REPEATS):
                rng = insecure_generator(SEED, epsilon, MECHANISMS.index(name), repeat)
                found = estimate(mechanism, draw_tally(mechanism, people, rng))  # type: ignore[arg-type]
                errors.append(np.mean((found.frequency - target) ** 2))
            promised = mechanism.moments.covariance(target, 0.0, people.n_users).frequency  # type: ignore[attr-defined]
            rows.append(
                {
                    "mechanism": name,
                    "epsilon": epsilon,
                    "measured": float(f"{np.mean(errors):.4g}"),
                    "measured_se": float(f"{np.std(errors, ddof=1) / math.sqrt(REPEATS):.2g}"),
                    "promised": float(f"{np.mean(promised):.4g}"),
                }
            )
        best = rows[-1]["measured"]
        for row in rows[-len(MECHANISMS) :]:
            row["times_bucket"] = round(float(row["measured"]) / float(best), 1)
            print(
                f"{row['mechanism']:9} epsilon {epsilon}: {row['measured']:.4g} ± {row['measured_se']:.1g}, "
                f"promised {row['promised']:.4g}, {row['times_bucket']} times bucket"
            )
    RESULTS.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
