"""Over the network: a batch of reports in one POST, a campaign in one GET.

https is required, except towards this machine itself. Redirects are not followed: they could lead
away from https. A body is a batch of frames (`report.frames`). The collector answers with one status a
report, in order; a report with any status is settled and never sent again, so the collector's word is
final.

    {"reports": ["accepted", "duplicate", "wrong-round"]}
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import queue
import re
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from keyveil.campaign import Campaign
from keyveil.errors import DescriptionError, TransportError
from keyveil.report import REPORT_ID_BYTES, to_frames
from keyveil.rounds import Round

CONTENT_TYPE = "application/octet-stream"
ACCEPTED = ("accepted", "duplicate")

# What a collector says at most: of a campaign and its open round, or of the reports and ids it is asked for.
_LARGEST_CAMPAIGN, _LARGEST_ANSWER, _BYTES_EACH = 3 << 20, 64 << 10, 64
_TOKEN = re.compile(r"[\x21-\x7e]+")
# A batch with one of these answers will never be taken; any other answer may be a matter of time.
_TOO_LARGE = 413
_FINAL = (400, 410, _TOO_LARGE, 415, 422)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """What came back: the status line's number, the wait that was asked for, the body."""

    status: int
    body: bytes = b""
    retry_after: float | None = None


# Sends a body (or asks, without one): in so many seconds, an answer of at most so many bytes. Raises
# TransportError where none came.
Exchange = Callable[[str, bytes | None, float, int], HttpAnswer]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class _CuttableConnection:
    """The way to the other side, which whoever waits can cut at any moment: while it is made, and after."""

    def __init__(self, timeout: float) -> None:
        self._ends = time.monotonic() + timeout
        self._sockets: list[socket.socket] = []
        self._is_cut = False

    def connect(self, address: tuple[str, int], *_: Any) -> socket.socket:
        """The first of an address's places that takes a connection, all of them within the time."""
        failed: OSError = TimeoutError("timed out")
        for family, kind, protocol, _name, place in socket.getaddrinfo(*address, type=socket.SOCK_STREAM):
            left = self._ends - time.monotonic()
            if self._is_cut or left <= 0:
                break
            made = socket.socket(family, kind, protocol)
            try:
                made.settimeout(left)
                made.connect(place)
            except OSError as error:
                made.close()
                failed = error
            else:
                self._note(made)
                return made
        raise failed

    def _note(self, made: socket.socket) -> None:
        # A copy: TLS takes the socket itself away, and shutting one down ends both.
        self._sockets.append(made.dup())
        if self._is_cut:
            self.cut()

    def cut(self) -> None:
        """End whatever is under way, and whatever would begin."""
        self._is_cut = True
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Give the copies back."""
        for each in self._sockets:
            each.close()

    def through(self, kind: type[http.client.HTTPConnection]) -> Any:
        """A class of connections that are made here."""

        def make(*arguments: Any, **options: Any) -> http.client.HTTPConnection:
            connection = kind(*arguments, **options)
            connection._create_connection = self.connect  # type: ignore[attr-defined]
            return connection

        return make


class _Http(urllib.request.HTTPHandler):
    def __init__(self, line: _CuttableConnection) -> None:
        super().__init__()
        self._line = line

    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._line.through(http.client.HTTPConnection), request)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, line: _CuttableConnection) -> None:
        super().__init__(context=ssl.create_default_context())
        self._line = line

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        kind = self._line.through(http.client.HTTPSConnection)
        return self.do_open(kind, request, context=self._context)  # type: ignore[attr-defined]


def exchange(
    url: str,
    body: bytes | None,
    timeout: float,
    largest: int = _LARGEST_CAMPAIGN,
    *,
    token: str | None = None,
) -> HttpAnswer:
    """One request by the standard library, over in `timeout` seconds whatever the other side does.

    A collector that drips an answer byte by byte keeps every single read short, so the request has a thread
    of its own, and the one who waits cuts it off. Certificates are checked as the system says.
    """
    request = urllib.request.Request(checked(url), data=body)  # noqa: S310
    if body is not None:
        request.add_header("Content-Type", CONTENT_TYPE)
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    line, outcome = _CuttableConnection(timeout), queue.SimpleQueue[HttpAnswer | TransportError]()
    host, work = urlsplit(url).netloc, partial(_ask, request, line, timeout, largest)
    try:
        threading.Thread(target=lambda: outcome.put(work()), name="keyveil-request", daemon=True).start()
        answer = outcome.get(timeout=max(timeout, 0.0))
    except queue.Empty:
        line.cut()
        raise TransportError(f"no answer from {host} in {timeout:.3g} s") from None
    except RuntimeError:
        raise TransportError(f"nobody was left to ask {host}: the application is ending") from None
    if isinstance(answer, TransportError):
        raise answer
    return answer


def _ask(
    request: urllib.request.Request, line: _CuttableConnection, timeout: float, largest: int
) -> HttpAnswer | TransportError:
    """What a request led to; raises nothing, because nobody is there to catch it."""
    host = urlsplit(request.full_url).netloc
    try:
        opener = urllib.request.build_opener(_NoRedirects, _Http(line), _Https(line))
        with opener.open(request, timeout=timeout) as response:
            body = response.read(largest + 1)
            # Longer than all there could be to say: as good as nothing.
            return HttpAnswer(status=response.status, body=body if len(body) <= largest else b"")
    except urllib.error.HTTPError as error:
        with error:
            return HttpAnswer(status=error.code, retry_after=seconds_asked(error.headers.get("Retry-After")))
    except Exception as error:
        why = getattr(error, "reason", None) or error
        return TransportError(f"no answer from {host}: {why}")
    finally:
        line.close()


def is_token(text: str) -> bool:
    """Whether a text can travel as a token."""
    return _TOKEN.fullmatch(text) is not None


def with_token(token: str | None) -> Exchange:
    """The same, for a campaign whose devices need a token."""
    return partial(exchange, token=token)


def checked(url: str) -> str:
    """The address, if it may be talked to.

    >>> checked("http://127.0.0.1:8000/v1")
    'http://127.0.0.1:8000/v1'
    >>> checked("http://example.org")
    Traceback (most recent call last):
        ...
    keyveil.errors.TransportError: https is required to reach example.org; http only reaches this machine
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        raise TransportError(
            "expected the address of a collector, https://..., got none", code="no-collector"
        ) from None
    if not parts.scheme or (parts.scheme in ("http", "https") and not host):
        raise TransportError(
            f"expected the address of a collector, https://..., got {url[:80]!r}", code="no-collector"
        )
    if parts.scheme != "https" and not (parts.scheme == "http" and host and _is_loopback(host)):
        raise TransportError(
            f"https is required to reach {host}; http only reaches this machine", code="https-required"
        )
    return url


def send(url: str, reports: Sequence[bytes], *, timeout: float, exchange: Exchange = exchange) -> list[bool]:
    """Whether each report counts; raises where the collector must be asked again later, or time is over."""
    ends = time.monotonic() + timeout
    answer = exchange(url, to_frames(reports), timeout, _LARGEST_ANSWER + _BYTES_EACH * len(reports))
    if 200 <= answer.status < 300:
        return _statuses(answer.body, len(reports))
    if answer.status == _TOO_LARGE and len(reports) > 1:
        half = len(reports) // 2
        first, second = (
            send(url, part, timeout=ends - time.monotonic(), exchange=exchange)
            for part in (reports[:half], reports[half:])
        )
        return first + second
    if answer.status in _FINAL:
        return [False] * len(reports)
    raise TransportError(
        f"{urlsplit(url).netloc} answered {answer.status}; the reports wait",
        code=_refused_token(answer),
        retry_after=answer.retry_after,
    )


def _refused_token(answer: HttpAnswer) -> str | None:
    return "token-refused" if answer.status in (401, 403) else None


class Fetched(NamedTuple):
    """A campaign, its open round if there is one, and whether its collector hands out the ids of reports."""

    campaign: Campaign
    round: Round | None
    ids_are_issued: bool


def fetch_campaign(url: str, *, timeout: float = 10.0, exchange: Exchange = exchange) -> Campaign:
    """The campaign at an address that ends with its id; one with another hash is refused."""
    return fetch_round(url, timeout=timeout, exchange=exchange).campaign


def fetch_round(url: str, *, timeout: float = 10.0, exchange: Exchange = exchange) -> Fetched:
    """The campaign at an address that ends with its id, and its open round, if there is one.

    The collector answers with the campaign's text under `campaign`, and under `round` the round, which names
    the campaign by its id; what does not have the hash in the address is refused.
    """
    _, wanted = split_address(url)
    answer = exchange(url, None, timeout, _LARGEST_CAMPAIGN)
    if answer.status != 200:
        raise TransportError(
            f"expected a campaign from {urlsplit(url).netloc}, got status {answer.status}",
            code=_refused_token(answer),
            retry_after=answer.retry_after,
        )
    try:
        view = json.loads(answer.body)
        text, description, ids = view["campaign"], view.get("round"), view.get("ids")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DescriptionError(f"what {urlsplit(url).netloc} sent is no campaign") from None
    campaign = Campaign.from_text(text)
    if campaign.id != wanted:
        raise DescriptionError(
            f"expected campaign {wanted[:12]}, got one whose hash is {campaign.id[:12]}; do not answer it",
            code="other-campaign",
        )
    round = None if description is None else campaign.read_round(description)
    return Fetched(campaign, round, campaign.issues_ids or ids == "issued")


def fetch_ids(
    url: str, count: int, nonce: bytes | None = None, *, timeout: float = 10.0, exchange: Exchange = exchange
) -> list[bytes]:
    """Ids for reports, from the campaign at an address that issues them; a nonce's are always the same.

    A campaign whose text does not say that it issues ids, as older collectors had them, is asked without one.
    """
    asking = f"{url.rstrip('/')}/ids?count={count}" + ("" if nonce is None else f"&nonce={nonce.hex()}")
    try:
        answer = exchange(asking, b"", timeout, _LARGEST_ANSWER + _BYTES_EACH * count)
    except TransportError as error:
        # Nothing waits, for nothing was made.
        error.code = "no-id" if error.code == TransportError.code else error.code
        raise
    if answer.status != 200:
        raise TransportError(
            f"expected ids from {urlsplit(url).netloc}, got status {answer.status}",
            code="no-id",
            retry_after=answer.retry_after,
        )
    try:
        ids = [bytes.fromhex(name) for name in json.loads(answer.body)["ids"]]
        if len(set(ids)) != count or len(ids) != count or {len(name) for name in ids} != {REPORT_ID_BYTES}:
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise TransportError(
            f"expected {count} different ids of {REPORT_ID_BYTES} bytes", code="no-id"
        ) from None
    return ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """Where a `Reporter` gets its ids from, if the campaign issues them: asked for one by one, as needed."""

    url: str
    exchange: Exchange
    timeout: float = 10.0

    def __call__(self, nonce: bytes | None = None) -> bytes:
        """The id for a nonce; any where there is none."""
        return fetch_ids(self.url, 1, nonce, timeout=self.timeout, exchange=self.exchange)[0]


def issued_ids(url: str, *, token: str | None = None, timeout: float = 10.0) -> Issuer:
    """Where a `Reporter` gets its ids from, if the campaign issues them: asked for one by one, as needed."""
    return Issuer(url=url, exchange=with_token(token), timeout=timeout)


def split_address(url: str) -> tuple[str, str]:
    """A campaign's address as the collector's own and the campaign's id.

    >>> split_address("https://example.org/v1/campaigns/0f3a")
    ('https://example.org', '0f3a')
    """
    base, found, campaign = checked(url).rstrip("/").rpartition("/v1/campaigns/")
    if not found or not campaign or "/" in campaign:
        raise TransportError(f"expected https://HOST/v1/campaigns/ID, got {url[:80]!r}", code="no-collector")
    return base, campaign


def seconds_asked(header: str | None) -> float | None:
    """The wait that a Retry-After header asks for, in seconds or as a date; None where it is unreadable.

    >>> seconds_asked("120"), seconds_asked("soon"), seconds_asked("Thu, 01 Jan 1970 00:00:00 GMT")
    (120.0, None, 0.0)
    """
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        date = parsedate_to_datetime(text)
        if date.tzinfo is None:
            date = date.replace(tzinfo=UTC)
        return max(0.0, (date - datetime.now(UTC)).total_seconds())
    except (ValueError, OverflowError):
        return None


def _statuses(body: bytes, expected: int) -> list[bool]:
    try:
        statuses = json.loads(body)["reports"]
        if not isinstance(statuses, list) or len(statuses) != expected or set(map(type, statuses)) != {str}:
            raise ValueError
        return [status in ACCEPTED for status in statuses]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise TransportError(f"expected one status for each of {expected} reports, got none") from None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
