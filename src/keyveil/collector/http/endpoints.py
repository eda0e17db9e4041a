"""Every request of the collector in one table: who may ask, what is sent, who answers, what comes back.

The router, the OpenAPI document and the tests of roles are made from this table; nothing is reachable
that is not in it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from starlette.responses import Response

from keyveil.campaign import LARGEST_BATCH
from keyveil.collector.campaigns import messages as m
from keyveil.collector.campaigns import series_messages as sm
from keyveil.collector.campaigns.changes import Comparison
from keyveil.collector.campaigns.readout import RELEASE_TYPES
from keyveil.collector.campaigns.stored_reports import REPORT_TYPES
from keyveil.collector.http import handlers, series_handlers
from keyveil.collector.http.openapi import JSON
from keyveil.collector.tokens import ADMINS, ANALYSTS, ANNOTATORS, DEVICES, MONITORS, OPERATORS, RELAYS, Role
from keyveil.collector.writing.upload import FRAMED
from keyveil.dashboard.breakdowns import BreakdownColumns
from keyveil.dashboard.planning import PlanAnswer, PlanQuestion
from keyveil.dashboard.privacy import Promise
from keyveil.dashboard.reach import Reach
from keyveil.dashboard.results import Results
from keyveil.estimate import READABLE
from keyveil.series import MOST_WAVES

# Takes the service that it belongs to, which is a collector's or a relay's.
Handler = Callable[[Any, handlers.AdmittedRequest], Awaitable[Response]]


class Scope(Enum):
    """What a token must be for."""

    CAMPAIGN = "the campaign or the series in the address, a wave's series, or the whole collector"
    COLLECTOR = "the whole collector"
    ANY = "any campaign or series; what is shown is what the token is for"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One method on one address. `roles` None lets everybody in."""

    handler: Handler
    method: str
    path: str
    summary: str
    answers: Mapping[str, Any]
    """Content types, and the message where it is JSON."""
    roles: frozenset[Role] | None = None
    scope: Scope = Scope.CAMPAIGN
    takes: Mapping[str, Any] = field(default_factory=dict)
    query: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    takes_bytes: bool = False
    """Whether the handler reads the body itself, as bytes."""
    problems: tuple[str, ...] = ()
    status: int = 200
    is_for_pages: bool = False
    """Whether pages of the origins that an operator allows may ask too (`origins`)."""

    @property
    def name(self) -> str:
        """The handler's: what the OpenAPI document and the log call the request."""
        return self.handler.__name__


_CAMPAIGN = "/v1/campaigns/{campaign}"
_ROUND = f"{_CAMPAIGN}/rounds/{{round}}"
_SERIES = "/v1/series/{series}"
_TEXT = {"type": "string", "maxLength": 80}
# Names of attributes, with commas between them; all that a campaign declares where none is named.
_ATTRIBUTES = {"type": "string", "maxLength": 200, "default": ""}
_HTML = {"text/html": None}


def _choice(*values: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(values), "default": values[0]}


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(handler=handlers.index, method="GET", path="/", summary="The dashboard.", answers=_HTML),
    Endpoint(
        handler=handlers.docs,
        method="GET",
        path="/docs",
        summary="This interface, for people.",
        answers=_HTML,
    ),
    Endpoint(
        handler=handlers.errors,
        method="GET",
        path="/errors",
        summary="Every code, and what to do.",
        answers=_HTML,
    ),
    Endpoint(
        handler=handlers.openapi,
        method="GET",
        path="/openapi.json",
        summary="This interface, for programs.",
        answers={JSON: None},
    ),
    Endpoint(
        handler=handlers.healthz,
        method="GET",
        path="/healthz",
        summary="Whether the process lives.",
        answers={JSON: m.Health},
    ),
    Endpoint(
        handler=handlers.readyz,
        method="GET",
        path="/readyz",
        summary="Whether reports can be taken; status 503 if not.",
        answers={JSON: m.Ready},
        problems=("store-unavailable",),
    ),
    Endpoint(
        handler=handlers.metrics,
        method="GET",
        path="/metrics",
        summary="Counters for Prometheus.",
        roles=MONITORS,
        scope=Scope.COLLECTOR,
        answers={"text/plain; version=0.0.4; charset=utf-8": None},
    ),
    Endpoint(
        handler=handlers.create_campaign,
        method="POST",
        path="/v1/campaigns",
        summary="Create a campaign and open its first round.",
        roles=OPERATORS,
        scope=Scope.COLLECTOR,
        takes={JSON: m.NewCampaign, "application/toml": None},
        answers={JSON: m.CampaignCreated},
        problems=("bad-request", "bad-campaign", "campaign-incomplete", "too-large", "unsupported-type"),
        status=201,
    ),
    Endpoint(
        handler=handlers.list_campaigns,
        method="GET",
        path="/v1/campaigns",
        summary="The campaigns that the token is for.",
        roles=ANALYSTS,
        scope=Scope.ANY,
        answers={JSON: m.CampaignList},
    ),
    Endpoint(
        handler=handlers.view_campaign,
        method="GET",
        path=_CAMPAIGN,
        summary="The campaign and its open round: all that a device must know.",
        answers={JSON: m.CampaignView},
        problems=("unknown-campaign", "campaign-damaged"),
        is_for_pages=True,
    ),
    Endpoint(
        handler=handlers.label_campaign,
        method="POST",
        path=f"{_CAMPAIGN}/label",
        summary="Another label for people.",
        roles=OPERATORS,
        takes={JSON: m.Label},
        answers={JSON: m.Label},
        problems=("unknown-campaign", "bad-request", "too-large", "unsupported-type"),
    ),
    Endpoint(
        handler=handlers.compare_campaign,
        method="POST",
        path=f"{_CAMPAIGN}/compare",
        summary="What another campaign changes, and whether reports stay usable.",
        roles=ANALYSTS,
        takes={JSON: dict[str, Any], "application/toml": None},
        answers={JSON: Comparison},
        problems=("unknown-campaign", "bad-request", "bad-campaign", "too-large", "unsupported-type"),
    ),
    Endpoint(
        handler=handlers.send_reports,
        method="POST",
        path=f"{_CAMPAIGN}/reports",
        summary="A batch of reports: frames, or JSON. Open campaigns need no token.",
        roles=DEVICES,
        takes={"application/octet-stream": None, JSON: m.ReportBatch},
        answers={JSON: m.Statuses},
        problems=(
            "unknown-campaign",
            "bad-batch",
            "too-large",
            "unsupported-type",
            "campaign-expired",
            "rate-limited",
            "overloaded",
            "store-unavailable",
            "stopping",
            "campaign-damaged",
            "relay-required",
        ),
        is_for_pages=True,
    ),
    Endpoint(
        handler=handlers.send_batch,
        method="POST",
        path=f"{_CAMPAIGN}/batches",
        summary="Part of a batch of sealed reports, from a relay; the same part again changes nothing.",
        roles=RELAYS,
        query={
            "batch": {"type": "string", "maxLength": 32},
            "round": {"type": "integer", "minimum": 1, "maximum": 65_535},
            "size": {"type": "integer", "minimum": 1, "maximum": LARGEST_BATCH},
            "part": {"type": "integer", "minimum": 0, "maximum": LARGEST_BATCH, "default": 0},
            "parts": {"type": "integer", "minimum": 1, "maximum": LARGEST_BATCH, "default": 1},
        },
        takes={FRAMED: None},
        takes_bytes=True,
        answers={JSON: m.BatchTaken},
        problems=(
            "unknown-campaign",
            "not-relayed",
            "round-closed",
            "bad-request",
            "bad-batch",
            "too-large",
            "unsupported-type",
            "campaign-expired",
            "rate-limited",
            "overloaded",
            "store-unavailable",
            "stopping",
            "campaign-damaged",
        ),
    ),
    Endpoint(
        handler=handlers.list_keys,
        method="GET",
        path="/v1/keys",
        summary="The public keys to which reports are sealed, the newest first.",
        answers={JSON: m.KeyList},
        is_for_pages=True,
    ),
    Endpoint(
        handler=handlers.make_key,
        method="POST",
        path="/v1/keys",
        summary="Another key, to which devices seal from now on; older ones still open.",
        roles=ADMINS,
        scope=Scope.COLLECTOR,
        answers={JSON: m.KeyList},
        status=201,
    ),
    Endpoint(
        handler=handlers.retire_key,
        method="DELETE",
        path="/v1/keys/{key}",
        summary="The key opens nothing from now on.",
        roles=ADMINS,
        scope=Scope.COLLECTOR,
        answers={},
        problems=("unknown-key", "key-in-use"),
        status=204,
    ),
    Endpoint(
        handler=handlers.list_rounds,
        method="GET",
        path=f"{_CAMPAIGN}/rounds",
        summary="How far each round is.",
        roles=ANALYSTS,
        answers={JSON: m.RoundList},
        problems=("unknown-campaign",),
    ),
    Endpoint(
        handler=handlers.close_round,
        method="POST",
        path=f"{_ROUND}/close",
        summary="Close a round and open what follows from it; asking again gives the same answer.",
        roles=OPERATORS,
        answers={JSON: m.RoundClosed},
        problems=("unknown-campaign", "unknown-round", "round-empty", "other-version", "campaign-damaged"),
    ),
    Endpoint(
        handler=handlers.read_tally,
        method="GET",
        path=f"{_ROUND}/tally",
        summary="The integers of a round.",
        roles=ANALYSTS,
        answers={JSON: m.TallyDocument},
        problems=("unknown-campaign", "unknown-round", "campaign-damaged"),
    ),
    Endpoint(
        handler=handlers.export_reports,
        method="GET",
        path=f"{_ROUND}/reports",
        summary="The stored reports of a round; they are noised and may be published.",
        roles=ANALYSTS,
        query={"format": _choice(*REPORT_TYPES)},
        answers=dict.fromkeys(REPORT_TYPES.values()),
        problems=("unknown-campaign", "unknown-round", "bad-request", "reports-dropped", "campaign-damaged"),
    ),
    Endpoint(
        handler=handlers.issue_ids,
        method="POST",
        path=f"{_CAMPAIGN}/ids",
        summary="Ids for reports to come, in campaigns that issue them; one a token and nonce.",
        roles=DEVICES,
        query={
            "nonce": {"type": "string", "maxLength": 32},
            "count": {"type": "integer", "minimum": 1, "maximum": 10_000, "default": 1},
        },
        answers={JSON: m.Ids},
        problems=("unknown-campaign", "bad-request", "rate-limited"),
        is_for_pages=True,
    ),
    Endpoint(
        handler=handlers.recount,
        method="POST",
        path=f"{_ROUND}/recount",
        summary="Count the stored reports again and compare with the tally.",
        roles=OPERATORS,
        answers={JSON: m.Recount},
        problems=("unknown-campaign", "unknown-round", "reports-dropped", "campaign-damaged"),
    ),
    Endpoint(
        handler=handlers.examine,
        method="POST",
        path=f"{_ROUND}/examine",
        summary="Test whether the stored reports are honest noise.",
        roles=ANALYSTS,
        answers={JSON: m.Examination},
        problems=("unknown-campaign", "unknown-round", "reports-dropped", "campaign-damaged"),
    ),
    Endpoint(
        handler=handlers.release,
        method="GET",
        path=f"{_CAMPAIGN}/release",
        summary="What the campaign found, with 95 % intervals.",
        roles=ANALYSTS,
        query={
            "format": _choice(*RELEASE_TYPES),
            "post": {**_TEXT, "default": READABLE},
            "estimator": _TEXT,
            "by": _ATTRIBUTES,
        },
        answers={kind: m.ReleaseDocument if kind == JSON else None for kind in RELEASE_TYPES.values()},
        problems=(
            "unknown-campaign",
            "bad-request",
            "unknown-step",
            "rounds-left",
            "round-empty",
            "campaign-damaged",
        ),
    ),
    Endpoint(
        handler=handlers.pairs,
        method="GET",
        path=f"{_CAMPAIGN}/pairs",
        summary="What the campaign found of pairs of keys: who holds both, lifts, one key given the other.",
        roles=ANALYSTS,
        query={"format": _choice(*RELEASE_TYPES)},
        answers={kind: m.PairsDocument if kind == JSON else None for kind in RELEASE_TYPES.values()},
        problems=(
            "unknown-campaign",
            "bad-request",
            "no-reports",
            "rounds-left",
            "round-empty",
            "campaign-damaged",
        ),
    ),
    # --- series ---
    Endpoint(
        handler=series_handlers.create_series,
        method="POST",
        path="/v1/series",
        summary="Create a series; its waves are opened by its calendar.",
        roles=OPERATORS,
        scope=Scope.COLLECTOR,
        takes={JSON: sm.NewSeries, "application/toml": None},
        answers={JSON: sm.SeriesCreated},
        problems=("bad-request", "bad-campaign", "campaign-incomplete", "too-large", "unsupported-type"),
        status=201,
    ),
    Endpoint(
        handler=series_handlers.list_series,
        method="GET",
        path="/v1/series",
        summary="The series that the token is for.",
        roles=ANALYSTS,
        scope=Scope.ANY,
        answers={JSON: sm.SeriesList},
    ),
    Endpoint(
        handler=series_handlers.view_series,
        method="GET",
        path=_SERIES,
        summary="The series and its open wave: all that a device must know.",
        answers={JSON: sm.SeriesView},
        problems=("unknown-series", "campaign-damaged"),
        is_for_pages=True,
    ),
    Endpoint(
        handler=series_handlers.list_waves,
        method="GET",
        path=f"{_SERIES}/waves",
        summary="Every wave: its campaign and its reports, or why there is none.",
        roles=ANALYSTS,
        answers={JSON: sm.WaveList},
        problems=("unknown-series", "campaign-damaged"),
    ),
    Endpoint(
        handler=series_handlers.label_series,
        method="POST",
        path=f"{_SERIES}/label",
        summary="Another label for people.",
        roles=OPERATORS,
        takes={JSON: m.Label},
        answers={JSON: m.Label},
        problems=("unknown-series", "bad-request", "too-large", "unsupported-type"),
    ),
    Endpoint(
        handler=series_handlers.pause_series,
        method="POST",
        path=f"{_SERIES}/pause",
        summary="Open no more waves until it is resumed; the open one goes on.",
        roles=OPERATORS,
        answers={JSON: sm.SeriesStatus},
        problems=("unknown-series", "series-over", "campaign-damaged"),
    ),
    Endpoint(
        handler=series_handlers.resume_series,
        method="POST",
        path=f"{_SERIES}/resume",
        summary="Open waves again, the one of this moment at once.",
        roles=OPERATORS,
        answers={JSON: sm.SeriesStatus},
        problems=("unknown-series", "series-over", "campaign-damaged"),
    ),
    Endpoint(
        handler=series_handlers.end_series,
        method="POST",
        path=f"{_SERIES}/end",
        summary="Open no more waves and close those that are open; asking again gives the same answer.",
        roles=OPERATORS,
        answers={JSON: sm.SeriesStatus},
        problems=("unknown-series", "campaign-damaged"),
    ),
    Endpoint(
        handler=series_handlers.add_keys,
        method="POST",
        path=f"{_SERIES}/keys",
        summary="Ask for more keys from the next wave on.",
        roles=OPERATORS,
        takes={JSON: sm.NewKeys},
        answers={JSON: sm.KeysAdded},
        problems=(
            "unknown-series",
            "bad-request",
            "too-large",
            "unsupported-type",
            "bad-campaign",
            "series-over",
        ),
    ),
    Endpoint(
        handler=series_handlers.annotate,
        method="POST",
        path=f"{_SERIES}/annotations",
        summary="Note what happened at a moment.",
        roles=ANNOTATORS,
        takes={JSON: sm.NewAnnotation},
        answers={JSON: sm.Annotation},
        problems=("unknown-series", "bad-request", "too-large", "unsupported-type"),
        status=201,
    ),
    Endpoint(
        handler=series_handlers.list_annotations,
        method="GET",
        path=f"{_SERIES}/annotations",
        summary="What was noted, by the moment of which it was.",
        roles=ANALYSTS,
        answers={JSON: sm.AnnotationList},
        problems=("unknown-series",),
    ),
    Endpoint(
        handler=series_handlers.drop_annotation,
        method="DELETE",
        path=f"{_SERIES}/annotations/{{annotation}}",
        summary="Take a note away.",
        roles=ANNOTATORS,
        answers={},
        problems=("unknown-series", "unknown-annotation"),
        status=204,
    ),
    Endpoint(
        handler=series_handlers.release_series,
        method="GET",
        path=f"{_SERIES}/release",
        summary="What every wave found, and what all of them say together: raw and smoothed, with intervals.",
        roles=ANALYSTS,
        query={"format": _choice(*RELEASE_TYPES), "post": {**_TEXT, "default": READABLE}},
        answers={kind: m.ReleaseDocument if kind == JSON else None for kind in RELEASE_TYPES.values()},
        problems=("unknown-series", "bad-request", "unknown-step", "no-waves", "campaign-damaged"),
    ),
    Endpoint(
        handler=handlers.make_series_token,
        method="POST",
        path=f"{_SERIES}/tokens",
        summary="A token for all waves of the series, shown once.",
        roles=OPERATORS,
        takes={JSON: m.NewToken},
        answers={JSON: m.TokenCreated},
        problems=("unknown-series", "bad-request", "too-large", "unsupported-type"),
        status=201,
    ),
    Endpoint(
        handler=handlers.list_series_tokens,
        method="GET",
        path=f"{_SERIES}/tokens",
        summary="The tokens of the series, without their secrets.",
        roles=OPERATORS,
        answers={JSON: m.TokenList},
        problems=("unknown-series",),
    ),
    Endpoint(
        handler=handlers.revoke_series_token,
        method="DELETE",
        path=f"{_SERIES}/tokens/{{token}}",
        summary="The token opens nothing from now on.",
        roles=OPERATORS,
        answers={},
        problems=("unknown-series", "unknown-token-id"),
        status=204,
    ),
    Endpoint(
        handler=handlers.make_token,
        method="POST",
        path=f"{_CAMPAIGN}/tokens",
        summary="A token for the campaign, shown once. Operators let in devices and analysts.",
        roles=OPERATORS,
        takes={JSON: m.NewToken},
        answers={JSON: m.TokenCreated},
        problems=("unknown-campaign", "bad-request", "too-large", "unsupported-type"),
        status=201,
    ),
    Endpoint(
        handler=handlers.list_tokens,
        method="GET",
        path=f"{_CAMPAIGN}/tokens",
        summary="The tokens of the campaign, without their secrets.",
        roles=OPERATORS,
        answers={JSON: m.TokenList},
        problems=("unknown-campaign",),
    ),
    Endpoint(
        handler=handlers.revoke_token,
        method="DELETE",
        path=f"{_CAMPAIGN}/tokens/{{token}}",
        summary="The token opens nothing from now on.",
        roles=OPERATORS,
        answers={},
        problems=("unknown-campaign", "unknown-token-id"),
        status=204,
    ),
    Endpoint(
        handler=handlers.make_collector_token,
        method="POST",
        path="/v1/tokens",
        summary="A token for every campaign, shown once.",
        roles=ADMINS,
        scope=Scope.COLLECTOR,
        takes={JSON: m.NewToken},
        answers={JSON: m.TokenCreated},
        problems=("bad-request", "too-large", "unsupported-type"),
        status=201,
    ),
    Endpoint(
        handler=handlers.list_collector_tokens,
        method="GET",
        path="/v1/tokens",
        summary="The tokens for every campaign, without their secrets.",
        roles=ADMINS,
        scope=Scope.COLLECTOR,
        answers={JSON: m.TokenList},
    ),
    Endpoint(
        handler=handlers.revoke_collector_token,
        method="DELETE",
        path="/v1/tokens/{token}",
        summary="The token opens nothing from now on.",
        roles=ADMINS,
        scope=Scope.COLLECTOR,
        answers={},
        problems=("unknown-token-id",),
        status=204,
    ),
    Endpoint(
        handler=handlers.acts,
        method="GET",
        path="/v1/acts",
        summary="The log of administrative acts, a thousand at a time.",
        roles=ADMINS,
        scope=Scope.COLLECTOR,
        query={"after": {"type": "integer", "minimum": 0, "maximum": 2**53, "default": 0}},
        answers={JSON: m.ActList},
        problems=("bad-request",),
    ),
    Endpoint(
        handler=handlers.backup,
        method="GET",
        path="/v1/backup",
        summary="A copy of the embedded store, taken while it is in use.",
        roles=ADMINS,
        scope=Scope.COLLECTOR,
        answers={"application/vnd.sqlite3": None},
        problems=("not-embedded",),
    ),
    # --- what the dashboard asks for ---
    Endpoint(
        handler=handlers.about,
        method="GET",
        path=f"{_CAMPAIGN}/about",
        summary="The campaign's name, owner, purpose and state.",
        answers={JSON: m.About},
        problems=("unknown-campaign", "campaign-damaged"),
    ),
    Endpoint(
        handler=handlers.progress,
        method="GET",
        path=f"{_CAMPAIGN}/progress",
        summary="How far the campaign is, what was refused, and how unsure a rare key is now.",
        roles=ANALYSTS,
        answers={JSON: m.Progress},
        problems=("unknown-campaign", "campaign-damaged"),
    ),
    Endpoint(
        handler=handlers.results,
        method="GET",
        path=f"{_CAMPAIGN}/results",
        summary="The release by columns, with ranks.",
        roles=ANALYSTS,
        query={"post": {**_TEXT, "default": "none"}},
        answers={JSON: Results},
        problems=(
            "unknown-campaign",
            "bad-request",
            "unknown-step",
            "rounds-left",
            "round-empty",
            "campaign-damaged",
        ),
    ),
    Endpoint(
        handler=handlers.breakdowns,
        method="GET",
        path=f"{_CAMPAIGN}/breakdowns",
        summary="What the campaign found of every segment, by columns.",
        roles=ANALYSTS,
        query={"post": {**_TEXT, "default": "none"}, "by": _ATTRIBUTES},
        answers={JSON: BreakdownColumns},
        problems=(
            "unknown-campaign",
            "bad-request",
            "unknown-step",
            "no-reports",
            "rounds-left",
            "round-empty",
            "campaign-damaged",
        ),
    ),
    Endpoint(
        handler=series_handlers.trend,
        method="GET",
        path=f"{_SERIES}/trend",
        summary="The series' release by columns, dated steps, and what changed since a wave.",
        roles=ANALYSTS,
        query={
            "since": {"type": "integer", "minimum": 0, "maximum": MOST_WAVES, "default": 0},
            "most": {"type": "integer", "minimum": 0, "maximum": 2**31, "default": 0},
            "key": {"type": "string", "maxLength": 200, "default": ""},
        },
        answers={JSON: sm.TrendView},
        problems=("unknown-series", "bad-request", "campaign-damaged"),
    ),
    Endpoint(
        handler=handlers.hostile,
        method="GET",
        path=f"{_CAMPAIGN}/hostile",
        summary="What so many of a thousand devices, lying, could make of the most frequent keys.",
        roles=ANALYSTS,
        query={"per_mille": {"type": "integer", "minimum": 1, "maximum": 500, "default": 10}},
        answers={JSON: Reach},
        problems=("unknown-campaign", "bad-request", "rounds-left", "round-empty", "campaign-damaged"),
    ),
    Endpoint(
        handler=handlers.privacy,
        method="GET",
        path=f"{_CAMPAIGN}/privacy",
        summary="The campaign's privacy label: the exact promise, and what it means.",
        answers={JSON: Promise},
        problems=("unknown-campaign", "campaign-damaged"),
    ),
    Endpoint(
        handler=handlers.plan,
        method="POST",
        path="/v1/plan",
        summary="What a campaign would be able to say; one of five numbers is solved for.",
        roles=ANALYSTS,
        scope=Scope.ANY,
        takes={JSON: PlanQuestion},
        answers={JSON: PlanAnswer},
        problems=("bad-request", "no-plan", "too-large", "unsupported-type"),
    ),
)
