"""What liars can do to one key where they choose their index, and where ids are issued.

    python bench/issued.py           prints the table and rewrites bench/results/issued.json; half a minute

Epsilon 1, 100 keys, a million devices of which one in a hundred lies. `bound` is what a release prints of a
key at rank 61; `reached` is what the maximal attack did to it, with its standard error: the liars are drawn
100 times beside the same honest crowd, because an id gives each of them another index or hash.
"""

from __future__ import annotations

import json
from pathlib import Path

from keyveil.attack.poisoning import QUESTION, average_gain
from keyveil.mechanisms import build
from keyveil.simulate import draw_tally, insecure_generator, synthetic

RESULTS = Path(__file__).parent / "results" / "issued.json"
MECHANISMS = ("kvue", "privkv", "levels", "privkvm-star", "privkvm-star-oue", "bucket")
KEYS, USERS, LIARS, TARGET, RUNS = 100, 1_000_000, 10_000, 60, 100


def main() -> None:
    """Two rows a mechanism."""
    people, rows = synthetic(users=USERS - LIARS, keys=KEYS, seed=0), []
    for name in MECHANISMS:
        own = build(name, 1, n_keys=KEYS)
        honest = draw_tally(own, people, insecure_generator(0, 1), question=QUESTION)
        for mechanism in (own, own.with_issued_ids()):
            gain = average_gain(mechanism, honest, LIARS, TARGET, insecure_generator(0, 2), runs=RUNS)
            rows.append({"mechanism": name, "ids": "issued" if mechanism.issued else "own", **gain._asdict()})
            print(
                f"{name:17} ids {rows[-1]['ids']:7} bound {gain.bound:8.5f}  "
                f"reached {gain.reached:8.5f} +- {gain.error:.5f}  {100 * gain.reached / gain.bound:6.1f} %"
            )
    said = {"epsilon": 1, "keys": KEYS, "users": USERS, "hostile_share": LIARS / USERS, "rows": rows}
    RESULTS.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
