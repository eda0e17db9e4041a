"""Breakdowns: what a campaign with segments found of each of them.

A segment's numbers come from its own reports, by the estimator of the whole: nothing is borrowed from others,
and intervals are as wide as so many reports make them. Where a method asks several rounds, what its small
groups said (`Method.of_everybody`: how many pairs users hold, where means lie) is that of all users, because
too few of a segment were asked; what most users said is the segment's own.

A clear label is not private: whoever reads a report knows it. What is noised is what a segment's users hold.
Where labels are private all reports speak of every segment, and how many users it has is an estimate, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from keyveil.domain import UNDITHERED, Labelled
from keyveil.errors import CampaignError, DomainError, ProtocolError
from keyveil.estimate import READABLE, Estimates
from keyveil.estimate.breakdowns import (
    by_segment,
    design_effect,
    represent,
    segment_shares,
    weights_of,
)
from keyveil.methods import Method, find_method
from keyveil.numerics import CONFIDENCE, two_sided_z
from keyveil.protocols import History, Outcome, Round
from keyveil.release import Release, exact_epsilon, release_found
from keyveil.segments import CLEAR, PRIVATE, Segments
from keyveil.tables import Table, rows_of
from keyveil.tally import Tally, tally_reports
from keyveil.tally.tally import Segment

if TYPE_CHECKING:
    from keyveil.campaign import Campaign

# What a table says of a row before the release's own columns.
ATTRIBUTE, SEGMENT = "attribute", "segment"
_CLEAR = "labels are in the clear: they are not private"
_PRIVATE = "labels are private: how many users a segment has is an estimate"


@dataclass(frozen=True, kw_only=True, eq=False)
class Breakdowns(Table):
    """The release of every segment that somebody reported from, by attribute and value.

    As a table it is long: a row a segment and key, with the columns of a release behind `attribute` and
    `segment`. Values come as they are declared, "other" last.
    """

    releases: Mapping[tuple[str, str], Release]
    users: Mapping[str, Mapping[str, int]]
    """Reports from each segment, of those that nobody named as well; of an attribute they add up to all."""
    metadata: dict[str, Any] = field(default_factory=dict)

    def release(self, attribute: str, value: str) -> Release:
        """What was found of one segment."""
        found = self.releases.get((attribute, value))
        if found is None:
            raise CampaignError(
                f"no numbers of {attribute[:40]} = {value[:40]!r}; there are some of "
                f"{', '.join(f'{name} = {of}' for name, of in self.releases) or 'no segment'}"
            )
        return found

    def estimates(self, attribute: str) -> dict[str, Estimates]:
        """The unprocessed estimates of an attribute's segments, on the scale [-1, 1]: for comparing them."""
        return {
            value: release.raw
            for (name, value), release in self.releases.items()
            if name == attribute and release.raw is not None
        }

    @cached_property
    def columns(self) -> list[str]:
        """What the table's columns are called."""
        own = next(iter(self.releases.values())).columns if self.releases else ("key",)
        return [ATTRIBUTE, SEGMENT, *own]

    def rows(self) -> list[dict[str, Any]]:
        """The table as one dictionary a row; what is not finite becomes None."""
        return [
            {ATTRIBUTE: attribute, SEGMENT: value, **row}
            for (attribute, value), release in self.releases.items()
            for row in rows_of(release.columns)
        ]


def break_down(
    campaign: Campaign,
    history: History,
    *,
    by: Sequence[str] = (),
    post: str = READABLE,
    quantiles: Sequence[float] = (),
) -> Breakdowns:
    """What the rounds of a campaign found of its segments; of those attributes alone that `by` names.

    How values are spread is worked out where `quantiles` are asked for: it takes several times as long.
    """
    if campaign.segments is not None and not campaign.segments.is_clear:
        return _privately(campaign, history, by=by, post=post)
    segments = segments_of(campaign)
    chosen = tuple(by) or segments.names
    method = find_method(campaign.mechanism)[0]
    protocol = campaign.protocol(history[0][0].protocol if campaign.has_several_rounds else None)
    exact = exact_epsilon(protocol)
    releases, users, unread = {}, dict[str, dict[str, int]](), list[str]()
    for attribute in chosen:
        users[attribute] = {}
        for segment, value in _in_order(segments, attribute):
            users[attribute][value] = n_reports = sum(
                part.n_reports for _, tally in history if (part := tally.segments.get(segment)) is not None
            )
            if not n_reports:
                continue
            try:
                own = _history_of(method, history, segment)
                outcome = protocol.next(own if quantiles else [*map(_without_dither, own)])
            except ProtocolError:
                # A round that most users are asked in, and nobody of this segment answered.
                unread.append(f"{attribute} = {value}")
                continue
            if isinstance(outcome, Round):
                raise ProtocolError(
                    f'"{campaign.mechanism}" goes on with round {outcome.number}; '
                    "drive its protocol to the end"
                )
            releases[attribute, value] = release_found(
                campaign, outcome, epsilon_exact=exact, post=post, quantiles=quantiles
            )
    return Breakdowns(
        releases=releases, users=users, metadata=_metadata(campaign, method, exact, post, users, unread)
    )


def _privately(campaign: Campaign, history: History, *, by: Sequence[str], post: str) -> Breakdowns:
    """The same of the one attribute whose labels are hidden in the answers."""
    segments, crossing = campaign.segments, campaign.domain.crossing
    assert segments is not None
    assert isinstance(crossing, Labelled)
    (attribute,) = segments.names
    for name in by:
        segments.values(name)
    protocol = campaign.protocol()
    outcome = protocol.next(history)
    if isinstance(outcome, Round):
        raise ProtocolError(f'"{campaign.mechanism}" goes on with round {outcome.number}')
    exact = exact_epsilon(protocol)
    found = dict(zip(crossing.labels, by_segment(outcome.raw, crossing), strict=True))
    shares, errors = segment_shares(outcome.raw, crossing)
    order = [value for _, value in _in_order(segments, attribute)]
    releases, users, unread = {}, {}, []
    for value in order:
        users[value] = found[value].n_reports
        if not users[value]:
            unread.append(f"{attribute} = {value}")
            continue
        own = Outcome(raw=found[value], published=found[value])
        made = release_found(campaign.by_key, own, epsilon_exact=exact, post=post)
        releases[attribute, value] = replace(made, metadata={**made.metadata, "campaign": campaign.id})
    metadata = _metadata(
        campaign, find_method(campaign.mechanism)[0], exact, post, {attribute: users}, unread
    )
    reach = two_sided_z(CONFIDENCE) * errors
    ends = zip(crossing.labels, shares, shares - reach, shares + reach, strict=True)
    metadata["segment_shares"] = {value: [float(end) for end in of] for value, *of in ends}
    return Breakdowns(releases=releases, users={attribute: users}, metadata=metadata)


def represented(
    campaign: Campaign, apart: Breakdowns, attribute: str, sizes: Mapping[str, float], *, post: str = READABLE
) -> Release:
    """The release of a population whose segments have known sizes, counts or shares, from a breakdown of it.

    Each segment counts by its size instead of by its reports; the metadata's `design_effect` says how many
    times the variance is that of counting by reports.
    """
    weights = weights_of(list(apart.users[attribute]), sizes)
    found = apart.estimates(attribute)
    heard = np.array([value in found for value in apart.users[attribute]])
    unheard = [value for value, size in zip(apart.users[attribute], weights * ~heard, strict=True) if size]
    if unheard:
        raise DomainError(
            f'expected reports from every segment with a size, got none from "{unheard[0]}"; '
            "say 0 for it, or wait for its reports"
        )
    raw = represent(list(found.values()), weights[heard])
    asked = campaign if campaign.clear_labels else campaign.by_key
    made = release_found(
        asked, Outcome(raw=raw, published=raw), epsilon_exact=apart.metadata["epsilon_exact"], post=post
    )
    users = np.array([float(estimates.n_reports) for estimates in found.values()])
    return replace(
        made,
        metadata={
            **made.metadata,
            "campaign": campaign.id,
            "sizes": dict(zip(apart.users[attribute], weights.tolist(), strict=True)),
            "design_effect": design_effect(users, weights[heard]),
        },
    )


def segments_of(campaign: Campaign) -> Segments:
    """The segments of a campaign, or a refusal."""
    if campaign.segments is None:
        raise CampaignError(
            f"campaign {campaign.id[:12]} has no segments, at $.segments; read its release as a whole"
        )
    return campaign.segments


def _in_order(segments: Segments, attribute: str) -> Iterator[tuple[Segment, str]]:
    """An attribute's labels with what they mean: as declared, and other behind them."""
    other, *values = segments.values(attribute)
    place = segments.names.index(attribute)
    for label, value in enumerate(values, start=1):
        yield (place, label), value
    yield (place, 0), other


def _history_of(method: Method, history: History, segment: Segment) -> History:
    """What a segment's users said, and in the rounds that speak of everybody what all users did."""
    shared = method.of_everybody or ()
    return [
        (
            asked,
            tally.whole
            if asked.purpose in shared
            else tally.segments.get(segment) or tally_reports(asked, []),
        )
        for asked, tally in history
    ]


def _without_dither(answered: tuple[Round, Tally]) -> tuple[Round, Tally]:
    """A round as if nobody knew by which words values were rounded: frequencies and means are the same."""
    asked, tally = answered
    return replace(asked, dither=UNDITHERED), tally.pooled


def _metadata(
    campaign: Campaign,
    method: Method,
    exact: float,
    post: str,
    users: Mapping[str, Mapping[str, int]],
    unread: Sequence[str],
) -> dict[str, Any]:
    is_clear = campaign.segments is not None and campaign.segments.is_clear
    notes = [_CLEAR if is_clear else _PRIVATE]
    if method.of_everybody:
        notes.append("how many pairs users hold, and where means lie, is taken to be as among all users")
    if unread:
        notes.append(f"too few reports to say anything: {', '.join(unread)}")
    return {
        "campaign": campaign.id,
        "name": campaign.name,
        **({} if campaign.unit is None else {"unit": campaign.unit}),
        "mechanism": campaign.mechanism,
        "epsilon": campaign.epsilon,
        "epsilon_exact": exact,
        "told": CLEAR if is_clear else PRIVATE,
        "users": {attribute: dict(of) for attribute, of in users.items()},
        "post": post,
        "notes": notes,
    }
