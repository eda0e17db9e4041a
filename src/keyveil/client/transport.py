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
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from keyveil.campaign import Campaign
from keyveil.client.rounds import Asked
from keyveil.errors import CampaignError, TransportError
from keyveil.report import REPORT_ID_BYTES, to_frames

CONTENT_TYPE = "application/octet-stream"
ACCEPTED = ("accepted", "duplicate")

# A collector's answer is a few bytes a report, a campaign a few bytes a key; more is no collector.
_LARGEST_ANSWER = 64 << 20
# A batch with one of these answers will never be taken; any other answer may be a matter of time.
_TOO_LARGE = 413
_FINAL = (400, 410, _TOO_LARGE, 415, 422)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back: the status line's number, the wait that was asked for, the body."""

    status: int
    body: bytes = b""
    retry_after: float | None = None


# Sends a body (or asks, without one) and gives the answer; raises TransportError where none came.
Exchange = Callable[[str, bytes | None, float], Answer]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def exchange(url: str, body: bytes | None, timeout: float, *, token: str | None = None) -> Answer:
    """One request by the standard library; certificates are checked as the system says."""
    request = urllib.request.Request(checked(url), data=body)  # noqa: S310
    if body is not None:
        request.add_header("Content-Type", CONTENT_TYPE)
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    opener = urllib.request.build_opener(_NoRedirects)
    try:
        with opener.open(request, timeout=timeout) as response:
            return Answer(status=response.status, body=response.read(_LARGEST_ANSWER))
    except urllib.error.HTTPError as error:
        with error:
            return Answer(status=error.code, retry_after=seconds_asked(error.headers.get("Retry-After")))
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise TransportError(f"no answer from {urlsplit(url).netloc}: {why}") from None


def with_token(token: str) -> Exchange:
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
        raise TransportError("expected the address of a collector, https://..., got none") from None
    if parts.scheme not in ("http", "https") or not host:
        raise TransportError(f"expected the address of a collector, https://..., got {url[:80]!r}")
    if parts.scheme == "http" and not _is_loopback(host):
        raise TransportError(f"https is required to reach {host}; http only reaches this machine")
    return url


def send(url: str, reports: Sequence[bytes], *, timeout: float, exchange: Exchange = exchange) -> list[bool]:
    """Whether each report counts; raises where the collector must be asked again later."""
    answer = exchange(url, to_frames(reports), timeout)
    if 200 <= answer.status < 300:
        return _statuses(answer.body, len(reports))
    if answer.status == _TOO_LARGE and len(reports) > 1:
        half = len(reports) // 2
        parts = reports[:half], reports[half:]
        return [counts for part in parts for counts in send(url, part, timeout=timeout, exchange=exchange)]
    if answer.status in _FINAL:
        return [False] * len(reports)
    raise TransportError(
        f"{urlsplit(url).netloc} answered {answer.status}; the reports wait", retry_after=answer.retry_after
    )


def fetch_campaign(url: str, *, timeout: float = 10.0, exchange: Exchange = exchange) -> Campaign:
    """The campaign at an address that ends with its id; one with another hash is refused.

    The collector answers `Campaign.device_config`; `campaign` may be its canonical text or its fields.
    """
    return fetch_round(url, timeout=timeout, exchange=exchange)[0]


def fetch_round(
    url: str, *, timeout: float = 10.0, exchange: Exchange = exchange
) -> tuple[Campaign, Asked | None]:
    """The campaign at an address, and its open round, if there is one.

    The only round of a campaign needs no telling: the device builds it from the campaign itself.
    """
    _, wanted = split_address(url)
    answer = exchange(url, None, timeout)
    if answer.status != 200:
        raise TransportError(f"expected a campaign from {urlsplit(url).netloc}, got status {answer.status}")
    try:
        view = json.loads(answer.body)
        said, config = view["campaign"], view.get("device_config", {})
        campaign = Campaign.from_fields(json.loads(said) if isinstance(said, str) else said)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CampaignError(f"what {urlsplit(url).netloc} sent is no campaign") from None
    if campaign.id != wanted:
        raise CampaignError(
            f"expected campaign {wanted[:12]}, got one whose hash is {campaign.id[:12]}; do not answer it"
        )
    if config is None:
        return campaign, None
    issued = view.get("ids") == "issued"
    if not campaign.has_several_rounds:
        return campaign, Asked(number=1, mechanism=campaign.build(), ids_are_issued=issued)
    return campaign, replace(Asked.told(campaign, config), ids_are_issued=issued)


def fetch_ids(url: str, count: int, *, timeout: float = 10.0, exchange: Exchange = exchange) -> list[bytes]:
    """Ids for reports to come, from the campaign at an address that issues them."""
    answer = exchange(f"{url.rstrip('/')}/ids?count={count}", b"", timeout)
    if answer.status != 200:
        raise TransportError(
            f"expected ids from {urlsplit(url).netloc}, got status {answer.status}",
            retry_after=answer.retry_after,
        )
    try:
        ids = [bytes.fromhex(name) for name in json.loads(answer.body)["ids"]]
        if len(set(ids)) != count or len(ids) != count or {len(name) for name in ids} != {REPORT_ID_BYTES}:
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise TransportError(f"expected {count} different ids of {REPORT_ID_BYTES} bytes") from None
    return ids


def issued_ids(url: str, *, token: str, timeout: float = 10.0) -> Callable[[], bytes]:
    """Where a `Reporter` gets its ids from, if the campaign issues them: asked for one by one, as needed."""
    return lambda: fetch_ids(url, 1, timeout=timeout, exchange=with_token(token))[0]


def split_address(url: str) -> tuple[str, str]:
    """A campaign's address as the collector's own and the campaign's id.

    >>> split_address("https://example.org/v1/campaigns/0f3a")
    ('https://example.org', '0f3a')
    """
    base, found, campaign = checked(url).rstrip("/").rpartition("/v1/campaigns/")
    if not found or not campaign or "/" in campaign:
        raise TransportError(f"expected https://HOST/v1/campaigns/ID, got {url[:80]!r}")
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
        if len(statuses) != expected:
            raise ValueError
        return [status in ACCEPTED for status in statuses]
    except (ValueError, KeyError, TypeError):
        raise TransportError(f"expected one status for each of {expected} reports, got none") from None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
