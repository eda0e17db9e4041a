"""Requests over http and https, by the standard library; loaded when the first one is made.

Most starts of an application send nothing, and http, TLS and mail headers are half of what a device would
have to load. A request can be cut off at any moment by whoever waits for it.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import time
import urllib.error
import urllib.request
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from keyveil.client.answer import HttpAnswer, seconds_asked
from keyveil.errors import TransportError

# Of what a collector says where it refuses.
_LONGEST_PROBLEM = 16 << 10


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class CuttableConnection:
    """The way to the other side, which whoever waits can cut at any moment: while it is made, and after."""

    def __init__(self, timeout: float) -> None:
        self.timeout, self._ends = timeout, time.monotonic() + timeout
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
    def __init__(self, line: CuttableConnection) -> None:
        super().__init__()
        self._line = line

    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._line.through(http.client.HTTPConnection), request)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, line: CuttableConnection) -> None:
        super().__init__(context=ssl.create_default_context())
        self._line = line

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        kind = self._line.through(http.client.HTTPSConnection)
        return self.do_open(kind, request, context=self._context)  # type: ignore[attr-defined]


def ask(
    url: str, body: bytes | None, headers: dict[str, str], line: CuttableConnection, largest: int
) -> HttpAnswer | TransportError:
    """What a request led to; raises nothing, because nobody is there to catch it."""
    host = urlsplit(url).netloc
    try:
        request = urllib.request.Request(url, data=body, headers=headers)  # noqa: S310
        opener = urllib.request.build_opener(_NoRedirects, _Http(line), _Https(line))
        with opener.open(request, timeout=line.timeout) as response:
            said = response.read(largest + 1)
            # Longer than all there could be to say: as good as nothing.
            return HttpAnswer(status=response.status, body=said if len(said) <= largest else b"")
    except urllib.error.HTTPError as error:
        return _refusal(error)
    except Exception as error:
        why = getattr(error, "reason", None) or error
        return TransportError(f"no answer from {host}: {why}")
    finally:
        line.close()


def _refusal(error: urllib.error.HTTPError) -> HttpAnswer:
    """A status that is none of success, with what the collector says of it if it can be read."""
    said = b""
    with error:
        with suppress(Exception):
            said = error.read(_LONGEST_PROBLEM)
        wait = seconds_asked(error.headers.get("Retry-After"))
        return HttpAnswer(status=error.code, body=said, retry_after=wait)
