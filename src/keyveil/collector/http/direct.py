"""Small uploads, straight from the parser to the writer.

A report that comes alone costs more in the machinery around it - a task, an event, four messages - than in
being read, counted and stored. So where nothing has to be waited for but the commit, the protocol itself
hands the upload to the writer, and the commit writes the answer. Whatever is unusual takes the ASGI route
(`intake`), which makes the same checks, and refuses in its own words:

    straight    POST of at most 64 KiB of frames, a campaign and a token that were met before, room for it
    by ASGI     everything else, refusals too

It builds on uvicorn's own protocol, which does what HTTP asks: pipelining, keep-alive, shutdown. What it uses
of it is no public interface: `find_difference` says whether the uvicorn that is installed is known to it.
"""

from __future__ import annotations

import asyncio
from functools import lru_cache
from http import HTTPStatus
from typing import Any, NamedTuple

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from keyveil.collector.http.intake import (
    FRUITLESS,
    FULL,
    JSON_HEADERS,
    Announced,
    Intake,
    statuses,
    without_frames,
)
from keyveil.collector.http.limits import Bystanders, Connections
from keyveil.collector.http.origins import Origins
from keyveil.collector.problems import Problem
from keyveil.collector.settings import Settings
from keyveil.collector.writing.upload import Upload

# The minor version of uvicorn that the tests have seen, and what is used of its protocol.
_SEEN = "0.54"
_METHODS = (
    "connection_made",
    "connection_lost",
    "data_received",
    "on_headers_complete",
    "on_body",
    "on_message_complete",
    "on_response_complete",
)
_FIELDS = (
    "client",
    "cycle",
    "expect_100_continue",
    "flow",
    "headers",
    "loop",
    "parser",
    "scope",
    "transport",
    "url",
)
_LARGEST = 1 << 16
# No client of ours sends a tenth of it.
_LARGEST_HEAD = 1 << 14


class _Admitted(NamedTuple):
    """An upload that was taken, by its header: the next one of a connection most often has the same."""

    url: bytes
    headers: list[tuple[bytes, bytes]]
    origin: str
    announced: Announced


class Direct(HttpToolsProtocol):
    """A connection; subclasses name the `intake` that uploads go to, and what all connections share."""

    intake: Intake
    settings: Settings
    others: Connections
    bystanders: Bystanders
    pending: type[PendingUpload]
    # Only where pages of other origins are let in.
    origins: Origins
    # A request's cycle, uvicorn's or ours.
    cycle: Any
    _last: _Admitted | None = None
    _address: str

    def on_headers_complete(self) -> None:
        """Take an upload here, or let an ASGI task be started for the request."""
        self._is_in_head, self._head_bytes = False, 0
        again = self._find_again()
        origin = self._find_origin() if again is None else again.origin
        if self._speaks_for_others:
            self.scope["client"] = (origin, 0)
        if self.parser.get_method() == b"POST":
            if not self.others.may_upload(self):
                self.scope["extensions"] = {FULL: {}}
            elif self._is_usual():
                announced = self._announced(origin, again)
                if announced is not None:
                    self.cycle = self.pending(self, announced)
                    return
        super().on_headers_complete()

    def _find_again(self) -> _Admitted | None:
        """The last upload, if its header said what this one says, which then is not read again."""
        last = self._last
        return last if last is not None and self.headers == last.headers and self.url == last.url else None

    def _announced(self, origin: str, again: _Admitted | None) -> Announced | None:
        """The upload that a header announces."""
        if again is not None:
            return again.announced if self.intake.admits_again(again.announced) else None
        announced = self.intake.admit_now(self.url, self.headers, origin, most=_LARGEST)
        self._last = None if announced is None else _Admitted(self.url, self.headers, origin, announced)
        return announced

    def _find_origin(self) -> str:
        """Who is connected, or for whom a server in front speaks, by the address that it added last."""
        if not self._speaks_for_others:
            return self._address
        said = [value for name, value in self.headers if name == b"x-forwarded-for"]
        return said[-1].rpartition(b",")[2].strip().decode("latin-1")[:64] if said else self._address

    # --- connections ---

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody is there, and has so long to say what they want."""
        super().connection_made(transport)
        self._head_bytes, self._is_in_head, self._ended = 0, True, False
        self._deadline: asyncio.TimerHandle | None = None
        self._address = self.client[0] if self.client else ""
        self._speaks_for_others = self._address in self.settings.proxies
        if not self.others.add(self._address, self):
            self._cut_off(self.intake.no_room())
            return
        self._expect_header()
        self._rest()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self._expect_nothing()
        self.others.remove(self._address, self)
        super().connection_lost(exc)

    @property
    def is_answered(self) -> bool:
        """Whether a request is whole, and its answer on its way."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return False
        return cycle.is_whole if isinstance(cycle, PendingUpload) else not cycle.more_body

    def abort(self) -> None:
        """Hang up."""
        self.transport.abort()

    # --- headers ---

    def _expect_header(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.settings.patience, self._give_up)

    def _expect_nothing(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._cut_off(Problem("bad-request", "the header did not come in time"))

    def _cut_off(self, problem: Problem) -> None:
        """A header that is too long, or does not come."""
        if not self.transport.is_closing():
            self.bystanders.note(self._address)
            headers, body = self.intake.refusal(problem)
            self.transport.write(_message(problem.status, [*headers, (b"connection", b"close")], body))
            self.transport.close()

    def _look_at_header(self, size: int) -> None:
        """After so many bytes more: whether a header is under way, and how long it is by now."""
        # What came behind the end of a body is not worth counting apart.
        if self._ended or not self._is_in_head:
            self._head_bytes = 0
            self._expect_nothing()
            return
        self._head_bytes += size
        self._expect_header()
        if self._head_bytes > _LARGEST_HEAD:
            self._cut_off(Problem("header-too-large"))

    # --- answers ---

    def on_response_complete(self) -> None:
        """An answer is sent; who asks too often and brings nothing is not listened to for a while."""
        # A server in front speaks for others on the same connection.
        brought_nothing = FRUITLESS in self.scope and self.scope["client"] == self.client
        super().on_response_complete()
        if brought_nothing:
            self.bystanders.note(self._address)
            self._rest()

    def _rest(self) -> None:
        pause = self.bystanders.pause(self._address)
        if pause and not self.transport.is_closing():
            self.flow.pause_reading()
            self.loop.call_later(pause, self.flow.resume_reading)

    # --- uploads ---

    def _is_usual(self) -> bool:
        is_free = self.cycle is None or self.cycle.response_complete
        is_plain = not self.expect_100_continue and not self.parser.should_upgrade()
        return is_free and is_plain and self.parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        """A piece of a body."""
        if isinstance(self.cycle, PendingUpload):
            self.cycle.add(body)
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """The end of a body."""
        self._is_in_head = self._ended = True
        if isinstance(self.cycle, PendingUpload):
            self.cycle.put()
        else:
            super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        """Some bytes; a body that is not whole by then has so long to come."""
        self._ended = False
        self.others.hear(self._address, self)
        super().data_received(data)
        self._look_at_header(len(data))
        if isinstance(self.cycle, PendingUpload) and not self.cycle.is_whole:
            self.cycle.be_patient()


class PendingUpload:
    """An upload between its header and its answer: to uvicorn a request's cycle, to the writer a future."""

    __slots__ = (
        "_announced",
        "_parts",
        "_protocol",
        "_taken",
        "_timer",
        "disconnected",
        "is_whole",
        "keep_alive",
        "response_complete",
    )

    def __init__(self, protocol: Direct, announced: Announced) -> None:
        self._parts: list[bytes] = []
        self._protocol, self._announced = protocol, announced
        self._timer: asyncio.TimerHandle | None = None
        self.is_whole = False
        self._taken = 0
        # What uvicorn asks a cycle for.
        self.response_complete = self.disconnected = False
        self.keep_alive = True

    @property
    def message_event(self) -> PendingUpload:
        """Whom uvicorn wakes when the connection is lost."""
        return self

    # --- reading ---

    def add(self, part: bytes) -> None:
        """A piece of the body; without room for it there is no upload."""
        if self.response_complete:
            return
        try:
            self._protocol.intake.take(self._announced.sender, len(part))
        except Problem as problem:
            self.keep_alive = False
            self._refuse(without_frames(problem))
            return
        self._taken += len(part)
        self._parts.append(part)

    def be_patient(self) -> None:
        """Wait for the rest of the body, for a while."""
        if not self.response_complete and self._timer is None:
            patience = self._protocol.settings.patience
            self._timer = self._protocol.loop.call_later(patience, self._give_up)

    def put(self) -> None:
        """Hand the whole body to the writer."""
        self.is_whole = True
        if self._timer is not None:
            self._timer.cancel()
        if self.response_complete:
            return
        try:
            body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            self._parts.clear()
            self._protocol.intake.put(body, self._announced, self)
        except Problem as problem:
            self._refuse(without_frames(problem))

    def _give(self) -> None:
        self._protocol.intake.give(self._announced.sender, self._taken)
        self._taken = 0
        self._parts.clear()

    def _give_up(self) -> None:
        if not self.disconnected and not self.is_whole:
            self.keep_alive = False
            self._refuse(Problem("bad-request", "the body did not come in time"))

    def set(self) -> None:
        """The connection is lost (uvicorn wakes who waits for a message)."""
        if self._timer is not None:
            self._timer.cancel()
        if not self.is_whole:
            self._give()
        self.is_whole = True

    # --- answering ---

    def done(self) -> bool:
        """Whether an answer is no longer waited for; the room is given back in any case."""
        return False

    def set_result(self, upload: Upload) -> None:
        """The writer is through with the upload."""
        if upload.problem is not None:
            self._refuse(upload.problem)
        elif upload.statuses is None:
            self._answer(_all_accepted(upload.n_reports))
        else:
            self._answer(_message(200, JSON_HEADERS, statuses(upload.statuses)))

    def _refuse(self, problem: Problem) -> None:
        self._protocol.scope[FRUITLESS] = True  # type: ignore[literal-required]
        headers, body = self._protocol.intake.refusal(problem)
        if not self.keep_alive:
            headers = [*headers, (b"connection", b"close")]
        self._answer(_message(problem.status, headers, body))

    def _answer(self, message: bytes) -> None:
        self._give()
        self.response_complete = True
        transport = self._protocol.transport
        if self.disconnected or transport.is_closing():
            return
        transport.write(message)
        if not self.keep_alive:
            transport.close()
        self._protocol.on_response_complete()


class PageUpload(PendingUpload):
    """An upload where pages of other origins may send: their browsers read who may see the answer."""

    __slots__ = ("_added",)

    def __init__(self, protocol: Direct, announced: Announced) -> None:
        super().__init__(protocol, announced)
        self._added = protocol.origins.headers(protocol.headers)

    def _answer(self, message: bytes) -> None:
        line, end, rest = message.partition(b"\r\n")
        added = b"".join(b"%b: %b\r\n" % header for header in self._added)
        super()._answer(b"".join((line, end, added, rest)))


def find_difference() -> str:
    """How the uvicorn that is installed differs from what this module builds on; empty if it does not.

    >>> find_difference()
    ''
    """
    if uvicorn.__version__.rpartition(".")[0] != _SEEN:
        return f"uvicorn {uvicorn.__version__} is installed, {_SEEN} is known"
    made = (HttpToolsProtocol.__init__, getattr(HttpToolsProtocol, "on_message_begin", None))
    fields = {name for method in made if method is not None for name in method.__code__.co_names}
    missing = [name for name in _METHODS if not hasattr(HttpToolsProtocol, name)]
    missing += [name for name in _FIELDS if name not in fields]
    return f"uvicorn's protocol lacks {', '.join(missing)}" if missing else ""


def direct_protocol(intake: Intake, connections: Connections, settings: Settings) -> type[Direct]:
    """The protocol class of one collector."""
    shared = {"intake": intake, "settings": settings, "others": connections, "bystanders": Bystanders()}
    for_pages = {"origins": Origins(settings.origins), "pending": PageUpload}
    return type("Direct", (Direct,), shared | (for_pages if settings.origins else {"pending": PendingUpload}))


def _message(status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> bytes:
    lines = [b"HTTP/1.1 %d %b" % (status, HTTPStatus(status).phrase.encode())]
    lines += [b"%b: %b" % header for header in [*headers, (b"content-length", b"%d" % len(body))]]
    return b"\r\n".join([*lines, b"", body])


@lru_cache(maxsize=1024)
def _all_accepted(count: int) -> bytes:
    return _message(200, JSON_HEADERS, statuses(["accepted"] * count))
