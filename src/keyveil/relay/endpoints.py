"""Every request of a relay in one table, as a collector has its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from keyveil.collector.campaigns import messages as m
from keyveil.collector.http import handlers
from keyveil.collector.http.endpoints import ENDPOINTS, Endpoint, Scope
from keyveil.collector.http.handlers import AdmittedRequest, reply
from keyveil.collector.http.openapi import JSON
from keyveil.collector.problems import Problem
from keyveil.collector.tokens import DEVICES, MONITORS, OPERATORS
from keyveil.collector.writing.upload import FRAMED
from keyveil.errors import KeyveilError
from keyveil.relay.messages import RelayStatus

if TYPE_CHECKING:
    from keyveil.relay.app import RelayApplication

_CAMPAIGN = "/v1/campaigns/{campaign}"
# What a relay has as a collector has it.
_SHARED = (
    handlers.docs,
    handlers.errors,
    handlers.openapi,
    handlers.healthz,
    handlers.readyz,
    handlers.metrics,
    handlers.make_token,
    handlers.list_tokens,
    handlers.revoke_token,
    handlers.make_collector_token,
    handlers.list_collector_tokens,
    handlers.revoke_collector_token,
    handlers.acts,
    handlers.backup,
)


async def view_campaign(app: RelayApplication, asked: AdmittedRequest) -> Response:
    """What the collector says of a campaign."""
    carried = await app.work(app.relay.campaigns.carried, asked.campaign)
    return _mirrored(carried.view)


async def list_keys(app: RelayApplication, _: AdmittedRequest) -> Response:
    """The collector's keys."""
    try:
        return _mirrored(await app.work(app.relay.campaigns.keys))
    except KeyveilError as error:
        raise Problem("collector-unreachable", str(error), retry_after=5.0) from None


async def send_sealed(app: RelayApplication, asked: AdmittedRequest) -> Response:
    """Uploads are the intake's; an address that only looks like one leads nowhere."""
    raise Problem("unknown-campaign")


async def relay_status(app: RelayApplication, asked: AdmittedRequest) -> Response:
    """What is carried."""
    return reply(await app.work(app.relay.status))


async def end_round(app: RelayApplication, asked: AdmittedRequest) -> Response:
    """A round is over here."""
    return reply(await app.work(app.relay.end_round, asked.actor.id, asked.campaign, asked.round))


def _mirrored(body: bytes) -> Response:
    return Response(body, media_type=JSON, headers={"cache-control": "no-store"})


RELAY_ENDPOINTS: tuple[Endpoint, ...] = (
    *(endpoint for endpoint in ENDPOINTS if endpoint.handler in _SHARED),
    Endpoint(
        handler=view_campaign,
        method="GET",
        path=_CAMPAIGN,
        summary="What the collector says of a campaign and its open round.",
        answers={JSON: m.CampaignView},
        problems=("unknown-campaign", "collector-unreachable", "overloaded"),
        is_for_pages=True,
    ),
    Endpoint(
        handler=list_keys,
        method="GET",
        path="/v1/keys",
        summary="The collector's public keys, to which reports are sealed, the newest first.",
        answers={JSON: m.KeyList},
        problems=("collector-unreachable",),
        is_for_pages=True,
    ),
    Endpoint(
        handler=send_sealed,
        method="POST",
        path=f"{_CAMPAIGN}/sealed",
        summary="Sealed reports, in frames; a status for each: what a relay can see of it.",
        roles=DEVICES,
        takes={FRAMED: None},
        answers={JSON: m.Statuses},
        problems=(
            "unknown-campaign",
            "not-relayed",
            "campaign-expired",
            "bad-batch",
            "too-large",
            "unsupported-type",
            "rate-limited",
            "overloaded",
            "collector-unreachable",
            "store-unavailable",
            "stopping",
        ),
        is_for_pages=True,
    ),
    Endpoint(
        handler=relay_status,
        method="GET",
        path="/v1/relay",
        summary="The rounds that are carried, how many wait, and how large the batches were.",
        roles=MONITORS,
        scope=Scope.COLLECTOR,
        answers={JSON: RelayStatus},
    ),
    Endpoint(
        handler=end_round,
        method="POST",
        path=f"{_CAMPAIGN}/rounds/{{round}}/end",
        summary="Nothing more is taken to the round; who waits is forwarded, or thrown away where too few.",
        roles=OPERATORS,
        answers={JSON: RelayStatus},
        problems=("unknown-campaign", "unknown-round"),
    ),
)
