"""A public code for texts, learnt from texts that are public: Huffman's words by the byte before.

Never learn a code from what people hold: it is published with the campaign.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise

from keyveil.domain.texts import BYTES, END, LONGEST_WORD, MOST_TABLES, TextCode, visible


def learn_code(texts: Iterable[str], *, longest: int, tables: int = 40) -> TextCode:
    """The code with the shortest texts on average, over texts like these; of the commonest bytes before.

    All bytes together are taken to come once more than they came, so that every text has a code.

    >>> code = learn_code(["com.example.maps", "com.example.mail", "org.example.chess"], longest=96)
    >>> code.name(code.number("com.example.play")), code.name(code.number("\u00e9t\u00e9"))
    ('com.example.play', '\u00e9t\u00e9')
    """
    after: dict[int, Counter[int]] = defaultdict(Counter)
    for text in texts:
        said = (END, *visible(text).encode(), END)
        for before, byte in pairwise(said):
            after[before][byte] += 1
    together = sum(after.values(), Counter[int]())
    popular = sorted(after, key=lambda before: (-after[before].total(), before))
    own = [before for before in popular if before != END][: min(tables, MOST_TABLES) - 1]
    made = {f"{before:02x}": _lengths(after[before]) for before in own}
    return TextCode(longest=longest, tables={"": _lengths(together), **made})


def _lengths(counts: Counter[int]) -> str:
    """The lengths of Huffman's words, none above the longest: counts are halved until they fit."""
    weights = [1 + BYTES * counts[byte] for byte in range(BYTES)]
    while max(lengths := _huffman(weights)) > LONGEST_WORD:
        weights = [(weight + 1) // 2 for weight in weights]
    return "".join(chr(ord("a") + length - 1) for length in lengths)


def _huffman(weights: list[int]) -> list[int]:
    lengths = [0] * len(weights)
    heap = [(weight, place, [place]) for place, weight in enumerate(weights)]
    heapq.heapify(heap)
    while len(heap) > 1:
        (light, place, first), (other, _, second) = heapq.heappop(heap), heapq.heappop(heap)
        for byte in first + second:
            lengths[byte] += 1
        heapq.heappush(heap, (light + other, place, first + second))
    return lengths
