"""The handlers of what concerns series."""

from __future__ import annotations

import gzip
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from starlette.responses import Response

from keyveil.collector.campaigns import messages as m
from keyveil.collector.campaigns import series_messages as s
from keyveil.collector.campaigns.readout import write_release
from keyveil.collector.http.handlers import AdmittedRequest, release_file, reply
from keyveil.collector.http.openapi import JSON
from keyveil.collector.strict import convert
from keyveil.collector.tokens import ANNOTATORS

if TYPE_CHECKING:
    from keyveil.collector.http.app import Application


async def create_series(app: Application, asked: AdmittedRequest) -> Response:
    """A series whose wave of this moment is open."""
    said = asked.body
    # A file is the series alone; beside terms it is a table of its own.
    if not isinstance(said, dict) or not isinstance(said.get("campaign"), dict):
        said = {"campaign": said}
    made = await app.work(app.collector.series.create, asked.actor.id, convert(said, s.NewSeries))
    return reply(made, 201 if made.created else 200)


async def list_series(app: Application, asked: AdmittedRequest) -> Response:
    """The series that the token is for."""
    return reply(await app.work(app.collector.series.list, asked.actor.campaign))


async def view_series(app: Application, asked: AdmittedRequest) -> Response:
    """A series and the wave that is open."""
    return reply(await app.work(app.collector.series.view, asked.series))


async def list_waves(app: Application, asked: AdmittedRequest) -> Response:
    """Every wave."""
    return reply(await app.work(app.collector.series.waves, asked.series))


async def label_series(app: Application, asked: AdmittedRequest) -> Response:
    """Another label."""
    label = convert(asked.body, m.Label)
    await app.work(app.collector.series.label, asked.actor.id, asked.series, label.label)
    return reply(label)


async def pause_series(app: Application, asked: AdmittedRequest) -> Response:
    """No wave is opened until it is resumed."""
    return reply(await app.work(app.collector.series.pause, asked.actor.id, asked.series))


async def resume_series(app: Application, asked: AdmittedRequest) -> Response:
    """Waves are opened again."""
    return reply(await app.work(app.collector.series.resume, asked.actor.id, asked.series))


async def end_series(app: Application, asked: AdmittedRequest) -> Response:
    """Nothing more is asked."""
    return reply(await app.work(app.collector.series.end, asked.actor.id, asked.series))


async def add_keys(app: Application, asked: AdmittedRequest) -> Response:
    """More keys, from the next wave on."""
    new = convert(asked.body, s.NewKeys)
    return reply(await app.work(app.collector.series.add_keys, asked.actor.id, asked.series, new.add))


async def annotate(app: Application, asked: AdmittedRequest) -> Response:
    """A note is made."""
    new = convert(asked.body, s.NewAnnotation)
    return reply(await app.work(app.collector.series.annotate, asked.actor.id, asked.series, new), 201)


async def list_annotations(app: Application, asked: AdmittedRequest) -> Response:
    """The notes."""
    return reply(await app.work(app.collector.series.annotations, asked.series))


async def drop_annotation(app: Application, asked: AdmittedRequest) -> Response:
    """A note is taken away."""
    drop = app.collector.series.drop_annotation
    await app.work(drop, asked.actor.id, asked.series, asked.annotation)
    return Response(status_code=204)


async def release_series(app: Application, asked: AdmittedRequest) -> Response:
    """What the series found, as a file."""
    form = asked.query["format"]
    made, is_open = await app.work(app.collector.trends.release, asked.series, post=asked.query["post"])
    return release_file(await app.work(write_release, made, form), form, is_open=is_open)


async def trend(app: Application, asked: AdmittedRequest) -> Response:
    """The series as its page draws it."""
    view = partial(
        app.collector.trends.view,
        asked.series,
        since=int(asked.query["since"]),
        most=int(asked.query["most"]),
        key=asked.query["key"],
        may_annotate=asked.actor.role in ANNOTATORS,
    )
    takes_gzip = "gzip" in asked.request.headers.get("accept-encoding", "")
    body = await app.work(lambda: _encoded(view(), takes_gzip))
    headers = {"cache-control": "no-store", "vary": "accept-encoding"}
    return Response(
        body, media_type=JSON, headers=headers | ({"content-encoding": "gzip"} if takes_gzip else {})
    )


def _encoded(said: s.TrendView, takes_gzip: bool) -> bytes:
    text = msgspec.json.encode(said)
    return gzip.compress(text, 1, mtime=0) if takes_gzip else text
