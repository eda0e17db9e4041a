"""A campaign's segments by columns, as a page draws them: what `breakdowns` found, attribute by attribute."""

from __future__ import annotations

import gzip
from typing import Any

import msgspec
import numpy as np

from keyveil.breakdowns import Breakdowns, segments_of
from keyveil.campaign import Campaign
from keyveil.estimate.breakdowns import Cells, most_different
from keyveil.numerics import CONFIDENCE, two_sided_z


class SegmentColumns(msgspec.Struct, frozen=True, kw_only=True):
    """One segment: its reports, and the columns of its release, in the order of the keys."""

    value: str
    users: int
    share: tuple[float, float, float] | None
    """Where labels are private: the share of all users who are in it, and its 95 % interval."""
    columns: dict[str, list[Any]]
    """Empty where nobody reported from it."""


class DifferentCell(msgspec.Struct, frozen=True, kw_only=True):
    """A key that surely more or fewer of a segment hold than of all: by places, with the size of it."""

    segment: int
    key: int
    size: float
    """The segment less the whole, and the interval that holds for all cells of the attribute at once."""
    low: float
    high: float


class AttributeColumns(msgspec.Struct, frozen=True, kw_only=True):
    """The segments of an attribute, as they are declared, "other" last."""

    attribute: str
    segments: list[SegmentColumns]
    different: list[DifferentCell]
    """Those that differ most for sure first; of 100 tables without differences at most 5 list any."""


class BreakdownColumns(msgspec.Struct, frozen=True, kw_only=True):
    """Every attribute that was asked for. The metadata say whether labels are private."""

    metadata: dict[str, Any]
    is_open: bool
    """Whether more reports may come."""
    value_range: tuple[float, float]
    keys: list[str]
    names: list[str]
    """What keys are called, for people."""
    z: float
    z_all: dict[str, float]
    """By attribute: standard errors either side that cover the frequencies of all its cells together."""
    attributes: list[AttributeColumns]


def make_columns(campaign: Campaign, found: Breakdowns, *, is_open: bool) -> BreakdownColumns:
    """Breakdowns by columns."""
    asked, segments = campaign.by_key, segments_of(campaign)
    n_keys, shares = asked.domain.n_keys, found.metadata.get("segment_shares", {})
    return BreakdownColumns(
        metadata=found.metadata,
        is_open=is_open,
        value_range=asked.domain.reach,
        keys=list(asked.domain.names),
        names=list(asked.display_names),
        z=two_sided_z(),
        z_all={
            name: two_sided_z(1 - (1 - CONFIDENCE) / (n_keys * len(segments.values(name))))
            for name in found.users
        },
        attributes=[
            AttributeColumns(
                attribute=attribute,
                segments=[
                    SegmentColumns(
                        value=value,
                        users=count,
                        share=shares.get(value),
                        columns=_columns(found, attribute, value),
                    )
                    for value, count in users.items()
                ],
                different=_different(found, attribute, list(users)),
            )
            for attribute, users in found.users.items()
        ],
    )


def pack_columns(columns: BreakdownColumns) -> bytes:
    """As it is sent: JSON, packed."""
    return gzip.compress(msgspec.json.encode(columns), 1, mtime=0)


def _different(found: Breakdowns, attribute: str, values: list[str]) -> list[DifferentCell]:
    known = found.estimates(attribute)
    if len(known) < 2:
        return []
    places = [values.index(value) for value in known]
    return [
        DifferentCell(
            segment=places[each.segment], key=each.key, size=each.size, low=each.low, high=each.high
        )
        for each in most_different(Cells.of_frequencies(list(known.values())))
    ]


def _columns(found: Breakdowns, attribute: str, value: str) -> dict[str, list[Any]]:
    release = found.releases.get((attribute, value))
    if release is None:
        return {}
    return {
        name: np.asarray(column).tolist()
        for name, column in release.columns.items()
        if name not in ("key", "name")
    }
