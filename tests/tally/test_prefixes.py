"""Tallies of prefixes: counted like any, decoded head by head, and what is decoded is what reports say."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from keyveil import compiled
from keyveil.domain import Record
from keyveil.mechanisms import PrefixBucket
from keyveil.mechanisms.hash import prefix_bucket
from keyveil.numerics import InsecureSeededEntropy
from keyveil.simulate import Population, insecure_generator
from keyveil.simulate.laws import draw_prefixes
from keyveil.tally import Tally, count
from keyveil.tally.prefixes import Decoder, Prefixes, buckets_of, transform
from keyveil.testing import Z


def made(epsilon=2, *, longest=12, bits=10, step=6, l=2, cells=1 << 10, **more):
    return PrefixBucket.for_epsilon(
        epsilon, n_keys=1 << longest, pairs_per_user=l, bits=bits, step=step, cells=cells, **more
    )


def tally_of(mechanism, seed=1, n=500):
    rng = insecure_generator(seed)
    answers = rng.integers(0, mechanism.layout.size, n)
    return Tally.of(
        question="q", n_reports=n, support=np.bincount(answers, minlength=mechanism.layout.size)
    ), answers


@pytest.mark.parametrize("bits", [6, 10, 11])
def test_a_transform_counts_what_hashing_each_prefix_counts(bits):
    mechanism = made(bits=bits)
    tally, answers = tally_of(mechanism)
    heads = range(1 << (bits - mechanism.step))
    for head, counts in zip(heads, Decoder(mechanism, tally).supports(heads), strict=True):
        for tail in range(1 << mechanism.step):
            prefix = head << mechanism.step | tail
            said = sum(
                mechanism.symbol_bucket(answer // mechanism.buckets, prefix, 1) == answer % mechanism.buckets
                for answer in answers.tolist()
            )
            assert counts[tail] == said


@pytest.mark.parametrize("longest", [12, 100, 200])
def test_arrays_hash_as_devices_do(longest):
    mechanism = made(longest=longest, bits=longest - 2)
    entropy = InsecureSeededEntropy(3)
    numbers = [
        (entropy(1)[0] << 200 | entropy(1)[0] << 90 | entropy(1)[0]) % (1 << mechanism.bits)
        for _ in range(99)
    ]
    cohorts = np.arange(99) % mechanism.cohorts
    found = buckets_of(mechanism, cohorts, Prefixes.of(mechanism, numbers))
    assert found.tolist() == [
        mechanism.symbol_bucket(cohort, number, 1)
        for cohort, number in zip(cohorts.tolist(), numbers, strict=True)
    ]


def test_with_a_compiler_and_without_on_one_core_and_on_two_it_is_the_same(monkeypatch):
    mechanism, results = made(bits=12, cells=1 << 12), []
    tally, _ = tally_of(mechanism, n=5000)
    for is_fast, cores in itertools.product((False, True), (1, 2)):
        if is_fast and not compiled.has_compiler():
            pytest.skip("numba is not installed")
        monkeypatch.setattr("keyveil.tally.prefixes.is_compiled", lambda _, fast=is_fast: fast)
        monkeypatch.setattr("keyveil.tally.prefixes.usable_cores", lambda n=cores: n)
        results.append(np.stack(list(Decoder(mechanism, tally).supports(range(64)))))
    assert all(np.array_equal(results[0], each) for each in results)


def test_two_prefixes_share_a_bucket_in_one_of_g_cohorts_and_three_are_independent():
    """Even columns and offsets give exactly 1/g; counted over 2^16 cohorts, within five standard errors."""
    mechanism = made(epsilon=1, longest=8, bits=8, step=4, cells=1 << 18)
    cohorts = np.arange(mechanism.cohorts)
    n, g = cohorts.size, mechanism.buckets
    of = {
        prefix: buckets_of(mechanism, cohorts, Prefixes.of(mechanism, [prefix] * n))
        for prefix in (0x00, 0x01, 0x0E, 0x52, 0x5F)
    }
    for first, second in itertools.combinations(of, 2):
        shared = np.mean(of[first] == of[second])
        assert abs(shared - 1 / g) < Z * np.sqrt((1 - 1 / g) / g / n)
    for first, second, third in itertools.combinations(of, 3):
        shared = np.mean((of[first] == of[second]) & (of[second] == of[third]))
        assert abs(shared - 1 / g**2) < Z * np.sqrt(1 / g**2 / n)


def test_supports_have_the_mean_of_the_kernel_over_all_linear_hashes():
    """All columns and offsets of a tiny size, as fractions: chance T for a holder, 1/g for others."""
    mechanism = made(epsilon=1, longest=2, bits=2, step=2, l=2, buckets=4, cells=4)
    g, total, others = 4, Fraction(0), Fraction(0)
    for offset, one, two in itertools.product(range(g), repeat=3):

        def bucket(code, o=offset, a=one, b=two):
            return o ^ a * (code & 1) ^ b * (code >> 1)

        owned = frozenset({bucket(0), bucket(3)})
        total += Fraction(mechanism.words_of(bucket(0), owned), mechanism.words)
        others += Fraction(mechanism.words_of(bucket(1), owned), mechanism.words)
    assert total / g**3 == mechanism.a
    # Two dummies, or the two held, occupy one bucket or two; the words that are left over make 2^-64.
    assert abs(others / g**3 - mechanism.b) < Fraction(1, 1 << 60)


def test_a_record_says_each_prefix_once():
    mechanism = made(longest=8, bits=4, step=4, l=3)
    heard = mechanism.heard(Record.of({0x51: 1.0, 0x5F: -1.0, 0x60: 0.5}))
    assert [pair.code for pair in heard.pairs] == [5, 6]


@pytest.mark.parametrize("wrong", [False, True])
def test_decoded_frequencies_are_unbiased_with_the_variance_that_is_said(wrong):
    """Means and squares of 60 tallies, z = 5; a twin that takes T a tenth too small is told apart.

    So many cohorts that what all runs share, their collisions, is a quarter of the standard error of a mean.
    """
    mechanism, rng, runs, n = made(epsilon=2, l=2, cells=1 << 18), insecure_generator(7), 60, 2000
    numbers, truth = [0x0FC, 0x0F8, 0x7A0, 0xFFF], np.array([0.0, 0.25, 0.5, 0.5])
    users = np.arange(n)
    held = np.concatenate([users[: n // 4], users[: n // 2], users[n // 2 :]])
    codes = np.repeat([1, 2, 3], [n // 4, n // 2, n // 2])
    population = Population.from_pairs(
        held, codes, np.zeros(held.size), n_users=n, names=[f"{number:x}" for number in numbers]
    )
    a, b = float(mechanism.a) * (0.9 if wrong else 1), float(mechanism.b)
    found = []
    for _ in range(runs):
        cells = draw_prefixes(mechanism, population, numbers, rng)
        decoder = Decoder(mechanism, Tally.of(question="q", n_reports=n, **cells))
        counts = decoder.supports([number >> 8 for number in numbers])
        said = [tails[number >> 2 & 63] for tails, number in zip(counts, numbers, strict=True)]
        found.append((np.array(said) / n - b) / (a - b))
    error = np.array([np.sqrt(mechanism.variance(f, n, n)) for f in truth])
    z = (np.mean(found, axis=0) - truth) / error * np.sqrt(runs)
    assert (np.abs(z).max() < Z) != wrong
    if not wrong:
        ratio = np.var(found, axis=0) / error**2
        assert np.abs(ratio - 1).max() < Z * np.sqrt(2 / runs)


def test_devices_and_the_law_agree_on_what_is_counted():
    mechanism, entropy = made(), InsecureSeededEntropy(5)
    sent = [
        mechanism.layout.encode(mechanism.perturb(Record.of({0x123: 0.0}), entropy(mechanism.n_words)))
        for _ in range(4000)
    ]
    tally = count(mechanism, sent, question="q")
    [counts] = Decoder(mechanism, tally).supports([0x123 >> 8])
    said = counts[0x123 >> 2 & 63]
    a = float(mechanism.a)
    assert abs(said / 4000 - a) < Z * np.sqrt(a * (1 - a) / 4000)


def test_a_transform_is_its_own_inverse_up_to_size():
    rows = insecure_generator(2).integers(-9, 9, (3, 16))
    again = rows.copy()
    transform(again)
    transform(again)
    assert np.array_equal(again, 16 * rows)


def test_columns_do_not_repeat_offsets():
    words = {prefix_bucket.column_of(cohort, place) for cohort in range(64) for place in range(16)}
    words |= {prefix_bucket.offset_of(cohort, head, 8) for cohort in range(64) for head in range(16)}
    assert len(words) == 2 * 64 * 16
