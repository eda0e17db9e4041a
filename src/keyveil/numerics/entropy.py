"""Where random words come from.

An entropy source is a function: asked for n words, it yields n integers below 2**64. The default,
`system_entropy`, is the operating system's generator, and nothing else may feed a device.
`InsecureSeededEntropy` repeats itself on purpose: for simulation and tests.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence

from keyveil.numerics.probability import WORD_BITS
from keyveil.numerics.words import Words

Entropy = Callable[[int], Sequence[int]]


def system_entropy(n_words: int) -> Words:
    """`n_words` words from the operating system, safe after a fork.

    >>> len(system_entropy(3))
    3
    """
    return Words(os.urandom(8 * n_words))


class InsecureSeededEntropy:
    """Repeatable words for simulation; a device that used them would protect nobody.

    >>> InsecureSeededEntropy(7)(2) == InsecureSeededEntropy(7)(2)
    True
    """

    def __init__(self, seed: int, word_bits: int = WORD_BITS) -> None:
        self._generator = random.Random(seed)
        self._word_bits = word_bits

    def __call__(self, n_words: int) -> Sequence[int]:
        """`n_words` words that the seed alone decides."""
        if self._word_bits == WORD_BITS:
            return Words(self._generator.randbytes(8 * n_words))
        return [self._generator.getrandbits(self._word_bits) for _ in range(n_words)]
