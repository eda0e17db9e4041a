"""Amplification by shuffling: published values, exact small cases, and draws."""

import itertools
import math

import numpy as np
import pytest

from keyveil.errors import BudgetError
from keyveil.mechanisms import build
from keyveil.shuffle import (
    Blanket,
    blanket_delta,
    blanket_of,
    by_blanket,
    by_clones,
    clones_delta,
    closed_form,
    hiding,
    largest_local,
    shuffled,
)
from keyveil.simulate import insecure_generator

N, DELTA = 100_000, 1e-6
LOCAL = (0.5, 1, 2, 3, 4, 5)
THEOREM = (0.031, 0.073, 0.186, 0.338, 0.535, 0.787)
BLANKET = ("0.0035", "0.0084", "0.0231", "0.0452", "0.0812", "0.142")


def test_the_closed_form_is_the_published_one():
    assert round(closed_form(4, N, DELTA), 3) == 0.538


@pytest.mark.parametrize(("local", "printed"), list(zip(LOCAL, THEOREM, strict=True)))
def test_the_closed_form_stays_just_above_the_theorem(local, printed):
    assert printed - 5e-4 < closed_form(local, N, DELTA) < printed + 5e-3


def test_the_clones_give_the_published_numerical_value():
    assert round(by_clones(4, N, DELTA), 2) == 0.17


@pytest.mark.parametrize(("local", "printed"), list(zip(LOCAL, BLANKET, strict=True)))
def test_the_blanket_of_bucket_gives_the_derived_values(local, printed):
    digits = len(printed) - 2
    blanket = blanket_of(build("bucket", local, n_keys=100))
    assert abs(by_blanket(blanket, N, DELTA) - float(printed)) < 0.6 * 10**-digits


def test_clones_are_summed_as_by_enumeration():
    n, local, epsilon = 5, 1.0, 0.3
    p, clone = math.e / (math.e + 1), math.exp(-local)
    laws = np.zeros((2, n + 1, n + 1))
    for c in range(n):
        for a in range(c + 1):
            weight = math.comb(n - 1, c) * clone**c * (1 - clone) ** (n - 1 - c) * math.comb(c, a) / 2**c
            for own, chance in ((1, p), (0, 1 - p)):
                laws[0, a + own, c - a + 1 - own] += weight * chance
                laws[1, a + 1 - own, c - a + own] += weight * chance
    exact = np.maximum(laws[0] - math.exp(epsilon) * laws[1], 0).sum()
    assert clones_delta(local, n, epsilon) == pytest.approx(exact, abs=1e-13)


def test_the_blanket_is_summed_as_by_enumeration_from_above():
    m, n, epsilon = build("bucket", 1, n_keys=3), 6, 0.4
    own, blanket = m.own(1) / m.words, blanket_of(m)
    values, chances = blanket.advantages(epsilon)
    gamma = m.buckets * (1 - own) / (m.buckets - 1)
    assert blanket == pytest.approx((gamma, math.e, 1 / m.buckets))
    assert chances == pytest.approx([1 / 16, 3 / 16, 3 / 16, 9 / 16])
    exact = 0.0
    for many in range(n + 1):
        weight = math.comb(n, many) * gamma**many * (1 - gamma) ** (n - many)
        for which in itertools.product(range(4), repeat=many):
            chosen = list(which)
            exact += weight * math.prod(chances[chosen]) * max(0.0, values[chosen].sum())
    bound = blanket_delta(blanket, n, epsilon)
    assert exact / (gamma * n) <= bound < 1.01 * exact / (gamma * n)


@pytest.mark.statistical
def test_the_blanket_holds_against_draws_and_a_thinner_one_does_not():
    m, n, epsilon, runs = build("bucket", 2, n_keys=3), 2000, 0.03, 200_000
    blanket = blanket_of(m)
    values, chances = blanket.advantages(epsilon)
    gamma = m.buckets * (1 - m.own(1) / m.words) / (m.buckets - 1)

    def drawn(mass):
        rng = insecure_generator(10)
        total = rng.multinomial(rng.binomial(n, mass, runs), chances) @ values
        gains = np.maximum(total, 0) / (mass * n)
        return gains.mean(), gains.std() / math.sqrt(runs)

    bound = blanket_delta(blanket, n, epsilon)
    mean, error = drawn(gamma)
    assert abs(bound - mean) < 5 * error, (bound, mean, error)
    wrong, error = drawn(0.95 * gamma)
    assert abs(bound - wrong) > 5 * error, (bound, wrong, error)


def test_more_users_hide_better_and_a_smaller_delta_worse():
    few, many = (by_clones(2, n) for n in (1000, 100_000))
    assert many < few < 2
    assert by_clones(2, 1000, 1e-9) > few


def test_bounds_are_ordered_and_never_above_the_local_one():
    for name in ("bucket", "pckv-ue", "kvue", "ue-sw", "krr-harmony"):
        found = shuffled(build(name, 1, n_keys=20, pairs_per_user=3), 10_000)
        assert found.best <= found.by_clones <= found.closed_form <= found.local
        # What a paper proposed has no blanket here.
        assert (found.by_blanket is None) == (name == "krr-harmony")
    assert shuffled(build("kvue", 8, n_keys=20), 10).closed_form is None


@pytest.mark.parametrize(
    ("name", "l", "clones", "blanket"),
    [("bucket", 4, 6.046875, 7.65625), ("bucket", 8, 6.046875, 7.65625), ("pckv-ue", 4, 6.046875, 7.65625)],
)
def test_the_largest_local_epsilon_of_half_a_hundred_thousand(name, l, clones, blanket):
    # Half of rent_the_runway's 105,508 users, central epsilon 1 at delta 1e-8; the clones allowed 6.05.
    assert clones_delta(clones, 52_754, 1.0) <= 1e-8 < clones_delta(clones + 1 / 64, 52_754, 1.0)

    def made(epsilon):
        return build(name, epsilon, n_keys=50, pairs_per_user=l)

    assert largest_local(made, 52_754, 1.0, 1e-8) == blanket


@pytest.mark.parametrize("local", [0.01, 1, 4, 6, 9, 12])
@pytest.mark.parametrize("users", [2, 60, 3000, 10**6])
def test_large_and_small_epsilons_give_chances_that_fall(local, users):
    # Few answers (a thin blanket) and many: no overflow, no chance above 1, less at every larger epsilon.
    for answers in (2, 3, 1000):
        odds = math.exp(local)
        blanket = Blanket(mass=answers / (odds + answers - 1), odds=odds)
        found = [blanket_delta(blanket, users, part * local) for part in (0, 0.1, 0.4, 0.8, 1.0)]
        assert all(one >= two * (1 - 1e-9) for one, two in itertools.pairwise(found)), (answers, found)
        assert 0 < found[-1] <= found[0] <= 1
        assert found[-1] < 1e-14


@pytest.mark.parametrize(("users", "delta"), [(1, 1e-6), (100, 0.0), (100, 1.0)])
def test_nonsense_is_refused_in_a_sentence(users, delta):
    with pytest.raises(BudgetError):
        closed_form(1.0, users, delta)
    with pytest.raises(BudgetError, match="local epsilon"):
        by_clones(0.0, 100)


@pytest.mark.parametrize(
    ("batch", "honest", "hidden"),
    [
        (100, 0.29, 29),
        (100, 0.57, 57),
        (105_508, 0.5, 52_754),
        (7, 0.5, 3),
        (10**15 + 3, 1.0, 10**15 + 3),
        (9, 0, 0),
    ],
)
def test_a_share_is_the_decimal_that_is_written(batch, honest, hidden):
    assert hiding(batch, honest) == hidden


@pytest.mark.parametrize(("batch", "honest"), [(-1, 0.5), (10, -0.1), (10, 1.01), (10, math.nan)])
def test_no_share_of_a_batch(batch, honest):
    with pytest.raises(BudgetError, match="share"):
        hiding(batch, honest)


@pytest.mark.parametrize("name", ["bucket", "kvue"])
def test_the_largest_local_epsilon_fits_and_the_next_does_not(name):
    def made(epsilon):
        return build(name, epsilon, n_keys=50)

    found = largest_local(made, 20_000, 0.5, 1e-8)
    assert found * 64 == int(found * 64)
    assert shuffled(made(found), 20_000, 1e-8).best <= 0.5 < shuffled(made(found + 1 / 64), 20_000, 1e-8).best
    assert largest_local(made, 20_000, 0.5, 1e-8, at_most=1.99) == 1.984375
    assert largest_local(made, 10, 0.001, 1e-8) is None
