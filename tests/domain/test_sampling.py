"""Padding-and-sampling and rounding, over all short words."""

from collections import Counter
from fractions import Fraction

import pytest

from keyveil.domain import (
    DUMMY,
    Record,
    pick,
    round_to_sign,
    rounding_law,
    sample_pair,
    sampling_law,
    words_for,
)

BITS = 8


@pytest.mark.parametrize("choices", [1, 2, 3, 7, 100, 256])
def test_words_for_counts_what_pick_does(choices):
    seen = Counter(pick(word, choices, BITS) for word in range(256))
    assert [seen[c] for c in range(choices)] == [words_for(c, choices, BITS) for c in range(choices)]
    assert max(seen.values()) - min(seen.values()) <= 1
    assert seen[0] == max(seen.values()), "the certificates count on slot 0 being the likeliest"


@pytest.mark.parametrize("held", [{}, {0: 1.0}, {0: 1.0, 3: -1.0}, dict.fromkeys(range(6), 0.5)])
@pytest.mark.parametrize("pairs_per_user", [1, 2, 3, 6])
def test_sampling_follows_its_law(held, pairs_per_user):
    record = Record.of(held)
    seen = Counter(sample_pair(record, pairs_per_user, word, BITS) for word in range(256))
    law, dummy = sampling_law(record, pairs_per_user, BITS)
    assert {pair: Fraction(seen[pair], 256) for pair, _ in law} == dict(law)
    assert Fraction(seen[DUMMY], 256) == dummy


def test_an_empty_record_always_pads_and_a_long_one_never():
    assert sampling_law(Record.of({}), 3)[1] == 1
    assert sampling_law(Record.of(dict.fromkeys(range(4), 0.0)), 3)[1] == 0


@pytest.mark.parametrize("value", [-1.0, -0.3, 0.0, 0.99, 1.0])
def test_rounding_follows_its_law_and_keeps_the_ends(value):
    level = Record.of({0: value}).pairs[0].level
    up = sum(round_to_sign(level, word, BITS) == 1 for word in range(256))
    assert Fraction(up, 256) == rounding_law(level, BITS)
    assert abs(2 * up / 256 - 1 - value) <= 2 / 256
    if abs(value) == 1:
        assert 2 * up / 256 - 1 == value
