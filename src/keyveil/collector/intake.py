"""The report route: by ASGI for every upload, without waiting for the usual ones (`direct`).

The order matters. Who sends, whether there is room and how large the body claims to be are settled
before a byte of it is read. The answer waits for the commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import msgspec

from keyveil.collector.limits import Budget, Rates
from keyveil.collector.problems import Problem
from keyveil.collector.rounds import Known
from keyveil.collector.service import Collector
from keyveil.collector.tokens import Credential, Role
from keyveil.collector.upload import FRAMED, JSON, Expander, Upload, read_upload
from keyveil.collector.writer import Writer
from keyveil.errors import StoreError

T = TypeVar("T")
PREFIX, SUFFIX = "/v1/campaigns/", "/reports"
_ID_LENGTH = 64
_PREFIX, _SUFFIX = PREFIX.encode(), SUFFIX.encode()
_URL_LENGTH = len(PREFIX) + _ID_LENGTH + len(SUFFIX)
_FRAMED, _JSON = FRAMED.encode(), JSON.encode()
JSON_HEADERS = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
# An unread body up to this is let pass, so that the sender keeps its connection; beyond it is closed.
_DRAINED = 1 << 18
# JSON beyond this is taken apart away from the event loop.
_LONG_JSON = 1 << 14


class Announced(NamedTuple):
    """An upload whose header is in order."""

    known: Known
    credential: Credential | None


class Intake:
    """POST /v1/campaigns/{id}/reports."""

    def __init__(self, collector: Collector, writer: Writer, rates: Rates, executor: Executor) -> None:
        self._collector, self._writer, self._rates, self._executor = collector, writer, rates, executor
        self._settings = collector.settings
        self._budget = Budget(self._settings.waiting_bytes)
        collector.metrics.gauges["keyveil_waiting_bytes"] = (
            "Bytes of uploads in memory.",
            lambda: self._budget.taken,
        )

    @staticmethod
    def takes(method: str, path: str) -> bool:
        """Whether a request is an upload."""
        return (
            method == "POST"
            and path.endswith(SUFFIX)
            and path.startswith(PREFIX)
            and len(path) == _URL_LENGTH
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One upload."""
        taken = [0]
        headers = dict(scope["headers"])
        try:
            upload = await self._read(scope, headers, receive, taken)
            await self._writer.put(upload)
            if upload.problem is not None:
                raise upload.problem
        except (Problem, StoreError) as error:
            problem = error if isinstance(error, Problem) else unavailable(error, self._settings.retry_after)
            await self._refuse(without_frames(problem), headers, send)
            return
        except Disconnected:
            return
        finally:
            self._budget.give(taken[0])
        if upload.statuses is None:
            for message in _all_accepted(upload.n_reports):
                await send(message)
        else:
            await _answer(send, 200, JSON_HEADERS, statuses(upload.statuses))

    # --- without waiting ---

    def admit_now(self, url: bytes, headers: Sequence[tuple[bytes, bytes]], *, most: int) -> Announced | None:
        """A usual upload whose header is all in order; None for any other."""
        if not (len(url) == _URL_LENGTH and url.startswith(_PREFIX) and url.endswith(_SUFFIX)):
            return None
        said = dict(headers)
        if is_repeated(headers):
            return None
        known = self._collector.book.find(url[len(_PREFIX) : -len(_SUFFIX)].decode("latin-1"))
        size = said.get(b"content-length", b"")
        if known is None or b"content-encoding" in said or not size.isdigit() or not 0 < int(size) <= most:
            return None
        credential = None
        if b"authorization" in said:
            credential = self._collector.access.cached(bearer(said[b"authorization"]))
            if credential is None:
                return None
        try:
            if self._admit(known, credential, said) != FRAMED:
                return None
        except Problem:
            return None
        self._reserve(credential)
        return Announced(known, credential)

    def put(self, body: bytes, announced: Announced, done: Any) -> None:
        """Queue the upload in a body; `done.set_result(upload)` tells when it is written.

        Room is taken for what has come, not for what was announced: silence takes nothing from others.
        """
        self._take(len(body), [0])
        try:
            upload = self._upload(body, FRAMED, *announced)
            self._charge(announced.credential, upload)
            self._writer.put(upload, done)
        except BaseException:
            self.give(len(body))
            raise

    def give(self, size: int) -> None:
        """The room of an upload that was answered."""
        self._budget.give(size)

    def refusal(self, problem: Problem) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """Headers and body of a refusal, which is counted."""
        self._collector.metrics.count_problem(problem.code)
        return problem.headers(), problem.body()

    @property
    def patience(self) -> float:
        """Seconds that a body may take to come."""
        return self._settings.patience

    # --- with waiting ---

    async def _read(self, scope: Any, headers: dict[bytes, bytes], receive: Any, taken: list[int]) -> Upload:
        """The upload; what of the budget it uses is noted in `taken`."""
        if is_repeated(scope["headers"]):
            raise Problem("bad-request", "expected one Authorization header, got more")
        if b"upgrade" in headers:
            # The parser reads no body behind it.
            raise Problem("bad-request", "reports are sent over HTTP/1.1; leave Upgrade out")
        campaign = scope["path"][len(PREFIX) : -len(SUFFIX)]
        # What was met before is found without leaving this thread.
        known = self._collector.book.find(campaign)
        if known is None:
            known = await self._work(self._collector.known, campaign)
        credential = None
        if b"authorization" in headers:
            token, access = bearer(headers[b"authorization"]), self._collector.access
            credential = access.cached(token) or await self._work(access.recognise, token)
            if credential is None:
                raise Problem("unknown-token")
        if scope["query_string"]:
            raise Problem("bad-request", "this request has no query parameters")
        kind = self._admit(known, credential, headers)
        self._reserve(credential)
        expander = self._expander(headers) if b"content-encoding" in headers else None
        body = await self._body(headers, receive, expander, taken)
        if kind == JSON and len(body) > _LONG_JSON:
            upload = await self._work(self._upload, body, JSON, known, credential)
        else:
            upload = self._upload(body, kind, known, credential)
        self._charge(credential, upload)
        return upload

    def _reserve(self, credential: Credential | None) -> None:
        """One report at least will come."""
        if credential is not None:
            self._rates.spend(credential, 1)

    def _charge(self, credential: Credential | None, upload: Upload) -> None:
        if credential is not None:
            self._rates.charge(credential, upload.n_reports)

    def _admit(self, known: Known, credential: Credential | None, headers: dict[bytes, bytes]) -> str:
        """The kind of body that follows, or a refusal before it is read."""
        if credential is not None:
            self._check(credential, known)
        elif known.terms.uploads != "open":
            raise Problem("no-token")
        if self._collector.now() >= known.ends:
            raise Problem("campaign-expired")
        kind = headers.get(b"content-type", _FRAMED)
        if kind != _FRAMED:
            kind = kind.partition(b";")[0].strip().lower()
            if kind not in (_FRAMED, _JSON):
                raise Problem("unsupported-type", f"expected {FRAMED} or {JSON}")
        if self._writer.is_full:
            raise Problem("overloaded", retry_after=self._settings.retry_after)
        return FRAMED if kind == _FRAMED else JSON

    async def _work(self, call: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call, *args)

    def _upload(self, body: bytes, kind: str, known: Known, credential: Credential | None) -> Upload:
        return read_upload(
            body,
            kind,
            tag=known.campaign.tag,
            campaign=known.id,
            token=None if credential is None else credential.id,
            most=self._settings.most_reports,
        )

    def _check(self, credential: Credential, known: Known) -> None:
        if credential.role is not Role.DEVICE:
            raise Problem("forbidden", "reports are sent with a device's token")
        if not credential.covers(known.id):
            raise Problem("other-campaign")
        self._rates.check(credential)

    def _expander(self, headers: dict[bytes, bytes]) -> Expander | None:
        coding = headers.get(b"content-encoding", b"identity").strip().lower()
        if coding == b"identity":
            return None
        if coding != b"gzip":
            raise Problem("unsupported-type", "expected Content-Encoding: gzip, or none")
        return Expander(self._settings.largest_body)

    async def _body(
        self, headers: dict[bytes, bytes], receive: Any, expander: Expander | None, taken: list[int]
    ) -> bytes:
        largest = self._settings.largest_body
        claimed = headers.get(b"content-length")
        if claimed is not None:
            size = int(claimed) if claimed.isdigit() else largest + 1
            if size > largest:
                raise Problem("too-large", f"expected at most {largest} bytes")
        else:
            largest = self._settings.largest_unannounced
        async with _patience(self._settings.patience):
            parts, size = [], 0
            while True:
                message = await receive()
                part = _part(message)
                size += len(part)
                if size > largest:
                    hint = "" if claimed is not None else " without Content-Length"
                    raise Problem("too-large", f"expected at most {largest} bytes{hint}")
                if expander is not None:
                    part = expander.feed(part)
                self._take(len(part), taken)
                parts.append(part)
                if not message.get("more_body", False):
                    break
        if expander is not None:
            expander.finish()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _take(self, size: int, taken: list[int]) -> None:
        if not self._budget.take(size):
            raise Problem("overloaded", retry_after=self._settings.retry_after)
        taken[0] += size

    async def _refuse(self, problem: Problem, headers: dict[bytes, bytes], send: Any) -> None:
        said, body = self.refusal(problem)
        length = headers.get(b"content-length", b"")
        if not length.isdigit() or int(length) > _DRAINED:
            said.append((b"connection", b"close"))
        await _answer(send, problem.status, said, body)


def without_frames(problem: Problem) -> Problem:
    """A refusal without the frames in which it was raised: they hold the body, and the refusal itself."""
    problem.__context__ = problem.__cause__ = None
    return problem.with_traceback(None)


class Disconnected(Exception):
    """The sender went away in the middle of a body."""


def is_repeated(headers: Sequence[tuple[bytes, bytes]], name: bytes = b"authorization") -> bool:
    """Whether a header that says who asks comes more than once: then nobody knows who does."""
    return sum(header == name for header, _ in headers) > 1


def bearer(header: bytes) -> str:
    """The token in an Authorization header, or a text that is none."""
    scheme, _, token = header.partition(b" ")
    return token.strip().decode("latin-1") if scheme.lower() == b"bearer" else ""


def unavailable(error: StoreError, retry_after: float) -> Problem:
    """What a sender is told of a store that failed."""
    if error.damaged:
        return Problem("campaign-damaged", str(error), retry_after=retry_after)
    return Problem("store-unavailable", retry_after=retry_after)


def _part(message: Any) -> bytes:
    if message["type"] == "http.disconnect":
        raise Disconnected
    part: bytes = message.get("body", b"")
    return part


class _patience:  # noqa: N801
    """A time limit whose end is told as a refusal."""

    def __init__(self, seconds: float) -> None:
        self._timeout = asyncio.timeout(seconds)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(self, *error: Any) -> None:
        try:
            await self._timeout.__aexit__(*error)
        except TimeoutError:
            raise Problem("bad-request", "the body did not come in time") from None


async def _answer(send: Any, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


@lru_cache(maxsize=1024)
def _all_accepted(count: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The messages of an answer that is most often given; servers do not change them."""
    body = statuses(["accepted"] * count)
    headers = [*JSON_HEADERS, (b"content-length", str(len(body)).encode())]
    return (
        {"type": "http.response.start", "status": 200, "headers": headers},
        {"type": "http.response.body", "body": body},
    )


def statuses(of_reports: list[str]) -> bytes:
    """What a sender is told of single reports."""
    return msgspec.json.encode({"reports": of_reports})
