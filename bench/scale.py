"""Noise and counting in bulk, beside the peers, plain numpy and the machine's limits, in one run.

    bench/peers.sh && python bench/scale.py      rewrites bench/results/scale.json, scale.md and scale.svg

What this cannot show: seconds belong to one machine, and to what else it was doing; trust the ratios.
The peers answer other questions (keys alone), through the interface that they document, one call a
report; their reports weigh 8 bytes a key where ours weigh two bits. Medians of five, in
processor seconds of one thread where nothing else is said.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from keyveil import Campaign
from keyveil.batch import Records, SecureStream
from keyveil.batch.answers import draw_answers
from keyveil.batch.engine import tally_files
from keyveil.batch.perturb import blocks_of, perturb_many
from keyveil.batch.stream import draw_octets
from keyveil.mechanisms import Bucket, Mechanism, build
from keyveil.simulate import synthetic
from keyveil.tally.bits import count_bits
from keyveil.tally.hashing import signed_supports, supports
from keyveil.tally.payloads import Payloads

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "scale.json"
EPSILON, REPEATS = 1.0, 5
DOMAINS = (100, 5850)
MOVIES = {"users": 138_493, "keys": 26_744, "pairs_per_user": 100}

Found = dict[str, float]


def median(
    work: Callable[[], object], count: float = 1.0, clock: Callable[[], float] = time.process_time
) -> float:
    """Seconds for one of `count`, the median of five runs after one that does not count.

    Processor seconds unless another clock is given: the machine may be doing other things.
    """
    work()
    times = []
    for _ in range(REPEATS):
        started = clock()
        work()
        times.append(clock() - started)
    return statistics.median(times) / count


# --- beside the peers ---


def peers(d: int, python: Path) -> dict[str, dict[str, float]]:
    """Seconds a report of every peer, from their own environment."""
    done = subprocess.run([python, HERE / "peers.py", str(d)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def records_of(users: int, keys: int) -> Records:
    """Users who hold one or two keys."""
    people = synthetic(users=users, keys=keys, pairs_per_user=2, seed=1)
    return Records(offsets=people.offsets, codes=people.codes, values=people.values)


def answer(mechanism: Mechanism, records: Records, stream: SecureStream) -> None:
    """Answers without headers, as the peers' clients give them."""
    public = np.zeros(1, dtype=np.uint64)
    for first, last in blocks_of(mechanism, len(records)):
        draw_answers(mechanism, records.part(first, last), stream, public)


def numpy_noise(d: int, n: int) -> np.ndarray:
    """PCKV-UE as a competent numpy user writes it: floats against two chances."""
    b = 2 / (np.e**EPSILON + 3)
    drawn = np.random.default_rng().random((n, d))
    return np.where(drawn < b / 2, 1, np.where(drawn < b, 2, 0)).astype(np.uint8)


def numpy_tally(trits: np.ndarray) -> None:
    """Trits a byte each, compared and summed."""
    (trits == 1).sum(axis=0)
    (trits == 2).sum(axis=0)


def ours(d: int) -> tuple[Found, Found]:
    """Seconds a report of ours, of numpy and of the limits; and gigabytes a second."""
    stream, found, rates = SecureStream(), {}, {}
    n = 1_200_000 if d < 1000 else 40_000
    records, unary, grr = (
        records_of(n, d),
        *(build(name, EPSILON, n_keys=d) for name in ("pckv-ue", "pckv-grr")),
    )
    found["keyveil pckv-ue client"] = median(lambda: answer(unary, records, stream), n)
    found["keyveil pckv-ue reports"] = median(lambda: perturb_many(unary, records, tag=bytes(16)), n)
    many = records if n > 10**6 else records_of(500_000, d)
    found["keyveil pckv-grr client"] = median(lambda: answer(grr, many, stream), len(many))
    few = 2000 if d > 1000 else 100_000
    found["numpy pckv-ue client"] = median(lambda: numpy_noise(d, few), few)
    trits = numpy_noise(d, few)
    found["numpy pckv-ue server"] = median(lambda: numpy_tally(trits), few)
    rows = np.concatenate([draw_answers(unary, records.part(0, 20_000), stream)] * (n // 20_000))
    payloads = Payloads.of_matrix(rows)
    found["keyveil pckv-ue server"] = median(lambda: count_bits(unary.layout, payloads), n)
    words = payloads.data[: payloads.data.size // 8 * 8].view(np.uint64)
    found["limit: np.sum of the same bytes"] = median(lambda: words.sum(), n)
    octets = 1 << 26
    aes = median(lambda: draw_octets(stream, octets), octets)
    found["limit: AES stream, a byte a key"] = aes * d
    rates["count_bits GB/s"] = rows.shape[1] / found["keyveil pckv-ue server"] / 1e9
    rates["np.sum GB/s"] = rows.shape[1] / found["limit: np.sum of the same bytes"] / 1e9
    rates["AES GB/s"] = 1 / aes / 1e9
    return found, rates


# --- the hash ---


def decode() -> dict[str, float]:
    """Decoding `bucket` at the size of MovieLens-20M, with all cohorts and with an eighth of them."""
    n, d, l = MOVIES["users"], MOVIES["keys"], MOVIES["pairs_per_user"]
    rng, found = np.random.default_rng(1), {}
    for cohorts in (1 << 16, 1 << 13):
        mechanism = build("bucket", EPSILON, n_keys=d, pairs_per_user=l, cohorts=cohorts)
        assert isinstance(mechanism, Bucket)
        answers = rng.integers(0, cohorts * mechanism.buckets, n)
        clocks = {"seconds": time.perf_counter, "cpu seconds": time.process_time}
        for name, clock in clocks.items():
            found[f"bucket, {cohorts} cohorts, {name}"] = median(
                lambda m=mechanism, a=answers: signed_supports(m, a), clock=clock
            )
    olh = build("olh", EPSILON, n_keys=5850)
    answers = rng.integers(0, olh.oracle.cohorts * olh.oracle.buckets, 20_000)
    os.environ["KEYVEIL_THREADS"] = "1"
    found["olh, one thread, seconds a (report, key)"] = median(
        lambda: supports(olh.oracle, answers), 20_000 * 5851
    )
    del os.environ["KEYVEIL_THREADS"]
    return found


# --- growth ---


def growth() -> dict[str, object]:
    """Tally time over three decades of reports and of keys, and the exponents that fit it.

    Reports come in blocks of sixteen megabytes from a buffer of four times that, as they do from a file.
    """
    curves = {}
    for name, sizes in (
        ("n", [(n, 1000) for n in (16_000, 64_000, 256_000, 1_024_000, 4_096_000, 16_384_000)]),
        ("d", [(16_000, d) for d in (250, 1_000, 4_000, 16_000, 64_000, 256_000)]),
    ):
        points = []
        for n, d in sizes:
            mechanism = build("pckv-ue", EPSILON, n_keys=d)
            size = mechanism.layout.n_bytes
            block, held = min(n, (1 << 24) // size), max(1, (1 << 26) // size)
            rows = np.zeros((held, size), dtype=np.uint8)
            rows[:, ::3] = 0x24
            rows[:, -1] = 0
            payloads, turn = Payloads.of_matrix(rows), iter(range(1 << 30))

            def tally(m=mechanism, p=payloads, turn=turn, n=n, block=block, held=held) -> None:
                for _ in range(n // block):
                    start = next(turn) * block % (held - block)
                    count_bits(m.layout, p.part(start, start + block))

            points.append({"n": n, "d": d, "seconds": median(tally)})
        x = np.log([point[name] for point in points])
        y = np.log([point["seconds"] for point in points])
        curves[name] = {"points": points, "exponent": float(np.polyfit(x, y, 1)[0])}
    return curves


# --- end to end ---


def campaign_of(keys: int) -> Campaign:
    """A question about so many keys."""
    return Campaign(
        name="bench",
        epsilon=EPSILON,
        keys=[f"key-{k}" for k in range(keys)],
        value_range=(-1, 1),
        pairs_per_user=2,
        mechanism="pckv-ue",
    )


def write_reports(campaign: Campaign, n: int, path: Path) -> None:
    """N reports in one Parquet file, as `keyveil perturb` writes them."""
    from keyveil.cli.files import write_reports as write

    records, size = records_of(20_000, len(campaign.keys)), 20_000
    mechanism, stream = campaign.build(), SecureStream()
    blocks = (
        perturb_many(mechanism, records, tag=campaign.tag, stream=stream).tobytes() for _ in range(n // size)
    )
    write(path, campaign, blocks, 35 + mechanism.layout.n_bytes)


def run(*arguments: object) -> dict[str, float]:
    """A command's seconds, processor seconds and largest memory, children included."""
    command = [str(each) for each in arguments]
    timer = (
        "import resource, subprocess, sys, time, json\n"
        "t, nowhere = time.perf_counter(), subprocess.DEVNULL\n"
        "r = subprocess.run(sys.argv[1:], stdout=nowhere, stderr=nowhere).returncode\n"
        "u = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(json.dumps([time.perf_counter() - t, u.ru_utime + u.ru_stime, u.ru_maxrss / 1e6, r]))"
    )
    done = subprocess.run([sys.executable, "-c", timer, *command], capture_output=True, text=True, check=True)
    wall, cpu, memory, status = json.loads(done.stdout)
    assert status == 0, command
    return {"seconds": wall, "cpu_seconds": cpu, "gigabytes": memory}


def end_to_end(folder: Path) -> dict[str, object]:
    """From a file of 10^6 reports of 1.5 kB to a release; 10^6 and 10^7 small reports for memory."""
    keyveil, found = Path(sys.executable).with_name("keyveil"), {}
    for label, keys, n in (
        ("10^6 x 1.5 kB", 5850, 10**6),
        ("10^6 x 60 B", 100, 10**6),
        ("10^7 x 60 B", 100, 10**7),
    ):
        campaign, path, question = campaign_of(keys), folder / "reports.parquet", folder / "campaign.json"
        question.write_text(campaign.canonical_json)
        write_reports(campaign, n, path)
        runs = [run(keyveil, "estimate", question, path, "-o", folder / "release.csv") for _ in range(3)]
        found[label] = sorted(runs, key=lambda each: each["seconds"])[1]
        if keys > 1000:
            found["pool and spark"] = against_spark(campaign, path, folder)
        path.unlink()
    return found


def against_spark(campaign: Campaign, path: Path, folder: Path) -> dict[str, object]:
    """Processor seconds of two processes and of two Spark executors over the same file."""
    first = campaign.first_round()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    pool = tally_files(first, [path], folder=folder / "parts", processes=2)
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    found = {"pool": {"seconds": wall, "cpu_seconds": spent}}
    script = HERE / "spark_tally.py"
    try:
        done = subprocess.run(
            [sys.executable, script, folder / "campaign.json", path],
            capture_output=True,
            text=True,
            check=True,
            timeout=900,
        )
        there = json.loads(done.stdout.splitlines()[-1])
        found["spark"] = {
            key: there[key] for key in ("seconds", "cpu_seconds", "first_seconds", "first_cpu_seconds")
        }
        found["same integers"] = there["tally"] == pool.tally.to_json()
    except (subprocess.SubprocessError, OSError, ValueError) as error:
        found["spark"] = f"not run: {type(error).__name__}"
    return found


# --- telling ---


def requirements(found: dict) -> list[tuple[str, float, float]]:
    """The goals: what, the figure that was seen, and the least it should be."""
    big, small, rows = found["d=5850"], found["d=100"], []

    def ratio(side: dict, slow: str, fast: str) -> float:
        return side[slow] / side[fast]

    for label, side, least in (("d=5850", big, 25), ("d=100", small, 100)):
        peers_there = [p for p in ("pure-ldp OUE server", "multi-freq-ldpy OUE server") if p in side]
        rows += [
            (f"tally {label} over {p}", ratio(side, p, "keyveil pckv-ue server"), least) for p in peers_there
        ]
    limit = ratio(big, "limit: np.sum of the same bytes", "keyveil pckv-ue server")
    rows.append(("tally d=5850, share of np.sum over the same bytes", limit, 0.4))
    for slow, least in (("pure-ldp OUE client", 50), ("numpy pckv-ue client", 3)):
        rows.append((f"noise d=5850 over {slow}", ratio(big, slow, "keyveil pckv-ue client"), least))
    rows.append(
        (
            "pckv-grr over pure-ldp GRR client",
            ratio(big, "pure-ldp GRR client", "keyveil pckv-grr client"),
            40,
        )
    )
    decoded = found["decode"]
    rows.append(("bucket decode, 8 s over its seconds", 8 / decoded["bucket, 65536 cohorts, seconds"], 1))
    whole, few = (decoded[f"bucket, {cohorts} cohorts, cpu seconds"] for cohorts in (1 << 16, 1 << 13))
    rows.append(("bucket decode, 8,192 cohorts over 65,536", whole / few, 5))
    if "pure-ldp OLH server" in big:
        olh = decoded["olh, one thread, seconds a (report, key)"]
        rows.append(
            ("hash decode a (report, key) over pure-ldp OLH", big["pure-ldp OLH server"] / 5850 / olh, 500)
        )
    ends = found["end to end"]
    rows.append(("10^6 reports to release, 5 s over its seconds", 5 / ends["10^6 x 1.5 kB"]["seconds"], 1))
    rows.append(("the same in processor seconds", 5 / ends["10^6 x 1.5 kB"]["cpu_seconds"], 1))
    rows.append(("10^6 reports, 1 GB over its memory", 1 / ends["10^6 x 1.5 kB"]["gigabytes"], 1))
    flat = ends["10^6 x 60 B"]["gigabytes"] / ends["10^7 x 60 B"]["gigabytes"]
    rows.append(("memory of 10^6 over that of 10^7 reports", flat, 0.7))
    pair = ends["pool and spark"]
    if isinstance(pair["spark"], dict):
        rows.append(
            (
                "4 x CPU of the pool over Spark's",
                4 * pair["pool"]["cpu_seconds"] / pair["spark"]["cpu_seconds"],
                1,
            )
        )
    return rows


def table(found: dict) -> str:
    """Everything as Markdown."""
    lines = ["# Noise and counting in bulk", "", f"Made by `bench/scale.py` on {found['machine']}.", ""]
    lines += ["| what | goal | seen | |", "|---|---|---|---|"]
    lines += [
        f"| {claim} | {least:g} | {seen:.3g} | {'yes' if seen >= least else '**no**'} |"
        for claim, seen, least in requirements(found)
    ]
    for name, curve in found["growth"].items():
        told = "yes" if 0.9 <= curve["exponent"] <= 1.1 else "**no**"
        lines.append(f"| exponent of tally time in {name} | 0.9 to 1.1 | {curve['exponent']:.3f} | {told} |")
    lines += ["", "Reports a second:", "", "| system | " + " | ".join(f"d={d}" for d in DOMAINS) + " |"]
    lines.append("|---|" + "---|" * len(DOMAINS))
    names = sorted({name for d in DOMAINS for name in found[f"d={d}"]})
    for name in names:
        cells = (found[f"d={d}"].get(name) for d in DOMAINS)
        lines.append(f"| {name} | " + " | ".join("-" if s is None else f"{1 / s:,.0f}" for s in cells) + " |")
    rest = {key: found[key] for key in found if key.startswith(("rates", "decode", "end", "failed", "load"))}
    lines += ["", "```", json.dumps(rest, indent=1), "```"]
    return "\n".join(lines) + "\n"


def picture(found: dict, path: Path) -> None:
    """Growth in n and d, and reports a second beside the peers."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2))
    for name, curve in found["growth"].items():
        points = curve["points"]
        left.loglog(
            [p["n"] * p["d"] for p in points],
            [p["seconds"] for p in points],
            marker="o",
            label=f"growing {name}, exponent {curve['exponent']:.2f}",
        )
    left.set_xlabel("reports x keys")
    left.set_ylabel("seconds to tally, one thread")
    left.legend()
    names = [name for name in found["d=5850"] if name.endswith(("server", "client", "bytes", "key"))]
    names.sort(key=lambda name: found["d=5850"][name], reverse=True)
    right.barh(names, [1 / found["d=5850"][name] for name in names], color="0.6")
    right.set_xscale("log")
    right.set_xlabel("reports a second, d = 5,850, one thread")
    right.tick_params(axis="y", labelsize=7)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


STAGES = ("d=100", "d=5850", "decode", "growth", "end to end")


def stage(name: str, python: Path, folder: Path | None) -> dict:
    """What one stage finds; everything that a ratio compares is in one stage."""
    if name in ("decode", "growth"):
        return {name: decode() if name == "decode" else growth()}
    if name == "end to end":
        with tempfile.TemporaryDirectory(dir=folder) as made:
            return {name: end_to_end(Path(made))}
    d = int(name.removeprefix("d="))
    there, (here, rates) = peers(d, python), ours(d)
    return {name: there["seconds"] | here, f"rates {name}": rates, f"failed {name}": there["failed"]}


def main() -> None:
    """All stages, or those that are named; the results of the others stay."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", type=Path, default=HERE.parent / ".bench-venv" / "bin" / "python")
    parser.add_argument("--folder", type=Path, help="Where 1.6 GB of reports may lie for a while.")
    parser.add_argument("--stages", default=",".join(STAGES), help="Some of " + ", ".join(STAGES))
    wanted = parser.parse_args()
    found: dict = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    found["machine"] = f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, numpy {np.__version__}"
    for name in wanted.stages.split(","):
        found |= stage(name, wanted.peers, wanted.folder)
        found[f"load {name}"] = round(os.getloadavg()[0], 1)
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(f"{name} done", file=sys.stderr)
    if set(STAGES) <= set(found):
        RESULTS.with_suffix(".md").write_text(table(found), encoding="utf-8")
        picture(found, RESULTS.with_suffix(".svg"))
        print(table(found))


if __name__ == "__main__":
    main()
