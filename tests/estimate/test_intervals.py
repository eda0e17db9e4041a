"""Many keys at once: what is said of all of them holds for all of them."""

import itertools
import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest

from keyveil.domain import Record
from keyveil.errors import DomainError
from keyveil.estimate import (
    detectable_frequency,
    difference_se,
    estimate,
    rank_ranges,
    simultaneous_interval,
    tied_with,
)
from keyveil.mechanisms import build
from keyveil.simulate import draw_tally, insecure_generator, synthetic
from keyveil.tally import Tally
from keyveil.testing import Z, tally_law

SIGNED = ("bucket", "pckv-ue", "pckv-grr", "ks-ue", "kvue")
RECORDS = [Record.of(held) for held in ({}, {0: 1.0}, {1: 0.5}, {0: -1.0, 1: 0.25})]


# spec: users, keys: the detectable frequency at epsilon .5, 1, 2, 3, 5
@pytest.mark.parametrize(
    ("users", "keys", "printed"),
    [
        (10**6, 100, (0.0257, 0.0124, 0.0055, 0.0030, None)),
        (23_486, 1206, (0.192, 0.093, 0.041, 0.023, 0.008)),
    ],
)
def test_detectable_frequencies_are_those_of_the_design(users, keys, printed):
    for epsilon, expected in zip((0.5, 1, 2, 3, 5), printed, strict=True):
        if expected is not None:
            found = detectable_frequency(build("bucket", epsilon, n_keys=keys).moments, users, keys)
            assert found == pytest.approx(
                expected, abs=6e-4 if expected > 0.03 else 6e-5 * (1 + 9 * (keys > 100))
            )
    # At a hundred keys and epsilon 5 the design does without hashing, which is pckv-grr.
    unhashed = build("pckv-grr", 5, n_keys=100).moments
    assert round(detectable_frequency(unhashed, 10**6, 100), 4) == 0.0008


@pytest.mark.statistical
def test_a_detectable_key_is_found_nine_times_in_ten_and_others_are_not():
    rng, d, n, runs = insecure_generator(31), 50, 20_000, 1500
    moments = build("pckv-ue", 1, n_keys=d).moments
    threshold, error = detectable_frequency(moments, n, d), math.sqrt(moments.frequency_noise / n)
    alarm = threshold - 1.2815515655446004 * error
    noise = rng.normal(0, error, (runs, d))
    found, false = np.mean(noise[:, 0] + threshold > alarm), np.mean((noise > alarm).any(axis=1))
    assert abs(found - 0.9) < Z * math.sqrt(0.09 / runs)
    assert abs(false - 0.05) < Z * math.sqrt(0.0475 / runs)


# --- how two keys vary together ---


@pytest.mark.parametrize("name", ["pckv-ue", "ks-ue", "pckv-grr"])
def test_the_covariance_of_two_keys_is_what_the_moments_say(name):
    """Exact, for every record of at most two pairs; the record that holds both meets the bound."""
    mechanism = build(name, 1, n_keys=2, pairs_per_user=2)
    for record in RECORDS:
        law = defaultdict(Fraction)
        for answer in mechanism.answers():
            ticks = [place[0] for kind, place in mechanism.ticks(answer) if kind != "asked"]
            heard = tuple(
                mechanism.debias(Fraction(ticks.count(code)), 0, 1, number=Fraction)[0] for code in (0, 1)
            )
            law[heard] += mechanism.probability(answer, record)
        means = [sum(heard[code] * chance for heard, chance in law.items()) for code in (0, 1)]
        covariance = sum(f * g * chance for (f, g), chance in law.items()) - means[0] * means[1]
        held = [float(record.level(code) is not None) for code in (0, 1)]
        assert float(-covariance) == pytest.approx(mechanism.moments.rivalry(*held), rel=1e-12, abs=1e-15)


def test_sampled_indices_vary_together_as_a_population_does():
    """Given who was asked: -(f_jk - f_j f_k) / (n - 1), of either sign, never below the bound."""
    mechanism = build("kvue", 1, n_keys=2)
    for records in ([RECORDS[0], RECORDS[0], RECORDS[3]], [RECORDS[0], RECORDS[1], RECORDS[2]]):
        law, n = tally_law(mechanism, records), len(records)
        given = {cell[2:]: chance for cell, chance in law.items() if cell[:2] == (1, 2)}
        shares = {
            cell: [
                mechanism.debias(Fraction(cell[code] + cell[2 + code]), 0, code + 1, number=Fraction)[0]
                for code in (0, 1)
            ]
            for cell in given
        }
        total = sum(given.values())
        means = [sum(shares[cell][code] * c for cell, c in given.items()) / total for code in (0, 1)]
        covariance = sum(shares[cell][0] * shares[cell][1] * c for cell, c in given.items()) / total
        covariance -= means[0] * means[1]
        f_j, f_k, f_jk = (
            Fraction(sum(all(record.level(code) is not None for code in codes) for record in records), n)
            for codes in ((0,), (1,), (0, 1))
        )
        assert covariance == -(f_jk - f_j * f_k) / (n - 1)
        # The bound divides by n where a population divides by n - 1.
        assert -covariance * (n - 1) <= mechanism.moments.rivalry(f_j, f_k)


@pytest.mark.statistical
@pytest.mark.parametrize("name", SIGNED)
def test_the_error_of_a_difference_is_an_upper_bound_and_not_a_far_one(name):
    population = synthetic(users=5000, keys=8, pairs_per_user=4, seed=9)
    mechanism, rng, runs = build(name, 2, n_keys=8, pairs_per_user=4), insecure_generator(32), 500
    pairs = np.array(list(itertools.combinations(range(8), 2)))
    gaps, claimed = [], []
    for _ in range(runs):
        raw = estimate(mechanism, draw_tally(mechanism, population, rng))
        gaps.append(raw.frequency[pairs[:, 0]] - raw.frequency[pairs[:, 1]])
        claimed.append(difference_se(raw, mechanism.moments, pairs[:, 0], pairs[:, 1]))
    ratio = np.std(gaps, axis=0, ddof=1) / np.mean(claimed, axis=0)
    error = 1 / math.sqrt(2 * runs)
    assert ratio.max() < 1 + Z * error
    assert ratio.min() > 0.85 - Z * error


# --- statements about all keys ---


@pytest.mark.statistical
@pytest.mark.parametrize("name", SIGNED)
def test_simultaneous_intervals_and_ranks_hold_together(name):
    """In 95 of 100 runs for every key at once; intervals of one key alone would not."""
    population = synthetic(users=5000, keys=20, pairs_per_user=3, seed=5)
    mechanism, rng, runs = build(name, 4, n_keys=20, pairs_per_user=3), insecure_generator(33), 400
    truth = population.frequency()
    rank = 1 + (truth[None, :] > truth[:, None]).sum(axis=1)
    together, ranked, alone, widths = 0, 0, 0, []
    for _ in range(runs):
        raw = estimate(mechanism, draw_tally(mechanism, population, rng))
        for low, high, covers in (
            (*simultaneous_interval(raw), "together"),
            (*raw.frequency_interval(), "alone"),
        ):
            hit = bool(((low <= truth) & (truth <= high)).all())
            together, alone = together + hit * (covers == "together"), alone + hit * (covers == "alone")
        best, worst = rank_ranges(raw, mechanism.moments)
        ranked += bool(((best <= rank) & (rank <= worst)).all())
        widths.append(np.mean(worst - best))
    error = math.sqrt(0.95 * 0.05 / runs)
    assert together / runs > 0.95 - Z * error
    assert ranked / runs > 0.95 - Z * error
    assert alone / runs < 0.95 - Z * error
    assert np.mean(widths) < 18, "ranges are not all ranks"


def test_ranks_and_ties_of_a_clear_case():
    mechanism = build("pckv-ue", 4, n_keys=4)
    n, a, b = 10**6, float(mechanism.a), float(mechanism.b)
    shares = np.array([0.1, 0.4, 0.1005, 0.02])
    heard = np.round(n * (b + (a - b) * shares)).astype(int)
    tally = Tally.of(question="q", n_reports=n, plus=heard, minus=[0] * 4, asked=[n] * 4)
    raw = estimate(mechanism, tally)
    ranges = rank_ranges(raw, mechanism.moments)
    assert ranges.best.tolist() == [2, 1, 2, 4]
    assert ranges.worst.tolist() == [3, 1, 3, 4]
    assert tied_with(raw, mechanism.moments, 1).tolist() == [1]
    assert tied_with(raw, mechanism.moments, 2).tolist() == [2, 0]
    assert tied_with(raw, mechanism.moments, 3).tolist() == [2, 0]
    with pytest.raises(DomainError, match="a rank from 1 to 4, got 5"):
        tied_with(raw, mechanism.moments, 5)


def test_a_key_nobody_was_asked_about_may_have_any_rank():
    mechanism = build("kvue", 4, n_keys=3)
    tally = Tally.of(question="q", n_reports=8000, plus=[3900, 0, 0], minus=[0] * 3, asked=[4000, 4000, 0])
    raw = estimate(mechanism, tally)
    best, worst = rank_ranges(raw, mechanism.moments)
    assert (best.tolist(), worst.tolist()) == ([1, 2, 1], [2, 3, 3])


def test_blocks_of_rows_change_nothing(monkeypatch):
    mechanism = build("bucket", 1, n_keys=30, pairs_per_user=3)
    population = synthetic(users=20_000, keys=30, pairs_per_user=3, seed=6)
    raw = estimate(mechanism, draw_tally(mechanism, population, insecure_generator(34)))
    whole = rank_ranges(raw, mechanism.moments)
    monkeypatch.setattr("keyveil.estimate.intervals._BLOCK", 70)
    parts = rank_ranges(raw, mechanism.moments)
    assert np.array_equal(whole.best, parts.best)
    assert np.array_equal(whole.worst, parts.worst)
    assert (whole.worst - whole.best).min() < 29
