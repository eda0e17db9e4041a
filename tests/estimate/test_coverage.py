"""Intervals of 95 % cover in 95 of 100 collections, for frequent, middling and rare keys.

Those of means cover as often among the ones that say something.

The population is fixed, only the mechanism draws. `simulate.coverage` says why means may be covered more
often; bench/intervals.py measures what is kept in bench/results/coverage.csv.
"""

import csv
import math
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from keyveil.methods import METHODS, mechanism_of
from keyveil.protocols import build_protocol
from keyveil.simulate import Population, coverage, insecure_generator
from keyveil.testing import Z

ROOT = Path(__file__).parents[2]
PROMISED = (0.935, 0.965)
SIGNED = ("bucket", "pckv-ue", "pckv-grr", "kvue")
OTHERS = ("privkv", "privkvm-star", "ks-ue", "levels", "oue-harmony")
PAIRS = 3
ELSEWHERE = (*(name for name in METHODS if mechanism_of(name) != name), "auto")
METHODS_WITH_INTERVALS = (*(name for name in METHODS if name not in ELSEWHERE), "privkvm-star oue")
# Six keys each: frequent, middling, rare.
GROUPS = {"frequent": slice(0, 6), "middling": slice(6, 12), "rare": slice(12, 18)}
SHARES = np.repeat([0.25, 0.05, 0.005], 6)


def people(users: int) -> Population:
    """Users hold up to three of 18 keys; values of a key scatter around its own mean."""
    rng = insecure_generator(41)
    keys = np.argsort(rng.random((users, 18)) / SHARES, axis=1)[:, :PAIRS]
    held = rng.random((users, PAIRS)) < 0.75
    owners = np.nonzero(held)[0]
    codes = keys[held]
    centres = np.tile([-0.9, -0.4, 0.0, 0.3, 0.6, 0.95], 3)
    values = np.clip(centres[codes] + rng.normal(0.0, 0.3, codes.size), -1.0, 1.0)
    return Population.from_pairs(owners, codes, values, n_users=users, names=[str(k) for k in range(18)])


@pytest.mark.statistical
@pytest.mark.parametrize("name", [*SIGNED, *OTHERS])
def test_intervals_cover_and_shorter_ones_do_not(name):
    population, runs = people(5000), 200
    protocol = build_protocol(name, 4, n_keys=18, pairs_per_user=PAIRS)
    # Misses of a group's six keys are nearly independent.
    slack = Z * math.sqrt(0.95 * 0.05 / (6 * runs))
    honest, short = (
        coverage(protocol, population, insecure_generator(43), runs=runs, stretch=stretch)
        for stretch in (1.0, 0.8)
    )
    for group, keys in GROUPS.items():
        covered, missed = honest.frequency[keys].mean(), short.frequency[keys].mean()
        assert abs(covered - 0.95) < slack, f"{name}, {group}: {covered}"
        assert missed < 0.95 - slack, f"{name}, {group}: {missed}"
        assert honest.mean[keys].mean() > 0.95 - slack, f"{name}, {group}: {honest.mean[keys]}"
    if name in SIGNED:
        frequent = GROUPS["frequent"]
        assert (honest.known[frequent] == 1).all()
        # Where statements about r of d keys are made, each is made at the level 1 - r 5 % / d.
        level = 1 - 0.05 * honest.known.mean()
        assert abs(honest.mean[frequent].mean() - level) < slack
        assert short.mean[frequent].mean() < level - slack


@pytest.fixture(scope="module")
def bench():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "bench")
        yield import_module("intervals")


def test_the_committed_table_holds_every_method_and_keeps_the_promise(bench):
    with (ROOT / "bench/results/coverage.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    cells = [(row["method"], float(row["epsilon"]), row["popularity"]) for row in rows]
    assert sorted(cells) == sorted(
        (name, epsilon, popularity)
        for name in METHODS_WITH_INTERVALS
        for epsilon in bench.EPSILONS
        for popularity in bench.SKEWS
    )
    for row in rows:
        for group in bench.GROUPS:
            assert PROMISED[0] <= float(row[group]) <= PROMISED[1], row
            assert float(row[f"{group}_mean"]) >= PROMISED[0], row


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", METHODS_WITH_INTERVALS)
def test_two_thousand_collections_cover_as_often_as_promised(bench, name):
    for row in bench.measure(name):
        print(f"\n{name} epsilon {row['epsilon']}, {row['popularity']}:", end="")
        for group in bench.GROUPS:
            covered, mean, known = (row[f"{group}{of}"] for of in ("", "_mean", "_mean_known"))
            print(f" {group} {covered:.4f} (mean {mean:.4f}, known {known:.3f})", end="")
            assert PROMISED[0] <= covered <= PROMISED[1], row
            assert mean >= PROMISED[0], row
            # Of r statements about d keys each is made at the level 1 - r 5 % / d; rare keys are told least.
            missed = 0.05 * known * min(row["frequent_mean_known"], row["rare_mean_known"])
            if name in SIGNED and missed > 0.01:
                # 100 of 10,000 or more: five standard errors are half of that.
                assert mean <= 1 - missed / 2, row
