"""The PrivKV estimators on exact expected counts: the corrected forms are right, the printed ones not."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil.estimate.privkv import contraction, em4, heard_mean, mle3, virtual_mean

N = 1e7


def expected_counts(f, m, a, p, fake=0.0):
    """PLUS, MINUS and asked of one key, in expectation."""
    b, x = 1 - a, 2 * p - 1
    plus = N * (f * a * (1 + x * m) / 2 + (1 - f) * b * (1 + x * fake) / 2)
    minus = N * (f * a * (1 - x * m) / 2 + (1 - f) * b * (1 - x * fake) / 2)
    return np.array([plus]), np.array([minus]), np.array([N])


def odds(epsilon):
    return math.exp(epsilon) / (1 + math.exp(epsilon))


def test_the_papers_mean_is_biased_towards_what_non_holders_say():
    plus, minus, _ = expected_counts(0.25, 0.6, odds(0.8), odds(0.8))
    assert heard_mean(plus, minus, odds(0.8), np.zeros(1))[0] == pytest.approx(0.2555, abs=1e-4)


def test_nobody_heard_leaves_the_previous_mean():
    assert heard_mean(np.zeros(1), np.zeros(1), 0.6, np.array([0.25]))[0] == 0.25


def test_endless_virtual_rounds_are_the_debiased_mean_and_need_the_keys_own_budget():
    f, m, epsilon = 0.1, 0.8, 2.0
    a = p = odds(epsilon / 2)
    plus, minus, _ = expected_counts(f, m, a, p, fake=1.0)
    start = np.ones(1)
    real = heard_mean(plus, minus, p, start)
    right = virtual_mean(real, start, np.array([f]), a, 10_000)
    printed = virtual_mean(real, start, np.array([f]), odds(epsilon), 10_000)
    assert right[0] == pytest.approx(m, abs=1e-6)
    assert printed[0] == pytest.approx(0.897, abs=5e-4)


def test_virtual_rounds_follow_theorem_6_1():
    f, m, a, start = 0.3, 0.8, odds(1), 1.0
    th = contraction(np.array([f]), a)[0]
    real = th * start + (1 - th) * m
    for c in range(1, 8):
        theorem = start + (real - start) * (1 - th**c) / (1 - th)
        got = virtual_mean(np.array([real]), np.array([start]), np.array([f]), a, c - 1)
        assert got[0] == pytest.approx(theorem)


@pytest.mark.parametrize(
    ("epsilon", "answer"), [(0.5, 0.329), (1, 0.425), (2, 0.598), (4, 0.765), (8, 0.7996)]
)
def test_em4_shrinks_the_mean_and_mle3_does_not(epsilon, answer):
    a = p = odds(epsilon / 2)
    counts = expected_counts(0.3, 0.8, a, p)
    four = em4(*counts, a=a, p=p, eta=1e-12, max_iterations=200_000)
    three = mle3(*counts, a=a, p=p)
    assert four.frequency[0] == pytest.approx(0.3, abs=1e-6)
    assert four.mean[0] == pytest.approx(answer, abs=1e-3)
    assert three.frequency[0] == pytest.approx(0.3, abs=1e-9)
    assert three.mean[0] == pytest.approx(0.8, abs=1e-9)


def test_em4_depends_on_its_start_at_the_same_likelihood():
    a = p = odds(0.5)
    plus, minus, asked = expected_counts(0.3, 0.8, a, p)
    means, laws = [], []
    for start in ((0.25, 0.25, 0.25, 0.25), (0.49, 0.01, 0.25, 0.25), (0.05, 0.45, 0.45, 0.05)):
        shares = em4(plus, minus, asked, a=a, p=p, eta=1e-13, max_iterations=400_000, start=start)
        means.append(shares.mean[0])
        laws.append(shares.frequency[0])
    assert max(means) - min(means) > 0.3
    assert np.ptp(laws) < 1e-5


counts = st.tuples(*(st.integers(0, 400),) * 3).filter(lambda c: sum(c) > 0)


@given(st.lists(counts, min_size=1, max_size=5), st.floats(0.3, 3))
def test_em4_frequency_is_the_clipped_one(table, epsilon):
    a = p = odds(epsilon)
    plus, minus, silent = (np.array(column, dtype=float) for column in zip(*table, strict=True))
    asked = plus + minus + silent
    shares = em4(plus, minus, asked, a=a, p=p, eta=1e-10, max_iterations=100_000)
    raw = ((plus + minus) / asked - (1 - a)) / (2 * a - 1)
    # Where the truth lies on the boundary EM creeps towards it; the rate is one over the iterations.
    assert shares.frequency == pytest.approx(np.clip(raw, 0, 1), abs=2e-3)


def three_state_em(plus, minus, silent, a, p, iterations=60_000):
    rows = np.array([[a * p, a * (1 - p), 1 - a], [a * (1 - p), a * p, 1 - a], [(1 - a) / 2, (1 - a) / 2, a]])
    seen = np.array([plus, minus, silent]) / (plus + minus + silent)
    theta = np.full(3, 1 / 3)
    for _ in range(iterations):
        theta = theta * (rows @ (seen / (theta @ rows)))
    return theta


@pytest.mark.parametrize(
    "table", [(40, 30, 30), (5, 60, 35), (90, 5, 5), (2, 1, 97), (1, 9, 200), (0, 0, 50)]
)
def test_mle3_is_where_em_over_three_states_ends(table):
    a, p = odds(1), odds(1.5)
    shares = mle3(*(np.array([float(c)]) for c in (*table[:2], sum(table))), a=a, p=p)
    up, down, _ = three_state_em(*table, a, p)
    assert (shares.plus[0], shares.minus[0]) == pytest.approx((up, down), abs=1e-4)
