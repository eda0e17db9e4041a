import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyveil.errors import BudgetError
from keyveil.numerics import PRICE_BITS, epsilon_above, exp_below, parse_epsilon, price

budgets = st.fractions(min_value=Fraction(1, 10**6), max_value=32)


def true_exp(x: Fraction) -> Fraction:
    with localcontext(prec=120):
        return Fraction((Decimal(x.numerator) / Decimal(x.denominator)).exp())


@settings(max_examples=1000)
@given(budgets)
def test_exp_below_is_below_by_less_than_one_part_in_two_to_the_159(x):
    truth = true_exp(x)
    assert 0 < truth - exp_below(x) < truth / 2**159


@settings(max_examples=1000)
@given(st.fractions(min_value=1, max_value=2**70))
def test_a_price_is_never_below_the_logarithm_and_at_most_one_unit_and_a_bit_above(ratio):
    with localcontext(prec=120):
        log = Fraction((Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln())
    over = Fraction(price(ratio), 2**PRICE_BITS) - log
    assert -Fraction(1, 10**110) < over < Fraction(101, 100) / 2**PRICE_BITS


@given(budgets, st.integers(1, 40))
def test_rounds_that_share_a_budget_add_up_to_it(epsilon, rounds):
    assert rounds * price(exp_below(epsilon / rounds)) <= epsilon * 2**PRICE_BITS


@given(budgets)
def test_epsilon_never_comes_back_larger_than_it_was_asked(x):
    asked = float(x)
    assert epsilon_above(exp_below(Fraction(asked))) <= asked


@given(st.fractions(min_value=Fraction(1001, 1000), max_value=10**9))
def test_epsilon_above_is_not_below_the_logarithm_and_at_most_one_float_off(ratio):
    epsilon = epsilon_above(ratio)
    with localcontext(prec=100):
        log = (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()
    assert Decimal(math.nextafter(epsilon, 0)) < log <= Decimal(epsilon)


def test_a_ratio_below_one_is_no_privacy_ratio():
    with pytest.raises(ValueError, match="at least 1"):
        epsilon_above(Fraction(1, 2))


@pytest.mark.parametrize(
    "bad", [0, -1, -0.5, math.nan, math.inf, "text", "", "nan", True, None, [1], 33, "1e9", "1e-400000000"]
)
def test_what_is_no_epsilon_is_refused_in_words(bad):
    with pytest.raises(BudgetError, match=r"^epsilon must be (a positive number|at most 32), got "):
        parse_epsilon(bad)


@pytest.mark.parametrize("good", [1, 0.5, "0.5", Decimal("2.25"), Fraction(1, 3)])
def test_numbers_of_every_kind_are_taken_exactly(good):
    assert parse_epsilon(good) == Fraction(good)
