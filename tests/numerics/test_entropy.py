from keyveil.numerics import InsecureSeededEntropy, system_entropy


def test_system_words_fill_64_bits():
    words = system_entropy(4096)
    ones = sum(word.bit_count() for word in words)
    # 4096 * 64 fair bits: mean 131072, standard deviation 256; five of them.
    assert abs(ones - 131072) < 5 * 256
    assert all(0 <= word < 2**64 for word in words)
    assert len(set(words)) == 4096


def test_seeded_words_repeat_and_differ_by_seed():
    assert InsecureSeededEntropy(5)(8) == InsecureSeededEntropy(5)(8) != InsecureSeededEntropy(6)(8)


def test_seeded_words_can_be_short():
    assert max(InsecureSeededEntropy(5, word_bits=3)(500)) == 7
