import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil.numerics import InsecureSeededEntropy, Words, at_least, planes, system_entropy

words_of_64 = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=90)


def numbers(words, word_bits):
    """The numbers behind the planes, one by one: bit i of number k is bit i * n + k of all bits."""
    n, joined = len(words), sum(word << (word_bits * place) for place, word in enumerate(words))
    return [sum((joined >> (i * n + k) & 1) << i for i in range(word_bits)) for k in range(n)]


@given(words_of_64, st.integers(0, 2**64 - 1))
def test_all_positions_at_once_are_each_position_alone(words, threshold):
    found = at_least(planes(words), threshold)
    assert [found >> k & 1 for k in range(len(words))] == [int(x >= threshold) for x in numbers(words, 64)]


@pytest.mark.parametrize("n", [199, 200, 201, 207, 1000])
def test_many_words_are_sliced_like_few(n):
    words = InsecureSeededEntropy(n)(n)
    for threshold in (1, 2**63, 2**64 // 3):
        found = at_least(planes(words), threshold)
        assert [found >> k & 1 for k in range(n)] == [int(x >= threshold) for x in numbers(words, 64)]


@pytest.mark.parametrize(("n", "word_bits"), [(1, 4), (3, 3), (5, 2), (9, 1)])
def test_reading_words_as_planes_is_a_bijection(n, word_bits):
    tuples = (
        [joined >> (word_bits * place) & ((1 << word_bits) - 1) for place in range(n)]
        for joined in range(1 << (n * word_bits))
    )
    seen = {tuple(numbers(words, word_bits)) for words in tuples}
    assert len(seen) == 1 << (n * word_bits)


@pytest.mark.parametrize("n", [1, 7, 8, 9, 64, 100])
def test_short_words_are_sliced_like_long_ones(n):
    words = InsecureSeededEntropy(n, word_bits=5)(n)
    for threshold in range(32):
        found = at_least(planes(words, 5), threshold)
        assert [found >> k & 1 for k in range(n)] == [int(x >= threshold) for x in numbers(words, 5)]


@given(words_of_64)
def test_words_behind_bytes_are_words(words):
    behind = Words.of(words)
    assert list(behind) == words == [behind[place] for place in range(len(words))]
    assert behind[-1] == words[-1]
    assert list(behind[1:3]) == words[1:3]
    assert Words.of(behind) is behind


def test_words_print_nothing_of_themselves():
    assert repr(system_entropy(3)) == "<3 secret words>"


def test_half_a_word_is_refused():
    with pytest.raises(ValueError, match="whole words of 8 bytes"):
        Words(bytes(7))
    with pytest.raises(IndexError):
        Words(bytes(8))[1]
    with pytest.raises(ValueError, match="in order"):
        Words(bytes(16))[::-1]
