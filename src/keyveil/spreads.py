"""How a key's values are spread, in their own unit and with intervals: what a release says of it."""

from __future__ import annotations

import html
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.errors import DomainError, MissingPackage
from keyveil.estimate import Distribution, Estimates, Spread, flat_levels, marked, quantile_interval
from keyveil.numerics import CONFIDENCE

Floats = NDArray[np.float64]

# A shape is known where one that is flat would differ as much by chance less often than this.
FLAT_CHANCE = 0.05
KNOWN, UNKNOWN = "known", "unknown"


class Bounded(NamedTuple):
    """A number, and the ends of its 95 % interval."""

    value: float
    low: float
    high: float


class Columns(NamedTuple):
    """The same of every key."""

    value: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ValueSpread:
    """The spread of every key's values: plausible shapes, and intervals that owe nothing to them.

    `unheard` is which part of a key's holders may not have been heard and may have any values, because
    records were cut. With `inside` numbers are moved into their intervals.
    """

    spread: Spread
    distribution: Distribution
    """Over the marks between levels."""
    unheard: Floats
    value_range: tuple[float, float]
    inside: bool = True

    @classmethod
    def of(
        cls,
        spread: Spread | None,
        distribution: Distribution | None,
        raw: Estimates,
        value_range: tuple[float, float],
        *,
        inside: bool = True,
    ) -> ValueSpread | None:
        """What an outcome says, where it says anything; shapes of more points are brought to the marks."""
        if spread is None or distribution is None:
            return None
        levels = distribution.above(spread.levels)
        levels = np.where(np.isfinite(levels), levels, flat_levels(spread.levels))
        return cls(
            spread=spread,
            distribution=replace(marked(levels), steps=distribution.steps),
            unheard=raw.unheard_part(),
            value_range=value_range,
            inside=inside,
        )

    def quantile(self, q: float, codes: NDArray[np.int64] | None = None) -> Columns:
        """The value below which a part q of a key's values lies."""
        if not 0 < q < 1:
            raise DomainError(f"a quantile is asked for by a part between 0 and 1, such as 0.5, got {q:g}")
        each = self if codes is None else self._only(codes)
        low, high = quantile_interval(
            each.spread,
            q,
            CONFIDENCE,
            centre=each.distribution.above(each.spread.levels),
            unheard=each.unheard,
        )
        value = (each.distribution.quantile(q) + 1) / 2
        start, unit = self.value_range[0], self._width
        return Columns(*(start + unit * end for end in each._within(value, low, high)))

    def variance(self) -> Columns:
        """The variance of a key's values, in squares of their unit."""
        value, low, high = self.spread.values_variance(CONFIDENCE)
        part = self.unheard
        # Others may be anywhere, all at one end for one.
        low, high = (1 - part) * low, np.minimum((1 - part) * high + part / 4 + part * (1 - part), 0.25)
        return Columns(*(self._width**2 * end for end in self._within(value, low, high)))

    def bands(self) -> tuple[Floats, Floats]:
        """Intervals of the shares by the marks, which hold for all of a key's together."""
        low, high = self.spread.band(CONFIDENCE)
        part = self.unheard[:, None]
        return (1 - part) * low, (1 - part) * high + part

    def at_ends(self) -> tuple[Columns, Columns]:
        """The shares of values at the first and at the last mark."""
        found = self.spread.marks()
        value, (low, high) = np.clip(found.share(), 0.0, 1.0), found.interval(CONFIDENCE)
        part = self.unheard
        first, last = (
            Columns(*self._within(value[:, at], (1 - part) * low[:, at], (1 - part) * high[:, at] + part))
            for at in (0, -1)
        )
        return first, last

    def is_known(self) -> NDArray[np.bool_]:
        """Whether a key's shape is known: whether a flat one can be excluded."""
        found: NDArray[np.bool_] = self.spread.flat_chance() < FLAT_CHANCE
        return found

    def marks(self) -> Floats:
        """The values that the shares stand for."""
        found: Floats = self.value_range[0] + (self.distribution.points + 1) / 2 * self._width
        return found

    @property
    def _width(self) -> float:
        return self.value_range[1] - self.value_range[0]

    def _within(self, value: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats, Floats]:
        return (np.clip(value, low, high) if self.inside else value), low, high

    def _only(self, codes: NDArray[np.int64]) -> ValueSpread:
        shares = replace(self.distribution, shares=self.distribution.shares[codes])
        return replace(self, spread=self.spread.of(codes), distribution=shares, unheard=self.unheard[codes])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyDistribution:
    """How one key's values are spread: which share lies by each of the marks."""

    name: str
    marks: Floats
    shares: Floats
    low: Floats
    high: Floats
    """Ends of a band that holds for all shares together, nineteen times in twenty."""
    is_known: bool
    """Whether a flat shape can be excluded."""
    median: Bounded
    unit: str | None = None

    def plot(self) -> Any:
        """A matplotlib figure: shares in their band, the median in its interval (`analysis` extra)."""
        try:
            from keyveil.chart import draw_distribution
        except ModuleNotFoundError:
            raise MissingPackage(
                "this needs matplotlib; pip install 'keyveil[analysis]'", name="matplotlib"
            ) from None
        title = self.name if self.is_known else f"{self.name}: shape unknown"
        return draw_distribution(
            self.marks, self.shares, (self.low, self.high), self.median, title=title, unit=self.unit
        )

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{mark:.4g}</td><td>{100 * share:.1f} %</td>"
            f"<td>{100 * low:.1f} .. {100 * high:.1f}</td></tr>"
            for mark, share, low, high in zip(self.marks, self.shares, self.low, self.high, strict=True)
        )
        said = "" if self.is_known else "; shape unknown: it may be flat"
        return (
            f"<table><caption>{html.escape(self.name)}: values by {html.escape(self.unit or 'value')}{said}"
            f"</caption><thead><tr><th>about</th><th>share</th><th>95 % band</th></tr></thead>"
            f"<tbody>{rows}</tbody></table>"
        )
