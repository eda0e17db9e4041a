"""Measured variance of frequencies against the exact formula, and their bias.

    python bench/theory.py               prints a table and rewrites bench/results/theory.json

Two populations, five mechanisms, four epsilons, twenty repeats a cell. A repeat's figure is the mean
squared error over the keys divided by the mean exact variance; the mean of twenty must be 1 within
three of its standard errors. Bias: the mean error over keys and repeats, in its standard errors.
No clipping anywhere. Forty cells at three standard errors: about one chance in nine that a right
simulator shows one outside, so the seed is fixed.
"""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path

import numpy as np

from keyveil.mechanisms import build
from keyveil.simulate import Population, draw_tally, insecure_generator, synthetic

MECHANISMS = ("privkv", "kvue", "pckv-ue", "pckv-grr", "ks-ue")
REPEATS, SEED, REACH = 20, 20261115, 3.0
RESULTS = Path(__file__).parent / "results" / "theory.json"


def measure(name: str, epsilon: float, l: int, population: Population) -> dict[str, float | str | int]:
    """One cell: ratio of measured to exact variance, and bias, each with its standard error."""
    mechanism = build(name, epsilon, n_keys=population.n_keys, pairs_per_user=l)
    truth = population.frequency()
    ratios, biases = [], []
    for repeat in range(REPEATS):
        rng = insecure_generator(SEED, l, round(1000 * epsilon), MECHANISMS.index(name), repeat)
        tally = draw_tally(mechanism, population, rng)
        frequency, _ = mechanism.debias(tally.plus, tally.minus, tally.asked)
        exact = mechanism.variance(truth, tally.asked, population.n_users)
        ratios.append(np.mean((frequency - truth) ** 2) / np.mean(exact))
        biases.append(np.mean((frequency - truth) / np.sqrt(exact)))
    ratio_error, bias_error = (np.std(x, ddof=1) / math.sqrt(REPEATS) for x in (ratios, biases))
    return {
        "mechanism": name,
        "epsilon": epsilon,
        "users": population.n_users,
        "keys": population.n_keys,
        "pairs_per_user": l,
        "repeats": REPEATS,
        "variance_ratio": round(float(np.mean(ratios)), 4),
        "variance_ratio_se": round(float(ratio_error), 4),
        "bias_in_standard_errors": round(float(np.mean(biases) / bias_error), 3),
        "holds": bool(
            abs(np.mean(ratios) - 1) <= REACH * ratio_error and abs(np.mean(biases)) <= REACH * bias_error
        ),
    }


def main() -> None:
    """All cells."""
    started = time.perf_counter()
    settings = [
        (1, synthetic(users=10**6, keys=100, seed=1)),
        (5, synthetic(users=2 * 10**5, keys=200, pairs_per_user=5, seed=2)),
    ]
    cells = []
    print("mechanism   epsilon       n     d  l   measured / exact variance   bias (s.e.)")
    for l, population in settings:
        for name in MECHANISMS:
            for epsilon in (0.5, 1.0, 2.0, 4.0):
                cell = measure(name, epsilon, l, population)
                cells.append(cell)
                print(
                    f"{name:10} {epsilon:8g} {population.n_users:8} {population.n_keys:5} {l:2}   "
                    f"{cell['variance_ratio']:.4f} +- {cell['variance_ratio_se']:.4f}"
                    f"{cell['bias_in_standard_errors']:18.2f}   {'' if cell['holds'] else 'OUTSIDE'}",
                    flush=True,
                )
    held = sum(bool(cell["holds"]) for cell in cells)
    took = time.perf_counter() - started
    print(f"{held} of {len(cells)} cells within {REACH:g} standard errors, {took:.0f} s")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(cells, indent=1) + "\n", encoding="utf-8")
    sys.exit(held != len(cells))


if __name__ == "__main__":
    main()
