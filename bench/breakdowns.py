"""Breakdowns: segments pulled together and told apart, private segments beside a split budget, pairs of keys.

    python bench/breakdowns.py [--tables 500] [--runs 20] [--only worlds,alarms,private,pairs,price,speed]

Tallies are drawn from the exact law of the mechanism, for people who are drawn anew in every run; the truth
of segments and pairs is the law that people are drawn from, that of private cells the people themselves.

worlds    clear segments: coverage of cells, raw and pulled towards the whole, of differences one by one and
          all at once, the MSE of pulled cells by that of raw ones, and how many true differences are listed
alarms    tables without differences in which anything is listed
private   private cells by `bucket` over (segment, key), and by label and key of their own budgets as in
          arXiv 2504.13526: `SplitBudget`
pairs     30 keys, 4 of them a user, 300,000 users: errors, coverage, lifts that are surely not 1
price     what singles cost pairs, what a private segment costs cells and totals, by the mechanism's moments
speed     64 segments of 1,000 keys
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keyveil.domain import Labelled, Pairs
from keyveil.estimate import Estimates, estimate, uncollide
from keyveil.estimate.breakdowns import (
    Cells,
    between,
    by_segment,
    design_effect,
    from_whole,
    most_different,
    of_all,
    pairs_together,
    towards_whole,
)
from keyveil.mechanisms import Bucket, Mechanism, build
from keyveil.simulate import Population, draw_tally, insecure_generator
from keyveil.simulate.breakdowns import crossed, in_segments, with_tastes

RESULTS = Path(__file__).parent / "results"
SEED = 25
Row = dict[str, Any]


class World(NamedTuple):
    """Segments and how they differ from what all would be."""

    shares: tuple[float, ...]
    keys: int
    users: int
    epsilon: float
    apart: Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
    """What the popularity of every cell is multiplied by."""
    mechanism: str = "bucket"
    pairs_per_user: int = 4


def alike(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """No segment differs."""
    return np.ones(shape)


def spread(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Every cell differs by some 30 %."""
    return rng.lognormal(0, 0.3, shape)


def slightly(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Every cell differs by some 10 %."""
    return rng.lognormal(0, 0.1, shape)


def one_key_in_ten(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Of one key in ten one segment holds twice as much; all else is alike."""
    found = np.ones(shape)
    keys = rng.choice(shape[1], shape[1] // 10, replace=False)
    found[rng.integers(0, shape[0], keys.size), keys] = 2.0
    return found


FOUR, UNEVEN = (0.25,) * 4, (0.5, 0.3, 0.15, 0.05)
MANY = tuple(1 / np.arange(1, 65))
WORLDS = {
    "alike": World(FOUR, 50, 20_000, 2.0, alike),
    "alike, uneven": World(UNEVEN, 50, 20_000, 2.0, alike),
    "alike, epsilon 6": World(UNEVEN, 50, 20_000, 6.0, alike),
    "alike, 64 segments": World(MANY, 20, 40_000, 4.0, alike, "pckv-ue", 3),
    "alike, kvue": World(UNEVEN, 50, 40_000, 1.0, alike, "kvue", 1),
    "alike, 250 users a segment": World(FOUR, 100, 1000, 2.0, alike, "pckv-ue", 2),
    "slightly apart": World(UNEVEN, 50, 200_000, 2.0, slightly),
    "apart": World(UNEVEN, 50, 200_000, 2.0, spread),
    "apart, epsilon 1": World(UNEVEN, 50, 40_000, 1.0, spread),
    "apart, epsilon 6": World(UNEVEN, 50, 40_000, 6.0, spread),
    "apart, 64 segments": World(MANY, 20, 200_000, 4.0, spread, "pckv-ue", 3),
    "one key in ten": World(FOUR, 50, 200_000, 2.0, one_key_in_ten),
}


def people_of(world: World, rng: np.random.Generator) -> tuple[np.ndarray, list[Population]]:
    """The law of cells, and the people of every segment."""
    size = len(world.shares), world.keys
    popular = world.pairs_per_user / 2 / np.arange(1, world.keys + 1)
    popular *= world.pairs_per_user / 2 / popular.sum()
    law = np.clip(popular * world.apart(rng, size), 0, 1)
    people, labels = in_segments(
        shares=np.array(world.shares),
        frequency=law,
        mean=np.zeros(size),
        users=world.users,
        seed=int(rng.integers(1 << 62)),
    )
    return law, [people.take(np.flatnonzero(labels == segment)) for segment in range(size[0])]


def measured(mechanism: Mechanism, people: Population, rng: np.random.Generator) -> Estimates:
    """The unbiased estimates of a tally of these people."""
    return uncollide(mechanism, estimate(mechanism, draw_tally(mechanism, people, rng)))  # type: ignore[arg-type]


def mechanism_of(world: World, longest: int) -> Mechanism:
    """A kernel that cuts nobody's record."""
    length = 1 if world.mechanism == "kvue" else min(longest, world.keys)
    return build(world.mechanism, world.epsilon, n_keys=world.keys, pairs_per_user=length)


def heard(world: World, rng: np.random.Generator) -> tuple[np.ndarray, Cells]:
    """The law of the cells, and what is told of them."""
    law, segments = people_of(world, rng)
    mechanism = mechanism_of(world, max(int(people.sizes.max(initial=1)) for people in segments))
    return law, Cells.of_frequencies([measured(mechanism, people, rng) for people in segments])


def holds(ends: tuple[np.ndarray, np.ndarray], truth: np.ndarray) -> np.ndarray:
    """Which intervals hold the truth."""
    return (ends[0] <= truth) & (truth <= ends[1])


def measure(name: str, runs: int) -> Row:
    """A row of `breakdowns.csv`."""
    world, sums = WORLDS[name], np.zeros(2)
    covered: list[list[float]] = [[], [], [], [], []]
    at_once = found = wrong = 0
    for number in range(runs):
        rng = insecure_generator(SEED, list(WORLDS).index(name), number)
        law, cells = heard(world, rng)
        pulled = towards_whole(cells)
        total = (cells.share * law).sum(axis=0)
        pairs, apart = between(cells)
        whole = from_whole(cells)
        sums += ((cells.estimate - law) ** 2).sum(), ((pulled.estimate - law) ** 2).sum()
        truth = law[pairs[:, 0]] - law[pairs[:, 1]]
        for kept, inside in zip(
            covered,
            (
                holds(cells.interval(), law),
                holds(pulled.interval(), law),
                holds(whole.interval(), law - total),
                holds(apart.interval(), truth),
                holds(cells.whole.interval(), total),
            ),
            strict=True,
        ):
            kept.append(float(inside.mean()))
        at_once += bool(holds(whole.simultaneous(), law - total).all())
        listed = most_different(cells)
        found += len(listed)
        wrong += sum(np.sign(each.size) != np.sign((law - total)[each.segment, each.key]) for each in listed)
    told = np.array(covered)
    return {
        "world": name,
        "runs": runs,
        "raw_rmse": f"{np.sqrt(sums[0] / runs / law.size):.5f}",
        "pulled_to_raw": f"{sums[1] / sums[0]:.3f}",
        "raw_coverage": f"{told[0].mean():.4f}",
        "pulled_coverage": f"{told[1].mean():.4f}",
        "coverage_error": f"{told[1].std(ddof=1) / np.sqrt(runs):.4f}",
        "coverage_from_whole": f"{told[2].mean():.4f}",
        "coverage_between": f"{told[3].mean():.4f}",
        "coverage_of_whole": f"{told[4].mean():.4f}",
        "all_at_once": f"{at_once / runs:.3f}",
        "listed_a_table": f"{found / runs:.2f}",
        "wrongly_listed": wrong,
    }


def alarms(tables: int) -> list[Row]:
    """How often a table without differences has anything on its list, at the stated 5 %."""
    rows = []
    for name, world in WORLDS.items():
        if not name.startswith("alike"):
            continue
        alarmed = 0
        for number in range(tables):
            rng = insecure_generator(SEED, 100 + list(WORLDS).index(name), number)
            alarmed += bool(most_different(heard(world, rng)[1]))
        rows.append({"world": name, "tables": tables, "stated": 0.05, "with_an_alarm": alarmed / tables})
    return rows


class SplitBudget:
    """Label and key by their own budgets: PTS, and PTS with correlated perturbation, of arXiv 2504.13526.

    The label is told by randomized response with a share of epsilon, the key by optimised unary encoding
    with the rest: one of l slots, which dummies fill up. PTS tells the key whatever became of the label, so
    what is counted by label is a mixture, which is inverted:

        E[N(s, k)] = sum_t P(s | t) n f_tk,          P = randomized response of S labels

    Correlated, a key is told where the label was kept, and else a dummy: E[N(s, k)] = P(s | s) n f_sk.
    """

    def __init__(self, epsilon: float, crossing: Labelled, pairs_per_user: int, share: float) -> None:
        self.labels, self.keys, self.l = len(crossing.labels), crossing.n_keys, pairs_per_user
        grown = np.exp(share * epsilon)
        self.kept, self.other = grown / (grown + self.labels - 1), 1 / (grown + self.labels - 1)
        self.p, self.q = 0.5, 1 / (np.exp((1 - share) * epsilon) + 1)

    def cells(
        self, people: Population, labels: np.ndarray, rng: np.random.Generator, *, correlated: bool
    ) -> np.ndarray:
        """Estimates of the shares of users in each segment who hold each key."""
        n = people.n_users
        slot = rng.integers(0, np.maximum(people.sizes, self.l))
        held = slot < people.sizes
        code = np.full(n, self.keys)
        code[held] = people.codes[people.offsets[:-1][held] + slot[held]]
        drawn = rng.integers(0, self.labels, n)
        told = np.where(rng.random(n) < self.kept - self.other, labels, drawn)
        if correlated:
            code = np.where(told == labels, code, self.keys)
        own = np.bincount(told * (self.keys + 1) + code, minlength=self.labels * (self.keys + 1))
        own = own.reshape(self.labels, self.keys + 1)[:, : self.keys]
        users = np.bincount(told, minlength=self.labels)[:, None]
        support = rng.binomial(own, self.p) + rng.binomial(users - own, self.q)
        shares = (support - users * self.q) / (self.p - self.q) * self.l / n
        if correlated:
            return shares / self.kept
        return (shares - self.other * shares.sum(axis=0)) / (self.kept - self.other)


def private(runs: int) -> list[Row]:
    """Errors of private cells, by ours and by split budgets at their best share in hindsight (tenths)."""
    rows, shares = [], np.arange(1, 10) / 10
    for epsilon in (1.0, 2.0):
        for labels, keys, l in ((4, 50, 1), (4, 50, 4), (16, 50, 4), (64, 20, 2)):
            crossing = Labelled(tuple(map(str, range(labels))), keys)
            ours = Bucket.for_epsilon(
                epsilon, n_keys=crossing.n_codes, pairs_per_user=crossing.length(l), rho=1
            )
            error, theirs, covered, totals = 0.0, np.zeros((2, shares.size)), [], []
            for number in range(runs):
                rng = insecure_generator(SEED, 200, labels, keys, l, int(epsilon), number)
                people, own, law = _labelled_people(labels, keys, l, rng)
                raw = measured(ours, crossed(people, crossing, own), rng)
                cell = own[np.repeat(np.arange(people.n_users), people.sizes)] * keys + people.codes
                truth = np.bincount(cell, minlength=labels * keys).reshape(law.shape) / people.n_users
                told = raw.frequency.reshape(labels, crossing.width)[:, :keys]
                error += float(((told - truth) ** 2).mean())
                for place, share in enumerate(shares):
                    split = SplitBudget(epsilon, crossing, l, float(share))
                    for kind in (False, True):
                        guess = split.cells(people, own, rng, correlated=kind)
                        theirs[int(kind), place] += float(((guess - truth) ** 2).mean())
                cells = Cells.of_frequencies(by_segment(raw, crossing))
                covered.append(float(holds(cells.interval(), law)[cells.known].mean()))
                total = of_all(raw, crossing)
                totals.append(float(holds(total.frequency_interval(), people.frequency()).mean()))
            pts, correlated = theirs.min(axis=1)
            rows.append(
                {
                    "epsilon": epsilon,
                    "segments": labels,
                    "keys": keys,
                    "pairs_per_user": l,
                    "runs": runs,
                    "rmse": round(float(np.sqrt(error / runs)), 5),
                    "rmse_pts": round(float(np.sqrt(pts / runs)), 5),
                    "rmse_pts_correlated": round(float(np.sqrt(correlated / runs)), 5),
                    "mse_to_pts": round(error / float(pts), 3),
                    "mse_to_pts_correlated": round(error / float(correlated), 3),
                    "coverage_in_segments": round(float(np.mean(covered)), 4),
                    "coverage_of_totals": round(float(np.mean(totals)), 4),
                }
            )
    return rows


def _labelled_people(
    labels: int, keys: int, l: int, rng: np.random.Generator, users: int = 100_000
) -> tuple[Population, np.ndarray, np.ndarray]:
    """Users with at most l keys whose popularity depends on their segment, and the law of that."""
    weights = rng.lognormal(0, 0.3, (labels, keys)) / np.arange(1, keys + 1)
    weights /= weights.sum(axis=1, keepdims=True)
    own = rng.choice(labels, users, p=(shares := 1 / np.arange(2, labels + 2)) / shares.sum())
    drawn = np.stack(
        [(rng.random(users)[:, None] > weights.cumsum(axis=1)[own]).sum(axis=1) for _ in range(l)]
    )
    people = Population.from_pairs(
        np.tile(np.arange(users), l),
        drawn.ravel().clip(max=keys - 1),
        np.zeros(users * l),
        n_users=users,
        names=[str(key) for key in range(keys)],
    )
    return people, own, 1 - (1 - weights) ** l


def pairs(runs: int) -> list[Row]:
    """Joint shares, lifts and means of pairs; the share that means cost."""
    users, keys, l = 300_000, 30, 4
    crossing = Pairs.among(range(keys))
    # The law of the draw, from many more people than are asked.
    law = _joint(with_tastes(users=2_000_000, keys=keys, pairs_per_user=l, tastes=3, seed=99), crossing)
    chance = law.single[crossing_first(crossing)] * law.single[crossing_second(crossing)]
    lift = law.both / chance
    rows = []
    for rho in (1, 0):
        for epsilon in (1.0, 2.0, 4.0):
            mechanism = Bucket.for_epsilon(
                epsilon, n_keys=crossing.n_codes, pairs_per_user=crossing.length(l), rho=rho
            )
            errors = np.zeros(3)
            covered: list[list[float]] = [[], [], [], []]
            sure = wrong = at_once = 0
            for number in range(runs):
                rng = insecure_generator(SEED, 300, rho, int(epsilon), number)
                people = with_tastes(
                    users=users, keys=keys, pairs_per_user=l, tastes=3, seed=int(rng.integers(1 << 62))
                )
                true = _joint(people, crossing)
                raw = measured(mechanism, crossed(people, crossing), rng)
                found = pairs_together(raw, crossing)
                readable = np.clip(found.both, 0, 1)
                for place, guess in enumerate((found.both, readable, found.towards_chance())):
                    errors[place] += float(((guess - true.both) ** 2).mean())
                _, low, high = found.given(0)
                means = raw.mean_interval_alone()
                on_pairs = slice(keys, None)
                covered[0].append(float(holds(found.interval(), law.both).mean()))
                covered[1].append(float(holds(found.lift_interval(), lift)[found.clear].mean()))
                share = law.both / law.single[crossing_first(crossing)]
                covered[2].append(float(holds((low, high), share)[found.clear].mean()))
                if rho == 0:
                    covered[3].append(
                        float(holds((means[0][on_pairs], means[1][on_pairs]), true.mean).mean())
                    )
                surely = found.surely()
                at_once += bool(holds(found.lift_interval(together=True), lift)[found.clear].all())
                sure += int(np.abs(surely).sum())
                wrong += int((surely * (lift - 1) < 0).sum())
            rows.append(
                {
                    "epsilon": epsilon,
                    "means": rho == 0,
                    "runs": runs,
                    "rmse": round(float(np.sqrt(errors[0] / runs)), 5),
                    "rmse_in_range": round(float(np.sqrt(errors[1] / runs)), 5),
                    "rmse_towards_chance": round(float(np.sqrt(errors[2] / runs)), 5),
                    "coverage": round(float(np.mean(covered[0])), 4),
                    "coverage_of_lifts": round(float(np.mean(covered[1])), 4),
                    "coverage_of_given": round(float(np.mean(covered[2])), 4),
                    "coverage_of_means": round(float(np.mean(covered[3])), 4) if covered[3] else None,
                    "lifts_all_at_once": at_once / runs,
                    "surely_not_1": round(sure / runs / len(crossing.held), 3),
                    "surely_wrong": wrong,
                }
            )
    return rows


class Joint(NamedTuple):
    """Shares of keys and pairs, and means of the one among holders of the other."""

    single: np.ndarray
    both: np.ndarray
    mean: np.ndarray


def _joint(people: Population, crossing: Pairs) -> Joint:
    over = crossed(people, crossing)
    share, keys = over.frequency(), len(crossing.keys)
    return Joint(share[:keys], share[keys::2], over.mean()[keys:])


def crossing_first(crossing: Pairs) -> np.ndarray:
    """The first key of each pair."""
    return np.array([pair[0] for pair in crossing.held])


def crossing_second(crossing: Pairs) -> np.ndarray:
    """The second."""
    return np.array([pair[1] for pair in crossing.held])


def no_affinity(tables: int) -> Row:
    """How often pairs that chance alone brings together have a lift that is surely not 1."""
    keys, users, alarmed = 12, 30_000, 0
    crossing = Pairs.among(range(keys))
    popular = 0.5 / np.arange(1, keys + 1) ** 0.5
    for number in range(tables):
        rng = insecure_generator(SEED, 400, number)
        people, _ = in_segments(
            shares=np.ones(1),
            frequency=popular[None],
            mean=np.zeros((1, keys)),
            users=users,
            seed=int(rng.integers(1 << 62)),
        )
        longest = int(people.sizes.max())
        mechanism = build("ks-ue", 4, n_keys=crossing.n_codes, pairs_per_user=crossing.length(longest))
        raw = measured(mechanism, crossed(people, crossing), rng)
        alarmed += bool(np.abs(pairs_together(raw, crossing).surely()).any())
    return {"tables": tables, "pairs": len(crossing.held), "stated": 0.05, "with_an_alarm": alarmed / tables}


def price() -> list[Row]:
    """Standard errors of a rare pair or cell, times the root of the number of users."""
    rows = []
    for epsilon in (1.0, 2.0, 4.0):
        for l in (2, 4, 8):
            keys = 30

            def noise(n: int, length: int, rho: float, looks: int = 1) -> float:
                made = Bucket.for_epsilon(epsilon, n_keys=n, pairs_per_user=length, rho=rho)  # noqa: B023
                return round(float(np.sqrt(made.moments.frequency_noise / looks)), 2)

            half = l * (l - 1) // 2
            crossing = Pairs.among(range(keys))
            rows.append(
                {
                    "epsilon": epsilon,
                    "pairs_per_user": l,
                    "keys_alone": noise(keys, l, 1),
                    "a_private_cell": noise(4 * (keys + 1), l + 1, 1),
                    "a_total_of_4_private_cells": round(2 * noise(4 * (keys + 1), l + 1, 1), 2),
                    "pairs_alone": noise(keys * (keys - 1) // 2, half, 1),
                    "pairs_and_keys": noise(keys * (keys + 1) // 2, half + l, 1),
                    "pairs_both_ways_and_keys": noise(crossing.n_codes, crossing.length(l), 1, 2),
                    "the_same_with_means": noise(crossing.n_codes, crossing.length(l), 0, 2),
                }
            )
    return rows


def speed() -> Row:
    """Seconds for 64 segments of 1,000 keys, each step alone."""
    rng = insecure_generator(SEED, 500)
    law = np.tile(0.3 / np.arange(1, 1001) ** 0.7, (64, 1))
    noise = np.full(law.shape, 0.01)
    cells = Cells.of_arrays(law + noise * rng.standard_normal(law.shape), noise, users=np.full(64, 2000))
    row: Row = {"segments": 64, "keys": 1000}
    steps: dict[str, Callable[[], object]] = {
        "towards_whole": lambda: towards_whole(cells),
        "from_whole": lambda: from_whole(cells).simultaneous(),
        "most_different": lambda: most_different(cells),
        "between": lambda: between(cells)[1].simultaneous(),
    }
    for name, work in steps.items():
        started = time.process_time()
        work()
        row[name] = round(time.process_time() - started, 3)
    row["design_effect_of_even_sizes"] = round(design_effect(np.arange(1.0, 65.0), np.full(64, 1 / 64)), 2)
    return row


def main() -> None:
    """Write breakdowns.csv and breakdowns.json; with --only, the other parts stay."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=500)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--only", default="worlds,alarms,private,pairs,price,speed")
    asked = parser.parse_args()
    wanted = asked.only.split(",")
    if "worlds" in wanted:
        rows = [measure(name, asked.runs) for name in WORLDS]
        with (RESULTS / "breakdowns.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    path = RESULTS / "breakdowns.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    parts: dict[str, Callable[[], object]] = {
        "alarms": lambda: [*alarms(asked.tables), {"world": "pairs by chance", **no_affinity(asked.tables)}],
        "private": lambda: private(asked.runs),
        "pairs": lambda: pairs(max(4, asked.runs // 4)),
        "price": price,
        "speed": speed,
    }
    for name, work in parts.items():
        if name in wanted:
            found[name] = work()
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
