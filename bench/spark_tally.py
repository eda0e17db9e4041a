"""A tally by two real Spark executors, timed from inside: `scale.py` runs this and reads its last line.

    python bench/spark_tally.py CAMPAIGN REPORTS.parquet

Processor seconds are those of the driver, the executors and their Python workers, less what starting a
session cost. The first tally finds a cold virtual machine, the second, which counts, does not.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from keyveil import Campaign
from keyveil.batch.spark import tally_paths

TICKS = os.sysconf("SC_CLK_TCK")


def family() -> float:
    """Processor seconds of this process and all its descendants, the living and the waited for."""
    parents, spent = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            spent[int(entry.name)] = sum(map(int, fields[11:15])) / TICKS
    total, wave = 0.0, {os.getpid()}
    while wave:
        total += sum(spent[each] for each in wave)
        wave = {child for child, parent in parents.items() if parent in wave}
    return total


def main() -> None:
    """Start, tally twice, tell."""
    from pyspark.sql import SparkSession

    campaign, reports = Campaign.load(sys.argv[1]), sys.argv[2]
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    source = str(Path(__file__).resolve().parents[1] / "src")
    spark = (
        SparkSession.builder.master("local-cluster[2,1,1400]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executor.memory", "1000m")
        .config("spark.executorEnv.PYTHONPATH", source)
        .config("spark.executorEnv.KEYVEIL_THREADS", "1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.python.worker.reuse", "true")
        .getOrCreate()
    )
    spark.range(2).repartition(2).count()
    told: dict[str, object] = {}
    for prefix in ("first_", ""):
        started, before = time.perf_counter(), family()
        counted = tally_paths(spark, campaign.first_round(), [reports])
        told[f"{prefix}seconds"] = time.perf_counter() - started
        told[f"{prefix}cpu_seconds"] = family() - before
    print(json.dumps({**told, "tally": counted.tally.to_json()}))
    spark.stop()


if __name__ == "__main__":
    main()
