"""What a series shows: smoothing, coverage, steps and false alarms, over worlds that stay and worlds that
move.

    python bench/series.py [--series 20] [--still 500] [--only worlds,steps,alarms,speed] [--worlds NAME;..]

10^5 devices answer one of 26 waves each (`answers` = 1), at epsilon 2, about 50 keys: key k is held by .2 /
k of the crowd, one key a device. Tallies are drawn from the exact law of what the planner takes. The grid
of `estimate.series` was chosen on normal draws of the worlds that `tuned` says "yes" of, and of others much
like those that it says "kin" of; those with "no" were written by somebody else when it was done, as a
referee. With `--worlds` only these rows are measured, the others stay. `movers` are keys whose level moves
by more than a tenth of its largest.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keyveil.estimate import Estimates, estimate
from keyveil.estimate.series import Observations, changed_since, smooth, steps
from keyveil.estimate.sizes import SizeLaw
from keyveil.mechanisms import Mechanism
from keyveil.plan.crowd import Crowd
from keyveil.plan.predict import candidates
from keyveil.simulate import Population, draw_tally, insecure_generator

RESULTS = Path(__file__).parent / "results"
DEVICES, WAVES, KEYS, EPSILON, SEED = 100_000, 26, 50, 2.0, 24
POPULARITY = 0.2 / np.arange(1, KEYS + 1)
Row = dict[str, str]


class World(NamedTuple):
    """How a crowd's levels run (waves by keys), and what the series meets."""

    levels: Callable[[np.random.Generator, int], np.ndarray]
    tuned: str = "kin"
    period: int | None = None
    devices: int = DEVICES
    epsilon: float = EPSILON
    waves: int = WAVES
    silent: tuple[int, ...] = ()
    """Waves that nothing was heard in."""
    uneven: float = 0.0
    """Spread of the logarithm of how many answer in a wave."""
    late: int = 0
    """The last ten keys are first asked about in this wave."""


def still(rng: np.random.Generator, waves: int) -> np.ndarray:
    """Nothing moves."""
    return np.tile(POPULARITY, (waves, 1))


def drifting(rng: np.random.Generator, waves: int) -> np.ndarray:
    """Every key walks by some 5 % of its popularity a wave."""
    return POPULARITY * np.exp(rng.normal(0, 0.05, (waves, KEYS)).cumsum(axis=0))


def jumping(rng: np.random.Generator, waves: int) -> np.ndarray:
    """Ten keys jump once, to a half, one and a half or twice."""
    found = still(rng, waves)
    for key in rng.choice(KEYS, 10, replace=False):
        found[rng.integers(3, waves - 3) :, key] *= rng.choice([0.5, 1.5, 2.0])
    return found


def seasonal(rng: np.random.Generator, waves: int) -> np.ndarray:
    """Half of the keys are held by 60 % more in two waves of seven."""
    found = still(rng, waves)
    found[np.isin(np.arange(waves) % 7, (5, 6)), ::2] *= 1.6
    return found


def restless(rng: np.random.Generator, waves: int) -> np.ndarray:
    """Every key jumps in one wave of eight, anywhere between a third and twice."""
    found = still(rng, waves)
    for wave in range(1, waves):
        jumps = rng.random(KEYS) < 1 / 8
        found[wave:, jumps] = (POPULARITY * rng.uniform(0.33, 2, KEYS))[jumps]
    return found


def pulses(rng: np.random.Generator, waves: int) -> np.ndarray:
    """A quarter of the keys is held by twice as many for two waves."""
    found = still(rng, waves)
    for key in range(0, KEYS, 4):
        at = rng.integers(2, waves - 3)
        found[at : at + 2, key] *= 2
    return found


def ramps(rng: np.random.Generator, waves: int) -> np.ndarray:
    """Every key grows or shrinks evenly, up to twofold."""
    return POPULARITY * np.exp(np.linspace(-0.5, 0.5, waves)[:, None] * rng.uniform(-0.7, 0.7, KEYS))


def waving(rng: np.random.Generator, waves: int) -> np.ndarray:
    """Slow waves, each key with a phase of its own."""
    turn = 2 * np.pi * (np.arange(waves)[:, None] / 20 + rng.random(KEYS))
    return POPULARITY * (1 + 0.4 * np.sin(turn))


def one_launch(rng: np.random.Generator, waves: int) -> np.ndarray:
    """One key rises from nothing to 15 % along an S; all others stay."""
    found = still(rng, waves)
    found[:, 20] = 0.15 / (1 + np.exp(-(np.arange(waves) - rng.uniform(8, 18))))
    return found


def noisy_days(rng: np.random.Generator, waves: int) -> np.ndarray:
    """Each wave's level is drawn anew, within 20 %: no walk, no step."""
    return POPULARITY * rng.lognormal(0, 0.2, (waves, KEYS))


def telegraph(rng: np.random.Generator, waves: int) -> np.ndarray:
    """A quarter of the keys goes back and forth between half and one and a half, each wave by chance."""
    flips = (rng.random((waves, KEYS)) < 0.15).cumsum(axis=0) % 2
    moves = np.arange(KEYS) % 4 == 1
    return POPULARITY * np.where(moves, np.where(flips == 1, 0.5, 1.5), 1.0)


def outage(rng: np.random.Generator, waves: int) -> np.ndarray:
    """Everything at once: all keys lose two fifths for two waves, and come back."""
    found = still(rng, waves)
    at = rng.integers(2, waves - 4)
    found[at : at + 2] *= 0.6
    return found


def adoption(rng: np.random.Generator, waves: int) -> np.ndarray:
    """Ten keys take the place of ten others, each pair along an S of its own pace."""
    found = still(rng, waves)
    pairs = rng.permutation(KEYS)[:20].reshape(10, 2)
    for gone, come in pairs:
        share = 1 / (1 + np.exp(-(np.arange(waves) - rng.uniform(5, waves - 5)) / rng.uniform(0.5, 4)))
        both = found[0, gone] + 0.1 * found[0, come]
        found[:, gone], found[:, come] = both * (1 - share), both * share
    return found


def wild_walk(rng: np.random.Generator, waves: int) -> np.ndarray:
    """Every key walks by steps with heavy tails."""
    return POPULARITY * np.exp(np.clip(0.03 * rng.standard_t(1.5, (waves, KEYS)), -2, 2).cumsum(axis=0)).clip(
        0.1, 5
    )


WORLDS = {
    "still": World(still, tuned="yes"),
    "drifting": World(drifting, tuned="yes"),
    "jumping": World(jumping, tuned="yes"),
    "seasonal": World(seasonal, period=7),
    "seasonal, 56 days": World(seasonal, period=7, waves=56, devices=2 * DEVICES),
    "still, asked for a season": World(still, period=7),
    "restless": World(restless),
    "pulses": World(pulses),
    "ramps": World(ramps),
    "waving": World(waving),
    "one launch": World(one_launch),
    "noisy days": World(noisy_days),
    "jumping, uneven, 3 waves silent": World(jumping, uneven=0.7, silent=(4, 5, 17)),
    "jumping, ten keys later": World(jumping, late=9),
    "still, 300 answers a wave": World(still, devices=300 * WAVES),
    "jumping, epsilon 6": World(jumping, epsilon=6.0),
    "drifting, epsilon 6": World(drifting, epsilon=6.0),
    "telegraph": World(telegraph, tuned="no"),
    "outage": World(outage, tuned="no"),
    "adoption": World(adoption, tuned="no"),
    "wild walk": World(wild_walk, tuned="no"),
}


def planned(epsilon: float, users: int) -> Mechanism:
    """What the planner takes for one wave."""
    crowd = Crowd(users=users, n_keys=KEYS, law=SizeLaw.exactly(1))
    return candidates(epsilon, crowd, want="frequency", at=None)[0].mechanism


def people(levels: np.ndarray, n: int, rng: np.random.Generator) -> Population:
    """Those who answer in one wave, each with one key or none."""
    drawn = rng.choice(KEYS + 1, n, p=[*levels, max(0.0, 1 - levels.sum())])
    held = drawn < KEYS
    return Population(
        names=[str(key) for key in range(KEYS)],
        offsets=np.concatenate([[0], held.cumsum()]).astype(np.int64),
        codes=drawn[held],
        values=np.zeros(int(held.sum())),
    )


def hear(world: World, levels: np.ndarray, mechanism: Mechanism, rng: np.random.Generator) -> Observations:
    """A series of that world, tally by tally."""
    crowd = np.exp(world.uneven * rng.standard_normal(world.waves))
    crowd[list(world.silent)] = 0
    answers = rng.multinomial(world.devices, crowd / crowd.sum())
    waves: list[Estimates | None] = [
        estimate(mechanism, draw_tally(mechanism, people(level, int(n), rng), rng)) if n else None
        for level, n in zip(levels, answers, strict=True)
    ]
    seen = Observations.of_frequencies(waves, n_keys=KEYS)
    if not world.late:
        return seen
    value = seen.estimate.copy()
    value[: world.late, -10:] = np.nan
    return Observations.of_arrays(value, seen.standard_error)


def drawn_levels(world: World, rng: np.random.Generator) -> np.ndarray:
    """The world's levels, of people who hold one key at most."""
    levels = world.levels(rng, world.waves)
    return levels / np.maximum(levels.sum(axis=1, keepdims=True), 1.0)


def holds(ends: tuple[np.ndarray, np.ndarray], truth: np.ndarray) -> np.ndarray:
    """Which intervals hold the truth."""
    low, high = ends
    return (low <= truth) & (truth <= high)


def measure(name: str, series: int) -> Row:
    """A row of the table: errors are compared where something was heard, intervals smoothed everywhere."""
    world = WORLDS[name]
    mechanism = planned(world.epsilon, world.devices // world.waves)
    sums = np.zeros(4)
    covered: list[list[float]] = [[], [], []]
    seasons = 0
    for number in range(series):
        rng = insecure_generator(SEED, list(WORLDS).index(name), number)
        levels = drawn_levels(world, rng)
        seen = hear(world, levels, mechanism, rng)
        found = smooth(seen, period=world.period)
        seasons += found.season_p_value is not None
        raw = np.where(seen.heard, (seen.estimate - levels) ** 2, 0.0)
        smoothed = np.where(seen.heard, (found.estimate - levels) ** 2, 0.0)
        movers = np.ptp(levels, axis=0) > 0.1 * levels.max(axis=0)
        sums += raw.sum(), smoothed.sum(), raw[:, movers].sum(), smoothed[:, movers].sum()
        inside = holds(found.interval(), levels)
        covered[0].append(float(holds(seen.interval(), levels)[seen.heard].mean()))
        covered[1].append(float(inside.mean()))
        covered[2].append(float(inside[:, movers].mean()) if movers.any() else np.nan)
    told = np.array(covered)
    return {
        "world": name,
        "tuned": world.tuned,
        "series": str(series),
        "raw_rmse": f"{np.sqrt(sums[0] / series / world.waves / KEYS):.5f}",
        "smoothed_to_raw": f"{sums[1] / sums[0]:.3f}",
        "of_movers": f"{sums[3] / sums[2]:.3f}" if sums[2] else "",
        "raw_coverage": f"{told[0].mean():.4f}",
        "coverage": f"{told[1].mean():.4f}",
        "coverage_error": f"{told[1].std(ddof=1) / np.sqrt(series):.4f}",
        "coverage_of_movers": "" if np.isnan(told[2]).all() else f"{np.nanmean(told[2]):.4f}",
        "seasons_found": str(seasons) if world.period else "",
    }


def five_points(series: int) -> list[dict[str, float]]:
    """A key of 20 % rises to 25 %: is it dated within two waves, do its set and its interval hold it?"""
    mechanism, world, rows = planned(EPSILON, DEVICES // WAVES), WORLDS["still"], []
    for edge in (1, 4, 7, 10, 13):
        dated = held = sized = said = others = 0
        for number in range(series):
            rng = insecure_generator(SEED, 100 + edge, number)
            levels = still(rng, WAVES)
            after = edge if number % 2 else WAVES - edge
            levels[after:, 0] += 0.05
            found = steps(hear(world, levels, mechanism, rng))
            own = [step for step in found if step.key == 0]
            said += len(own)
            others += len(found) - len(own)
            dated += any(abs(step.after - (after - 1)) <= 2 for step in own)
            held += any(step.earliest <= after - 1 <= step.latest for step in own)
            sized += any(step.low <= 0.05 <= step.high for step in own)
        rows.append(
            {
                "waves_on_the_shorter_side": edge,
                "series": series,
                "within_two_waves": dated / series,
                "steps_told_a_series": said / series,
                "set_holds_it": held / max(said, 1),
                "interval_of_size_holds_it": sized / max(said, 1),
                "false_steps_in_other_keys": others / series,
            }
        )
    return rows


def false_alarms(series: int) -> list[dict[str, float | str]]:
    """How often a series in which nothing moves is said to have a step or a change, at the stated 5 %."""
    rows: list[dict[str, float | str]] = []
    for name in ("still", "still, 300 answers a wave"):
        world = WORLDS[name]
        mechanism = planned(world.epsilon, world.devices // world.waves)
        steps_told = changes_told = seasons = 0
        for number in range(series):
            rng = insecure_generator(SEED, 200 + world.devices, number)
            seen = hear(world, still(rng, WAVES), mechanism, rng)
            steps_told += bool(steps(seen))
            changes_told += any(changed_since(seen, wave) for wave in range(WAVES - 1))
            seasons += "season" in smooth(seen, period=7).steps
        rows.append(
            {
                "world": name,
                "series": series,
                "stated": 0.05,
                "with_a_step": steps_told / series,
                "with_a_change_since_any_wave": changes_told / series,
                "with_a_season": seasons / series,
            }
        )
    return rows


def speed() -> list[dict[str, float]]:
    """Seconds for a series of 52 waves, a tenth of the keys with a step."""
    rows = []
    for keys in (100, 1000, 5000):
        rng = insecure_generator(SEED, 300, keys)
        value = rng.normal(0.05, 0.015, (52, keys))
        value[26:, ::10] += 0.05
        seen = Observations.of_arrays(value, np.full_like(value, 0.015))
        times = []
        for work in (lambda: smooth(seen), lambda: smooth(seen, period=7), lambda: steps(seen)):  # noqa: B023
            started = time.process_time()
            work()
            times.append(round(time.process_time() - started, 2))
        rows.append({"keys": keys, "smooth": times[0], "with_a_season": times[1], "steps": times[2]})
    return rows


def measure_worlds(names: list[str], series: int) -> None:
    """Measure these, and leave the other rows of the table as they are."""
    path, rows = RESULTS / "series.csv", {}
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            rows = {row["world"]: row for row in csv.DictReader(file)}
    for name in names:
        rows[name] = measure(name, series)
        print(*rows[name].values(), sep="\t", flush=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[names[0]]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(row for name in WORLDS if (row := rows.get(name)))


def main() -> None:
    """Print, and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--series", type=int, default=20)
    parser.add_argument("--still", type=int, default=500)
    parser.add_argument("--only", default="worlds,steps,alarms,speed")
    parser.add_argument("--worlds", default=";".join(WORLDS))
    asked = parser.parse_args()
    wanted = asked.only.split(",")
    if "worlds" in wanted:
        measure_worlds(asked.worlds.split(";"), asked.series)
    path = RESULTS / "series.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    parts = {
        "steps": lambda: five_points(200),
        "alarms": lambda: false_alarms(asked.still),
        "speed": speed,
    }
    for part in (part for part in parts if part in wanted):
        found[part] = parts[part]()
        print(json.dumps(found[part], indent=1), flush=True)
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
