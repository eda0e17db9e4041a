"""The bounds against the truth: tiny kernels, all their shuffled reports enumerated."""

import itertools
import math
from collections import Counter

import pytest

from keyveil.domain import Record
from keyveil.mechanisms import REGISTRY, Allocation
from keyveil.shuffle import Blanket, blanket_delta, blanket_of, clones_delta

# Each with the options, keys, pairs a user and epsilon of an instance that can be enumerated.
TINY = [
    ("bucket", {"buckets": 3, "cohorts": 1}, 2, 1, "1.5"),
    ("bucket", {"buckets": 4, "cohorts": 1}, 3, 1, "3"),
    ("bucket", {"buckets": 5, "cohorts": 1}, 4, 2, "1"),
    ("bucket", {"buckets": 6, "cohorts": 1}, 4, 2, "2.5"),
    ("bucket", {"buckets": 7, "cohorts": 1}, 5, 3, "2"),
    ("bucket", {"buckets": 3, "cohorts": 2}, 3, 2, "2"),
    ("bucket", {"buckets": 4, "cohorts": 2, "rho": 1}, 3, 2, "2"),
    ("kvue", {}, 1, 1, "1"),
    ("kvue", {}, 2, 1, "3"),
    ("levels", {"bins": 3}, 1, 1, "2"),
    ("pckv-grr", {}, 2, 1, "2"),
    ("pckv-grr", {}, 2, 2, "1"),
    ("pckv-ue", {}, 2, 1, "2"),
    ("pckv-ue", {}, 2, 2, "1"),
    ("ue-sw", {"bins": 2}, 1, 1, "1.5"),
    ("grr", {}, 4, 1, "3"),
    ("oue", {}, 2, 1, "1.5"),
    ("olh", {"cohorts": 2, "buckets": 3}, 3, 1, "1"),
    ("subset", {}, 4, 1, "1"),
]
EPSILONS = (0.0, 0.05, 0.2, 0.5, 1.0, 1.6, 2.3)
CALIBRATION = {"ue-sw": {"allocation": Allocation.TIGHT}}


def make(name, options, n_keys, l, epsilon):
    given = {"word_bits": 12} | CALIBRATION.get(name, {}) | options
    return REGISTRY[name].for_epsilon(epsilon, n_keys=n_keys, pairs_per_user=l, **given)


def rows_of(mechanism):
    """The kernel's distinct rows, of all records with values at the ends and in the middle."""
    values = (None, 1.0, -1.0, 0.0) if mechanism.n_keys < 3 else (None, 1.0, -1.0)
    answers, rows = list(mechanism.answers()), set()
    for held in itertools.product(values, repeat=mechanism.n_keys):
        record = Record.of({code: value for code, value in enumerate(held) if value is not None})
        rows.add(tuple(float(mechanism.probability(answer, record)) for answer in answers))
    return sorted(rows)


def counts_of(rows):
    """The law of how often each answer comes from these users, shuffled."""
    law = {(0,) * len(rows[0]): 1.0}
    for row in rows:
        grown = Counter()
        for counts, chance in law.items():
            for answer, own in enumerate(row):
                grown[(*counts[:answer], counts[answer] + 1, *counts[answer + 1 :])] += chance * own
        law = grown
    return law


def exact_delta(row, other, rest, epsilons):
    """The hockey-stick divergence between two records of one user, beside others who hold something."""
    hidden = counts_of(rest) if rest else {(0,) * len(row): 1.0}
    first, second = Counter(), Counter()
    for counts, chance in hidden.items():
        for answer, (p, q) in enumerate(zip(row, other, strict=True)):
            here = (*counts[:answer], counts[answer] + 1, *counts[answer + 1 :])
            first[here] += chance * p
            second[here] += chance * q
    return [
        sum(max(0.0, p - math.exp(epsilon) * second[counts]) for counts, p in first.items())
        for epsilon in epsilons
    ]


def crowds(rows, users):
    """What the others may hold: everybody the same, or two kinds of them, half and half."""
    for one, two in itertools.combinations_with_replacement(rows, 2):
        yield [one, two, one, two, one, two, one][: users - 1]


def spread_out(rows, most):
    """Those of many rows that are farthest from the ones before: pairs of extreme records are among them."""
    kept = [max(rows, key=max)]
    while len(kept) < min(most, len(rows)):
        kept.append(max(rows, key=lambda row: min(math.dist(row, each) for each in kept)))
    return kept


def worst_delta(rows, users, epsilons):
    """Of all pairs of records, and of all crowds, the largest divergences."""
    worst = [0.0] * len(epsilons)
    for rest in crowds(rows, users):
        for row, other in itertools.permutations(rows, 2):
            found = exact_delta(row, other, rest, epsilons)
            worst = [max(*pair) for pair in zip(worst, found, strict=True)]
    return worst


@pytest.mark.parametrize(("name", "options", "n_keys", "l", "epsilon"), TINY)
def test_no_pair_of_records_and_no_crowd_is_above_the_bounds(name, options, n_keys, l, epsilon):
    mechanism = make(name, options, n_keys, l, epsilon)
    rows, blanket, local = rows_of(mechanism), blanket_of(mechanism), math.log(mechanism.loss)
    if mechanism.public_part is not None:
        # What is enumerated has two hashes, which are not ideal.
        blanket = blanket._replace(met=0.0)
    for users, most in ((2, 12), (3, 6), (4, 4)):
        worst = worst_delta(spread_out(rows, most), users, EPSILONS)
        for at, exact in zip(EPSILONS, worst, strict=True):
            assert exact <= blanket_delta(blanket, users, at) * (1 + 1e-9), (users, at)
            assert exact <= clones_delta(local, users, at) * (1 + 1e-9), (users, at)


@pytest.mark.parametrize("users", [2, 5, 8])
def test_the_bound_of_bucket_is_nearly_reached_and_a_thinner_blanket_is_none(users):
    # One key of each user's is all that others share with nobody: the crowd that hides least.
    mechanism = make("bucket", {"buckets": 6, "cohorts": 1}, 4, 1, "3")
    rows, blanket = spread_out(rows_of(mechanism), 4), blanket_of(mechanism)._replace(met=0.0)
    worst = worst_delta(rows, users, EPSILONS)
    bound = [blanket_delta(blanket, users, at) for at in EPSILONS]
    assert all(exact <= most for exact, most in zip(worst, bound, strict=True))
    thinner = blanket._replace(mass=1.3 * blanket.mass)
    tamer = blanket._replace(odds=blanket.odds / 1.3)
    for wrong in (thinner, tamer):
        told = [blanket_delta(wrong, users, at) for at in EPSILONS]
        assert any(exact > most for exact, most in zip(worst, told, strict=True)), wrong


def variation_ratio_delta(alpha, p, users, epsilon):
    """(A + D1, C - A + D2) against (A + D2, C - A + D1): no report is marked, so no upper bound."""
    own = [(p * alpha, 1, 0), (alpha, 0, 1), (1 - (p + 1) * alpha, 0, 0)]
    first, second = Counter(), Counter()
    for a, b in itertools.product(range(users), repeat=2):
        if a + b < users:
            ways = math.comb(users - 1, a) * math.comb(users - 1 - a, b)
            chance = ways * alpha ** (a + b) * (1 - 2 * alpha) ** (users - 1 - a - b)
            for own_chance, one, two in own:
                first[a + one, b + two] += chance * own_chance
                second[a + two, b + one] += chance * own_chance
    return sum(max(0.0, p - math.exp(epsilon) * second[seen]) for seen, p in first.items())


def test_without_a_mark_on_what_is_no_blanket_the_bound_is_below_the_truth():
    row, other, third = ((0.7, 0.1, 0.1, 0.1), (0.1, 0.7, 0.1, 0.1), (0.1, 0.1, 0.7, 0.1))
    blanket, fooled = Blanket(mass=0.4, odds=7.0), 0
    for users, epsilon in itertools.product((2, 3, 5), EPSILONS):
        (exact,) = exact_delta(row, other, [third] * (users - 1), [epsilon])
        assert exact <= blanket_delta(blanket, users, epsilon)
        unmarked = variation_ratio_delta(0.1, 7.0, users, epsilon)
        assert unmarked <= exact * (1 + 1e-9)
        fooled += unmarked < exact * (1 - 1e-6)
    assert fooled >= 4


@pytest.mark.parametrize(("likely", "met"), [(0.2, 0.0), (0.2, 0.3), (0.5, 0.0), (0.7, 0.0)])
def test_advantages_are_those_of_two_laws(likely, met):
    odds = 5.0
    blanket = Blanket(mass=1 / (likely * odds + 1 - likely), odds=odds, met=met)
    assert blanket.likely == pytest.approx(likely)
    for epsilon in EPSILONS:
        values, chances = blanket.advantages(epsilon)
        assert chances.min() > -1e-12
        assert chances.sum() == pytest.approx(1)
        assert values @ chances == pytest.approx(1 - math.exp(epsilon))
