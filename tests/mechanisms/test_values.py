"""Value mechanisms and the golden numbers of the gridded square wave."""

from fractions import Fraction

import pytest

from keyveil.domain import level_of
from keyveil.mechanisms import Harmony, WindowResponse, build
from keyveil.mechanisms.index.boundary import boundary_law, round_to_boundary
from keyveil.mechanisms.values import bin_of, square_wave_half_width
from keyveil.numerics import epsilon_above, exp_below, parse_epsilon

# epsilon: b, w, near density, far density of the continuous UE-SW
GOLDEN = {
    "0.5": (0.407962, 0.423225, 0.615290, 0.479188),
    "1": (0.323091, 0.358155, 0.755948, 0.458506),
    "2": (0.188670, 0.256083, 1.136305, 0.418023),
    "4": (0.055276, 0.129337, 2.538010, 0.343482),
}


@pytest.mark.parametrize("epsilon", GOLDEN)
def test_a_fine_grid_comes_close_to_the_continuous_square_wave(epsilon):
    b, w, near, far = GOLDEN[epsilon]
    assert square_wave_half_width(float(epsilon) / 2) == pytest.approx(w, abs=5e-7)
    bins = 2**14
    channel = build("ue-sw", epsilon, n_keys=10, bins=bins).channel
    heard = float(channel.a) * channel.words
    assert float(channel.a) == pytest.approx(0.5, abs=1e-9)
    assert float(channel.b) == pytest.approx(b, abs=2e-4)
    assert bins * channel.near / heard == pytest.approx(near, abs=5e-4)
    assert bins * channel.far / heard == pytest.approx(far, abs=2e-4)


def test_ks_grr_final_round_has_the_papers_probabilities():
    one = build("pckv-grr", 1, n_keys=10, pairs_per_user=1).channel
    three = build("pckv-grr", 1, n_keys=10, pairs_per_user=3).channel
    assert (one.keep / one.words, one.fake / one.words) == pytest.approx((0.114607, 0.042162), abs=5e-7)
    assert (three.keep / three.words, three.fake / three.words) == pytest.approx(
        (0.197557, 0.032098), abs=5e-7
    )


@pytest.mark.parametrize("make", [WindowResponse.square_wave, WindowResponse.piecewise])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "4"])
@pytest.mark.parametrize("bins", [2, 7, 32])
def test_windows_are_laws_within_epsilon_and_can_be_undone(make, epsilon, bins):
    mechanism = make(epsilon, bins)
    rows = [mechanism.row(i) for i in range(bins)]
    assert all(sum(row) == 1 for row in rows)
    worst = max(max(column) / min(column) for column in zip(*rows, strict=True))
    assert worst <= mechanism.loss <= exp_below(parse_epsilon(epsilon))
    assert epsilon_above(mechanism.loss) == pytest.approx(float(epsilon), abs=1e-9)
    for i, row in enumerate(rows):
        mean = sum((j * chance for j, chance in enumerate(row)), Fraction(0))
        assert float(mechanism.debias(mean)) == pytest.approx(i, abs=1e-9)


@pytest.mark.parametrize("make", [WindowResponse.square_wave, WindowResponse.piecewise])
def test_windows_draw_what_they_claim_word_for_word(make):
    mechanism = make(1, 5, word_bits=10)
    for i in range(5):
        seen = [0] * mechanism.window.n_out
        for word in range(1024):
            seen[mechanism.draw(i, word)] += 1
        assert [Fraction(n, 1024) for n in seen] == mechanism.row(i)


def test_harmony_is_exact():
    mechanism = Harmony.for_epsilon(1, word_bits=6)
    for value in (-1.0, -0.5, 0.25, 1.0):
        level = level_of(value)
        plus = sum(mechanism.draw(level, r, w) > 0 for r in range(64) for w in range(64))
        assert Fraction(plus, 4096) == mechanism.row(level)[1]
        down, up = mechanism.row(level)
        assert mechanism.debias(up - down) == Fraction(level, 2**63) - 1
    assert mechanism.loss <= exp_below(parse_epsilon(1))


def test_bins_and_boundaries_keep_ends_and_means():
    assert [bin_of(level_of(v), 4) for v in (-1.0, -0.6, -0.4, 0.0, 0.99, 1.0)] == [0, 0, 1, 2, 3, 3]
    for value in (-1.0, -0.7, 0.1, 1.0):
        law = boundary_law(level_of(value), 5)
        mean = sum(chance * (Fraction(place, 2) - 1) for place, chance in law)
        assert float(mean) == pytest.approx(value, abs=1e-12)
        seen = [round_to_boundary(level_of(value), 5, word, word_bits=8) for word in range(256)]
        assert {place: Fraction(seen.count(place), 256) for place in set(seen)} == dict(
            boundary_law(level_of(value), 5, word_bits=8)
        )
