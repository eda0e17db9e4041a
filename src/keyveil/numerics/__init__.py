"""Exact probabilities, entropy sources, intervals: the arithmetic everything else stands on."""

from keyveil.numerics.intervals import CONFIDENCE, two_sided_z
from keyveil.numerics.mixing import mix
from keyveil.numerics.probability import (
    PRICE_BITS,
    WORD_BITS,
    ceil_div,
    epsilon_above,
    exp_below,
    log_above,
    parse_epsilon,
    price,
    rounded_up,
)
from keyveil.numerics.words import (
    Entropy,
    InsecureSeededEntropy,
    Words,
    at_least,
    planes,
    system_entropy,
)

__all__ = [
    "CONFIDENCE",
    "PRICE_BITS",
    "WORD_BITS",
    "Entropy",
    "InsecureSeededEntropy",
    "Words",
    "at_least",
    "ceil_div",
    "epsilon_above",
    "exp_below",
    "log_above",
    "mix",
    "parse_epsilon",
    "planes",
    "price",
    "rounded_up",
    "system_entropy",
    "two_sided_z",
]
