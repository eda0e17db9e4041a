"""Integers that add, in any order, on any machine.

A tally is a handful of named integer arrays, its cells. Which ones there are is the mechanism's
business; mechanisms that answer about signs share three, each with one number a key:

    plus, minus   reports that said + or - of the key
    asked         reports that could have spoken of it (all, unless a report carries one index)

Where values are rounded by a public dither these have a row for each of its bins (`tally.dither`), and one
column of `asked` where every report could speak of every key; `plus`, `minus` and `asked` are the sums.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keyveil.domain import UNDITHERED
from keyveil.errors import TallyError

Counts = NDArray[np.int64]

# Axes of counts that are kept apart by the dither's bins.
_BINNED = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tally:
    """Counts of one question's reports. Tallies of one question merge with `+`.

    >>> one = Tally.of(question="q", n_reports=1, plus=[1, 0], minus=[0, 0], asked=[1, 1])
    >>> both = one + one
    >>> both.n_reports, both.plus.tolist(), both == one
    (2, [2, 0], False)
    """

    question: str
    n_reports: int
    cells: Mapping[str, Counts]

    @classmethod
    def of(cls, *, question: str, n_reports: int, **cells: ArrayLike) -> Tally:
        """A tally of the named cells, copied and made read-only."""
        frozen = {}
        for name, counts in cells.items():
            frozen[name] = np.array(counts, dtype=np.int64)
            frozen[name].setflags(write=False)
        return cls(question=question, n_reports=n_reports, cells=MappingProxyType(frozen))

    @classmethod
    def from_json(cls, text: str) -> Tally:
        """The tally that `to_json` wrote; anything else is refused."""
        try:
            fields = json.loads(text)
            question, n_reports, cells = fields["question"], fields["n_reports"], fields["cells"]
            counts = {str(name): np.array(numbers) for name, numbers in cells.items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise TallyError("expected a tally as JSON: question, n_reports and cells") from None
        whole = all(array.dtype == np.int64 and (array >= 0).all() for array in counts.values())
        if not isinstance(question, str) or type(n_reports) is not int or n_reports < 0 or not whole:
            raise TallyError("the cells of a tally must be whole numbers from 0 upwards")
        return cls.of(question=question, n_reports=n_reports, **counts)

    def to_json(self) -> str:
        """Question, number of reports, cells.

        >>> Tally.of(question="q", n_reports=1, plus=[1, 0]).to_json()
        '{"question": "q", "n_reports": 1, "cells": {"plus": [1, 0]}}'
        """
        cells = {name: counts.tolist() for name, counts in self.cells.items()}
        return json.dumps({"question": self.question, "n_reports": self.n_reports, "cells": cells})

    @property
    def plus(self) -> Counts:
        """Reports that said + of each key."""
        return _pooled(self.cells["plus"])

    @property
    def minus(self) -> Counts:
        """Reports that said - of each key."""
        return _pooled(self.cells["minus"])

    @property
    def asked(self) -> Counts:
        """Reports that could have spoken of each key."""
        asked = _pooled(self.cells["asked"])
        if self.dither == UNDITHERED or asked.size > 1:
            return asked
        return np.broadcast_to(asked, self.cells["plus"].shape[-1:])

    @property
    def dither(self) -> int:
        """In how many bins reports are counted apart; 1 where they are not."""
        plus = self.cells.get("plus")
        return len(plus) if plus is not None and plus.ndim == _BINNED else UNDITHERED

    @property
    def pooled(self) -> Tally:
        """The same with the bins of the dither added up."""
        if self.dither == UNDITHERED:
            return self
        cells = {"plus": self.plus, "minus": self.minus, "asked": self.asked}
        return Tally.of(question=self.question, n_reports=self.n_reports, **cells)

    def apart(self) -> list[Tally]:
        """A tally of each bin of the dither, in order.

        >>> both = Tally.of(question="q", n_reports=3, plus=[[1], [0]], minus=[[0], [1]], asked=[[1], [2]])
        >>> [each.n_reports for each in both.apart()], both.pooled.asked.tolist()
        ([1, 2], [3])
        """
        plus, minus, asked = (self.cells[name] for name in ("plus", "minus", "asked"))
        everybody = asked.shape[1] == 1
        wide = np.broadcast_to(asked, plus.shape)
        return [
            Tally.of(
                question=self.question,
                n_reports=int(asked[row, 0] if everybody else asked[row].sum()),
                plus=plus[row],
                minus=minus[row],
                asked=wide[row],
            )
            for row in range(self.dither)
        ]

    def __add__(self, other: Tally) -> Tally:
        if self.question != other.question:
            raise TallyError(
                f"tallies of different questions do not add: {self.question[:12]} and {other.question[:12]}"
            )
        if self._shapes() != other._shapes():
            raise TallyError(f"tallies of different cells do not add: {self._shapes()} and {other._shapes()}")
        return Tally.of(
            question=self.question,
            n_reports=self.n_reports + other.n_reports,
            **{name: counts + other.cells[name] for name, counts in self.cells.items()},
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Tally)
            and (self.question, self.n_reports) == (other.question, other.n_reports)
            and self._shapes() == other._shapes()
            and all(np.array_equal(counts, other.cells[name]) for name, counts in self.cells.items())
        )

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: counts.shape for name, counts in self.cells.items()}


def _pooled(counts: Counts) -> Counts:
    """Counts a key, whichever bin they came in."""
    return counts.sum(axis=0) if counts.ndim == _BINNED else counts
