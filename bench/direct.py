"""What the straight way of small uploads buys, beside the same collector on uvicorn's own protocol.

    python bench/direct.py [--seconds S] [--json FILE]

Two collectors on stores of their own take single reports of 1.5 kB in turns: one hands small uploads from the
parser to the writer (`collector.http.direct`), the other is told of another uvicorn than the one that is
installed, so that every upload takes the ASGI route. One sender shows what a report waits, 64 and 512 what
the collector can do.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

import numpy as np
import uvloop
from collecting import make_question
from serving import Process

from collector import KEYS, Source, cpu, load

RESULTS = Path(__file__).parent / "results" / "direct.json"
SENDERS = (1, 64, 512)
TURNS = 3
OTHER_UVICORN = "import uvicorn; uvicorn.__version__ = '0.0.0'; "


def measure(server, source, senders, seconds):
    """Reports a second, their median wait and what each costs the collector."""
    # Made beforehand: the sender's work would be taken for the collector's.
    prepared = [source.request() for _ in range(int(24_000 * seconds))]
    started = cpu(server.child.pid)
    done, _, latencies, elapsed = uvloop.run(load(server.port, prepared.pop, senders, seconds))
    used = cpu(server.child.pid) - started
    return done / elapsed, 1e3 * float(np.median(latencies)), 1e6 * used / done


def main():
    """Print a table, and write it down."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--json", type=Path, default=RESULTS)
    asked = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    campaign = make_question(keys=tuple(f"k{i}" for i in range(KEYS)))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        servers = {
            name: Process(f"sqlite:///{folder}/{name}.db", before=before)
            for name, before in (("direct", ""), ("asgi", OTHER_UVICORN))
        }
        sources = {
            name: Source(campaign, server.create(campaign)["device_token"], 1)
            for name, server in servers.items()
        }
        for name, server in servers.items():
            measure(server, sources[name], 8, 1.0)
        print(f"{'senders':>8}{'way':>8}{'reports/s':>11}{'median ms':>11}{'cpu us':>8}{'direct/asgi':>13}")
        for senders in SENDERS:
            seen = {name: [] for name in servers}
            # In turns, so that both meet the same neighbours.
            for _ in range(TURNS):
                for name, server in servers.items():
                    seen[name].append(measure(server, sources[name], senders, asked.seconds))
            middle = {name: np.median(np.array(turns), axis=0) for name, turns in seen.items()}
            gain = float(np.median([d[0] / a[0] for d, a in zip(seen["direct"], seen["asgi"], strict=True)]))
            for name, (rate, wait, cost) in middle.items():
                rows.append(
                    {
                        "senders": senders,
                        "way": name,
                        "reports_per_s": round(rate),
                        "median_ms": round(wait, 2),
                        "cpu_us": round(cost),
                    }
                )
                shown = f"{gain:13.2f}" if name == "direct" else ""
                print(f"{senders:8}{name:>8}{rate:11,.0f}{wait:11.2f}{cost:8.0f}{shown}")
            rows[-2]["over_asgi"] = round(gain, 2)
        for server in servers.values():
            server.stop()
    asked.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
