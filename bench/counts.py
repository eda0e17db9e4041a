"""What does not depend on the machine: bytes a report, words a device draws, bytes that bulk noise draws.

    python bench/counts.py            rewrites bench/results/counts.json
    python bench/counts.py --check    compares with it; a difference ends with status 1 (make bench-check)

Seconds vary with the weather; these do not. A change that costs more bytes or more randomness shows here.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from keyveil.batch import InsecureSeededStream, Records, perturb_many
from keyveil.mechanisms import REGISTRY, build
from keyveil.report import HEADER_BYTES
from keyveil.simulate import synthetic

RESULTS = Path(__file__).parent / "results" / "counts.json"
SIZES = ((100, 1), (5850, 2))
# Refuse the larger size.
FOR_FEW_KEYS = ("subset",)
USERS = 200


class Counting(InsecureSeededStream):
    """A seeded stream that counts what it gives."""

    drawn = 0

    def fill(self, target: np.ndarray) -> None:
        """Fill, and count."""
        self.drawn += target.nbytes
        super().fill(target)


def counts() -> dict[str, dict[str, int]]:
    """One row a mechanism and size."""
    found = {}
    for keys, pairs in SIZES:
        people = synthetic(users=USERS, keys=keys, pairs_per_user=pairs, seed=1)
        records = Records(offsets=people.offsets, codes=people.codes, values=people.values)
        for name in REGISTRY:
            if name in FOR_FEW_KEYS and keys > 100:
                continue
            mechanism, stream = build(name, 1, n_keys=keys, pairs_per_user=pairs), Counting(1)
            perturb_many(mechanism, records, tag=bytes(16), stream=stream)
            found[f"{name} d={keys} l={pairs}"] = {
                "bytes a report": HEADER_BYTES + mechanism.layout.n_bytes,
                "words a device draws": mechanism.n_words,
                f"bytes drawn for {USERS} reports at once": stream.drawn,
            }
    return found


def main() -> None:
    """Write, or compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    now = counts()
    if not parser.parse_args().check:
        RESULTS.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
        return
    then = json.loads(RESULTS.read_text(encoding="utf-8"))
    changed = [name for name in sorted({*now, *then}) if now.get(name) != then.get(name)]
    for name in changed:
        print(f"{name}: was {then.get(name)}, is {now.get(name)}")
    print(f"{len(now)} counts, {len(changed)} changed")
    sys.exit(bool(changed))


if __name__ == "__main__":
    main()
