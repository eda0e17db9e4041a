"""What every tuned number of `auto` changes, if it is halved or doubled.

    python bench/tuning.py [NAME ...]      prints the rows of these numbers, or of all: then it also writes
                                           bench/results/tuning.csv; about six minutes of one core

Each number of `Tuning` (and of the parts that it holds) is halved and doubled, alone, and `auto` collects
from the same people with the same seeds as with its own numbers. For every population: the mean squared
error of frequencies, of the top keys' frequencies and of their means as a multiple of what it was, and how
many percentage points more (or fewer) of the 95 % intervals of the top keys' frequencies and means hold the
truth; each with its standard error over repeats. `otherwise` is the share of runs that came to anything else
at all; it is 0 where the first came out the same bit for bit: then the number is taken to play no part for
these people and the others are not run. Populations are small, so that the table takes minutes; it shows
which way a number pulls and how hard, not the last percent.
"""

from __future__ import annotations

import csv
import math
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from keyveil.protocols.auto import NEWEST, TUNINGS, Auto, Tuning, tuning
from keyveil.simulate import Population, insecure_generator, play, synthetic

RESULTS = Path(__file__).parent / "results" / "tuning.csv"
SEED, TOP = 19, 20
FACTORS = {"halved": Fraction(1, 2), "doubled": Fraction(2)}
FIGURES = ("frequency", "frequency_top", "mean")
COVERED = ("frequency_covered", "mean_covered")
# A version that nobody else has, for as long as a number is tried.
TRIAL = 9999
# Shares that cannot be doubled: the others must be left somebody, and the dial ends at 1.
MOST = {"discover": Fraction(9, 10), "choosing.frequencies_first": 1.0}
Row = dict[str, str]


# --- the numbers ---


def numbers(part: Any, before: str = "") -> dict[str, Any]:
    """Every number of a tuning by name; a part's follow its name and a dot."""
    found: dict[str, Any] = {}
    for field in fields(part):
        value = getattr(part, field.name)
        inner = (
            numbers(value, f"{before}{field.name}.") if is_dataclass(value) else {before + field.name: value}
        )
        found |= inner
    return found


def scaled(name: str, value: Any, factor: Fraction) -> Any:
    """A number halved or doubled; of a whole one its half is rounded down, but not to 0."""
    if isinstance(value, tuple):
        return tuple(each * float(factor) for each in value)
    if isinstance(value, int):
        return max(1, int(value * factor))
    times = value * (factor if isinstance(value, Fraction) else float(factor))
    return min(times, MOST.get(name, times))


def changed(numbers_of: Any, name: str, value: Any) -> Any:
    """A tuning with another number."""
    part, _, rest = name.partition(".")
    return replace(numbers_of, **{part: changed(getattr(numbers_of, part), rest, value) if rest else value})


def variants(base: Tuning) -> Iterator[tuple[str, str, Tuning]]:
    """Every number, halved and doubled."""
    for name, value in numbers(base).items():
        for label, factor in FACTORS.items():
            yield name, label, changed(base, name, scaled(name, value, factor))


@contextmanager
def on_trial(numbers_tried: Tuning) -> Iterator[int]:
    """A version with these numbers, while it lasts."""
    with mock.patch.object(tuning, "TUNINGS", {**TUNINGS, TRIAL: numbers_tried}):
        yield TRIAL


# --- the people ---


@dataclass(frozen=True)
class Crowd:
    """People, what is declared of them, and the budget."""

    people: Population
    declared: int
    epsilon: float
    repeats: int
    rounds: int = 0

    def protocol(self, version: int) -> Auto:
        """`auto` for them."""
        return Auto(
            epsilon=Fraction(str(self.epsilon)),
            n_keys=self.people.n_keys,
            users=self.people.n_users,
            pairs_per_user=self.declared,
            top=min(TOP, self.people.n_keys),
            rounds=self.rounds,
            version=version,
        )


def held(chances: np.ndarray, seed: int) -> Population:
    """Users who hold each key with these chances, a row a user; means differ from key to key."""
    rng = insecure_generator(SEED, seed)
    owners, codes = np.nonzero(rng.random(chances.shape) < chances)
    means = np.clip(rng.normal(0.3, 0.3, chances.shape[1]), -0.9, 0.9)
    values = np.where(rng.random(codes.size) < (1 + means[codes]) / 2, 1.0, -1.0)
    names = [str(key) for key in range(chances.shape[1])]
    return Population.from_pairs(owners, codes, values, n_users=len(chances), names=names)


def of_sizes(
    keys: int, sizes: np.ndarray, *, seed: int, alike: int = 0, everybody: bool = False
) -> Population:
    """Users with about these sizes.

    The first `alike` keys are held by all alike, whatever their size; the very first by `everybody`.
    """
    weight = 1 / (np.arange(keys) + 3.0)
    chances = -np.expm1(-sizes[:, None] * weight / weight.sum())
    chances[:, :alike] = chances[:, :alike].mean(axis=0)
    if everybody:
        chances[:, 0] = 1.0
    return held(chances, seed)


@cache
def crowds() -> Mapping[str, Crowd]:
    """Everybody whom `auto` is tried on."""
    rng = insecure_generator(SEED)
    long = np.minimum(2 + rng.lognormal(1.4, 0.9, 5000), 60)
    mixed = np.where(rng.random(6000) < 0.25, 14.0, 2.0)
    tailed = np.minimum(1 + 1.5 * rng.pareto(1.3, 60_000), 28)
    return {
        "one pair": Crowd(synthetic(users=6000, keys=100, seed=1), 1, 1, 6),
        "hardly any pair": Crowd(held(np.full((6000, 20), 0.002), 2), 1, 1, 6),
        "few pairs": Crowd(of_sizes(220, np.full(6000, 3.5), seed=3), 4, 2, 6),
        "dense": Crowd(held(np.tile(np.linspace(0.3, 1, 9), (5000, 1)), 4), 8, 4, 6),
        "unlike the model": Crowd(of_sizes(100, mixed, seed=5, alike=20), 5, 3, 6),
        "long": Crowd(of_sizes(220, long, seed=6), 14, 5, 4),
        "many people": Crowd(of_sizes(40, tailed, seed=7, everybody=True), 8, 4, 4),
        "buried": Crowd(of_sizes(3200, np.full(1500, 5.0), seed=8), 5, 0.3, 2, rounds=2),
    }


# --- errors ---


@dataclass(frozen=True)
class Run:
    """How one collection came out."""

    figures: tuple[float, ...]
    print: bytes
    """All that came of it, to tell it from another."""


def run(crowd: Crowd, version: int, repeat: int) -> Run:
    """One collection."""
    people = crowd.people
    outcome = play(crowd.protocol(version), people, insecure_generator(SEED, repeat))
    frequency, mean = people.frequency(), people.mean()
    top = np.argsort(-frequency, kind="stable")[: min(TOP, people.n_keys)]
    said, raw = outcome.published, outcome.raw
    shown = said.frequency if said.frequency_top is None else said.frequency_top
    covered = (
        np.mean((low[top] <= truth[top]) & (truth[top] <= high[top]))
        for (low, high), truth in ((raw.frequency_interval(), frequency), (raw.mean_interval(), mean))
    )
    figures = (
        np.mean((said.frequency - frequency) ** 2),
        np.mean((shown - frequency)[top] ** 2),
        np.nanmean((said.mean - mean)[top] ** 2),
        *covered,
    )
    columns = (said.frequency, shown, said.mean, raw.frequency, raw.frequency_se)
    seen = b"".join(column.tobytes() for column in columns) + repr(outcome.notes).encode()
    return Run(tuple(map(float, figures)), seen)


def compared(base: list[Run], other: list[Run]) -> Row:
    """Ratios of mean errors and differences of shares, each with its standard error over repeats.

    No other runs stand for the same ones.
    """
    other = other or base
    was, now = (np.array([each.figures for each in runs]) for runs in (base, other))
    some, row = math.sqrt(len(base)), {}
    for place, name in enumerate(FIGURES):
        ratio = now[:, place].mean() / was[:, place].mean()
        off = now[:, place] - ratio * was[:, place]
        row[name] = f"{ratio:.4g}"
        row[f"{name}_se"] = f"{off.std(ddof=1) / some / was[:, place].mean():.2g}"
    for place, name in enumerate(COVERED, start=len(FIGURES)):
        off = 100 * (now[:, place] - was[:, place])
        row[name], row[f"{name}_se"] = f"{round(off.mean(), 6):.3g}", f"{off.std(ddof=1) / some:.2g}"
    differs = [one.print != two.print for one, two in zip(base, other, strict=True)]
    return {**row, "otherwise": f"{np.mean(differs):.2g}"}


def measure(only: set[str]) -> Iterator[Row]:
    """A row for every number asked for, halved and doubled, on every population."""
    own = TUNINGS[NEWEST]
    values = numbers(own)
    base = {name: runs(crowd, NEWEST) for name, crowd in crowds().items()}
    for name, label, other in variants(own):
        if name not in only:
            continue
        with on_trial(other) as version:
            for people, crowd in crowds().items():
                head = {"number": name, "is": text_of(values[name]), "tried": label, "people": people}
                head["repeats"] = str(crowd.repeats)
                yield {**head, **compared(base[people], runs(crowd, version, base[people][0]))}


def runs(crowd: Crowd, version: int, known: Run | None = None) -> list[Run]:
    """Its collections; none if the first is the one that is known."""
    first = run(crowd, version, 0)
    if known is not None and first.print == known.print:
        return []
    return [first, *(run(crowd, version, repeat) for repeat in range(1, crowd.repeats))]


def text_of(value: Any) -> str:
    """A number as the table has it."""
    return " ".join(f"{float(each):g}" for each in (value if isinstance(value, tuple) else (value,)))


def main() -> None:
    """Measure, print and write."""
    began, rows, everything = time.process_time(), [], set(numbers(TUNINGS[NEWEST]))
    for row in measure(set(sys.argv[1:]) or everything):
        print(*row.values(), sep="\t", flush=True)
        rows.append(row)
    print(f"{time.process_time() - began:.0f} s")
    if not sys.argv[1:]:
        with RESULTS.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
