"""What the peers do, timed in their own environment; `scale.py` runs this and reads its last line.

.bench-venv/bin/python bench/peers.py D     prints one JSON object: seconds a report, by system and side
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
import warnings

import numpy as np

warnings.filterwarnings("ignore")
EPSILON, REPEATS = 1.0, 5


def median(work, count: int) -> float:
    """Processor seconds for one of `count`, the median of five runs after one that does not count."""
    work()
    times = []
    for _ in range(REPEATS):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return statistics.median(times) / count


def pure_ldp(d: int, found: dict[str, float]) -> None:
    """Its OUE, GRR and OLH: one call a report."""
    from pure_ldp.frequency_oracles.direct_encoding import DEClient, DEServer
    from pure_ldp.frequency_oracles.local_hashing import LHClient, LHServer
    from pure_ldp.frequency_oracles.unary_encoding import UEClient, UEServer

    few = 200 if d > 1000 else 2000
    values = [random.randrange(1, d + 1) for _ in range(few)]
    client, server = UEClient(EPSILON, d, use_oue=True), UEServer(EPSILON, d, use_oue=True)
    found["pure-ldp OUE client"] = median(lambda: [client.privatise(v) for v in values], few)
    reports = [client.privatise(v) for v in values]
    found["pure-ldp OUE server"] = median(lambda: [server.aggregate(r) for r in reports], few)
    client, server = DEClient(EPSILON, d), DEServer(EPSILON, d)
    found["pure-ldp GRR client"] = median(lambda: [client.privatise(v) for v in values], few)
    reports = [client.privatise(v) for v in values]
    found["pure-ldp GRR server"] = median(lambda: [server.aggregate(r) for r in reports], few)
    client, server = LHClient(EPSILON, d, use_olh=True), LHServer(EPSILON, d, use_olh=True)
    found["pure-ldp OLH client"] = median(lambda: [client.privatise(v) for v in values], few)
    reports = [client.privatise(v) for v in values[: 40 if d > 1000 else few]]
    found["pure-ldp OLH server"] = median(lambda: [server.aggregate(r) for r in reports], len(reports))


def multi_freq(d: int, found: dict[str, float]) -> None:
    """Its OUE, GRR and OLH; the aggregators take a list of all reports."""
    from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Client
    from multi_freq_ldpy.pure_frequency_oracles.LH import LH_Aggregator_MI, LH_Client
    from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Aggregator_MI, UE_Client

    few = 200 if d > 1000 else 2000
    values = [random.randrange(d) for _ in range(few)]
    UE_Client(0, d, EPSILON)
    found["multi-freq-ldpy OUE client"] = median(lambda: [UE_Client(v, d, EPSILON) for v in values], few)
    reports = [UE_Client(v, d, EPSILON) for v in values]
    found["multi-freq-ldpy OUE server"] = median(lambda: UE_Aggregator_MI(reports, EPSILON), few)
    GRR_Client(0, d, EPSILON)
    found["multi-freq-ldpy GRR client"] = median(lambda: [GRR_Client(v, d, EPSILON) for v in values], few)
    found["multi-freq-ldpy OLH client"] = median(lambda: [LH_Client(v, d, EPSILON) for v in values], few)
    reports = [LH_Client(v, d, EPSILON) for v in values[: 40 if d > 1000 else few]]
    found["multi-freq-ldpy OLH server"] = median(lambda: LH_Aggregator_MI(reports, d, EPSILON), len(reports))


def opendp(d: int, found: dict[str, float]) -> None:
    """Its randomized response over a vector of bits."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.bitvector_domain(max_weight=1), dp.discrete_distance()
    measure = dp.m.make_randomized_response_bitvec(*space, f=2 / (np.e**0.5 + 1))
    few, data = 20 if d > 1000 else 500, bytes((d + 7) // 8)
    found["opendp bit vector client"] = median(lambda: [measure(data) for _ in range(few)], few)
    reports = [measure(data) for _ in range(few)]
    f = 2 / (np.e**0.5 + 1)
    found["opendp bit vector server"] = median(
        lambda: dp.m.debias_randomized_response_bitvec(reports, f), few
    )


def main() -> None:
    """All of them; one that fails says why."""
    d, found, failed = int(sys.argv[1]), {}, {}
    for system in (pure_ldp, multi_freq, opendp):
        try:
            system(d, found)
        except Exception as error:
            failed[system.__name__] = f"{type(error).__name__}: {str(error)[:200]}"
    print(json.dumps({"seconds": found, "failed": failed}))


if __name__ == "__main__":
    main()
