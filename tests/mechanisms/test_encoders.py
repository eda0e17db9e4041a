"""Encoders and the wave: exact laws by enumeration, what certifies them, and what their means are."""

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from keyveil.audit import certify, enumerate_loss
from keyveil.domain import FULL_LEVEL, Record
from keyveil.errors import MechanismError
from keyveil.mechanisms import EncodedOracle, OwnSign, PopularSize, Response, SizeClass, Wave
from keyveil.numerics import InsecureSeededEntropy, exp_below, parse_epsilon
from keyveil.simulate import Population, draw_tally, insecure_generator, perturb_all
from keyveil.simulate.laws import draw_symbols
from keyveil.tally import count
from keyveil.testing import Z
from keyveil.testing.laws import answer_cell, chi_square_z, tally_cell, tally_law

KEYS = 4
ENCODERS = {
    "sizes": SizeClass(n_keys=KEYS, starts=(0, 1, 3)),
    "sign": OwnSign(n_keys=KEYS),
    "popular": PopularSize(n_keys=KEYS, popular=(0, 2), most=2, starts=(1, 2, 3)),
    "popular of three": PopularSize(n_keys=KEYS, popular=(0, 1, 3), most=3, starts=(1, 3)),
}
RECORDS = [
    Record.of(dict(zip(held, itertools.cycle((0.25, -1.0, 1.0, -0.7)), strict=False)))
    for size in range(KEYS + 1)
    for held in itertools.combinations(range(KEYS), size)
]


def mechanism(encoder, epsilon="1", word_bits=64, oracle=Response):
    return EncodedOracle(encoder=encoder, oracle=oracle.for_epsilon(epsilon, encoder.n_symbols, word_bits))


def every_mechanism(epsilon="1", word_bits=64):
    for encoder in ENCODERS.values():
        yield mechanism(encoder, epsilon, word_bits)
    yield mechanism(ENCODERS["sizes"], epsilon, word_bits, Wave)
    yield mechanism(SizeClass(n_keys=KEYS, starts=(0, 1, 2, 3, 4)), epsilon, word_bits, Wave)


# --- exact ---


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("word_bits", [3, 6, 8])
def test_encoders_draw_exactly_their_law(name, word_bits):
    encoder = ENCODERS[name]
    for record in RECORDS:
        law = encoder.law(record, word_bits)
        drawn = Counter(encoder.draw(record, word, word_bits) for word in range(1 << word_bits))
        assert sum(law.values()) == 1
        assert {s: Fraction(n, 1 << word_bits) for s, n in drawn.items()} == {
            s: c for s, c in law.items() if c
        }
        assert set(law) <= set(range(encoder.n_symbols))


def test_every_row_sums_to_one_and_lift_is_the_kernel():
    for m in every_mechanism():
        for record in RECORDS:
            assert sum(m.probability(answer, record) for answer in m.answers()) == 1
            assert all(m.lift(answer, record) == m.probability(answer, record) for answer in m.answers())


def test_perturb_over_all_short_words_is_the_kernel():
    for m in every_mechanism(epsilon="2", word_bits=6):
        words = list(itertools.product(range(64), repeat=m.n_words))
        for record in RECORDS[::3]:
            seen = Counter(m.perturb(record, each) for each in words)
            for answer in m.answers():
                assert Fraction(seen[answer], len(words)) == m.probability(answer, record), f"{m}: {answer}"


@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1", "2", "4", "8"])
def test_enumerated_loss_is_within_epsilon_and_never_above_the_closed_form(epsilon):
    for m in every_mechanism(epsilon):
        loss = enumerate_loss(m).ratio
        assert loss <= exp_below(parse_epsilon(epsilon)), f"{m}: exceeds epsilon {epsilon}"
        assert loss <= m.loss
        assert certify(m).epsilon <= float(epsilon)


def test_sizes_reach_the_closed_form_and_a_wave_that_leaks_is_found():
    for m in (
        mechanism(ENCODERS["sizes"]),
        mechanism(SizeClass(n_keys=KEYS, starts=(0, 1, 2, 3, 4)), "1", 64, Wave),
    ):
        assert enumerate_loss(m).ratio == m.loss
        witness = m.witness()
        assert m.probability(witness.answer, witness.first) > m.probability(witness.answer, witness.second)
    leaky = mechanism(SizeClass(n_keys=KEYS, starts=(0, 1, 2, 3, 4)), "1.01", 64, Wave)
    assert enumerate_loss(leaky).ratio > exp_below(parse_epsilon("1"))


def test_the_wave_supports_its_window_as_often_as_it_says():
    for epsilon, n in (("0.5", 5), ("2", 12)):
        wave = Wave.for_epsilon(epsilon, n)
        for symbol in range(n):
            heard = sum(
                wave.probability(answer, symbol) for answer in wave.answers() if wave.supports(answer, symbol)
            )
            assert heard == wave.a
            assert wave.supports(wave.telling(symbol, n - 1 - symbol), symbol) or symbol == n - 1 - symbol
        first, last = 0, n - 1
        told = wave.telling(first, last)
        assert wave.probability(told, first) / wave.probability(told, last) == wave.loss


@pytest.mark.parametrize(
    "held", [{0: 0.25}, {0: 1.0, 2: -0.5}, {0: -1.0, 1: -1.0}, {0: 0.75, 1: 0.5, 2: -0.25, 3: 1.0}]
)
def test_own_sign_is_unbiased_for_the_mean_of_a_users_values(held):
    record = Record.of(held)
    law = OwnSign(n_keys=KEYS).law(record, 64)
    mean = sum(Fraction(pair.level, FULL_LEVEL) * 2 - 1 for pair in record.pairs) / len(record.pairs)
    assert law[1] - law[2] == pytest.approx(float(mean), abs=2.0**-60)
    assert float(mean) == pytest.approx(sum(held.values()) / len(held))


def test_popular_sizes_are_heard_in_proportion_to_popular_pairs():
    encoder = PopularSize(n_keys=KEYS, popular=(0, 2), most=4, starts=(1, 2, 3))
    for record in RECORDS:
        popular = sum(pair.code in (0, 2) for pair in record.pairs)
        told = {symbol: chance for symbol, chance in encoder.law(record, 64).items() if symbol}
        assert sum(told.values()) == Fraction(popular, 4)
        assert set(told) <= {min(3, len(record.pairs))}


@pytest.mark.parametrize("starts", [(1, 2), (0,), (0, 2, 1), (0, 1, 1), ()])
def test_classes_that_are_no_classes_are_refused(starts):
    with pytest.raises(MechanismError, match="begin at 0 and ascend"):
        SizeClass(n_keys=3, starts=starts)


@pytest.mark.parametrize(
    "wrong", [{"popular": ()}, {"most": 0}, {"starts": (0, 1)}, {"starts": (1, 1)}, {"starts": (1, 3, 2)}]
)
def test_popular_sizes_without_keys_or_classes_are_refused(wrong):
    with pytest.raises(MechanismError, match="popular keys"):
        PopularSize(**{"n_keys": 3, "popular": (0,), "most": 1, "starts": (1, 2)} | wrong)


def test_an_oracle_of_another_alphabet_is_refused():
    with pytest.raises(MechanismError, match="needs an oracle of as many"):
        EncodedOracle(encoder=OwnSign(n_keys=3), oracle=Response.for_epsilon(1, 4))


# --- tallies ---


def people(users=300, seed=4):
    rng = insecure_generator(seed)
    owners, codes = np.nonzero(rng.random((users, KEYS)) < np.array([0.7, 0.3, 0.5, 0.2]))
    values = rng.uniform(-0.2, 0.8, owners.size)
    return Population.from_pairs(owners, codes, values, n_users=users, names=list("abcd"))


def test_the_tally_counts_ticks_and_parts_add_up():
    for m in every_mechanism():
        payloads = list(perturb_all(m, people(), InsecureSeededEntropy(2)))
        whole = count(m, payloads, question="q")
        ticked = (answer_cell(m, m.layout.decode(payload)) for payload in payloads)
        assert tuple(map(sum, zip(*ticked, strict=True))) == tally_cell(whole)
        assert count(m, payloads[:99], question="q") + count(m, payloads[99:], question="q") == whole
        assert all(len(payload) == m.layout.n_bytes for payload in payloads)


@pytest.mark.statistical
def test_fast_and_slow_tallies_follow_the_exact_law_and_another_epsilon_does_not():
    few, rng, entropy = people(users=3, seed=9), insecure_generator(1), InsecureSeededEntropy(1)
    for m, other in zip(every_mechanism("2"), every_mechanism("1.8"), strict=True):
        law = tally_law(m, list(few.records()))
        fast = [tally_cell(draw_tally(m, few, rng)) for _ in range(6000)]
        slow = [tally_cell(count(m, list(perturb_all(m, few, entropy)), question="q")) for _ in range(3000)]
        assert chi_square_z(law, fast) < Z, f"{m}: fast tallies are off"
        assert chi_square_z(law, slow) < Z, f"{m}: slow tallies are off"
        wrong = [tally_cell(draw_tally(other, few, rng)) for _ in range(20_000)]
        assert chi_square_z(law, wrong) > Z, f"{m}: cannot tell epsilon 1.8 from 2"


@pytest.mark.statistical
def test_drawn_symbols_follow_the_encoders():
    population, rng, runs = people(users=200, seed=6), insecure_generator(2), 2000
    for name, encoder in ENCODERS.items():
        laws = [encoder.law(record, 64) for record in population.records()]
        chances = np.array([[float(law.get(s, 0)) for s in range(encoder.n_symbols)] for law in laws])
        drawn = np.mean([draw_symbols(encoder, population, rng) for _ in range(runs)], axis=0)
        slack = Z * np.sqrt((chances * (1 - chances)).sum(axis=0) / runs) + 1e-9
        assert np.all(np.abs(drawn - chances.sum(axis=0)) < slack), f"{name}: symbols are drawn wrongly"


@pytest.mark.statistical
def test_the_value_group_finds_the_mean_and_ignoring_its_noise_would_not():
    population = people(users=200_000, seed=8)
    m = mechanism(OwnSign(n_keys=KEYS), "1")
    tally = draw_tally(m, population, insecure_generator(5))
    _, plus, minus = (tally.cells["support"] / tally.n_reports - float(m.b)) / float(m.a - m.b)
    own = [
        np.mean([pair.level / FULL_LEVEL * 2 - 1 for pair in r.pairs])
        for r in population.records()
        if r.pairs
    ]
    true = float(np.sum(own)) / population.n_users
    error = np.sqrt((2 * float(m.b) + float(m.a - m.b)) / tally.n_reports) / float(m.a - m.b)
    assert abs(plus - minus - true) < Z * error
    untold = (tally.cells["support"][1] - tally.cells["support"][2]) / tally.n_reports
    assert abs(untold - true) > Z * error
