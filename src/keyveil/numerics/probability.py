"""Probabilities as integers, and exponentials that err on privacy's side.

A probability is a number of *words*: of the 2**word_bits words that the entropy source may yield,
how many lead to this outcome. What is published, certified and estimated with is that integer, so
the kernel on paper and the kernel in the sampler cannot differ by a rounding.

epsilon itself is irrational in the other direction: exp(epsilon) is replaced by a rational just
below it (`exp_below`), and a certified ratio is turned back into an epsilon just above its
logarithm (`epsilon_above`). Both errors make the printed epsilon larger, never smaller.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from keyveil.errors import BudgetError

WORD_BITS = 64

# Above this, e**epsilon leaves fewer than 2**18 of 2**64 words for a lie; nobody is protected.
LARGEST_EPSILON = 32

# exp is cut ten digits earlier than log, so that log(exp_below(x)) stays below x.
_EXP = Context(prec=50)
_LOG = Context(prec=60)


def parse_epsilon(value: object, where: str = "epsilon") -> Fraction:
    """The budget as an exact fraction; refuses whatever is not a positive, finite number.

    >>> parse_epsilon("0.5")
    Fraction(1, 2)
    >>> parse_epsilon(-1)
    Traceback (most recent call last):
        ...
    keyveil.errors.BudgetError: epsilon must be a positive number, got -1
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal, Fraction)):
        raise BudgetError(f"{where} must be a positive number, got {type(value).__name__}")
    try:
        epsilon = Fraction(value)
    except (ValueError, OverflowError, ZeroDivisionError):
        raise BudgetError(f"{where} must be a positive number, got {str(value)[:40]!r}") from None
    if epsilon <= 0:
        raise BudgetError(f"{where} must be a positive number, got {value}")
    if epsilon > LARGEST_EPSILON:
        raise BudgetError(
            f"{where} must be at most {LARGEST_EPSILON}, got {value}; beyond that a report hides nothing"
        )
    return epsilon


def exp_below(x: Fraction) -> Fraction:
    """A rational just below exp(x), by less than one part in 10**47; exactly 1 for x = 0.

    >>> float(exp_below(Fraction(1)))
    2.718281828459045
    """
    if x == 0:
        return Fraction(1)
    argument = _EXP.divide(Decimal(x.numerator), Decimal(x.denominator))
    # To fifty digits, rounding is wrong by at most 5e-50 of a number: of the argument, which makes
    # 5e-50 * 32 of the exponential, and of the exponential itself. Together less than 2e-48.
    return Fraction(_EXP.exp(argument)) * (1 - Fraction(2, 10**48))


def epsilon_above(ratio: Fraction) -> float:
    """The smallest float that is not below ln(ratio): the epsilon that a certified ratio earns.

    >>> epsilon_above(exp_below(Fraction(1, 2))), epsilon_above(Fraction(1))
    (0.5, 0.0)
    """
    return rounded_up(log_above(ratio))


def log_above(ratio: Fraction) -> Fraction:
    """A rational just above ln(ratio), to sixty digits, so that rounds that share epsilon add up to it.

    >>> 3 * log_above(exp_below(Fraction(1, 3))) <= 1
    True
    """
    if ratio < 1:
        raise ValueError(f"a privacy ratio is at least 1, got {float(ratio)}")
    if ratio == 1:
        return Fraction(0)
    up = Context(prec=_LOG.prec, rounding=ROUND_CEILING)
    quotient = up.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))
    return Fraction(up.next_plus(_LOG.ln(quotient)))


def rounded_up(number: Fraction) -> float:
    """The smallest float that is not below a number.

    >>> rounded_up(Fraction(1, 10)) >= Fraction(1, 10), rounded_up(Fraction(1, 2))
    (True, 0.5)
    """
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)


def ceil_div(numerator: Fraction | int, denominator: Fraction | int) -> int:
    """The quotient, rounded up to an integer."""
    return math.ceil(Fraction(numerator) / Fraction(denominator))
