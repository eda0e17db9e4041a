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
import re
from decimal import Decimal
from fractions import Fraction

from keyveil.errors import BudgetError

WORD_BITS = 64

# Above this, e**epsilon leaves fewer than 2**18 of 2**64 words for a lie; nobody is protected.
LARGEST_EPSILON = 32

_SHORT = re.compile(r"\s*[+-]?[0-9_.]{1,60}([eE][+-]?[0-9]{1,3}|/[0-9]{1,60})?\s*")

# Bits behind the point while an exponential or a logarithm is computed, and of a price.
_BITS, PRICE_BITS = 256, 192
# exp is computed at the argument over 2**16, where 24 terms are enough, and squared as often.
_SQUARINGS = 16
# exp stays this far below, so that log_above(exp_below(x)) <= x.
_MARGIN_BITS = 160
# Terms of the logarithm's series: for z <= 1/3 the rest is below 2**-256.
_LOG_TERMS = 84


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
        if isinstance(value, (str, Decimal)) and not _SHORT.fullmatch(str(value)):
            raise ValueError("it may be as long to write out as its exponent says")
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
    """A rational just below exp(x), by less than one part in 2**159; exactly 1 for x = 0.

    Whole numbers and rounding down alone, so that every language finds the same one.

    >>> float(exp_below(Fraction(1)))
    2.718281828459045
    """
    if x == 0:
        return Fraction(1)
    small = (x.numerator << _BITS) // x.denominator >> _SQUARINGS
    total = term = 1 << _BITS
    place = 1
    while term:
        term = (term * small >> _BITS) // place
        total += term
        place += 1
    for _ in range(_SQUARINGS):
        # Each squaring doubles what rounding has lost: together less than 2**-230 of the whole.
        total = total * total >> _BITS
    return Fraction(total - (total >> _MARGIN_BITS), 1 << _BITS)


def epsilon_above(ratio: Fraction) -> float:
    """The smallest float that is not below ln(ratio): the epsilon that a certified ratio earns.

    >>> epsilon_above(exp_below(Fraction(1, 2))), epsilon_above(Fraction(1))
    (0.5, 0.0)
    """
    return rounded_up(log_above(ratio))


def log_above(ratio: Fraction) -> Fraction:
    """A multiple of 2**-192 just above ln(ratio), so fine that rounds that share epsilon add up to it.

    >>> 3 * log_above(exp_below(Fraction(1, 3))) <= 1
    True
    """
    return Fraction(price(ratio), 1 << PRICE_BITS)


def price(ratio: Fraction) -> int:
    """What an answer with this loss costs, in units of 2**-192: ln(ratio), rounded up.

    ratio = m 2**k with m in [1, 2]; ln m = 2 atanh((m - 1)/(m + 1)). Every step rounds up.

    >>> price(exp_below(Fraction(2))) <= 2 << 192, price(Fraction(1))
    (True, 0)
    """
    if ratio < 1:
        raise ValueError(f"a privacy ratio is at least 1, got {float(ratio)}")
    if ratio == 1:
        return 0
    one = 1 << _BITS
    doublings = (ratio.numerator // ratio.denominator).bit_length() - 1
    m = -(-(ratio.numerator << _BITS) // (ratio.denominator << doublings))
    log = _twice_atanh_above(-(-(m - one << _BITS) // (m + one)))
    return -(-(log + doublings * _LN_2) >> _BITS - PRICE_BITS)


def _twice_atanh_above(z: int) -> int:
    """2 atanh(z) for z <= 1/3, from above; both in units of 2**-256."""
    square, power, total = -(-z * z >> _BITS), z, 1
    for odd in range(1, 2 * _LOG_TERMS, 2):
        total += -(-power // odd)
        power = -(-power * square >> _BITS)
    return 2 * total


def rounded_up(number: Fraction) -> float:
    """The smallest float that is not below a number.

    >>> rounded_up(Fraction(1, 10)) >= Fraction(1, 10), rounded_up(Fraction(1, 2))
    (True, 0.5)
    """
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)


def ceil_div(numerator: Fraction | int, denominator: Fraction | int) -> int:
    """The quotient, rounded up to an integer."""
    return -(-numerator // denominator)


_LN_2 = _twice_atanh_above((1 << _BITS) // 3 + 1)
