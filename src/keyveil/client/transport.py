"""Over the network: a batch of reports in one POST, a campaign in one GET.

https is required, except towards this machine itself. Redirects are not followed: they could lead
away from https. A body is a batch of frames (`report.frames`). The collector answers with one status a
report, in order; a report with any status is settled and never sent again, so the collector's word is
final.

    {"reports": ["accepted", "duplicate", "wrong-round"]}
"""

from __future__ import annotations

import json
import queue
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from keyveil.campaign import Campaign
from keyveil.client.answer import HttpAnswer, on_one_line
from keyveil.errors import CampaignError, DescriptionError, TransportError
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
_PORTS = {"https": 443, "http": 80}
# Kinds of refusals that concern one batch.
_MOST_CODES = 5
# What became of each report of a batch that was refused as a whole.
_REFUSED = "refused"


# Sends a body (or asks, without one): in so many seconds, an answer of at most so many bytes. Raises
# TransportError where none came.
Exchange = Callable[[str, bytes | None, float, int], HttpAnswer]

# Where the ids of reports come from: chance (`report.fresh_id`), or the collector (`Issuer`).
Ids = Callable[[], bytes]


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
    # http, TLS and mail headers are loaded when something is sent, not when a device is made.
    from keyveil.client.connection import CuttableConnection, ask

    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    headers |= {} if body is None else {"Content-Type": CONTENT_TYPE}
    line, outcome = CuttableConnection(timeout), queue.SimpleQueue[HttpAnswer | TransportError]()
    host, work = urlsplit(url).netloc, partial(ask, checked(url), body, headers, line, largest)
    try:
        threading.Thread(target=lambda: outcome.put(work()), name="keyveil-request", daemon=True).start()
    except RuntimeError:
        # The application is ending and starts no thread. Nobody waits for a daemon: it asks by itself.
        if not threading.current_thread().daemon:
            raise TransportError(f"nobody was left to ask {host}: the application is ending") from None
        outcome.put(work())
    try:
        answer = outcome.get(timeout=max(timeout, 0.0))
    except queue.Empty:
        line.cut()
        raise TransportError(f"no answer from {host} in {timeout:.3g} s") from None
    if isinstance(answer, TransportError):
        raise answer
    return answer


def is_token(text: str) -> bool:
    """Whether a text can travel as a token."""
    return _TOKEN.fullmatch(text) is not None


def with_token(token: str | None) -> Exchange:
    """The same, for a campaign whose devices need a token."""
    return partial(exchange, token=token)


def checked(url: str, of: str = "a collector") -> str:
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
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise TransportError(
            f"expected the address of {of}, https://..., got none", code="no-collector"
        ) from None
    if not parts.scheme or (parts.scheme in ("http", "https") and not host):
        raise TransportError(
            f"expected the address of {of}, https://..., got {url[:80]!r}", code="no-collector"
        )
    if parts.scheme != "https" and not (parts.scheme == "http" and host and _is_loopback(host)):
        raise TransportError(
            f"https is required to reach {host}; http only reaches this machine", code="https-required"
        )
    return url


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of each report of a batch; and why some do not count, in the collector's words."""

    statuses: list[str]
    why: str = ""

    @property
    def counts(self) -> list[bool]:
        """Whether each of them counts."""
        return [status in ACCEPTED for status in self.statuses]


def send(url: str, reports: Sequence[bytes], *, timeout: float, exchange: Exchange = exchange) -> Settled:
    """What became of each report; raises where the collector must be asked again later, or time is over.

    What it will never take, whoever asks, is settled too. Where the request is refused for who asks, or for
    where (401, 403, 404, 409 ...), reports are worth keeping: that is raised, with the code of a refusal.
    """
    ends = time.monotonic() + timeout
    answer = exchange(url, to_frames(reports), timeout, _LARGEST_ANSWER + _BYTES_EACH * len(reports))
    if 200 <= answer.status < 300:
        return _settled(answer.body, len(reports))
    if answer.status == _TOO_LARGE and len(reports) > 1:
        half = len(reports) // 2
        first, second = (
            send(url, part, timeout=ends - time.monotonic(), exchange=exchange)
            for part in (reports[:half], reports[half:])
        )
        return Settled(first.statuses + second.statuses, first.why or second.why)
    if answer.status in _FINAL:
        return Settled([_REFUSED] * len(reports), answer.said)
    raise TransportError(
        f"{urlsplit(url).netloc} answered {answer.said}; the reports wait",
        code=answer.refusal,
        retry_after=answer.retry_after,
    )


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
    view = _view(url, timeout, exchange)
    fetched = _read_view(view, urlsplit(url).netloc)
    if fetched.campaign.id != wanted:
        raise DescriptionError(
            f"expected campaign {wanted[:12]}, got one whose hash is {fetched.campaign.id[:12]}; "
            "do not answer it",
            code="other-campaign",
        )
    return fetched


def fetch_wave(url: str, *, timeout: float = 10.0, exchange: Exchange = exchange) -> Fetched:
    """The open wave of the series at an address that ends with its id, https://HOST/v1/series/ID.

    The collector says of the wave what it says of any campaign; one whose text does not lead to the series in
    the address is refused.
    """
    _, wanted = split_address(url, "series")
    view = _view(url, timeout, exchange)
    wave = view.get("wave")
    if wave is None:
        raise CampaignError("no wave of this series is open", code="waiting")
    fetched = _read_view(wave, urlsplit(url).netloc)
    if not fetched.campaign.is_wave or fetched.campaign.whole_series.id != wanted:
        raise DescriptionError(
            f"expected a wave of series {wanted[:12]}, got another campaign, {fetched.campaign.id[:12]}; "
            "do not answer it",
            code="other-campaign",
        )
    return fetched


def _view(url: str, timeout: float, exchange: Exchange) -> dict[str, Any]:
    """What a collector says at an address: the fields of a JSON object."""
    answer, host = exchange(url, None, timeout, _LARGEST_CAMPAIGN), urlsplit(url).netloc
    if answer.status != 200:
        raise TransportError(
            f"expected a campaign from {host}, got {answer.said}",
            code=answer.refusal,
            retry_after=answer.retry_after,
        )
    try:
        view = json.loads(answer.body)
    except (ValueError, RecursionError):
        view = None
    if not isinstance(view, dict):
        raise DescriptionError(f"what {host} sent is no campaign")
    return view


def _read_view(view: object, host: str) -> Fetched:
    """The campaign of an answer, and its open round."""
    if not isinstance(view, dict) or "campaign" not in view:
        raise DescriptionError(f"what {host} sent is no campaign")
    campaign, description = Campaign.from_text(view["campaign"]), view.get("round")
    round = None if description is None else campaign.read_round(description)
    # Who hands out ids knows whose report is whose: a campaign that goes through relays takes none.
    is_issued = campaign.issues_ids or (view.get("ids") == "issued" and not campaign.is_relayed)
    return Fetched(campaign, round, is_issued)


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
            f"expected ids from {urlsplit(url).netloc}, got {answer.said}",
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


def no_id() -> bytes:
    """A refusal: an id of the device's own would never count, and its answer would be spent."""
    raise TransportError(
        "the collector hands out the ids of this campaign; pass collector='https://...' and token=...",
        code="no-id",
    )


def split_address(url: str, what: str = "campaigns") -> tuple[str, str]:
    """A campaign's address, or a series', as the collector's own and the id.

    >>> split_address("https://example.org/v1/campaigns/0f3a")
    ('https://example.org', '0f3a')
    >>> split_address("https://example.org/v1/series/0f3a", "series")
    ('https://example.org', '0f3a')
    """
    base, found, id = checked(url).rstrip("/").rpartition(f"/v1/{what}/")
    if not found or not id or "/" in id:
        raise TransportError(f"expected https://HOST/v1/{what}/ID, got {url[:80]!r}", code="no-collector")
    return base, id


def leads_to_series(url: str) -> bool:
    """Whether an address is a series', https://HOST/v1/series/ID, and no campaign's.

    >>> leads_to_series("https://example.org/v1/series/0f3a"), leads_to_series("https://example.org/v1/campaigns/0f3a")
    (True, False)
    """
    return url.rstrip("/").rpartition("/")[0].endswith("/v1/series")


def is_same_place(one: str, other: str) -> bool:
    """Whether two addresses lead to the same host and port, so to the same people.

    >>> is_same_place("https://a.example/relay", "HTTPS://A.example:443"), is_same_place("https://a.example",
    ...                                                                                  "https://b.example")
    (True, False)
    """
    places = []
    for url in (one, other):
        parts = urlsplit(checked(url))
        places.append((parts.hostname, parts.port or _PORTS[parts.scheme]))
    return places[0] == places[1]


def _settled(body: bytes, expected: int) -> Settled:
    try:
        statuses = json.loads(body)["reports"]
        if not isinstance(statuses, list) or len(statuses) != expected or set(map(type, statuses)) - {str}:
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise TransportError(f"expected one status for each of {expected} reports, got none") from None
    others = [status for status in statuses if status not in ACCEPTED]
    why = ", ".join(f"{others.count(code)} {code}" for code in sorted(set(others))[:_MOST_CODES])
    return Settled(statuses, on_one_line(why))


def _is_loopback(host: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
