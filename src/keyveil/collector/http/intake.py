"""Uploads: by ASGI for every one, without waiting for the usual ones (`direct`).

What reports to a collector and sealed reports to a relay share is `Intake`; `ReportIntake` is a collector's.

The order matters. Who sends, whether there is room and how large the body claims to be are settled
before a byte of it is read. Room is charged to the sender for what has come, not for what was announced:
silence takes nothing from others. What is long to take apart is not taken apart on the event loop, nor
two bodies of a sender at once. The answer waits for the commit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, TypeVar
from weakref import WeakValueDictionary

import msgspec
from starlette.requests import ClientDisconnect, Request

from keyveil.campaign import REQUIRED
from keyveil.collector.campaigns.cache import StoredCampaign
from keyveil.collector.campaigns.collector import Collector
from keyveil.collector.campaigns.host import Host
from keyveil.collector.http.limits import Budget, Rates
from keyveil.collector.problems import ROUND_CLOSED, Problem
from keyveil.collector.tokens import Credential, Role, bearer, is_repeated
from keyveil.collector.writing.batches import open_batch
from keyveil.collector.writing.fair_queue import Sender
from keyveil.collector.writing.upload import (
    FRAMED,
    JSON,
    Batch,
    Upload,
    expand,
    expanded_size,
    read_uniform,
    read_upload,
)
from keyveil.collector.writing.writer import Writer
from keyveil.errors import StoreError

T = TypeVar("T")
PREFIX = "/v1/campaigns/"
# What a server says of a request on a connection that has a spare place; and what it hears of one that was
# refused, or answered to somebody without a token: it cost something, and brought nothing.
FULL, FRUITLESS = "keyveil.full", "keyveil.fruitless"
_ID_LENGTH = 64
_PREFIX = PREFIX.encode()
_FRAMED, _JSON = FRAMED.encode(), JSON.encode()
JSON_HEADERS = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
# An unread body up to this is let pass, so that the sender keeps its connection; beyond it is closed.
_DRAINED = 1 << 18
# Seconds after which a sender asks again what the time is.
_DOUBT = 60.0
# Bytes that are taken apart on the event loop: frames that are all alike, any others.
_SHORT_UNIFORM, _SHORT = 1 << 18, 1 << 13
# How many times as long as it worked the thread that takes the others apart rests.
_REST = 4.0


class Announced(NamedTuple):
    """An upload whose header is in order."""

    known: StoredCampaign
    credential: Credential | None
    sender: Sender
    named: dict[str, Any]
    """What the upload is read with."""


class Intake:
    """POST /v1/campaigns/{id}/..., by whoever has something to send."""

    suffix: ClassVar[str]
    """How the address ends."""

    def __init__(self, host: Host, writer: Writer, rates: Rates, executor: Executor) -> None:
        self._host, self._writer, self._rates, self._executor = host, writer, rates, executor
        self._settings = host.settings
        self._suffix = self.suffix.encode()
        self._url_length = len(PREFIX) + _ID_LENGTH + len(self.suffix)
        self._budget = Budget(self._settings.waiting_bytes)
        # A body that cannot be taken for want of room, even alone, is too large.
        self._largest = min(self._settings.largest_body, self._settings.waiting_bytes // 2)
        self._decoder = ThreadPoolExecutor(1, thread_name_prefix="keyveil-decoder")
        self._turns: WeakValueDictionary[Sender, asyncio.Lock] = WeakValueDictionary()
        host.metrics.gauges["keyveil_waiting_bytes"] = (
            "Bytes of uploads in memory.",
            lambda: self._budget.taken,
        )

    # --- what kinds of uploads differ in ---

    def check_route(self, known: StoredCampaign) -> None:
        """Refuse a campaign whose uploads go elsewhere."""
        raise NotImplementedError

    def read_upload(self, body: bytes, kind: str, **named: Any) -> Upload:
        """The upload in a body; one that cannot be taken apart is refused as a whole."""
        raise NotImplementedError

    def read_uniform(self, body: bytes, **named: Any) -> Upload | None:
        """The upload in a body of equal frames, which is soon read; None where it must be taken apart."""
        raise NotImplementedError

    # --- by ASGI ---

    def is_upload(self, method: str, path: str) -> bool:
        """Whether a request is for here."""
        is_ours = path.startswith(PREFIX) and path.endswith(self.suffix)
        return method == "POST" and len(path) == self._url_length and is_ours

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One upload."""
        headers = dict(scope["headers"])
        room = _Room(self, _address(scope))
        try:
            upload = await self._read(scope, headers, receive, room)
            await self._writer.put(room.sender, upload)
            if upload.problem is not None:
                raise upload.problem
        except (Problem, StoreError) as error:
            problem = error if isinstance(error, Problem) else unavailable(error, self._settings.retry_after)
            await self._refuse(without_frames(problem), headers, send)
            return
        except Disconnected:
            return
        finally:
            room.give()
        if upload.statuses is None:
            for message in _all_accepted(upload.n_reports):
                await send(message)
        else:
            await _answer(send, 200, JSON_HEADERS, statuses(upload.statuses))

    def close(self) -> None:
        """Take nothing more apart."""
        self._decoder.shutdown()

    # --- without waiting ---

    def admit_now(
        self, url: bytes, headers: Sequence[tuple[bytes, bytes]], address: str, *, most: int
    ) -> Announced | None:
        """A usual upload whose header is all in order; None for any other."""
        if not (len(url) == self._url_length and url.startswith(_PREFIX) and url.endswith(self._suffix)):
            return None
        said = dict(headers)
        if is_repeated(headers):
            return None
        known = self._host.find(url[len(_PREFIX) : -len(self._suffix)].decode("latin-1"))
        size = said.get(b"content-length", b"")
        if known is None or b"content-encoding" in said or not size.isdigit() or not 0 < int(size) <= most:
            return None
        credential = None
        if b"authorization" in said:
            credential = self._host.access.cached(bearer(said[b"authorization"]))
            if credential is None:
                return None
        try:
            if self._admit(known, credential, said) != FRAMED:
                return None
        except Problem:
            return None
        self._reserve(credential)
        sender = Sender(address, None if credential is None else credential.id)
        return Announced(known, credential, sender, self.named(known, credential))

    def admits_again(self, announced: Announced) -> bool:
        """Whether an upload with the header of one that was admitted is admitted too."""
        known, credential, _, _ = announced
        if self._host.find(known.id) is not known:
            return False
        if credential is not None and not self._host.access.is_cached(credential):
            return False
        try:
            # What its role and scope are was checked then, and does not change.
            if credential is not None:
                self._rates.check(credential)
            self._check_time(known)
            self._check_room()
        except Problem:
            return False
        self._reserve(credential)
        return True

    def put(self, body: bytes, announced: Announced, done: Any) -> None:
        """Queue the upload in a body; `done.set_result(upload)` tells when it is written."""
        upload = self.read_upload(body, FRAMED, **announced.named)
        self._charge(announced.credential, upload)
        self._writer.put(announced.sender, upload, done)

    def take(self, sender: Sender, size: int) -> None:
        """Room for bytes that have come, or a refusal."""
        if not self._budget.take(sender, size):
            raise self.no_room()

    def no_room(self) -> Problem:
        """What is said to whom there is no room for, now."""
        return Problem("overloaded", retry_after=self._settings.retry_after)

    def give(self, sender: Sender, size: int) -> None:
        """The room of an upload that was answered."""
        self._budget.give(sender, size)

    def refusal(self, problem: Problem) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """Headers and body of a refusal, which is counted."""
        self._host.count_refusal(problem.code)
        return problem.headers(), problem.body()

    # --- with waiting ---

    async def _read(self, scope: Any, headers: dict[bytes, bytes], receive: Any, room: _Room) -> Upload:
        """The upload, which holds some room."""
        if FULL in scope.get("extensions", ()):
            raise self.no_room()
        if is_repeated(scope["headers"]):
            raise Problem("bad-request", "expected one Authorization header, got more")
        if b"upgrade" in headers:
            # The parser reads no body behind it.
            raise Problem("bad-request", "reports are sent over HTTP/1.1; leave Upgrade out")
        campaign = scope["path"][len(PREFIX) : -len(self.suffix)]
        # What was met before is found without leaving this thread.
        known = self._host.find(campaign)
        if known is None:
            known = await self._work(self._host.known, campaign)
        credential = None
        if b"authorization" in headers:
            token, access = bearer(headers[b"authorization"]), self._host.access
            credential = access.cached(token) or await self._work(access.recognise, token)
            if credential is None:
                raise Problem("unknown-token")
        if scope["query_string"]:
            raise Problem("bad-request", "this request has no query parameters")
        kind = self._admit(known, credential, headers)
        self._reserve(credential)
        is_packed = _is_packed(headers)
        if credential is not None:
            room.sender = Sender(room.sender.address, credential.id)
        body = await self._body(headers, receive, self._largest_of(kind), room)
        upload = await self._taken_apart(body, kind, self.named(known, credential), is_packed, room)
        self._charge(credential, upload)
        return upload

    async def _taken_apart(
        self, body: bytes, kind: str, named: dict[str, Any], is_packed: bool, room: _Room
    ) -> Upload:
        if is_packed:
            largest = self._largest_of(kind)
            room.take(expanded_size(body, largest=largest))
            return await self._in_turn(
                room.sender, lambda: self.read_upload(expand(body, largest=largest), kind, **named)
            )
        if kind == FRAMED and len(body) <= _SHORT_UNIFORM:
            uniform = self.read_uniform(body, **named)
            if uniform is not None:
                return uniform
        if len(body) <= _SHORT:
            return self.read_upload(body, kind, **named)
        return await self._in_turn(room.sender, lambda: self.read_upload(body, kind, **named))

    async def _in_turn(self, sender: Sender, read: Callable[[], Upload]) -> Upload:
        """Take a body apart away from the event loop, one of a sender at a time."""
        turn = self._turn(sender)
        async with turn:
            return await self._apart(read)

    def _turn(self, sender: Sender) -> asyncio.Lock:
        turn = self._turns.get(sender)
        if turn is None:
            turn = self._turns[sender] = asyncio.Lock()
        return turn

    async def _apart(self, read: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._decoder, self._considerately, read)

    def _considerately(self, read: Callable[[], T]) -> T:
        """Take a body apart, then rest if others wait: it holds the interpreter's lock, which all need."""
        started = time.perf_counter()
        try:
            return read()
        finally:
            if self._writer.are_small_expected:
                time.sleep(_REST * (time.perf_counter() - started))

    def _reserve(self, credential: Credential | None) -> None:
        """One report at least will come."""
        if credential is not None:
            self._rates.spend(credential, 1)

    def _charge(self, credential: Credential | None, upload: Upload) -> None:
        if credential is not None:
            self._rates.charge(credential, upload.n_reports)

    def _admit(
        self, known: StoredCampaign, credential: Credential | None, headers: dict[bytes, bytes]
    ) -> str:
        """The kind of body that follows, or a refusal before it is read."""
        if credential is not None:
            self._check(credential, known)
        elif known.terms.uploads != "open":
            raise Problem("no-token")
        self.check_route(known)
        self._check_time(known)
        kind = headers.get(b"content-type", _FRAMED)
        if kind != _FRAMED:
            kind = kind.partition(b";")[0].strip().lower()
            if kind not in (_FRAMED, _JSON):
                raise Problem("unsupported-type", f"expected {FRAMED} or {JSON}")
        self._check_room()
        return FRAMED if kind == _FRAMED else JSON

    def _check_time(self, known: StoredCampaign) -> None:
        if self._host.clock.latest() >= known.ends:
            if self._host.clock.earliest() >= known.ends:
                raise Problem("campaign-expired")
            raise Problem("clock-in-doubt", retry_after=_DOUBT)

    def _check_room(self) -> None:
        if self._writer.is_full:
            raise self.no_room()

    async def _work(self, call: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call, *args)

    def named(self, known: StoredCampaign, credential: Credential | None) -> dict[str, Any]:
        """What an upload is read with."""
        return {
            "tag": known.tag,
            "campaign": known.id,
            "token": None if credential is None else credential.id,
            "most": self._settings.most_reports,
        }

    def _largest_of(self, kind: str) -> int:
        return self._largest if kind == FRAMED else min(self._largest, self._settings.largest_json)

    def _check(self, credential: Credential, known: StoredCampaign) -> None:
        if credential.role is not Role.DEVICE:
            raise Problem("forbidden", "reports are sent with a device's token")
        if not credential.covers(known.id, known.series):
            raise Problem("other-campaign")
        self._rates.check(credential)

    async def _body(self, headers: dict[bytes, bytes], receive: Any, largest: int, room: _Room) -> bytes:
        claimed = headers.get(b"content-length")
        if claimed is not None:
            size = int(claimed) if claimed.isdigit() else largest + 1
            if size > largest:
                raise Problem("too-large", f"expected at most {largest} bytes")
        else:
            largest = min(largest, self._settings.largest_unannounced)
        async with _patience(self._settings.patience):
            parts, size = [], 0
            while True:
                message = await receive()
                part = _part(message)
                size += len(part)
                if size > largest:
                    hint = "" if claimed is not None else " without Content-Length"
                    raise Problem("too-large", f"expected at most {largest} bytes{hint}")
                room.take(len(part))
                parts.append(part)
                if not message.get("more_body", False):
                    break
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _refuse(self, problem: Problem, headers: dict[bytes, bytes], send: Any) -> None:
        said, body = self.refusal(problem)
        length = headers.get(b"content-length", b"")
        if not length.isdigit() or int(length) > _DRAINED:
            said.append((b"connection", b"close"))
        await _answer(send, problem.status, said, body)


class ReportIntake(Intake):
    """POST /v1/campaigns/{id}/reports, and what relays bring."""

    suffix = "/reports"

    def __init__(self, host: Collector, writer: Writer, rates: Rates, executor: Executor) -> None:
        super().__init__(host, writer, rates, executor)
        self._collector = host

    def check_route(self, known: StoredCampaign) -> None:
        """Refuse what only comes through a relay."""
        if known.campaign.relay == REQUIRED:
            raise Problem("relay-required")

    def read_upload(self, body: bytes, kind: str, **named: Any) -> Upload:
        """The upload in a body; one that cannot be taken apart is refused as a whole."""
        return read_upload(body, kind, **named)

    def read_uniform(self, body: bytes, **named: Any) -> Upload | None:
        """The upload in a body of equal frames, which is soon read; None where it must be taken apart."""
        return read_uniform(body, **named)

    async def take_batch(self, request: Request, credential: Credential, campaign: str, batch: Batch) -> None:
        """Part of a batch is counted, or refused whole; what became of single reports is not said."""
        known = await self._work(self._collector.known, campaign)
        headers = dict(request.scope["headers"])
        if not known.campaign.is_relayed:
            raise Problem("not-relayed")
        if headers.get(b"content-type", _FRAMED) != _FRAMED or _is_packed(headers):
            raise Problem("unsupported-type", f"expected {FRAMED}")
        self._check_time(known)
        self._check_room()
        room = _Room(self, _address(request.scope))
        room.sender = Sender(room.sender.address, credential.id)
        try:
            body = await self._body(headers, request.receive, self._largest, room)
            named = self.named(known, credential)
            turn = self._turn(room.sender)
            async with turn:
                opened = await self._apart(
                    lambda: open_batch(body, batch, keys=self._collector.opening.find, **named)
                )
            self._collector.metrics.count_sealed(opened.upload.n_reports, opened.refused)
            self._charge(credential, opened.upload)
            await self._writer.put(room.sender, opened.upload)
            if opened.upload.problem is not None:
                raise without_frames(opened.upload.problem)
            if ROUND_CLOSED in (opened.upload.statuses or ()):
                raise Problem("round-closed")
        except Disconnected:
            raise ClientDisconnect from None
        finally:
            room.give()


def without_frames(problem: Problem) -> Problem:
    """A refusal without its traceback: the frames hold the body and the refusal, a reference cycle."""
    problem.__context__ = problem.__cause__ = None
    return problem.with_traceback(None)


class _Room:
    """What an upload holds of the room for all."""

    def __init__(self, intake: Intake, address: str) -> None:
        self.sender = Sender(address, None)
        self._intake, self._taken = intake, 0

    def take(self, size: int) -> None:
        """Some more, or a refusal."""
        self._intake.take(self.sender, size)
        self._taken += size

    def give(self) -> None:
        """All of it."""
        self._intake.give(self.sender, self._taken)


def _address(scope: Any) -> str:
    return scope["client"][0] if scope.get("client") else ""


def _is_packed(headers: dict[bytes, bytes]) -> bool:
    coding = headers.get(b"content-encoding", b"identity").strip().lower()
    if coding not in (b"identity", b"gzip"):
        raise Problem("unsupported-type", "expected Content-Encoding: gzip, or none")
    return coding == b"gzip"


class Disconnected(Exception):
    """The sender went away in the middle of a body."""


def unavailable(error: StoreError, retry_after: float) -> Problem:
    """What a sender hears of a store that failed."""
    code = "campaign-damaged" if error.damaged else "store-unavailable"
    return Problem(code, str(error), retry_after=retry_after)


def _part(message: Any) -> bytes:
    if message["type"] == "http.disconnect":
        raise Disconnected
    part: bytes = message.get("body", b"")
    return part


class _patience:  # noqa: N801
    """A time limit whose end is a refusal."""

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
    """What a sender hears of single reports."""
    return msgspec.json.encode({"reports": of_reports})
