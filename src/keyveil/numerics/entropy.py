"""Where random words come from.

An entropy source is a function: asked for n words, it yields n integers below 2**64. The default,
`system_entropy`, is the operating system's generator, and nothing else may feed a device.
`InsecureSeededEntropy` repeats itself on purpose: for simulation and tests.
"""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable, Sequence

from keyveil.numerics.probability import WORD_BITS

Entropy = Callable[[int], Sequence[int]]


def system_entropy(n_words: int) -> Sequence[int]:
    """`n_words` words from the operating system, safe after a fork.

    >>> len(system_entropy(3))
    3
    """
    return struct.unpack(f"<{n_words}Q", os.urandom(8 * n_words))


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
        return [self._generator.getrandbits(self._word_bits) for _ in range(n_words)]
