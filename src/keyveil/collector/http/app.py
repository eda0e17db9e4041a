"""The ASGI application: the table of endpoints with a handler each, and the report route beside it."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, BinaryIO, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from keyveil.collector.campaigns import messages as m
from keyveil.collector.campaigns.collector import Collector
from keyveil.collector.campaigns.releases import RELEASE_TYPES, REPORT_TYPES, write_release
from keyveil.collector.http import pages
from keyveil.collector.http.endpoints import ENDPOINTS, JSON, Endpoint, Scope
from keyveil.collector.http.intake import FRUITLESS, Intake, bearer, is_repeated, unavailable
from keyveil.collector.http.limits import Connections, Rates
from keyveil.collector.http.openapi import document
from keyveil.collector.problems import Problem
from keyveil.collector.strict import convert, parse_json, parse_toml
from keyveil.collector.tokens import Credential
from keyveil.collector.writing.commit import Grown
from keyveil.collector.writing.writer import Writer
from keyveil.dashboard.assets import HEADERS, answer, assets
from keyveil.dashboard.planning import Question
from keyveil.dashboard.planning import answer as planned
from keyveil.dashboard.privacy import promise
from keyveil.errors import KeyveilError, StoreError
from keyveil.tally.bits import warm_up

T = TypeVar("T")
# Threads for everything but uploads; each may hold a connection to the store.
_THREADS = 4
_CHUNK = 1 << 20
_ASSETS = "/assets/"
_HEALTH = msgspec.json.encode(m.Health(status="ok"))
_HEALTH_HEADERS = [(b"content-type", b"application/json"), (b"content-length", str(len(_HEALTH)).encode())]


class Application:
    """A collector behind HTTP; its writer runs while the ASGI server has it started."""

    def __init__(self, collector: Collector) -> None:
        self.collector = collector
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="keyveil")
        self._rates = Rates()
        self.writer = Writer(
            collector.store,
            collector.book,
            collector.settings,
            clock=collector.clock.earliest,
            metrics=collector.metrics,
            log=collector.log,
            grown=self._grown,
        )
        settings = collector.settings
        self.connections = Connections(settings.connections, settings.spare_connections)
        collector.metrics.gauges["keyveil_connections"] = ("Open connections.", self.connections.__len__)
        self.intake = Intake(collector, self.writer, self._rates, self._executor)
        self._rest = Starlette(
            routes=[
                Route(endpoint.path, self._handler(endpoint), methods=[endpoint.method])
                for endpoint in ENDPOINTS
            ],
            exception_handlers={HTTPException: self._no_route},
            lifespan=self._lifespan,
        )
        # A redirect would name the host that the request named.
        self._rest.router.redirect_slashes = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One connection's next request."""
        if scope["type"] == "http":
            path: str = scope["path"]
            if Intake.takes(scope["method"], path):
                await self.intake(scope, receive, _noting_the_fruitless(scope, send, is_upload=True))
                return
            if path == "/healthz" and scope["method"] == "GET" and not scope["query_string"]:
                await send({"type": "http.response.start", "status": 200, "headers": _HEALTH_HEADERS})
                await send({"type": "http.response.body", "body": _HEALTH})
                return
            send = _noting_the_fruitless(scope, send, is_upload=False)
            if path.startswith(_ASSETS) and scope["method"] in ("GET", "HEAD"):
                await self._asset(path[len(_ASSETS) :], scope, receive, send)
                return
        await self._rest(scope, receive, send)

    # --- the life of the process ---

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        self.writer.start(loop)
        settings = self.collector.settings
        chores = asyncio.gather(
            self._again_and_again(self.collector.running.tick, settings.tick),
            self._again_and_again(self.collector.running.tidy, settings.tidy),
        )
        self._executor.submit(warm_up)
        self._executor.submit(self._resume)
        self.collector.log.event("started", store=self.collector.store.kind)
        try:
            yield
        finally:
            chores.cancel()
            with suppress(asyncio.CancelledError):
                await chores
            await loop.run_in_executor(None, self.writer.stop)
            self.intake.close()
            self._executor.shutdown()
            self.collector.store.close()
            self.collector.log.event("stopped")

    async def _again_and_again(self, chore: Callable[[], None], seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await self._work(chore)
            except Exception as error:
                self.collector.log.event("fault", where="clock", kind=type(error).__name__)

    def _grown(self, growth: Grown) -> None:
        """Called by the writer, which must not wait for what follows a round that is complete."""
        if self.collector.running.grown(growth):
            self._executor.submit(self._resume)

    def _resume(self) -> None:
        try:
            self.collector.running.resume()
        except StoreError as error:
            # The clock tries again.
            self.collector.log.event("store", why=str(error), request="resume")

    async def _work(self, call: Callable[..., T], *args: Any, **named: Any) -> T:
        """Something slow, away from the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, partial(call, *args, **named))

    # --- every request but an upload ---

    def _handler(self, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        work: Callable[[Admitted], Awaitable[Response]] = getattr(self, f"_{endpoint.name}")

        async def handle(request: Request) -> Response:
            try:
                return await work(await self._asked(endpoint, request))
            except Problem as problem:
                return self._refused(problem)
            except StoreError as error:
                self.collector.log.event("store", why=str(error), request=endpoint.name)
                return self._refused(unavailable(error, self.collector.settings.retry_after))
            except ClientDisconnect:
                return Response(status_code=400)
            except Exception as error:
                # Only the type: a message may hold what was sent.
                self.collector.log.event("fault", where=endpoint.name, kind=type(error).__name__)
                return self._refused(Problem("internal"))

        return handle

    async def _no_route(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        answer = self._refused(Problem("wrong-method" if error.status_code == 405 else "not-found"))
        if error.headers:
            answer.headers.update(error.headers)
        return answer

    def _refused(self, problem: Problem) -> Response:
        self.collector.metrics.count_problem(problem.code)
        headers = {name.decode(): value.decode() for name, value in problem.headers()}
        return Response(
            problem.body(), status_code=problem.status, headers={**headers, "cache-control": "no-store"}
        )

    async def _asked(self, endpoint: Endpoint, request: Request) -> Admitted:
        """Who asks, about what, with what; refused in this order."""
        credential = None if endpoint.roles is None else await self._credential(endpoint, request)
        campaign = request.path_params.get("campaign", "")
        if campaign:
            await self._work(self.collector.known, campaign)
        if credential is not None:
            assert endpoint.roles is not None
            if credential.role not in endpoint.roles:
                raise Problem("forbidden", f"a token of role {credential.role.value} may not do this")
            if endpoint.scope is Scope.CAMPAIGN and not credential.covers(campaign):
                raise Problem("other-campaign")
            if endpoint.scope is Scope.COLLECTOR and credential.campaign is not None:
                raise Problem("other-campaign", "this needs a token for the whole collector")
        return Admitted(
            endpoint=endpoint,
            request=request,
            campaign=campaign,
            round=_round(request.path_params.get("round", "0")),
            token=request.path_params.get("token", ""),
            credential=credential,
            query=_query(endpoint, request.url.query),
            takes_gzip="gzip" in request.headers.get("accept-encoding", ""),
            body=await self._body(endpoint, request),
        )

    async def _credential(self, endpoint: Endpoint, request: Request) -> Credential:
        if is_repeated(request.headers.raw):
            raise Problem("bad-request", "expected one Authorization header, got more")
        header = request.headers.get("authorization")
        if header is None:
            raise Problem("no-token")
        credential = await self._work(self.collector.access.recognise, bearer(header.encode("latin-1")))
        if credential is None:
            raise Problem("unknown-token")
        self._rates.check(credential)
        self._rates.spend(credential, 1)
        return credential

    async def _body(self, endpoint: Endpoint, request: Request) -> Any:
        """The body as a value, read no further than the limit."""
        if not endpoint.takes:
            return None
        kind = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
        if kind not in endpoint.takes:
            raise Problem("unsupported-type", f"expected {' or '.join(endpoint.takes)}")
        largest = self.collector.settings.largest_config
        too_large = Problem("too-large", f"expected at most {largest} bytes")
        claimed = request.headers.get("content-length", "0")
        if not claimed.isdigit() or int(claimed) > largest:
            raise too_large
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > largest:
                raise too_large
            parts.append(part)
        body = b"".join(parts)
        return await self._work(parse_json if kind == JSON else parse_toml, body)

    # --- pages and operations ---

    async def _index(self, _: Admitted) -> Response:
        return Response(assets()["index.html"].body, media_type="text/html", headers=dict(HEADERS))

    async def _asset(self, name: str, scope: Any, receive: Any, send: Any) -> None:
        """A file of the dashboard: the same for everybody, so no table of roles stands before it."""
        asked = Headers(scope=scope)
        found = answer(
            name,
            takes_gzip="gzip" in asked.get("accept-encoding", ""),
            known_tag=asked.get("if-none-match"),
        )
        if found is None:
            await self._refused(Problem("not-found"))(scope, receive, send)
            return
        status, headers, body = found
        await Response(body, status_code=status, headers=headers)(scope, receive, send)

    async def _docs(self, _: Admitted) -> Response:
        return _html(pages.docs())

    async def _errors(self, _: Admitted) -> Response:
        return _html(pages.errors())

    async def _openapi(self, _: Admitted) -> Response:
        return _json(document())

    async def _healthz(self, _: Admitted) -> Response:
        return Response(_HEALTH, media_type=JSON)

    async def _readyz(self, _: Admitted) -> Response:
        def look() -> None:
            with self.collector.store.read() as tx:
                tx.has_admin()
            if self.writer.failing:
                # Nobody sends to a collector that is not ready: it must see by itself that it is again.
                with self.collector.store.write() as tx:
                    tx.probe()
                self.writer.failing = ""

        is_ready, why = self.writer.is_alive and not self.writer.is_full, ""
        try:
            await self._work(look)
        except StoreError as error:
            is_ready, why = False, str(error)
        said = m.Ready(
            ready=is_ready,
            store=self.collector.store.kind,
            waiting_uploads=self.writer.n_waiting,
            clock_doubt=self.collector.clock.doubt,
            failing=why,
            damaged=[f"{campaign}: {why}" for campaign, why in self.collector.damaged.items()],
        )
        return _json(said, 200 if is_ready else 503)

    async def _metrics(self, _: Admitted) -> Response:
        return Response(
            self.collector.metrics.text(),
            headers={"content-type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    # --- campaigns and rounds ---

    async def _create_campaign(self, asked: Admitted) -> Response:
        said = asked.body
        # The contract's file is the campaign alone; beside terms it is a table of its own.
        if not isinstance(said, dict) or not isinstance(said.get("campaign"), dict):
            said = {"campaign": said}
        made = await self._work(self.collector.campaigns.create, asked.actor.id, convert(said, m.NewCampaign))
        return _json(made, 201 if made.created else 200)

    async def _list_campaigns(self, asked: Admitted) -> Response:
        return _json(await self._work(self.collector.campaigns.list, asked.actor.campaign))

    async def _view_campaign(self, asked: Admitted) -> Response:
        return _json(await self._work(self.collector.campaigns.view, asked.campaign))

    async def _label_campaign(self, asked: Admitted) -> Response:
        label = convert(asked.body, m.Label)
        await self._work(self.collector.campaigns.label, asked.actor.id, asked.campaign, label.label)
        return _json(label)

    async def _compare_campaign(self, asked: Admitted) -> Response:
        return _json(
            await self._work(self.collector.campaigns.compare, asked.campaign, convert(asked.body, dict))
        )

    async def _send_reports(self, asked: Admitted) -> Response:
        """Uploads are the intake's; an address that only looks like one leads nowhere."""
        raise Problem("unknown-campaign")

    async def _list_rounds(self, asked: Admitted) -> Response:
        return _json(await self._work(self.collector.running.list, asked.campaign))

    async def _close_round(self, asked: Admitted) -> Response:
        return _json(
            await self._work(self.collector.running.close, asked.actor.id, asked.campaign, asked.round)
        )

    async def _read_tally(self, asked: Admitted) -> Response:
        tally = await self._work(self.collector.readout.tally, asked.campaign, asked.round)
        return Response(tally.to_json(), media_type=JSON)

    async def _issue_ids(self, asked: Admitted) -> Response:
        count = int(asked.query["count"])
        self._rates.spend(asked.actor, count)
        issue = self.collector.campaigns.issue_ids
        nonce = asked.query.get("nonce")
        return _json(await self._work(issue, asked.campaign, token=asked.actor.id, nonce=nonce, count=count))

    async def _recount(self, asked: Admitted) -> Response:
        return _json(await self._work(self.collector.readout.recount, asked.campaign, asked.round))

    async def _examine(self, asked: Admitted) -> Response:
        return _json(await self._work(self.collector.readout.examine, asked.campaign, asked.round))

    async def _export_reports(self, asked: Admitted) -> Response:
        form = asked.query["format"]
        file = await self._work(self.collector.readout.export, asked.campaign, asked.round, form)
        return self._file(file, REPORT_TYPES[form], f"round-{asked.round}.{form}")

    async def _release(self, asked: Admitted) -> Response:
        form = asked.query["format"]
        made, is_open = await self._work(
            self.collector.readout.release,
            asked.campaign,
            post=asked.query["post"],
            estimator=asked.query.get("estimator"),
        )
        headers = {
            "content-type": RELEASE_TYPES[form],
            "keyveil-state": "open" if is_open else "final",
            "content-disposition": f'attachment; filename="release.{form}"',
            "x-content-type-options": "nosniff",
        }
        return Response(await self._work(write_release, made, form), headers=headers)

    # --- what the dashboard asks for ---

    async def _about(self, asked: Admitted) -> Response:
        return _json(await self._work(self.collector.campaigns.about, asked.campaign))

    async def _progress(self, asked: Admitted) -> Response:
        return _json(await self._work(self.collector.running.progress, asked.campaign))

    async def _results(self, asked: Admitted) -> Response:
        packed = await self._work(self.collector.readout.results, asked.campaign, post=asked.query["post"])
        headers = {"cache-control": "no-store", "vary": "accept-encoding"}
        if asked.takes_gzip:
            return Response(packed, media_type=JSON, headers=headers | {"content-encoding": "gzip"})
        return Response(await self._work(gzip.decompress, packed), media_type=JSON, headers=headers)

    async def _hostile(self, asked: Admitted) -> Response:
        share = int(asked.query["per_mille"]) / 1000
        return _json(await self._work(self.collector.readout.reach, asked.campaign, share))

    async def _privacy(self, asked: Admitted) -> Response:
        known = await self._work(self.collector.known, asked.campaign)
        return _json(await self._work(promise, known.campaign))

    async def _plan(self, asked: Admitted) -> Response:
        try:
            return _json(await self._work(planned, convert(asked.body, Question)))
        except KeyveilError as error:
            raise error if isinstance(error, Problem) else Problem("no-plan", str(error)) from None

    # --- tokens, the log, backups ---

    async def _make_token(self, asked: Admitted) -> Response:
        new = convert(asked.body, m.NewToken)
        return _json(
            await self._work(self.collector.access.make, asked.actor, asked.campaign or None, new), 201
        )

    async def _list_tokens(self, asked: Admitted) -> Response:
        return _json(await self._work(self.collector.access.list, asked.campaign or None))

    async def _revoke_token(self, asked: Admitted) -> Response:
        await self._work(self.collector.access.revoke, asked.actor, asked.campaign or None, asked.token)
        return Response(status_code=204)

    _make_collector_token, _list_collector_tokens, _revoke_collector_token = (
        _make_token,
        _list_tokens,
        _revoke_token,
    )

    async def _acts(self, asked: Admitted) -> Response:
        return _json(await self._work(self.collector.access.acts, int(asked.query["after"])))

    async def _backup(self, asked: Admitted) -> Response:
        gone = threading.Event()
        copying = asyncio.ensure_future(
            self._work(self.collector.readout.backup, asked.actor.id, is_cancelled=gone.is_set)
        )
        leaving = asyncio.ensure_future(_disconnected(asked.request))
        try:
            await asyncio.wait({copying, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not copying.done():
                gone.set()
            leaving.cancel()
        try:
            file = await copying
        except StoreError:
            if gone.is_set():
                raise ClientDisconnect from None
            raise
        return self._file(file, "application/vnd.sqlite3", "backup.db")

    def _file(self, file: BinaryIO, kind: str, name: str) -> Response:
        async def parts() -> AsyncIterator[bytes]:
            with file:
                while part := await self._work(file.read, _CHUNK):
                    yield part

        headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
        return StreamingResponse(parts(), media_type=kind, headers=headers)


class Admitted(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was let in."""

    endpoint: Any
    request: Any
    campaign: str
    round: int
    token: str
    credential: Any
    query: dict[str, str]
    takes_gzip: bool
    body: Any

    @property
    def actor(self) -> Credential:
        """Whose token it is."""
        assert isinstance(self.credential, Credential)
        return self.credential


def _noting_the_fruitless(scope: Any, send: Any, *, is_upload: bool) -> Any:
    """The same way to answer; the server finds in the request whether it was refused, or asked by nobody."""
    is_named = is_upload or any(name == b"authorization" for name, _ in scope["headers"])

    async def noting(message: Any) -> None:
        if message["type"] == "http.response.start" and (not is_named or message["status"] >= 400):
            scope[FRUITLESS] = True
        await send(message)

    return noting


async def _disconnected(request: Request) -> None:
    """Wait until whoever asked is gone; their body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _round(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5):
        raise Problem("unknown-round")
    return int(text)


def _query(endpoint: Endpoint, text: str) -> dict[str, str]:
    """The parameters that were given, and the defaults of the rest."""
    try:
        pairs = parse_qsl(
            text, keep_blank_values=True, strict_parsing=bool(text), errors="strict", max_num_fields=20
        )
    except ValueError:
        raise Problem("bad-request", "the query cannot be read") from None
    given = dict(pairs)
    if len(given) != len(pairs) or not set(given) <= set(endpoint.query):
        known = ", ".join(endpoint.query) or "none"
        raise Problem("bad-request", f"expected each of these parameters at most once: {known}")
    for name, schema in endpoint.query.items():
        if name not in given:
            if "default" in schema:
                given[name] = str(schema["default"])
        elif not _fits(given[name], schema):
            raise Problem("bad-request", f"parameter {name} must fit {schema}")
    return given


def _fits(text: str, schema: Any) -> bool:
    if schema["type"] == "integer":
        is_whole = text.isascii() and text.isdigit() and len(text) <= 16
        return is_whole and schema["minimum"] <= int(text) <= schema["maximum"]
    return text in schema["enum"] if "enum" in schema else len(text) <= schema["maxLength"]


def _json(said: Any, status: int = 200) -> Response:
    return Response(
        msgspec.json.encode(said), status_code=status, media_type=JSON, headers={"cache-control": "no-store"}
    )


def _html(page: str) -> Response:
    return Response(page, media_type="text/html", headers=pages.HEADERS)
