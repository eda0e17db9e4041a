"""A function for each request but an upload: what was asked, let in by `app`, becomes an answer.

The table of endpoints names them. Each hands the work to the collector, away from the event loop.
"""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from keyveil.collector.campaigns import messages as m
from keyveil.collector.campaigns.readout import RELEASE_TYPES, write_release
from keyveil.collector.campaigns.stored_reports import REPORT_TYPES
from keyveil.collector.http import pages
from keyveil.collector.http.openapi import JSON
from keyveil.collector.problems import Problem
from keyveil.collector.store.base import NotEmbeddedError
from keyveil.collector.strict import convert
from keyveil.collector.tokens import Credential
from keyveil.collector.writing.batches import read_batch_query
from keyveil.dashboard.assets import HEADERS, assets
from keyveil.dashboard.planning import PlanQuestion
from keyveil.dashboard.planning import answer as planned
from keyveil.dashboard.privacy import promise, with_batches
from keyveil.errors import KeyveilError, StoreError

if TYPE_CHECKING:
    from keyveil.collector.http.app import Application
    from keyveil.collector.http.service import Service

_CHUNK = 1 << 20
# The same for everybody, always: made once.
HEALTHY = Response(msgspec.json.encode(m.Health(status="ok")), media_type=JSON)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedRequest:
    """A request that was let in; what its address does not name is empty, or 0."""

    request: Request
    campaign: str
    series: str
    annotation: int
    round: int
    token: str
    key: str
    credential: Credential | None
    query: dict[str, str]
    body: Any

    @property
    def actor(self) -> Credential:
        """Whose token it is."""
        assert self.credential is not None, "an endpoint without roles has no actor"
        return self.credential

    @property
    def scope(self) -> str | None:
        """The campaign or the series in the address; None where it is about the whole collector."""
        return self.campaign or self.series or None


# --- pages and operations ---


async def index(app: Application, _: AdmittedRequest) -> Response:
    """The dashboard."""
    return Response(assets()["index.html"].body, media_type="text/html", headers=dict(HEADERS))


async def docs(app: Service, _: AdmittedRequest) -> Response:
    """Every request, for people."""
    return _page(pages.docs(app.endpoints))


async def errors(app: Service, _: AdmittedRequest) -> Response:
    """The catalogue of refusals."""
    return _page(pages.errors())


async def openapi(app: Service, _: AdmittedRequest) -> Response:
    """Every request, for programs."""
    return reply(app.openapi)


async def healthz(app: Service, _: AdmittedRequest) -> Response:
    """The process lives: nothing is looked at."""
    return HEALTHY


async def readyz(app: Service, _: AdmittedRequest) -> Response:
    """Whether reports can be taken."""

    def look() -> None:
        overdue.extend(app.host.overdue())
        with app.host.store.read() as tx:
            tx.has_admin()
        if app.writer.failing:
            # Nobody sends to a collector that is not ready: it must see by itself that it is again.
            with app.host.store.write() as tx:
                tx.probe()
            app.writer.failing = ""

    overdue: list[str] = []
    is_ready, why = app.writer.is_alive and not app.writer.is_full, app.host.ailing
    try:
        await app.work(look)
    except StoreError as error:
        is_ready, why = False, str(error)
    said = m.Ready(
        ready=is_ready,
        store=app.host.store.kind,
        waiting_uploads=app.writer.n_waiting,
        clock_doubt=app.host.clock.doubt,
        failing=why,
        damaged=[f"{campaign}: {why}" for campaign, why in app.host.damaged.items()],
        overdue=overdue,
    )
    return reply(said, 200 if is_ready else 503)


async def metrics(app: Service, _: AdmittedRequest) -> Response:
    """Counters for Prometheus."""
    return Response(
        app.host.metrics.text(),
        headers={"content-type": "text/plain; version=0.0.4; charset=utf-8"},
    )


# --- campaigns and rounds ---


async def create_campaign(app: Application, asked: AdmittedRequest) -> Response:
    """A campaign whose first round is open."""
    said = asked.body
    # The contract's file is the campaign alone; beside terms it is a table of its own.
    if not isinstance(said, dict) or not isinstance(said.get("campaign"), dict):
        said = {"campaign": said}
    made = await app.work(app.collector.campaigns.create, asked.actor.id, convert(said, m.NewCampaign))
    return reply(made, 201 if made.created else 200)


async def list_campaigns(app: Application, asked: AdmittedRequest) -> Response:
    """The campaigns that the token is for."""
    return reply(await app.work(app.collector.campaigns.list, asked.actor.campaign))


async def view_campaign(app: Application, asked: AdmittedRequest) -> Response:
    """A campaign and its open round."""
    return reply(await app.work(app.collector.campaigns.view, asked.campaign))


async def label_campaign(app: Application, asked: AdmittedRequest) -> Response:
    """Another label."""
    label = convert(asked.body, m.Label)
    await app.work(app.collector.campaigns.label, asked.actor.id, asked.campaign, label.label)
    return reply(label)


async def compare_campaign(app: Application, asked: AdmittedRequest) -> Response:
    """What another campaign changes."""
    return reply(await app.work(app.collector.campaigns.compare, asked.campaign, convert(asked.body, dict)))


async def send_reports(app: Application, asked: AdmittedRequest) -> Response:
    """Uploads are the intake's; an address that only looks like one leads nowhere."""
    raise Problem("unknown-campaign")


async def send_batch(app: Application, asked: AdmittedRequest) -> Response:
    """Part of a relay's batch."""
    batch = read_batch_query(asked.query)
    await app.intake.take_batch(asked.request, asked.actor, asked.campaign, batch)
    return reply(m.BatchTaken(batch=batch.id, part=int(asked.query["part"])))


async def list_keys(app: Application, _: AdmittedRequest) -> Response:
    """The public keys to which reports are sealed."""
    return reply(await app.work(app.collector.opening.list))


async def make_key(app: Application, asked: AdmittedRequest) -> Response:
    """Another key."""
    return reply(await app.work(app.collector.opening.make, asked.actor.id), 201)


async def retire_key(app: Application, asked: AdmittedRequest) -> Response:
    """A key opens nothing from now on."""
    await app.work(app.collector.opening.retire, asked.actor.id, asked.key)
    return Response(status_code=204)


async def list_rounds(app: Application, asked: AdmittedRequest) -> Response:
    """How far each round is."""
    return reply(await app.work(app.collector.running.list, asked.campaign))


async def close_round(app: Application, asked: AdmittedRequest) -> Response:
    """A round is closed."""
    return reply(await app.work(app.collector.running.close, asked.actor.id, asked.campaign, asked.round))


async def read_tally(app: Application, asked: AdmittedRequest) -> Response:
    """The sum of a round's reports."""
    tally = await app.work(app.collector.readout.tally, asked.campaign, asked.round)
    return Response(tally.to_json(), media_type=JSON)


async def issue_ids(app: Application, asked: AdmittedRequest) -> Response:
    """Ids for reports to come."""
    count = int(asked.query["count"])
    app.rates.spend(asked.actor, count)
    issue = app.collector.campaigns.issue_ids
    nonce = asked.query.get("nonce")
    return reply(await app.work(issue, asked.campaign, token=asked.actor.id, nonce=nonce, count=count))


async def recount(app: Application, asked: AdmittedRequest) -> Response:
    """The stored reports, counted again."""
    return reply(await app.work(app.collector.reports.recount, asked.campaign, asked.round))


async def examine(app: Application, asked: AdmittedRequest) -> Response:
    """The stored reports, tested for honest noise."""
    return reply(await app.work(app.collector.reports.examine, asked.campaign, asked.round))


async def export_reports(app: Application, asked: AdmittedRequest) -> Response:
    """The stored reports of a round as a file."""
    form = asked.query["format"]
    file = await app.work(app.collector.reports.export, asked.campaign, asked.round, form)
    return _file(app, file, REPORT_TYPES[form], f"round-{asked.round}.{form}")


async def release(app: Application, asked: AdmittedRequest) -> Response:
    """What the campaign found, of all or a segment a row, as a file."""
    form = asked.query["format"]
    if by := _attributes(asked):
        apart, is_open = await app.work(
            app.collector.readout.breakdowns, asked.campaign, post=asked.query["post"], by=by
        )
        return release_file(await app.work(write_release, apart, form), form, is_open=is_open)
    made, is_open = await app.work(
        app.collector.readout.release,
        asked.campaign,
        post=asked.query["post"],
        estimator=asked.query.get("estimator"),
    )
    return release_file(await app.work(write_release, made, form), form, is_open=is_open)


def _attributes(asked: AdmittedRequest) -> tuple[str, ...]:
    """The attributes that `by` names, with commas between them."""
    return tuple(dict.fromkeys(filter(None, asked.query.get("by", "").split(","))))


def release_file(written: bytes, form: str, *, is_open: bool) -> Response:
    """A release as a file, and whether it is the last word."""
    headers = {
        "content-type": RELEASE_TYPES[form],
        "keyveil-state": "open" if is_open else "final",
        "content-disposition": f'attachment; filename="release.{form}"',
        "x-content-type-options": "nosniff",
    }
    return Response(written, headers=headers)


# --- what the dashboard asks for ---


async def about(app: Application, asked: AdmittedRequest) -> Response:
    """A campaign in a few words."""
    return reply(await app.work(app.collector.campaigns.about, asked.campaign))


async def progress(app: Application, asked: AdmittedRequest) -> Response:
    """How far a campaign is."""
    return reply(await app.work(app.collector.running.progress, asked.campaign))


async def results(app: Application, asked: AdmittedRequest) -> Response:
    """What the campaign found, as the dashboard shows it."""
    packed = await app.work(app.collector.readout.results, asked.campaign, post=asked.query["post"])
    return await _packed(app, asked, packed)


async def breakdowns(app: Application, asked: AdmittedRequest) -> Response:
    """What the campaign found of its segments, by columns."""
    packed = await app.work(
        app.collector.readout.breakdown_columns,
        asked.campaign,
        post=asked.query["post"],
        by=_attributes(asked),
    )
    return await _packed(app, asked, packed)


async def pairs(app: Application, asked: AdmittedRequest) -> Response:
    """What the campaign found of pairs of keys, as a file."""
    form = asked.query["format"]
    made, is_open = await app.work(app.collector.readout.pairs, asked.campaign)
    return release_file(await app.work(write_release, made, form), form, is_open=is_open)


async def _packed(app: Application, asked: AdmittedRequest, packed: bytes) -> Response:
    """JSON that is kept packed; as it was for those who do not unpack."""
    headers = {"cache-control": "no-store", "vary": "accept-encoding"}
    if "gzip" in asked.request.headers.get("accept-encoding", ""):
        return Response(packed, media_type=JSON, headers=headers | {"content-encoding": "gzip"})
    return Response(await app.work(gzip.decompress, packed), media_type=JSON, headers=headers)


async def hostile(app: Application, asked: AdmittedRequest) -> Response:
    """What devices that lie could make of it."""
    share = int(asked.query["per_mille"]) / 1000
    return reply(await app.work(app.collector.readout.reach, asked.campaign, share))


async def privacy(app: Application, asked: AdmittedRequest) -> Response:
    """The campaign's privacy label."""
    known = await app.work(app.collector.known, asked.campaign)
    label = await app.work(promise, known.campaign)
    return reply(with_batches(label, await app.work(app.collector.readout.central, asked.campaign)))


async def plan(app: Application, asked: AdmittedRequest) -> Response:
    """What a campaign would be able to say."""
    try:
        return reply(await app.work(planned, convert(asked.body, PlanQuestion)))
    except KeyveilError as error:
        raise error if isinstance(error, Problem) else Problem("no-plan", str(error)) from None


# --- tokens, the log, backups ---


async def make_token(app: Service, asked: AdmittedRequest) -> Response:
    """A token for a campaign."""
    new = convert(asked.body, m.NewToken)
    return reply(await app.work(app.host.access.make, asked.actor, asked.scope, new), 201)


async def list_tokens(app: Service, asked: AdmittedRequest) -> Response:
    """The tokens of a campaign."""
    return reply(await app.work(app.host.access.list, asked.scope))


async def revoke_token(app: Service, asked: AdmittedRequest) -> Response:
    """A token opens nothing from now on."""
    await app.work(app.host.access.revoke, asked.actor, asked.scope, asked.token)
    return Response(status_code=204)


async def make_series_token(app: Application, asked: AdmittedRequest) -> Response:
    """A token for all waves of a series."""
    return await make_token(app, asked)


async def list_series_tokens(app: Application, asked: AdmittedRequest) -> Response:
    """The tokens of a series."""
    return await list_tokens(app, asked)


async def revoke_series_token(app: Application, asked: AdmittedRequest) -> Response:
    """A token for a series opens nothing from now on."""
    return await revoke_token(app, asked)


async def make_collector_token(app: Service, asked: AdmittedRequest) -> Response:
    """A token for the whole collector."""
    return await make_token(app, asked)


async def list_collector_tokens(app: Service, asked: AdmittedRequest) -> Response:
    """The tokens for the whole collector."""
    return await list_tokens(app, asked)


async def revoke_collector_token(app: Service, asked: AdmittedRequest) -> Response:
    """A token for the whole collector opens nothing from now on."""
    return await revoke_token(app, asked)


async def acts(app: Service, asked: AdmittedRequest) -> Response:
    """The log of administrative acts."""
    return reply(await app.work(app.host.access.acts, int(asked.query["after"])))


async def backup(app: Service, asked: AdmittedRequest) -> Response:
    """A copy of the embedded store; whoever hangs up ends the copying."""
    gone = threading.Event()
    copying = asyncio.ensure_future(app.work(app.host.backup, asked.actor.id, is_cancelled=gone.is_set))
    leaving = asyncio.ensure_future(_disconnected(asked.request))
    try:
        await asyncio.wait({copying, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not copying.done():
            gone.set()
        leaving.cancel()
    try:
        file = await copying
    except NotEmbeddedError:
        raise Problem("not-embedded") from None
    except StoreError:
        if gone.is_set():
            raise ClientDisconnect from None
        raise
    return _file(app, file, "application/vnd.sqlite3", "backup.db")


# --- answers ---


def reply(said: Any, status: int = 200) -> Response:
    """A message as JSON."""
    return Response(
        msgspec.json.encode(said), status_code=status, media_type=JSON, headers={"cache-control": "no-store"}
    )


def _page(page: str) -> Response:
    return Response(page, media_type="text/html", headers=pages.HEADERS)


async def _disconnected(request: Request) -> None:
    """Wait until whoever asked is gone; their body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _file(app: Service, file: BinaryIO, kind: str, name: str) -> Response:
    async def parts() -> AsyncIterator[bytes]:
        with file:
            while part := await app.work(file.read, _CHUNK):
                yield part

    headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
    return StreamingResponse(parts(), media_type=kind, headers=headers)
