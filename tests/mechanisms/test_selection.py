"""Subset selection: rows as fractions, every number of short words, the best w, variance against formula."""

import itertools
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from keyveil.domain import Record
from keyveil.errors import MechanismError
from keyveil.mechanisms import Bits, Response, Selection, build
from keyveil.mechanisms.channel import share
from keyveil.mechanisms.oracles import Hashed
from keyveil.mechanisms.selection import MOST_SYMBOLS, best_chosen, rank_of, total_variance, unrank
from keyveil.numerics import InsecureSeededEntropy, exp_below, parse_epsilon
from keyveil.simulate import draw_tally, insecure_generator, perturb_all, synthetic
from keyveil.tally import Counter as Counting
from keyveil.tally import count
from keyveil.tally.count import count_answers
from keyveil.tally.payloads import Payloads
from keyveil.testing import Z

EPSILONS = ("0.1", "0.5", "1", "2", "4")
SIZES = [(d, w) for d in range(2, 7) for w in range(1, d)]


# --- the kernel ---


@pytest.mark.parametrize(("d", "w"), SIZES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_no_two_rows_differ_by_more_than_epsilon_and_some_do_by_the_loss(d, w, epsilon):
    oracle = Selection.for_epsilon(epsilon, d, w)
    table = {s: [oracle.probability(s, x) for x in range(d)] for s in oracle.answers()}
    assert len(table) == math.comb(d, w)
    assert all(sum(row[x] for row in table.values()) == 1 for x in range(d))
    ratios = [max(row) / min(row) for row in table.values()]
    assert max(ratios) == oracle.loss <= exp_below(parse_epsilon(epsilon))
    telling = table[oracle.telling(0, d - 1)]
    assert telling[0] / telling[d - 1] == oracle.loss


@pytest.mark.parametrize(("d", "w"), SIZES)
def test_rounding_costs_nothing_and_two_lies_fewer_break_the_promise(d, w):
    oracle, E = Selection.for_epsilon(1, d, w), exp_below(parse_epsilon(1))
    ideal = E * w / (E * w + d - w)
    assert abs(oracle.a - ideal) < Fraction(2 * d, 2**64)
    braver = Selection(n_symbols=d, chosen=w, lie=oracle.lie - 2)
    assert oracle.loss <= E < braver.loss


@pytest.mark.parametrize(("d", "w", "spare"), [(3, 1, 0), (3, 2, 1), (4, 2, 1), (5, 2, 0), (5, 3, 4)])
def test_every_number_of_short_words_names_the_set_that_the_kernel_says(d, w, spare):
    oracle = Selection.for_epsilon(2, d, w, word_bits=4)
    words = list(itertools.product(range(16), repeat=oracle.n_words))
    assert oracle.spare == spare
    for symbol in range(d):
        seen = Counter(oracle.perturb(symbol, each) for each in words)
        assert {s: Fraction(n, len(words)) for s, n in seen.items()} == {
            s: oracle.probability(s, symbol) for s in oracle.answers()
        }


def test_averages_over_symbols_are_what_the_estimator_takes_them_for():
    oracle, symbols = Selection.for_epsilon(1, 5, 2), range(5)
    chances = [
        [sum(oracle.probability(s, x) for s in oracle.answers() if s[y]) for y in symbols] for x in symbols
    ]
    own = [chances[x][x] for x in symbols]
    others = [chances[x][y] for x, y in itertools.permutations(symbols, 2)]
    assert sum(own) / 5 == oracle.a
    assert sum(others) / 20 == oracle.b
    assert max(others) - min(others) < Fraction(1, 2**64)


def test_ranks_and_sets_are_the_same_thing():
    for d, w in SIZES:
        sets = [unrank(d, w, rank) for rank in range(math.comb(d, w))]
        assert [rank_of(s) for s in sets] == list(range(len(sets)))
        # Higher symbols first: all that hold the last one come before all that do not.
        assert [s[-1] for s in sets] == sorted((s[-1] for s in sets), reverse=True)


def test_with_one_chosen_it_is_randomized_response():
    selection, response = Selection.for_epsilon(1, 7, 1), Response.for_epsilon(1, 7)
    assert float(selection.a) == pytest.approx(float(response.a), rel=1e-15)
    assert float(selection.b) == pytest.approx(float(response.b), rel=1e-15)


@pytest.mark.parametrize(("d", "w"), [(1, 1), (5, 0), (5, 5), (MOST_SYMBOLS + 1, 9)])
def test_sizes_that_leave_nothing_to_choose_or_too_much_are_refused(d, w):
    with pytest.raises(MechanismError, match="expected"):
        Selection.for_epsilon(1, d, w)


def test_a_million_keys_are_refused_with_a_hint():
    with pytest.raises(MechanismError, match="use oue or olh"):
        build("subset", 1, n_keys=10**6)


# --- the best w ---


@pytest.mark.parametrize("epsilon", ["0.01", *EPSILONS, "8"])
def test_no_other_w_has_a_smaller_variance(epsilon):
    E = exp_below(parse_epsilon(epsilon))
    for d in (*range(2, 40), 101):
        best = min(range(1, d), key=lambda w, d=d: total_variance(E, d, w))
        assert best_chosen(parse_epsilon(epsilon), d) == best


@pytest.mark.parametrize("n_keys", [10, 20, 100])
@pytest.mark.parametrize("epsilon", ["0.5", "1", "2", "4"])
def test_nothing_that_we_have_for_one_key_a_user_is_better(n_keys, epsilon):
    d = n_keys + 1

    def total(a, b):
        return (a * (1 - a) + (d - 1) * b * (1 - b)) / (a - b) ** 2

    own = build("subset", epsilon, n_keys=n_keys).oracle
    others = (Response.for_epsilon(epsilon, d), Bits.oue(epsilon, d), Hashed.for_epsilon(epsilon, d))
    assert all(total(own.a, own.b) <= total(o.a, o.b) * (1 + Fraction(1, 2**50)) for o in others)


# --- tallies ---


def z_of_errors(mechanism, tallies, population):
    """How far the mean squared error of all shares lies from the formula, in standard errors."""
    codes = np.bincount(population.codes, minlength=mechanism.n_keys) / population.n_users
    n = population.n_users
    errors = [
        float(
            np.sum((share(float(mechanism.a), float(mechanism.b), t.cells["support"][:-1], n) - codes) ** 2)
        )
        for t in tallies
    ]
    expected = sum(mechanism.variance(f, n, n) for f in codes)
    return (np.mean(errors) - expected) / (np.std(errors, ddof=1) / math.sqrt(len(errors)))


def test_the_variance_is_that_of_the_formula_and_of_no_other_w():
    population = synthetic(users=2000, keys=10, pairs_per_user=1, seed=5)
    right, wrong = (build("subset", 1, n_keys=10, chosen=w) for w in (3, 5))
    rng = insecure_generator(5)
    assert abs(z_of_errors(right, [draw_tally(right, population, rng) for _ in range(4000)], population)) < Z
    assert abs(z_of_errors(right, [draw_tally(wrong, population, rng) for _ in range(4000)], population)) > Z


def covariance_z(mechanism, population, tallies):
    """The covariance of two supports against its exact value, in standard errors."""
    oracle, n = mechanism.oracle, population.n_users
    d, w, a, b = oracle.n_symbols, oracle.chosen, float(oracle.a), float(oracle.b)
    shares = np.bincount(population.codes, minlength=d) / n
    (f, g), (p, q) = shares[:2], b + (a - b) * shares[:2]
    together = (w - 1) / (d - 2) * (p + q - w / (d - 1))
    given = (f + g) * a * b + (1 - f - g) * b * b
    pairs = np.array([t.cells["support"][:2] for t in tallies], dtype=float) - n * np.array([p, q])
    products = pairs[:, 0] * pairs[:, 1]
    return (products.mean() - n * (together - given)) / (products.std(ddof=1) / math.sqrt(len(products)))


def test_supports_of_two_keys_are_as_dependent_as_sets_make_them():
    """And the law that draws keys apart, as for bits, is noticed."""
    population = synthetic(users=300, keys=6, pairs_per_user=1, seed=5)
    mechanism, rng = build("subset", "0.5", n_keys=6, chosen=3), insecure_generator(6)
    fast = [draw_tally(mechanism, population, rng) for _ in range(6000)]
    assert abs(covariance_z(mechanism, population, fast)) < Z
    entropy = InsecureSeededEntropy(3)
    slow = [
        count(mechanism, list(perturb_all(mechanism, population, entropy)), question="q") for _ in range(300)
    ]
    assert abs(covariance_z(mechanism, population, slow)) < Z
    own = np.append(np.bincount(population.codes, minlength=6), 0)
    a, b, n = float(mechanism.a), float(mechanism.b), population.n_users
    apart = [
        type(tally).of(question="q", n_reports=n, support=rng.binomial(own, a) + rng.binomial(n - own, b))
        for tally in fast
    ]
    assert abs(covariance_z(mechanism, population, apart)) > Z


def test_every_tally_names_w_symbols_a_report():
    population = synthetic(users=500, keys=30, pairs_per_user=2, seed=1)
    mechanism = build("subset", 1, n_keys=30)
    tally = draw_tally(mechanism, population, insecure_generator(2))
    assert tally.cells["support"].sum() == 500 * mechanism.oracle.chosen


def test_an_oracle_of_no_known_kind_is_neither_counted_nor_drawn():
    """Once any other oracle was taken for bits, and drawn and counted wrong without a word."""
    unknown = replace(
        build("oue", 1, n_keys=2), oracle=SimpleNamespace(n_symbols=3, a=0.5, b=0.2, word_bits=64)
    )
    with pytest.raises(TypeError, match="no way to count answers of SimpleNamespace"):
        count_answers(unknown, Payloads.of([b"\1"], 1))
    with pytest.raises(TypeError, match="no law of supports for SimpleNamespace"):
        draw_tally(unknown, synthetic(users=5, keys=2), insecure_generator(1))


def test_a_report_with_a_symbol_too_many_or_too_few_is_not_counted():
    mechanism = build("subset", 1, n_keys=10)
    good = mechanism.layout.encode(mechanism.perturb(Record.of({3: 1.0}), [7, 8, 9]))
    number = int.from_bytes(good, "little")
    fewer, more, behind = number & number - 1, number | number + 1, (number & number - 1) | 1 << 15
    counter = Counting(mechanism, question="q")
    spoilt = [n.to_bytes(2, "little") for n in (fewer, more, behind)]
    assert counter.add(Payloads.of([good, *spoilt, good], 2)).tolist() == [False, True, True, True, False]
    assert counter.tally().cells["support"].tolist() == [2 * bit for bit in mechanism.layout.decode(good)]


# --- moments ---


@pytest.mark.parametrize(("n_keys", "chosen"), [(2, 1), (3, 1), (3, 2), (4, 2), (5, 2), (5, 4)])
@pytest.mark.parametrize("epsilon", ["0.5", "2"])
def test_moments_are_the_kernels_own_and_rivals_are_no_closer_than_they_say(n_keys, chosen, epsilon):
    mechanism = build("subset", epsilon, n_keys=n_keys, chosen=chosen)
    oracle, moments = mechanism.oracle, mechanism.moments
    gap = float(oracle.a - oracle.b)

    def chance(own, *keys):
        return float(sum(oracle.probability(s, own) for s in oracle.answers() if all(s[key] for key in keys)))

    for own, holds in ((0, 1.0), (n_keys, 0.0)):
        named = chance(own, 0)
        assert moments.covariance(holds, 0.0, 1).frequency == pytest.approx(named * (1 - named) / gap**2)
    for own, held in ((0, (1.0, 0.0)), (n_keys, (0.0, 0.0))):
        covariance = (chance(own, 0, 1) - chance(own, 0) * chance(own, 1)) / gap**2
        assert -covariance <= moments.rivalry(*held) * (1 + 1e-9)
    # A wrong twin: sets that leave no less room for another symbol.
    apart = replace(moments, apart=0.0)
    covariance = (chance(n_keys, 0, 1) - chance(n_keys, 0) * chance(n_keys, 1)) / gap**2
    assert -covariance > apart.rivalry(0.0, 0.0)
    assert math.isinf(moments.covariance(0.5, 0.0, 1).signed)
    assert mechanism.expected_asked(7) == 7
