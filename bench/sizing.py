"""What a campaign of any size costs, from the unit costs that bench/scale.py measured.

    python bench/sizing.py      prints the table in docs/scale.md

Wire and store are exact. Processor hours are one core's: noise for all reports, reading and counting them
from Parquet (the whole of `keyveil tally`, from the run over 10^6), and, where Spark is used, its factor.
"""

from __future__ import annotations

import json
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "scale.json"
SIZES = tuple(10**power for power in range(5, 11))
LENGTHS = {"pckv-ue, 5,850 keys": (1498, "10^6 x 1.5 kB"), "pckv-ue, 100 keys": (60, "10^7 x 60 B")}
PARTITION = 1 << 20


def human(count: float, unit: str) -> str:
    """Three digits and a prefix."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= factor:
            return f"{count / factor:.3g} {prefix}{unit}"
    return f"{count:.3g} {unit}"


def main() -> None:
    """The table."""
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    print(
        "| campaign | reports | wire, store | noise, core hours | tally, core hours | partitions | shuffle |"
    )
    print("|---|---|---|---|---|---|---|")
    for label, (length, run) in LENGTHS.items():
        domain = "d=5850" if length > 1000 else "d=100"
        noise = found[domain]["keyveil pckv-ue reports"]
        reports = 10**6 if run.startswith("10^6") else 10**7
        tally = found["end to end"][run]["cpu_seconds"] / reports
        keys = 5850 if length > 1000 else 100
        for n in SIZES:
            parts = max(1, n // PARTITION)
            # Partials of three integers a key as text, and 16 bytes an id to find copies.
            shuffle = parts * 3 * keys * 8 + 16 * n
            print(
                f"| {label} | {n:.0e} | {human(n * length, 'B')} | {n * noise / 3600:.2g} | "
                f"{n * tally / 3600:.2g} | {parts:,} | {human(shuffle, 'B')} |"
            )


if __name__ == "__main__":
    main()
