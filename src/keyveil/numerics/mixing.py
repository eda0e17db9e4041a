"""A fixed permutation of words whose outputs look drawn: what public hashes are made of."""

from __future__ import annotations

from keyveil.numerics.probability import WORD_BITS

_MASK = (1 << WORD_BITS) - 1


def mix(x: int) -> int:
    """Steele, Lea and Flood's splitmix64 finaliser, of a number modulo 2**64.

    >>> hex(mix(0)), mix(2**64) == mix(0)
    ('0xe220a8397b1dcdaf', True)
    """
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)
