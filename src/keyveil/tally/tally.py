"""Integers that add, in any order, on any machine.

A tally is a handful of named integer arrays, its cells. Which ones there are is the mechanism's
business; mechanisms that answer about signs share three, each with one number a key:

    plus, minus   reports that said + or - of the key
    asked         reports that could have spoken of it (all, unless a report carries one index)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keyveil.errors import TallyError

Counts = NDArray[np.int64]


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
        return self.cells["plus"]

    @property
    def minus(self) -> Counts:
        """Reports that said - of each key."""
        return self.cells["minus"]

    @property
    def asked(self) -> Counts:
        """Reports that could have spoken of each key."""
        return self.cells["asked"]

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
