"""An ASGI application: who asks is let in or refused, and a handler of the table of endpoints answers.

Uploads (`intake`) are beside the table. A collector's is in `app`, a relay's in a package of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import cached_property, partial
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from keyveil.collector.campaigns.host import Host
from keyveil.collector.http import handlers
from keyveil.collector.http.endpoints import Endpoint, Scope
from keyveil.collector.http.handlers import AdmittedRequest
from keyveil.collector.http.intake import FRUITLESS, Intake, unavailable
from keyveil.collector.http.limits import Connections, Rates
from keyveil.collector.http.openapi import JSON, document
from keyveil.collector.problems import Problem
from keyveil.collector.strict import parse_json, parse_toml
from keyveil.collector.tokens import Credential, bearer, is_repeated
from keyveil.collector.writing.writer import Writer
from keyveil.errors import StoreError

T = TypeVar("T")
# Threads for everything but uploads; each may hold a connection to the store.
_THREADS = 4
# Whoever asks only whether the process lives has no token, and may ask often.
_HEALTH = "/healthz"


class Service:
    """Somebody behind HTTP; the writer runs while the ASGI server has it started."""

    def __init__(
        self,
        host: Host,
        endpoints: Sequence[Endpoint],
        *,
        writer: Writer,
        intake: Callable[[Rates, Executor], Intake],
    ) -> None:
        self.host, self.endpoints, self.writer = host, tuple(endpoints), writer
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="keyveil")
        self.rates = Rates()
        settings = host.settings
        self.connections = Connections(settings.connections, settings.spare_connections)
        host.metrics.gauges["keyveil_connections"] = ("Open connections.", self.connections.__len__)
        self.intake = intake(self.rates, self._executor)
        self._rest = Starlette(
            routes=[
                Route(endpoint.path, self._handler(endpoint), methods=[endpoint.method])
                for endpoint in self.endpoints
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
            if self.intake.is_upload(scope["method"], path):
                await self.intake(scope, receive, _noting_the_fruitless(scope, send, is_upload=True))
                return
            if path == _HEALTH and scope["method"] == "GET" and not scope["query_string"]:
                # Whoever watches over many processes asks often, and needs no way through the table.
                await handlers.HEALTHY(scope, receive, send)
                return
            send = _noting_the_fruitless(scope, send, is_upload=False)
        await self.answer(scope, receive, send)

    async def answer(self, scope: Any, receive: Any, send: Any) -> None:
        """A request that is no upload."""
        await self._rest(scope, receive, send)

    @cached_property
    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document of this interface."""
        return document(self.endpoints)

    # --- the life of the process ---

    def background(self) -> Sequence[tuple[Callable[[], None], float]]:
        """What is done again and again, and every how many seconds."""
        return ((self.host.flush_log, self.host.settings.tick),)

    def started(self) -> None:
        """The process is up: what takes a while may begin, away from the event loop."""

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        self.writer.start(loop)
        background = asyncio.gather(*(self._repeat(task, seconds) for task, seconds in self.background()))
        self.started()
        self.host.log.event("started", store=self.host.store.kind)
        try:
            yield
        finally:
            background.cancel()
            with suppress(asyncio.CancelledError):
                await background
            await loop.run_in_executor(None, self.writer.stop)
            self.intake.close()
            self._executor.shutdown()
            self.host.store.close()
            self.host.log.event("stopped")

    async def _repeat(self, task: Callable[[], None], seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.work(task)
            except Exception as error:
                self.host.log.event("fault", where="clock", kind=type(error).__name__)

    async def work(self, call: Callable[..., T], *args: Any, **named: Any) -> T:
        """Something slow, away from the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, partial(call, *args, **named))

    # --- every request but an upload ---

    def _handler(self, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        name = endpoint.name

        async def handle(request: Request) -> Response:
            started = time.perf_counter()
            try:
                return await endpoint.handler(self, await self._asked(endpoint, request))
            except Problem as problem:
                return self.refused(problem)
            except StoreError as error:
                self.host.log.event("store", why=str(error), request=name)
                return self.refused(unavailable(error, self.host.settings.retry_after))
            except ClientDisconnect:
                return Response(status_code=400)
            except Exception as error:
                # Only the type: a message may hold what was sent.
                self.host.log.event("fault", where=name, kind=type(error).__name__)
                return self.refused(Problem("internal"))
            finally:
                self.host.metrics.answered(name, time.perf_counter() - started)

        return handle

    async def _no_route(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        answer = self.refused(Problem("wrong-method" if error.status_code == 405 else "not-found"))
        if error.headers:
            answer.headers.update(error.headers)
        return answer

    def refused(self, problem: Problem) -> Response:
        """The answer that a refusal is."""
        self.host.count_refusal(problem.code)
        headers = {name.decode(): value.decode() for name, value in problem.headers()}
        return Response(
            problem.body(), status_code=problem.status, headers={**headers, "cache-control": "no-store"}
        )

    async def _asked(self, endpoint: Endpoint, request: Request) -> AdmittedRequest:
        """Who asks, about what, with what; refused in this order."""
        credential = None if endpoint.roles is None else await self._credential(endpoint, request)
        campaign = request.path_params.get("campaign", "")
        series = request.path_params.get("series", "")
        known = await self.work(self.host.known, campaign) if campaign else None
        if series:
            await self.work(self.host.check_series, series)
        if credential is not None:
            assert endpoint.roles is not None
            if credential.role not in endpoint.roles:
                raise Problem("forbidden", f"a token of role {credential.role.value} may not do this")
            if endpoint.scope is Scope.CAMPAIGN and not credential.covers(
                campaign or series, None if known is None else known.series
            ):
                raise Problem("other-campaign")
            if endpoint.scope is Scope.COLLECTOR and credential.campaign is not None:
                raise Problem("other-campaign", "this needs a token for the whole collector")
        return AdmittedRequest(
            request=request,
            campaign=campaign,
            series=series,
            annotation=_number(request.path_params.get("annotation", "0"), "unknown-annotation", 16),
            round=_number(request.path_params.get("round", "0"), "unknown-round", 5),
            token=request.path_params.get("token", ""),
            key=request.path_params.get("key", ""),
            credential=credential,
            query=_query(endpoint, request.url.query),
            body=None if endpoint.takes_bytes else await self._body(endpoint, request),
        )

    async def _credential(self, endpoint: Endpoint, request: Request) -> Credential:
        if is_repeated(request.headers.raw):
            raise Problem("bad-request", "expected one Authorization header, got more")
        header = request.headers.get("authorization")
        if header is None:
            raise Problem("no-token")
        credential = await self.work(self.host.access.recognise, bearer(header.encode("latin-1")))
        if credential is None:
            raise Problem("unknown-token")
        self.rates.check(credential)
        self.rates.spend(credential, 1)
        return credential

    async def _body(self, endpoint: Endpoint, request: Request) -> Any:
        """The body as a value, read no further than the limit."""
        if not endpoint.takes:
            return None
        kind = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
        if kind not in endpoint.takes:
            raise Problem("unsupported-type", f"expected {' or '.join(endpoint.takes)}")
        largest = self.host.settings.largest_config
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
        return await self.work(parse_json if kind == JSON else parse_toml, body)


def _noting_the_fruitless(scope: Any, send: Any, *, is_upload: bool) -> Any:
    """The same way to answer; the server finds in the request whether it was refused, or asked by nobody."""
    is_named = (
        is_upload or scope["path"] == _HEALTH or any(name == b"authorization" for name, _ in scope["headers"])
    )

    async def noting(message: Any) -> None:
        if message["type"] == "http.response.start" and (not is_named or message["status"] >= 400):
            scope[FRUITLESS] = True
        await send(message)

    return noting


def _number(text: str, code: str, longest: int) -> int:
    """The number in an address, or a refusal."""
    if not (text.isascii() and text.isdigit() and len(text) <= longest):
        raise Problem(code)
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
