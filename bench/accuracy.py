"""Accuracy: every mechanism of the papers against `auto`, on the same populations.

    python bench/accuracy.py [--data FOLDER] [--repeats 20] [--only NAME,...] [--mechanisms ID,...]
                             [--epsilon E,...] [--plot-only]

For every population and epsilon: each mechanism of the papers with its published post-processing, at
the padding lengths of a grid (the best of them is taken per figure; the papers' own rule, the 90th
percentile of record sizes, is among them), `auto` as it comes, and the constant predictor for means:
the mean that the value group of `auto` told, for every key. At that percentile every mechanism of
signed reports also goes through each post-processing step instead of its own.

A gain is the smallest mean squared error of all paper mechanisms divided by that of `auto`; the
competitor is chosen with hindsight, per figure, which favours it. Rows that are already in the result
are not run again. Sets that are not at hand are named and skipped.
"""

from __future__ import annotations

import argparse
import csv
import math
import multiprocessing
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from keyveil.estimate.post import STEPS
from keyveil.palette import COLOURS
from keyveil.protocols import build_protocol
from keyveil.simulate import Population, Truth, insecure_generator, measure, play
from keyveil.simulate.datasets import SYNTHETIC
from keyveil.simulate.pairs import read_pairs

RESULTS = Path(__file__).parent / "results"
EPSILONS = (0.5, 1.0, 2.0, 3.0, 4.0)
SEED, TOP = 5, 50
KEY = ("population", "mechanism", "length", "epsilon", "post")
FIGURES = ("frequency_mse", "frequency_mse_top", "mean_mse", "mean_mse_top", "precision_top")

# Every padding length that a population's records make worth trying.
LENGTHS = {
    "womens_clothing": (1,),
    "rent_the_runway": (1, 2, 3, 5),
    "jester_1": (1, 10, 40, 72, 100),
    "book_crossing_explicit": (1, 2, 4, 9),
    "synthetic": (1,),
    "movie-like": (10, 25, 50, 100, 200, 400),
}
PADDED = ("pckv-ue", "pckv-grr", "ks-ue", "ks-grr", "ue-sw")
UNPADDED = ("privkv", "privkv-em", "privkv-mle", "kvue", "privkvm", "privkvm-virtual")
OURS = ("bucket", "auto")
# Mechanisms whose reports every step can work on.
STEPPED = ("privkv", "kvue", "pckv-ue", "pckv-grr", "ks-ue", "bucket")
PUBLISHED = "published"
# A distribution for each of so many keys takes minutes a run; frequencies do not need it.
MOST_DISTRIBUTIONS = 2000


@dataclass(frozen=True)
class Task:
    """One mechanism at one padding length and epsilon on one population."""

    population: str
    mechanism: str
    length: int
    epsilon: float
    repeats: int
    options: tuple[tuple[str, Any], ...] = ()
    posts: tuple[str, ...] = (PUBLISHED,)

    @property
    def label(self) -> str:
        """The mechanism with its options."""
        return " ".join([self.mechanism, *(f"{name}={value}" for name, value in self.options)])

    @property
    def runs(self) -> str:
        """What identifies its runs; steps share them."""
        return " ".join([self.population, self.label, str(self.length), f"{self.epsilon:g}"])

    def row(self, post: str) -> dict[str, str]:
        """What its row begins with."""
        return {
            "population": self.population,
            "epsilon": f"{self.epsilon:g}",
            "mechanism": self.label,
            "length": str(self.length),
            "post": post,
            "repeats": str(self.repeats),
        }


def main() -> None:
    """Run what is missing, then write gains and the plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--only", default=",".join(LENGTHS))
    parser.add_argument("--mechanisms", default="")
    parser.add_argument("--epsilon", default=",".join(f"{e:g}" for e in EPSILONS))
    parser.add_argument("--plot-only", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS / "accuracy.csv")
    options = parser.parse_args()
    known = read(options.out)
    if not options.plot_only:
        epsilons = [float(e) for e in options.epsilon.split(",")]
        wanted = set(options.mechanisms.split(",")) - {""}
        tasks = [
            task
            for name in options.only.split(",")
            for task in tasks_of(name, epsilons, options.repeats, options.data)
            if any(key_of(task.row(post)) not in known for post in task.posts)
            and (not wanted or task.mechanism in wanted)
        ]
        with multiprocessing.get_context("fork").Pool(2, initializer=start, initargs=(options.data,)) as pool:
            for rows in pool.imap_unordered(solve, tasks):
                known |= {key_of(row): row for row in rows}
                write(options.out, known)
                print(*(rows[0][name] for name in KEY), flush=True)
    gains = list(compare(known))
    write_gains(options.out.with_name("accuracy_gains.csv"), gains)
    plot(gains, options.out.with_name("accuracy.svg"))
    show(gains)


def tasks_of(name: str, epsilons: list[float], repeats: int, data: Path | None) -> Iterator[Task]:
    """Everything to run on one population."""
    try:
        people = population(name, data)
    except FileNotFoundError as missing:
        print(f"skipped {name}: {missing}")
        return
    few = people.n_keys <= MOST_DISTRIBUTIONS
    typical = people.typical_size()
    for epsilon in epsilons:
        for mechanism in UNPADDED:
            yield Task(name, mechanism, 1, epsilon, repeats)
        for mechanism in PADDED:
            extra: tuple[tuple[str, Any], ...] = ()
            if mechanism == "ue-sw":
                # Few bins would be another mechanism than the paper's: its noise falls with them.
                extra = (("bins", 64),) if few else (("only", 0), ("bins", 64))
            if mechanism == "ks-grr":
                extra = (("top", TOP),)
            for length in sorted({*LENGTHS[name], typical}):
                yield Task(name, mechanism, length, epsilon, repeats, extra)
        yield Task(name, "auto", typical, epsilon, repeats)
        for mechanism in STEPPED:
            yield Task(name, mechanism, typical, epsilon, repeats, posts=tuple(STEPS))


def start(data: Path | None) -> None:
    """Workers read populations from this folder."""
    global DATA
    DATA = data


DATA: Path | None = None


@cache
def population(name: str, data: Path | None) -> Population:
    """A synthetic population or a file's."""
    if name == "synthetic":
        return SYNTHETIC["pckv-gaussian"](users=1_000_000, keys=100)
    if name in SYNTHETIC:
        return SYNTHETIC[name]()
    if data is None or not (data / f"{name}.parquet").is_file():
        raise FileNotFoundError(f"needs {name}.parquet; pass --data FOLDER")
    return read_pairs(data / f"{name}.parquet")


@cache
def truth(name: str, data: Path | None) -> Truth:
    """What a population is measured against."""
    return Truth.of(population(name, data))


def solve(task: Task) -> list[dict[str, str]]:
    """Mean errors over the repeats with their standard errors, a row for each step."""
    people, known = population(task.population, DATA), truth(task.population, DATA)
    extra: dict[str, Any] = dict(task.options)
    if task.mechanism == "auto":
        extra["users"] = people.n_users
    protocol = build_protocol(
        task.mechanism, task.epsilon, n_keys=people.n_keys, pairs_per_user=task.length, **extra
    )
    runs: dict[str, list[dict[str, float]]] = {post: [] for post in task.posts}
    for repeat in range(task.repeats):
        rng = insecure_generator(SEED, zlib.crc32(task.runs.encode()), repeat)
        outcome = play(protocol, people, rng)
        for post, rows in runs.items():
            published = outcome.published if post == PUBLISHED else STEPS[post](outcome.raw)
            errors = measure(known, published, TOP)
            row = {name: getattr(errors, name) for name in FIGURES}
            if outcome.anchor is not None:
                best = np.argsort(-known.frequency, kind="stable")[:TOP]
                row["constant"] = float(np.mean((outcome.anchor - known.mean[best]) ** 2))
            rows.append(row)
    return [task.row(post) | summary(rows) for post, rows in runs.items()]


def summary(runs: list[dict[str, float]]) -> dict[str, str]:
    """Means over runs and their standard errors."""
    made = {}
    for name in runs[0]:
        values = np.array([run[name] for run in runs])
        made[name] = f"{values.mean():.5g}"
        made[f"{name}_se"] = f"{values.std(ddof=1) / math.sqrt(len(values)):.2g}" if len(values) > 1 else ""
    return made


# --- results ---


def key_of(row: dict[str, str]) -> tuple[str, ...]:
    """What identifies a row."""
    return tuple(row[name] for name in KEY)


def read(path: Path) -> dict[tuple[str, ...], dict[str, str]]:
    """Rows that were run before."""
    if not path.is_file():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {key_of(row): row for row in rows}


def write(path: Path, rows: dict[tuple[str, ...], dict[str, str]]) -> None:
    """All rows, sorted, so that the file does not depend on who finished first."""
    columns = ["population", "epsilon", "mechanism", "length", "post", "repeats"]
    columns += [part for name in (*FIGURES, "constant") for part in (name, f"{name}_se")]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        order = list(LENGTHS)
        writer.writerows(
            sorted(
                rows.values(),
                key=lambda row: (
                    order.index(row["population"]),
                    float(row["epsilon"]),
                    row["mechanism"],
                    int(row["length"]),
                    row["post"],
                ),
            )
        )


def compare(rows: dict[tuple[str, ...], dict[str, str]]) -> Iterator[dict[str, str]]:
    """For every population, epsilon and figure: the best paper mechanism, ours, and the gain."""
    published = [row for row in rows.values() if row["post"] == PUBLISHED]
    places = dict.fromkeys((row["population"], row["epsilon"]) for row in published)
    for name, epsilon in sorted(places, key=lambda k: (list(LENGTHS).index(k[0]), float(k[1]))):
        here = [row for row in published if (row["population"], row["epsilon"]) == (name, epsilon)]
        (ours,) = [row for row in here if row["mechanism"] == "auto"] or [None]
        papers = [row for row in here if row["mechanism"].split()[0] not in OURS]
        if ours is None or not papers:
            continue
        for figure in FIGURES[:4]:
            told = [row for row in papers if row[figure] not in ("", "nan") and says(row, figure)]
            rival = min(told, key=lambda row: float(row[figure]))
            gain = float(rival[figure]) / float(ours[figure])
            error = gain * math.hypot(*(relative_error(row, figure) for row in (rival, ours)))
            yield {
                "population": name,
                "epsilon": epsilon,
                "figure": figure,
                "best_paper": rival["mechanism"],
                "length": rival["length"],
                "paper": rival[figure],
                "ours": ours[figure],
                "gain": f"{gain:.3g}",
                "gain_se": f"{error:.2g}",
                "constant": ours.get("constant", "") if figure == "mean_mse_top" else "",
            }


def says(row: dict[str, str], figure: str) -> bool:
    """Whether a row's mechanism estimates this at all; without distributions ue-sw has no means."""
    return not (figure.startswith("mean") and "only=0" in row["mechanism"])


def relative_error(row: dict[str, str], figure: str) -> float:
    """The standard error as a part of the value."""
    return float(row[f"{figure}_se"] or 0) / float(row[figure])


def write_gains(path: Path, gains: list[dict[str, str]]) -> None:
    """One row a cell."""
    if not gains:
        return
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(gains[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(gains)


def show(gains: list[dict[str, str]]) -> None:
    """The table on the terminal; losses are marked."""
    for row in gains:
        mark = "  LOSS" if float(row["gain"]) < 1 else ""
        print(
            f"{row['population']:24} {row['epsilon']:>4} {row['figure']:18}"
            f" {row['gain']:>7} ± {row['gain_se']:<7}"
            f" {row['ours']:>10} against {row['paper']:>10} of {row['best_paper']} l={row['length']}{mark}"
        )


def plot(gains: list[dict[str, str]], path: Path) -> None:
    """Gains against epsilon, one panel a figure; the line at 1 is the best paper mechanism."""
    canvas = Figure(figsize=(10, 7), layout="constrained")
    titles = ("frequency, all keys", "frequency, top 50", "mean, all keys", "mean, top 50")
    for axes, figure, title in zip(canvas.subplots(2, 2).flat, FIGURES[:4], titles, strict=True):
        for colour, name in zip(COLOURS, LENGTHS, strict=False):
            here = [row for row in gains if row["population"] == name and row["figure"] == figure]
            if here:
                axes.errorbar(
                    [float(row["epsilon"]) for row in here],
                    [float(row["gain"]) for row in here],
                    yerr=[1.96 * float(row["gain_se"]) for row in here],
                    color=colour,
                    marker="o",
                    capsize=3,
                    label=name,
                )
        axes.axhline(1.0, color="black", linewidth=1)
        axes.set(title=title, xlabel="epsilon", ylabel="best paper MSE / ours", yscale="log")
        axes.grid(alpha=0.3)
    canvas.axes[0].legend(frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
