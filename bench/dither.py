"""How values are spread: by the public dither of signed reports against reports that were made for it.

    python bench/distributions.py dither [--data FOLDER] [--runs 6]

Writes bench/results/dither_*.csv. n = 1e5 users, d = 50 keys of power-law popularity, l = 1 and 4; values are
normal, bimodal, skewed (exponential), uniform, or a spike at 0 and a hump. `own`: every key has a place, a
width and weights of its own. `shared`: all keys have the same. With --data the 300 most frequent keys of real
sets are measured, too. Distances are Wasserstein's, of the 20 most frequent keys, values scaled to [0, 1].

    isotonic     levels of `bucket` with 16 bins of the dither, made to fall (least squares)
    dither       the same, by empirical Bayes (`estimate.shapes`)
    auto         want = "distribution" as a campaign has it: sizes are asked for, then what the plan chose
    ue-sw, ue-sw:extremal   joint noise of keys and values, EMS over 64 bins

Intervals: how often those of quantiles, of variances, and bands as a whole hold what the population has, for
the same 20 keys; nothing is left out, but of `informative` the intervals of quantiles that reach over nine
tenths of the range. Means: the same people, values rounded by a secret word and by the dither; the ratio of
squared errors. Speed: a million reports to a release, and counting them with the dither's bins
over counting them without, fastest of five.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil import Campaign
from keyveil.batch import Records
from keyveil.batch.partition import Block, tally_partition
from keyveil.batch.perturb import perturb_many
from keyveil.domain import DITHER_BINS
from keyveil.estimate import Spread, dithered_spread, estimate, marked, quantile_interval, shapes
from keyveil.estimate.shapes import falling
from keyveil.mechanisms import build
from keyveil.protocols import Dithered, build_protocol
from keyveil.simulate import Population, Truth, draw_tally, insecure_generator, measure, play
from keyveil.simulate.pairs import read_pairs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rows = list[dict[str, Any]]
RESULTS = Path(__file__).parent / "results"
N, D, TOP, EPSILONS, LENGTHS = 100_000, 50, 20, (0.5, 1.0, 2.0, 4.0), (1, 4)
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
WAVES = ("ue-sw", "ue-sw:extremal")
SETS = {"womens_clothing": 1, "rent_the_runway": 2, "jester_1": 40, "steam_play_hours": 4}
MOST_KEYS = 300
# An interval says something that is shorter than this part of the range.
SHORT = 0.9
FEW = {"reports": 1_000_000, "keys": 100}


# --- people ---


def draw_normal(a: Floats, b: Floats, rng: np.random.Generator) -> Floats:
    """One hump."""
    return rng.normal(0.25 + 0.5 * a, 0.08 + 0.1 * b)


def draw_bimodal(a: Floats, b: Floats, rng: np.random.Generator) -> Floats:
    """Two humps."""
    low, high = rng.normal(0.15 + 0.15 * b, 0.07), rng.normal(0.7 + 0.15 * b, 0.07)
    return np.where(rng.random(a.size) < 0.3 + 0.4 * a, low, high)


def draw_skewed(a: Floats, b: Floats, rng: np.random.Generator) -> Floats:
    """Exponential."""
    return rng.exponential(0.08 + 0.12 * a)


def draw_uniform(a: Floats, b: Floats, rng: np.random.Generator) -> Floats:
    """Flat."""
    return rng.random(a.size)


def draw_spike(a: Floats, b: Floats, rng: np.random.Generator) -> Floats:
    """Many at 0, the others in a hump."""
    return np.where(rng.random(a.size) < 0.3 + 0.4 * a, 0.0, rng.normal(0.4 + 0.3 * b, 0.12))


SHAPES: dict[str, Callable[[Floats, Floats, np.random.Generator], Floats]] = {
    "normal": draw_normal,
    "bimodal": draw_bimodal,
    "skewed": draw_skewed,
    "uniform": draw_uniform,
    "spike": draw_spike,
}


def population(shape: str, l: int, *, shared: bool, seed: int, n: int = N) -> Population:
    """Users who hold l different keys each, popular ones more often."""
    rng = insecure_generator(seed)
    weights = np.log(1 / np.arange(1, D + 1))
    # The l largest of Gumbel's numbers are a draw without replacement.
    held = [
        np.sort(np.argpartition(-(weights + rng.gumbel(size=(rows.size, D))), l - 1, axis=1)[:, :l], axis=1)
        for rows in np.array_split(np.arange(n), max(1, n // 20_000))
    ]
    codes = np.concatenate(held).ravel()
    place, width = (np.full(D, 0.5), np.full(D, 0.5)) if shared else rng.random((2, D))
    values = np.clip(SHAPES[shape](place[codes], width[codes], rng), 0, 1)
    users, names = np.repeat(np.arange(n), l), [str(code) for code in range(D)]
    return Population.from_pairs(users, codes, 2 * values - 1, n_users=n, names=names)


def cells(data: Path | None, runs: int) -> Iterator[tuple[str, str, int, list[Population]]]:
    """What is measured: the name of a population, whose shapes it has, l, and a draw of it for each run."""
    for kind in ("own", "shared"):
        for l in LENGTHS:
            for shape in SHAPES:
                drawn = [population(shape, l, shared=kind == "shared", seed=100 + run) for run in range(runs)]
                yield shape, kind, l, drawn
    for name, l in SETS.items():
        path = None if data is None else data / f"{name}.parquet"
        if path is None or not path.exists():
            print(f"skipped {name}: it is not in a folder given by --data")
            continue
        people = read_pairs(path)
        best = np.sort(np.argsort(-people.frequency(), kind="stable")[:MOST_KEYS])
        yield name, "real", l, [people.restrict(best)] * runs


# --- distances ---


def distances(data: Path | None, runs: int) -> Rows:
    """A row for each population, epsilon and method."""
    rows: Rows = []
    for name, kind, l, drawn in cells(data, runs):
        truths = [Truth.of(people, distribution=True) for people in drawn]
        for epsilon in EPSILONS:
            found: dict[str, list[float]] = {}
            for run, (people, truth) in enumerate(zip(drawn, truths, strict=True)):
                for method, apart in distance(people, truth, l, epsilon, run):
                    found.setdefault(method, []).append(apart)
            means = {method: float(np.mean(each)) for method, each in found.items()}
            for method, each in found.items():
                row = {
                    "values": name,
                    "shapes": kind,
                    "l": l,
                    "epsilon": epsilon,
                    "method": method,
                    "w1_top": round(means[method], 5),
                    "standard_error": round(float(np.std(each, ddof=1)) / len(each) ** 0.5, 5),
                    "over_ue_sw": round(means[method] / means["ue-sw"], 3),
                    "over_best": round(means[method] / min(means.values()), 3),
                    "goal": goal(name, kind, l, epsilon, method),
                }
                rows.append(row)
                print(*row.values(), sep="\t", flush=True)
    return rows


def goal(name: str, kind: str, l: int, epsilon: float, method: str) -> str:
    """What was hoped for, of which columns."""
    if method == "auto":
        return "over_best 1.05"
    if method != "dither" or l != 4 or kind == "real":
        return ""
    if epsilon > 2:
        return "over_ue_sw 0.95"
    return "over_ue_sw 0.60" if name in ("normal", "bimodal") else "over_ue_sw 0.75"


def distance(
    people: Population, truth: Truth, l: int, epsilon: float, run: int
) -> Iterator[tuple[str, float]]:
    """How far each method's distributions are from the truth."""
    seed = (1, int(10 * epsilon), run)
    for name in WAVES:
        protocol = build_protocol(name, epsilon, n_keys=people.n_keys, pairs_per_user=l)
        outcome = play(protocol, people, insecure_generator(*seed))
        yield name, measure(truth, outcome.published, TOP, outcome.distribution).wasserstein_top
    mechanism = build("bucket", epsilon, n_keys=people.n_keys, pairs_per_user=l, cohorts=1024)
    tally = draw_tally(mechanism, people, insecure_generator(*seed), dither=DITHER_BINS)
    spread, raw = dithered_spread(mechanism, tally), estimate(mechanism, tally.pooled)
    for name, levels in (("isotonic", isotonic(spread)), ("dither", shapes(spread))):
        yield name, measure(truth, raw, TOP, marked(levels)).wasserstein_top
    asked = build_protocol(
        "auto",
        epsilon,
        n_keys=people.n_keys,
        pairs_per_user=l,
        users=people.n_users,
        want="distribution",
        dithered=True,
    )
    outcome = play(Dithered(protocol=asked, dither=DITHER_BINS), people, insecure_generator(*seed))
    yield "auto", measure(truth, outcome.published, TOP, outcome.distribution).wasserstein_top


def isotonic(spread: Spread) -> Floats:
    """Every key's own levels, made to fall."""
    held = np.maximum(spread.frequency, np.sqrt(spread.frequency_variance))[:, None]
    return falling((1 + spread.signed / held) / 2)


# --- intervals ---


def intervals(runs: int) -> Rows:
    """How often intervals hold what the population has."""
    rows: Rows = []
    for l in LENGTHS:
        for shape in SHAPES:
            people = population(shape, l, shared=False, seed=11)
            best = np.argsort(-people.frequency(), kind="stable")[:TOP]
            quantiles = {q: (people.quantile(q)[best] + 1) / 2 for q in QUANTILES}
            variance, shares = people.variance()[best] / 4, true_marks(people)[best]
            for epsilon in EPSILONS:
                mechanism = build("bucket", epsilon, n_keys=D, pairs_per_user=l, cohorts=1024)
                held: dict[str, list[Floats]] = {}
                for run in range(runs):
                    rng = insecure_generator(5, int(10 * epsilon), run)
                    whole = dithered_spread(mechanism, draw_tally(mechanism, people, rng, dither=DITHER_BINS))
                    spread, centre = whole.of(best), shapes(whole)[best]
                    for q, truth in quantiles.items():
                        low, high = quantile_interval(spread, q, centre=centre)
                        held.setdefault(f"q{100 * q:g}", []).append((low <= truth) & (truth <= high))
                        held.setdefault(f"q{100 * q:g}_length", []).append(high - low)
                        told = high - low < SHORT
                        held.setdefault("informative", []).append(((low <= truth) & (truth <= high))[told])
                    low, high = spread.band()
                    held.setdefault("band", []).append(((low <= shares) & (shares <= high)).all(axis=1))
                    _, low, high = spread.values_variance()
                    held.setdefault("variance", []).append((low <= variance) & (variance <= high))
                    held.setdefault("called_known", []).append(spread.flat_chance() < 0.05)
                row = {"values": shape, "l": l, "epsilon": epsilon, "runs": runs}
                row |= {name: round(float(np.mean(np.concatenate(each))), 4) for name, each in held.items()}
                rows.append(row)
                print(*row.values(), sep="\t", flush=True)
    return rows


def true_marks(people: Population) -> Floats:
    """The shares of each key's values by the marks between 16 levels."""
    parts = np.clip((people.values[:, None] + 1) / 2 * DITHER_BINS - np.arange(DITHER_BINS), 0, 1)
    holders = np.maximum(np.bincount(people.codes, minlength=people.n_keys), 1)
    levels = np.stack(
        [np.bincount(people.codes, parts[:, place], people.n_keys) / holders for place in range(DITHER_BINS)],
        axis=1,
    )
    return marked(levels).shares


# --- means, and speed ---


def means(runs: int) -> Rows:
    """Squared errors of f m with the dither over those without, of the same people."""
    rows: Rows = []
    for name, l in (("bucket", 1), ("bucket", 4), ("kvue", 4), ("pckv-ue", 4)):
        people = population("normal", l, shared=False, seed=3, n=20_000)
        truth = people.frequency() * people.mean()
        for epsilon in (1.0, 4.0):
            more = {} if name == "kvue" else {"pairs_per_user": l}
            mechanism = build(name, epsilon, n_keys=D, **more)
            off: dict[int, Floats] = {}
            for dither in (1, DITHER_BINS):
                tallies = (
                    draw_tally(mechanism, people, insecure_generator(9, dither, run), dither=dither)
                    for run in range(runs)
                )
                found = [estimate(mechanism, tally.pooled).signed - truth for tally in tallies]
                off[dither] = np.mean(np.square(found)[:, :TOP], axis=1)
            plain, public = off[1], off[DITHER_BINS]
            ratio = public.mean() / plain.mean()
            error = (
                (np.var(public, ddof=1) + ratio**2 * np.var(plain, ddof=1)) ** 0.5 / plain.mean() / runs**0.5
            )
            row = {"mechanism": name, "l": l, "epsilon": epsilon, "runs": runs, "ratio": round(ratio, 4)}
            rows.append(row | {"standard_error": round(float(error), 4)})
            print(*rows[-1].values(), sep="\t", flush=True)
    return rows


def campaign(name: str, epsilon: float, l: int, dither: int, keys: int = D) -> Campaign:
    """A campaign of one round."""
    return Campaign(
        name="dither",
        epsilon=epsilon,
        keys=[f"key {code}" for code in range(keys)],
        value_range=(0, 1),
        pairs_per_user=l,
        mechanism=name,
        dither=dither,
    )


def speed() -> Rows:
    """Seconds, fastest of five."""
    rows: Rows = []
    n, keys = FEW["reports"], FEW["keys"]
    rng, l = insecure_generator(1), 4
    codes = (rng.integers(0, keys - l, n)[:, None] + np.arange(l)).ravel()
    offsets, values = l * np.arange(n + 1), rng.uniform(-1, 1, n * l)
    people = Records(offsets=offsets, codes=codes, values=values)
    for name in ("bucket", "pckv-grr", "kvue", "pckv-ue"):
        counted: dict[int, float] = {}
        released = 0.0
        for dither in (1, DITHER_BINS):
            asked = campaign(name, 1.0, l, dither, keys)
            stands = asked.only_round()
            reports = perturb_many(stands.mechanism, people, tag=asked.tag, is_dithered=stands.is_dithered)
            block = Block(
                data=reports.ravel(),
                starts=np.arange(n) * reports.shape[1],
                lengths=np.full(n, reports.shape[1]),
            )
            found = tally_partition(stands, [block]).tally
            counted[dither] = fastest(lambda block=block, stands=stands: tally_partition(stands, [block]))
            released = fastest(lambda asked=asked, found=found: asked.estimate(found).to_json())
        row = {
            "mechanism": name,
            "reports": n,
            "keys": keys,
            "counted": round(counted[DITHER_BINS], 3),
            "over_undithered": round(counted[DITHER_BINS] / counted[1], 3),
            "counted_and_released": round(counted[DITHER_BINS] + released, 3),
        }
        rows.append(row)
        print(*row.values(), sep="\t", flush=True)
    return rows


def fastest(work: Callable[[], object]) -> float:
    """Of five."""
    spent = []
    for _ in range(5):
        started = time.perf_counter()
        work()
        spent.append(time.perf_counter() - started)
    return min(spent)


def main(data: Path | None, runs: int, only: str | None = None) -> None:
    """All tables, or one."""
    for name, make in (
        ("speed", speed),
        ("distances", lambda: distances(data, runs)),
        ("intervals", lambda: intervals(2 * runs)),
        ("means", lambda: means(500 * runs)),
    ):
        if only not in (None, name):
            continue
        rows = make()
        with (RESULTS / f"dither_{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
