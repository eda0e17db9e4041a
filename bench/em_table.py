"""Table 4 of the EM paper, rerun: mean squared error of frequencies from PrivKV's reports, x 1e-4.

    python bench/em_table.py             prints the table and rewrites bench/results/em_table.json

n = 1e5 users, d = 50 keys, ten repeats. A user holds key k with chance f_k, independently, and its
values have mean 2 f_k - 1 (the paper's Table 2 has these moments):

    Gaussian    f_k = exp(-(k - 25)**2 / 200)
    power-law   f_k = (1 + 0.1 x)**-1.1 at x = 2k; the paper's printed moments fit no simple choice of x
    linear      f_k = k / 50

Columns: PrivKV debiased; the same clipped to [0, 1]; the four-state EM, run to eta = 1e-7 and stopped
early at 1e-4 (the paper does not say where it stopped); the exact three-state likelihood; and the
paper's PrivKV and EM. All of ours come from the same reports.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from keyveil.estimate import estimate
from keyveil.mechanisms import build
from keyveil.protocols import PrivKvEm, PrivKvMle
from keyveil.simulate import Population, draw_tally, insecure_generator
from keyveil.simulate.datasets import em_gaussian, em_linear, em_power_law

RESULTS = Path(__file__).parent / "results" / "em_table.json"
N, D, REPEATS = 100_000, 50, 10
POPULATIONS = {"Gaussian": em_gaussian, "power-law": em_power_law, "linear": em_linear}
# (PrivKV, EM) of the paper's Table 4.
PAPER = {
    ("Gaussian", 0.1): (1921.743, 756.682),
    ("Gaussian", 0.5): (84.629, 63.996),
    ("Gaussian", 1): (22.588, 18.076),
    ("Gaussian", 3): (2.324, 2.018),
    ("Gaussian", 5): (1.320, 1.147),
    ("power-law", 0.1): (2170.253, 671.251),
    ("power-law", 0.5): (84.833, 55.478),
    ("power-law", 1): (19.274, 18.579),
    ("power-law", 3): (2.587, 1.591),
    ("power-law", 5): (1.019, 0.973),
    ("linear", 0.1): (1885.284, 602.837),
    ("linear", 0.5): (92.988, 70.346),
    ("linear", 1): (20.174, 16.023),
    ("linear", 3): (2.790, 2.523),
    ("linear", 5): (1.429, 1.283),
}
COLUMNS = ("raw", "clipped", "EM eta 1e-7", "EM eta 1e-4", "MLE")


def cell(people: Population, epsilon: float, seed: int) -> dict[str, tuple[float, float]]:
    """Mean and standard error of the squared error, per column."""
    mechanism = build("privkv", epsilon, n_keys=D)
    methods = {
        "EM eta 1e-7": PrivKvEm(mechanism=mechanism, eta=1e-7),
        "EM eta 1e-4": PrivKvEm(mechanism=mechanism, eta=1e-4),
        "MLE": PrivKvMle(mechanism=mechanism),
    }
    truth, errors = people.frequency(), {name: [] for name in COLUMNS}
    for repeat in range(REPEATS):
        tally = draw_tally(mechanism, people, insecure_generator(seed, repeat), question="table/1")
        guesses = {"raw": estimate(mechanism, tally).frequency}
        guesses["clipped"] = np.clip(guesses["raw"], 0, 1)
        for name, method in methods.items():
            guesses[name] = method.next([(method.start("table"), tally)]).published.frequency
        for name, guess in guesses.items():
            errors[name].append(1e4 * float(np.mean((guess - truth) ** 2)))
    return {name: (float(np.mean(e)), float(np.std(e, ddof=1) / REPEATS**0.5)) for name, e in errors.items()}


def main() -> None:
    """All cells."""
    rows = []
    print(
        f"{'distribution':12}{'eps':>5}"
        + "".join(f"{name:>19}" for name in COLUMNS)
        + "     paper: PrivKV, EM"
    )
    for place, (name, population) in enumerate(POPULATIONS.items()):
        people = population(users=N, keys=D, seed=4)
        for epsilon in (0.1, 0.5, 1, 3, 5):
            found = cell(people, epsilon, seed=100 * place + round(10 * epsilon))
            paper = PAPER[name, epsilon]
            rows.append(
                {
                    "distribution": name,
                    "epsilon": epsilon,
                    **{c: [round(x, 4) for x in found[c]] for c in COLUMNS},
                    "paper PrivKV": paper[0],
                    "paper EM": paper[1],
                }
            )
            shown = "".join(f"{mean:11.3f} ±{error:6.3f}" for mean, error in found.values())
            print(f"{name:12}{epsilon:5g}{shown}   {paper[0]:10.3f} {paper[1]:9.3f}", flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
