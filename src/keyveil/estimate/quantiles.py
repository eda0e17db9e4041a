"""Quantiles of a key's values, each with an interval: where the part above may be what the quantile leaves.

A quantile is not linear in levels, so nothing is estimated here and given an error: a place is in the
interval if a test at that place does not reject it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

from keyveil.estimate.spread import Spread, flat_levels
from keyveil.numerics import CONFIDENCE, two_sided_z

Floats = NDArray[np.float64]

# Places at which a quantile is looked for, a bin.
_PLACES = 4
# Noise of an average over the place where a quantile is, in units of what it falls by over as much of a flat
# shape: below this an interval is hardly longer for noise that crosses a level several times.
_STEADY = 0.6
# A second difference of levels that noise explains, in standard errors.
_BY_NOISE = 2.0
# Which part of a second difference interpolation may be off by: on a smooth shape, and on one with steps,
# which are what falls by more than a sixth within a bin and not before or after it.
_SMOOTH, _STEP, _IS_STEP = 1 / 8, 1 / 2, 1 / 6


def quantile_interval(
    spread: Spread,
    q: float,
    confidence: float = CONFIDENCE,
    *,
    centre: Floats | None = None,
    unheard: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Where on the scale [0, 1] the value may lie below which a part q of a key's values does.

    It is where the part above falls to 1 - q. What the part above differs by from a shape `centre`, a row
    a key, flat where none is given, is a local average of levels, over as many as noise needs, and taken
    for a line; by what a line misses of the levels around it, and lines between levels of the shape, the
    test at each place is widened. An interval reaches from the first place to the last at which the part
    above may be 1 - q. `unheard` is which part of each key's holders may have any values.
    """
    low, high = np.zeros(len(spread.frequency)), np.ones(len(spread.frequency))
    part = np.zeros(len(spread.frequency)) if unheard is None else unheard
    around = np.broadcast_to(flat_levels(spread.levels), spread.signed.shape) if centre is None else centre
    z = two_sided_z(confidence)
    with np.errstate(divide="ignore", invalid="ignore"):
        most, least = (1 - q) / (1 - part), (1 - q - part) / (1 - part)
    for width, codes in _by_width(spread):
        here = spread.of(codes)
        first, last = _crossings(here, width, around[codes], most[codes], least[codes], z)
        low[codes], high[codes] = first, last
    return low, high


def _by_width(spread: Spread) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Keys by how many levels are averaged; those that may be held by nobody are left out."""
    error = np.sqrt(spread.frequency_variance)
    known = np.isfinite(error) & (spread.frequency > 2 * error)
    noise = np.sqrt(np.median(spread.variance, axis=1)) / (2 * np.where(known, spread.frequency, 1.0))
    width = _widths(noise, spread.levels)
    for each in np.unique(width[known]):
        yield int(each), np.flatnonzero(known & (width == each))


def _crossings(
    spread: Spread, width: int, centre: Floats, most: Floats, least: Floats, z: float
) -> tuple[Floats, Floats]:
    """The first place at which the part above may be `most` or less, the last where `least` or more."""
    weights = _averages(spread.levels, width)
    places = np.linspace(0.0, 1.0, len(weights))
    drawn = _drawn(centre, places)
    found = spread.linear(weights, drawn - centre @ weights.T)
    miss = _missed(spread, width, centre) + _between(centre, drawn)

    def test(level: Floats) -> tuple[Floats, Floats]:
        level = level[:, None]
        off = found.held - level * found.frequency
        variance = found.held_variance - 2 * level * found.covariance
        error = np.sqrt(np.maximum(variance + level**2 * found.frequency_variance, 0.0))
        return off, z * error + miss * found.frequency

    off, reach = test(most)
    first = _first_below(off - reach, places)
    off, reach = test(least)
    last = 1.0 - _first_below(-(off + reach)[:, ::-1], places)
    # A line to an end stands for an atom there, too.
    low = np.where((most >= 1) | (first < 0.5 / spread.levels), 0.0, first)
    high = np.where((least <= 0) | (last > 1 - 0.5 / spread.levels), 1.0, last)
    return np.minimum(low, high), np.maximum(low, high)


def _missed(spread: Spread, width: int, centre: Floats) -> Floats:
    """How far a line through averages may lie beside what levels differ by, as far as noise leaves it."""
    lag = _PLACES * width
    weights = _averages(spread.levels, width)
    size = len(weights)
    bent = np.pad(weights, [(lag, lag), (0, 0)], mode="edge")
    bends = bent[2 * lag :] - 2 * weights + bent[: -2 * lag]
    found = spread.linear(bends, -centre @ bends.T)
    error = np.sqrt(np.maximum(found.held_variance, 0.0))
    sure = np.maximum(np.abs(found.held) - _BY_NOISE * error, 0.0) / found.frequency
    # At the ends there is nothing beyond: the nearest bend that is seen whole stands for them.
    first, last = min(lag, size // 2), max(size - 1 - lag, size // 2)
    sure = sure[:, np.clip(np.arange(size), first, last)]
    near = np.max([np.roll(sure, shift, axis=1) for shift in (-lag // 2, 0, lag // 2)], axis=0)
    part = np.where(near > _IS_STEP, _STEP, _SMOOTH)
    part[:, : lag // 2] = part[:, size - lag // 2 :] = _STEP
    missed: Floats = part * near
    return missed


def _drawn(centre: Floats, places: Floats) -> Floats:
    """The part above each place by a shape's levels: on lines between the middles of bins and both ends."""
    levels = centre.shape[1]
    knots = np.concatenate([[0.0], (np.arange(levels) + 0.5) / levels, [1.0]])
    heights = np.pad(centre, ((0, 0), (1, 1)), constant_values=((0, 0), (1, 0)))
    at = np.clip(np.searchsorted(knots, places, side="right") - 1, 0, levels)
    part = (places - knots[at]) / (knots[at + 1] - knots[at])
    drawn: Floats = heights[:, at] * (1 - part) + heights[:, at + 1] * part
    return drawn


def _between(centre: Floats, drawn: Floats) -> Floats:
    """How far lines between a shape's levels may lie beside it, at each of the places where it is drawn."""
    bends = np.abs(centre[:, 2:] - 2 * centre[:, 1:-1] + centre[:, :-2])
    near = np.pad(np.where(bends > _IS_STEP, _STEP, _SMOOTH) * bends, ((0, 0), (2, 2)), mode="edge")
    most = np.maximum(np.maximum(near[:, 2:], near[:, 1:-1]), near[:, :-2])
    places = np.linspace(0.0, centre.shape[1] - 1e-9, drawn.shape[1]).astype(np.int64)
    widest: Floats = most[:, places]
    return widest


def _widths(noise: Floats, levels: int) -> NDArray[np.int64]:
    """Over how many levels an average is taken where each has so much noise."""
    wanted = np.ceil((noise * levels / _STEADY) ** (2 / 3))
    return np.clip(wanted, 1, levels).astype(np.int64)


def level_variance(signed: Floats, frequency: Floats, levels: int) -> Floats:
    """The variance of what is said of a level of a key whose values spread evenly, if signs have this one.

    Each level is known from a part of the reports, and averaged with as many others as its noise asks for.
    """
    noise = np.sqrt(levels * signed) / (2 * frequency)
    found: Floats = noise**2 / _widths(noise, levels)
    return found


def _first_below(curve: Floats, places: Floats) -> Floats:
    """Where each row first falls to 0, on lines between the places; the last place where it never does."""
    below = curve <= 0
    at = np.where(below.any(axis=1), below.argmax(axis=1), curve.shape[1] - 1)
    rows, before = np.arange(len(curve)), np.maximum(at - 1, 0)
    high, low = curve[rows, before], curve[rows, at]
    part = np.where((at > 0) & (low <= 0), high / np.where(high > low, high - low, 1.0), 1.0)
    found: Floats = places[before] + np.where(at > 0, part, 0.0) * (places[at] - places[before])
    return found


@cache
def _averages(levels: int, width: int) -> Floats:
    """Weights of levels for the part above each place: an average, or near the ends a line through two."""
    places = np.linspace(0.0, 1.0, _PLACES * levels + 1)
    reach = width / levels
    centre = np.clip(places, reach / 2, 1 - reach / 2)
    weights = _window(centre, reach, levels)
    span = min(reach, 1 - reach)
    if span > 0:
        inward = np.where(places < 0.5, centre + span, centre - span)
        slope = (_window(inward, reach, levels) - weights) / (inward - centre)[:, None]
        weights = weights + (places - centre)[:, None] * slope
    return weights


def _window(centre: Floats, reach: float, levels: int) -> Floats:
    """Which part of the stretch around each centre lies in each bin."""
    edges = np.arange(levels + 1) / levels
    inside = np.clip(edges[None, :], (centre - reach / 2)[:, None], (centre + reach / 2)[:, None])
    parts: Floats = np.diff(inside, axis=1) / reach
    return parts
