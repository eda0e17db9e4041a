"""One campaign's release, with what a reader needs beside it.

The numbers are those of the release, made by the same call: columns are sent as they are exported, a number
that is not finite as null. Beside them stand, for all keys together, the ranks that each key may have and
how wide an interval must be to hold for all keys at once. Intervals of frequencies are `raw -+ z se`, as in
the release, and are made from these columns where they are shown.
"""

from __future__ import annotations

import gzip
from typing import Any

import msgspec
import numpy as np

from keyveil.campaign import Campaign
from keyveil.estimate import Estimates
from keyveil.estimate.intervals import rank_ranges
from keyveil.numerics import CONFIDENCE, two_sided_z
from keyveil.release import Release

# Columns that follow from others to the last bit.
_MADE_THERE = ("frequency_low", "frequency_high")
# Keys whose value distributions are sent: more than a page of small multiples shows.
_DRAWN = 60


class Shares(msgspec.Struct, frozen=True, kw_only=True):
    """One key's shares of values, by the marks in the metadata, and their band where there is one."""

    shares: list[float | None]
    low: list[float] | None = None
    high: list[float] | None = None


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """A release by columns, and what is true of all keys together."""

    metadata: dict[str, Any]
    is_open: bool
    """Whether more reports may come."""
    value_range: tuple[float, float]
    purpose: str
    z: float
    z_all: float
    """Standard errors either side that cover all keys' frequencies together."""
    columns: dict[str, list[Any]]
    rank_best: list[int]
    rank_worst: list[int]
    hostile: dict[str, list[float | None]]
    """How far liars, as many as `metadata.hostile_share` says, can move each key down and up; empty where no
    bound is known."""
    distribution: dict[int, Shares]
    """By the place of a key among the columns: the most frequent keys' shares, where there are any."""


def make_results(campaign: Campaign, release: Release, *, is_open: bool) -> Results:
    """A release, and what follows from it."""
    assert release.raw is not None
    best, worst = _ranks(release.raw)
    # Where segments are private rows are sums over them: of keys alone.
    n_keys = campaign.by_key.domain.n_keys
    return Results(
        metadata=release.metadata,
        is_open=is_open,
        value_range=campaign.domain.reach,
        purpose=campaign.purpose,
        z=two_sided_z(),
        z_all=two_sided_z(1 - (1 - CONFIDENCE) / n_keys),
        columns={
            name: np.asarray(column).tolist()
            for name, column in release.columns.items()
            if name not in _MADE_THERE
        },
        rank_best=best,
        rank_worst=worst,
        hostile={name: np.asarray(moved).tolist() for name, moved in release.hostile_shift().items()},
        distribution=_distribution(release, release.raw),
    )


def pack(results: Results) -> bytes:
    """As it is sent: JSON, packed. Level 1 is three times as fast as 6 and a tenth larger."""
    return gzip.compress(msgspec.json.encode(results), 1, mtime=0)


def _ranks(raw: Estimates) -> tuple[list[int], list[int]]:
    if raw.n_reports == 0 or not np.isfinite(raw.frequency_se).all():
        return [1] * raw.frequency.size, [raw.frequency.size] * raw.frequency.size
    ranges = rank_ranges(raw, raw.moments)
    return ranges.best.tolist(), ranges.worst.tolist()


def _distribution(release: Release, raw: Estimates) -> dict[int, Shares]:
    order, values = np.argsort(-raw.frequency, kind="stable")[:_DRAWN], release.values
    if values is not None:
        shares, (low, high) = values.distribution.shares, values.bands()
        return {
            int(code): Shares(shares=shares[code].tolist(), low=low[code].tolist(), high=high[code].tolist())
            for code in order
        }
    if release.distributions is None:
        return {}
    return {int(code): Shares(shares=release.distributions.shares[code].tolist()) for code in order}
