"""UE-SW's value distributions: fakes inside the likelihood against the paper's subtract-then-EM.

    python bench/distributions.py        prints the table and rewrites bench/results/distributions.json

n = 1e5 users with one pair each, d = 100 keys of power-law popularity, values Beta(a, b) per key with
a, b uniform on [1, 7]; five repeats; Wasserstein distance on the scale [0, 1], mean over all held keys
and over the top 20. Both versions read the same reports. The uniform guess is the reference: a
version above it is worse than knowing nothing.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from keyveil.estimate import Distribution, bin_points
from keyveil.protocols import build_protocol
from keyveil.simulate import Population, Truth, insecure_generator, measure, play

RESULTS = Path(__file__).parent / "results" / "distributions.json"
N, D, BINS, REPEATS, TOP = 100_000, 100, 64, 5, 20
VERSIONS = {
    "paper: subtract, EM": {"likelihood": False, "smooth": False},
    "likelihood, EM": {"likelihood": True, "smooth": False},
    "likelihood, EMS": {"likelihood": True, "smooth": True},
}


def population() -> Population:
    """One pair a user."""
    rng = insecure_generator(7)
    weights = 1 / np.arange(1, D + 1)
    codes = rng.choice(D, size=N, p=weights / weights.sum())
    shapes = rng.uniform(1, 7, (D, 2))
    values = 2 * rng.beta(shapes[codes, 0], shapes[codes, 1]) - 1
    return Population.from_pairs(np.arange(N), codes, values, n_users=N, names=[str(k) for k in range(D)])


def main() -> None:
    """All cells."""
    people = population()
    truth = Truth.of(people, distribution=True)
    rows = []
    for epsilon in (1, 2, 4):
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in VERSIONS}
        for repeat in range(REPEATS):
            for name, options in VERSIONS.items():
                protocol = build_protocol("ue-sw", epsilon, n_keys=D, bins=BINS, **options)
                outcome = play(protocol, people, insecure_generator(1, epsilon, repeat))
                errors = measure(truth, outcome.published, TOP, outcome.distribution)
                found[name].append((errors.wasserstein, errors.wasserstein_top))
        uniform = Distribution(points=bin_points(BINS), shares=np.full((D, BINS), 1 / BINS))
        reference = measure(truth, outcome.published, TOP, uniform)
        for name, runs in found.items():
            mean, error = np.mean(runs, axis=0), np.std(runs, axis=0, ddof=1) / REPEATS**0.5
            rows.append(
                {
                    "epsilon": epsilon,
                    "version": name,
                    "wasserstein": [round(float(mean[0]), 5), round(float(error[0]), 5)],
                    "wasserstein_top": [round(float(mean[1]), 5), round(float(error[1]), 5)],
                    "uniform_guess": [round(reference.wasserstein, 5), round(reference.wasserstein_top, 5)],
                }
            )
            print(
                f"epsilon {epsilon}  {name:20}  all {mean[0]:.4f} ±{error[0]:.4f}   top {TOP} {mean[1]:.4f} "
                f"±{error[1]:.4f}   uniform guess {reference.wasserstein:.4f}",
                flush=True,
            )
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
