"""Integers that add, in any order, on any machine.

For every key a tally holds how many reports said PLUS of it, how many MINUS, and how many could
have spoken of it at all (`asked`: all of them, except where a report carries one index).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.errors import TallyError

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tally:
    """Counts of PLUS, MINUS and asked per key. Tallies of one question merge with `+`.

    >>> one = Tally(question="q", n_reports=1, plus=[1, 0], minus=[0, 0], asked=[1, 1])
    >>> both = one + one
    >>> both.n_reports, both.plus.tolist(), both == one
    (2, [2, 0], False)
    """

    question: str
    n_reports: int
    plus: Counts
    minus: Counts
    asked: Counts

    def __post_init__(self) -> None:
        for name in ("plus", "minus", "asked"):
            counts = np.array(getattr(self, name), dtype=np.int64)
            counts.setflags(write=False)
            object.__setattr__(self, name, counts)
        if not self.plus.shape == self.minus.shape == self.asked.shape:
            raise TallyError("plus, minus and asked must count the same keys")

    def __add__(self, other: Tally) -> Tally:
        if self.question != other.question:
            raise TallyError(
                f"tallies of different questions do not add: {self.question[:12]} and {other.question[:12]}"
            )
        return Tally(
            question=self.question,
            n_reports=self.n_reports + other.n_reports,
            plus=self.plus + other.plus,
            minus=self.minus + other.minus,
            asked=self.asked + other.asked,
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Tally)
            and (self.question, self.n_reports) == (other.question, other.n_reports)
            and all(
                np.array_equal(getattr(self, name), getattr(other, name))
                for name in ("plus", "minus", "asked")
            )
        )

    def to_fields(self) -> dict[str, Any]:
        """Plain integers and lists, for JSON."""
        return {
            "question": self.question,
            "n_reports": self.n_reports,
            "plus": self.plus.tolist(),
            "minus": self.minus.tolist(),
            "asked": self.asked.tolist(),
        }
