"""Integers that add, in any order, on any machine.

A tally is a handful of named integer arrays, its cells. Which ones there are is the mechanism's
business; mechanisms that answer about signs share three, each with one number a key:

    plus, minus   reports that said + or - of the key
    asked         reports that could have spoken of it (all, unless a report carries one index)

Where values are rounded by a public dither these have a row for each of its bins (`tally.dither`), and one
column of `asked` where every report could speak of every key; `plus`, `minus` and `asked` are the sums.

Where reports carry clear labels there is a tally of every segment that anybody named, beside that of all:
those of an attribute add up to the whole, integer for integer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keyveil.domain import UNDITHERED
from keyveil.errors import TallyError

Counts = NDArray[np.int64]
# An attribute's place, and a label of it.
Segment = tuple[int, int]

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
    segments: Mapping[Segment, Tally] = field(default_factory=lambda: MappingProxyType({}))
    """The reports of each segment that has any, in order; empty where reports carry no clear labels."""

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
            question, whole = fields["question"], _read(fields["question"], fields)
            parts = {
                (attribute, label): _read(question, said)
                for attribute, label, said in fields.get("segments", ())
            }
        except (ValueError, KeyError, TypeError, AttributeError):
            raise TallyError("expected a tally as JSON: question, n_reports and cells") from None
        if not all(type(place) is int and place >= 0 for segment in parts for place in segment):
            raise TallyError("a segment is named by two whole numbers, its attribute's place and its label")
        return whole.with_segments(parts)

    def to_json(self) -> str:
        """Question, number of reports, cells; and those of each segment, where there are any.

        >>> Tally.of(question="q", n_reports=1, plus=[1, 0]).to_json()
        '{"question": "q", "n_reports": 1, "cells": {"plus": [1, 0]}}'
        """
        said = {"question": self.question, **_said(self)}
        if self.segments:
            said["segments"] = [[*segment, _said(part)] for segment, part in self.segments.items()]
        return json.dumps(said)

    def with_segments(self, parts: Mapping[Segment, Tally]) -> Tally:
        """The same beside the tallies of segments; those without a report are left out.

        >>> one = Tally.of(question="q", n_reports=1, plus=[1])
        >>> list(one.with_segments({(0, 2): one, (0, 1): Tally.of(question="q", n_reports=0)}).segments)
        [(0, 2)]
        """
        named = {segment: parts[segment] for segment in sorted(parts) if parts[segment].n_reports}
        return replace(self, segments=MappingProxyType(named))

    @property
    def whole(self) -> Tally:
        """The same without the tallies of segments."""
        return replace(self, segments=MappingProxyType({})) if self.segments else self

    def unsettled(self) -> list[int]:
        """The attributes whose segments do not add up to the whole; empty in every tally of reports."""
        wrong = []
        for attribute in sorted({attribute for attribute, _ in self.segments}):
            parts = [part for (at, _), part in self.segments.items() if at == attribute]
            if sum(parts[1:], start=parts[0]) != self.whole:
                wrong.append(attribute)
        return wrong

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
        added = Tally.of(
            question=self.question,
            n_reports=self.n_reports + other.n_reports,
            **{name: counts + other.cells[name] for name, counts in self.cells.items()},
        )
        parts = dict(self.segments)
        for segment, part in other.segments.items():
            parts[segment] = parts[segment] + part if segment in parts else part
        return added.with_segments(parts) if parts else added

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Tally)
            and (self.question, self.n_reports) == (other.question, other.n_reports)
            and self._shapes() == other._shapes()
            and all(np.array_equal(counts, other.cells[name]) for name, counts in self.cells.items())
            and dict(self.segments) == dict(other.segments)
        )

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: counts.shape for name, counts in self.cells.items()}


def _said(tally: Tally) -> dict[str, Any]:
    cells = {name: counts.tolist() for name, counts in tally.cells.items()}
    return {"n_reports": tally.n_reports, "cells": cells}


def _read(question: object, said: Mapping[str, Any]) -> Tally:
    n_reports = said["n_reports"]
    counts = {str(name): np.array(numbers) for name, numbers in said["cells"].items()}
    whole = all(array.dtype == np.int64 and (array >= 0).all() for array in counts.values())
    if not isinstance(question, str) or type(n_reports) is not int or n_reports < 0 or not whole:
        raise TallyError("the cells of a tally must be whole numbers from 0 upwards")
    return Tally.of(question=question, n_reports=n_reports, **counts)


def _pooled(counts: Counts) -> Counts:
    """Counts a key, whichever bin they came in."""
    return counts.sum(axis=0) if counts.ndim == _BINNED else counts
