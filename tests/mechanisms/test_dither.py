"""Values that a public word rounds: at most epsilon whatever the word, and the law that a secret one gives.

Everything here is exact: kernels are tables of fractions, and between two levels of a record all words round
it alike.
"""

import itertools
from fractions import Fraction

import pytest

from keyveil.domain import FULL_LEVEL, Record, rounded
from keyveil.mechanisms import REGISTRY
from keyveil.numerics import exp_below, parse_epsilon

SIGNED = sorted(name for name, cls in REGISTRY.items() if cls.for_epsilon(1, n_keys=3).tells_signs)
LEVELS = (0, FULL_LEVEL // 4, FULL_LEVEL - FULL_LEVEL // 3, FULL_LEVEL)
# One word between each two levels, and how many such words there are.
WORDS = tuple((low, high - low) for low, high in itertools.pairwise(LEVELS))


def made(name, epsilon="1", **options):
    cls = REGISTRY[name]
    size = {"n_keys": 2, "pairs_per_user": 1, **cls.small_options, **options}
    return cls.for_epsilon(epsilon, **size)


def records():
    """Every record of two keys whose values are at some of the levels."""
    for held in itertools.product((None, *LEVELS), repeat=2):
        yield Record.from_levels((code, level) for code, level in enumerate(held) if level is not None)


def row(mechanism, record):
    return [mechanism.probability(answer, record) for answer in mechanism.answers()]


def loss_given(mechanism, word):
    """The largest ratio of chances over all answers and records, to somebody who knows the word."""
    rows = [row(mechanism, rounded(record, word)) for record in records()]
    return max(max(column) / min(column) for column in zip(*rows, strict=True) if max(column))


@pytest.mark.parametrize("epsilon", ["0.5", "2"])
@pytest.mark.parametrize("pairs", [1, 2])
@pytest.mark.parametrize("name", SIGNED)
def test_whoever_knows_the_word_learns_at_most_epsilon(name, pairs, epsilon):
    mechanism = made(name, epsilon, pairs_per_user=pairs)
    for word, _ in WORDS:
        assert loss_given(mechanism, word) <= mechanism.loss <= exp_below(parse_epsilon(epsilon))


def test_a_larger_epsilon_would_be_noticed():
    assert loss_given(made("kvue", "0.6"), WORDS[1][0]) > exp_below(parse_epsilon("0.5"))


@pytest.mark.parametrize("name", SIGNED)
def test_over_all_words_answers_have_the_law_of_values_rounded_in_secret(name):
    mechanism = made(name, "1")
    for record in records():
        expected = row(mechanism, record)
        mixed = mixture(mechanism, record, lambda answer, word: word)
        assert mixed == expected


def mixture(mechanism, record, word_of):
    """The chances of all answers where `word_of` decides which word rounds, given one that is even."""
    rows = [
        [
            mechanism.probability(answer, rounded(record, word_of(answer, word))) * Fraction(many, FULL_LEVEL)
            for answer in mechanism.answers()
        ]
        for word, many in WORDS
    ]
    return [sum(column) for column in zip(*rows, strict=True)]


def test_a_word_that_depends_on_the_cohort_changes_the_law():
    """The wrong twin: in one half of the cohorts small words round, in the other large ones."""
    mechanism = made("bucket", "2", cohorts=2)
    low, high = WORDS[0][0], WORDS[-1][0]

    def by_cohort(answer, word):
        return (low, high)[answer // mechanism.buckets]

    record = Record.from_levels([(0, FULL_LEVEL // 4)])
    assert mixture(mechanism, record, by_cohort) != row(mechanism, record)
