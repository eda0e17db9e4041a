"""What a central epsilon allows: largest local epsilons by the clones, by the blanket, and by any analysis.

    python bench/shuffle.py      writes bench/results/shuffle.csv; some seconds

`bucket` with four pairs a user at delta 1e-8. `clones` holds for every mechanism, `blanket` is what is used,
`limit` is where even the exact law of what is seen, beside others who share nothing with either of two
records, is above the central epsilon: no analysis allows more. `gain` is blanket less clones, `times` how
much smaller the variance of a rare key is for it.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.stats import binom

from keyveil.mechanisms import Bucket
from keyveil.shuffle import Blanket, blanket_of, clones_delta, largest_local

RESULTS = Path(__file__).parent / "results" / "shuffle.csv"
DELTA, PAIRS, LARGEST, STEPS = 1e-8, 4, 12.0, 64
USERS, CENTRAL = (10_000, 52_754, 100_000, 1_000_000), (0.5, 1.0, 2.0)


def exposed_delta(blanket: Blanket, users: int, epsilon: float) -> float:
    """A lower bound of the worst divergence: only how many reports speak for either record is looked at.

    Others who share nothing with either own neither part, so they speak for one as often as the blanket.
    """
    chance = blanket.mass * blanket.likely
    own, grown = chance * blanket.odds, math.exp(epsilon)
    low, high = binom.ppf((1e-14, 1 - 1e-14), users - 1, 2 * chance)
    spoken = np.arange(max(0.0, low - 1), high + 2)
    # Of so many others who speak for either record each speaks for the first one as by a fair coin.
    weight = binom.pmf(spoken, users - 1, 2 * chance)
    found = 0.0
    rest = 1 - own - chance
    before = binom.pmf(spoken - 1, users - 1, 2 * chance)
    for total, alone, one_fewer in zip(spoken, weight, before, strict=True):
        seen = np.arange(0.0, total + 1)
        same = alone * rest * binom.pmf(seen, total, 0.5)
        with_first = one_fewer * binom.pmf(seen - 1, total - 1, 0.5) if total else np.zeros(1)
        with_second = one_fewer * binom.pmf(seen, total - 1, 0.5) if total else np.zeros(1)
        first = same + own * with_first + chance * with_second
        second = same + chance * with_first + own * with_second
        found += float(np.maximum(first - grown * second, 0.0).sum())
    return found


def largest(holds: Callable[[float], bool]) -> float:
    """By halving, in steps of 1/64."""
    low, high = 0, int(LARGEST * STEPS) + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle / STEPS) else (low, middle)
    return low / STEPS


def main() -> None:
    """The table."""
    rows = []
    for users in USERS:
        for central in CENTRAL:
            clones = largest(lambda e, n=users, c=central: clones_delta(e, n, c) <= DELTA)
            blanket = largest_local(made, users, central, DELTA, at_most=LARGEST) or 0.0
            limit = largest(lambda e, n=users, c=central: exposed_delta(blanket_of(made(e)), n, c) <= DELTA)
            noise = [made(e).moments.frequency_noise for e in (clones, blanket)]
            rows.append(
                {
                    "users": users,
                    "central": central,
                    "clones": clones,
                    "blanket": blanket,
                    "limit": limit,
                    "gain": blanket - clones,
                    "times": round(noise[0] / noise[1], 2),
                }
            )
            print(*rows[-1].values(), flush=True)
    with RESULTS.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def made(epsilon: float) -> Bucket:
    """`bucket` for records of four pairs."""
    return Bucket.for_epsilon(epsilon, n_keys=50, pairs_per_user=PAIRS)


if __name__ == "__main__":
    main()
