"""Pages of other sites that may be devices: what their browsers must hear (CORS).

A browser shows a page the answer of another origin only if the answer names the page's own, and asks first
(a preflight) before it sends a token or a report. Here only what devices ask for answers so
(`Endpoint.is_for_pages`), and only to origins that the operator named: by default to none. Cookies are never
asked for, so a page gets nothing that whoever looks at it did not bring.

Without an origin none of this is in the way of a request: the application is not wrapped, and uploads that
are answered straight from the parser (`direct`) know nothing of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from keyveil.collector.http.intake import FRUITLESS
from keyveil.collector.settings import ANY_ORIGIN

if TYPE_CHECKING:
    from keyveil.collector.http.endpoints import Endpoint

Headers = list[tuple[bytes, bytes]]

# What a device's request carries beyond what every page may send, and what it reads of an answer's header.
_SENT, _READ = b"Authorization, Content-Type", b"Retry-After"
# Seconds that a browser need not ask again: more than two hours no browser built on Chromium believes.
_REMEMBERED = b"7200"


class Origins:
    """The origins whose pages may be devices.

    >>> origins = Origins(("https://app.example",))
    >>> origins.headers([(b"origin", b"https://app.example")])[0]
    (b'access-control-allow-origin', b'https://app.example')
    >>> origins.headers([(b"origin", b"https://another.example")])
    [(b'vary', b'Origin')]
    """

    def __init__(self, allowed: Sequence[str]) -> None:
        self._allowed = frozenset(origin.encode() for origin in allowed)
        self._are_all = ANY_ORIGIN in allowed
        # Who keeps answers for others must not give one page's to another's.
        self._always: Headers = [] if self._are_all else [(b"vary", b"Origin")]

    def headers(self, asked: Iterable[tuple[bytes, bytes]]) -> Headers:
        """What is added to the answer to a request with these headers."""
        origin = self.find_allowed(asked)
        if origin is None:
            return self._always
        return [
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", _READ),
            *self._always,
        ]

    def find_allowed(self, asked: Iterable[tuple[bytes, bytes]]) -> bytes | None:
        """The origin that an answer names, if any."""
        if self._are_all:
            return ANY_ORIGIN.encode()
        origin = dict(asked).get(b"origin")
        return origin if origin in self._allowed else None


class CrossOrigin:
    """An application whose device's routes answer pages of these origins, preflights too."""

    def __init__(self, application: Any, endpoints: Iterable[Endpoint], origins: Sequence[str]) -> None:
        self._application, self._origins = application, Origins(origins)
        self._routes = [
            (re.compile(re.sub(r"{\w+}", "[^/]+", endpoint.path)), endpoint.method)
            for endpoint in endpoints
            if endpoint.is_for_pages
        ]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request."""
        methods = self._methods(scope["path"]) if scope["type"] == "http" else []
        if methods and _is_preflight(scope) and self._origins.find_allowed(scope["headers"]) is not None:
            # Nobody is named, and nothing is brought: whoever asks too often waits.
            scope[FRUITLESS] = True
            await _answer_preflight(send, methods, self._origins.headers(scope["headers"]))
        elif scope.get("method") in methods:
            added = self._origins.headers(scope["headers"])
            await self._application(scope, receive, _adding(added, send))
        else:
            await self._application(scope, receive, send)

    def _methods(self, path: str) -> list[str]:
        """By which methods pages may ask for this."""
        return [method for route, method in self._routes if route.fullmatch(path)]


def _is_preflight(scope: Any) -> bool:
    names = {name for name, _ in scope["headers"]}
    return scope["method"] == "OPTIONS" and {b"origin", b"access-control-request-method"} <= names


async def _answer_preflight(send: Any, methods: list[str], said: Headers) -> None:
    headers = [
        *said,
        (b"access-control-allow-methods", ", ".join(methods).encode()),
        (b"access-control-allow-headers", _SENT),
        (b"access-control-max-age", _REMEMBERED),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _adding(added: Headers, send: Any) -> Any:
    """The same way to answer, with more headers: answers that are kept must not be changed."""

    async def adding(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *added]}
        await send(message)

    return adding
