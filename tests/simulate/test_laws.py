"""Fast tallies follow the exact law, and the test can see when they do not."""

import numpy as np
import pytest

from keyveil.mechanisms import build
from keyveil.simulate import Population, draw_tally, insecure_generator, synthetic
from keyveil.tally import Tally
from keyveil.testing import Z, chi_square_z, tally_cell, tally_law

DRAWS = 6000
SIGNED = ("privkv", "kvue", "pckv-ue", "pckv-grr", "ks-ue")


@pytest.fixture(scope="module")
def few():
    return synthetic(users=4, keys=2, pairs_per_user=2, seed=3)


@pytest.mark.statistical
@pytest.mark.parametrize("name", SIGNED)
def test_a_slightly_wrong_epsilon_is_seen(name, few):
    rng = insecure_generator(1)
    law = tally_law(build(name, 2, n_keys=2, pairs_per_user=2), list(few.records()))
    twin = build(name, 2.8, n_keys=2, pairs_per_user=2)
    assert chi_square_z(law, (tally_cell(draw_tally(twin, few, rng)) for _ in range(DRAWS))) > Z


@pytest.mark.statistical
def test_response_counts_drawn_apart_per_key_are_seen(few):
    """Right marginals, wrong joint law: the mistake that makes impossible tallies."""
    mechanism, rng = build("pckv-grr", 2, n_keys=2, pairs_per_user=2), insecure_generator(2)
    law = tally_law(mechanism, list(few.records()))

    def apart():
        one, other = draw_tally(mechanism, few, rng), draw_tally(mechanism, few, rng)
        return Tally.of(
            question="q",
            n_reports=4,
            plus=[one.plus[0], other.plus[1]],
            minus=[one.minus[0], other.minus[1]],
            asked=[4, 4],
        )

    assert chi_square_z(law, (tally_cell(apart()) for _ in range(DRAWS))) > Z


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["pckv-grr:tight", "pckv-grr:naive", "pckv-ue:naive", "privkv:tight"])
def test_other_allocations_follow_their_law_too(name, few):
    mechanism, rng = build(name, 2, n_keys=2, pairs_per_user=2), insecure_generator(3)
    law = tally_law(mechanism, list(few.records()))
    assert chi_square_z(law, (tally_cell(draw_tally(mechanism, few, rng)) for _ in range(DRAWS))) < Z


@pytest.mark.statistical
@pytest.mark.parametrize("name", SIGNED)
def test_records_longer_than_l_and_empty_ones_follow_the_law(name):
    mixed = Population.from_pairs(
        np.array([0, 0, 2]), np.array([0, 1, 1]), np.array([1.0, -1.0, 0.3]), n_users=3, names=["a", "b"]
    )
    mechanism, rng = build(name, 2, n_keys=2, pairs_per_user=1), insecure_generator(4)
    law = tally_law(mechanism, list(mixed.records()))
    assert chi_square_z(law, (tally_cell(draw_tally(mechanism, mixed, rng)) for _ in range(DRAWS))) < Z


@pytest.mark.statistical
@pytest.mark.parametrize("name", SIGNED)
def test_measured_variance_is_the_formula_and_not_its_neighbour(name):
    population = synthetic(users=20_000, keys=30, pairs_per_user=3, seed=7)
    rng, repeats, truth = insecure_generator(5), 200, population.frequency()
    mechanism, twin = (build(name, epsilon, n_keys=30, pairs_per_user=3) for epsilon in (1, 1.3))
    ratios, wrong = [], []
    for _ in range(repeats):
        tally = draw_tally(mechanism, population, rng)
        frequency, _ = mechanism.debias(tally.plus, tally.minus, tally.asked)
        measured = np.mean((frequency - truth) ** 2)
        for claimant, found in ((mechanism, ratios), (twin, wrong)):
            found.append(measured / np.mean(claimant.variance(truth, tally.asked, population.n_users)))
    error = np.std(ratios, ddof=1) / np.sqrt(repeats)
    assert abs(np.mean(ratios) - 1) < Z * error, f"{np.mean(ratios)} +- {error}"
    assert abs(np.mean(wrong) - 1) > Z * error
