"""Requests to a running collector, with its refusals put into one sentence."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyveil.cli.settings import token_option
from keyveil.errors import TransportError

if TYPE_CHECKING:
    import urllib.error

_TIMEOUT = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A collector's address, and the token to show it."""

    url: str
    token: str | None

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON that the collector answers."""
        with self._open(method, path, body) as response:
            said = response.read()
        return json.loads(said) if said else None

    def download(self, path: str, out: Path, *, is_private: bool = False) -> Mapping[str, str]:
        """What the collector answers, whole or not at all; the answer's headers."""
        from keyveil.cli.files import written

        def only_mine(name: str, flags: int) -> int:
            return os.open(name, flags, 0o600)

        with self._open("GET", path, None) as response, written(out) as draft:
            with open(draft, "wb", opener=only_mine if is_private else None) as file:
                shutil.copyfileobj(response, file)
            headers: Mapping[str, str] = response.headers
        return headers

    def _open(self, method: str, path: str, body: Any) -> Any:
        # Imported when asked: the list of commands must not wait for them.
        import http.client
        import urllib.error
        import urllib.request

        from keyveil.client.transport import checked

        url = checked(self.url).rstrip("/") + path
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data=data, method=method)  # noqa: S310
        if data is not None:
            request.add_header("Content-Type", "application/json")
        if self.token is not None:
            request.add_header("Authorization", f"Bearer {self.token}")
        try:
            return urllib.request.urlopen(request, timeout=_TIMEOUT)  # noqa: S310
        except urllib.error.HTTPError as error:
            with error:
                raise TransportError(_words(error)) from None
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "reason", None) or error
            raise TransportError(f"no answer from {self.url}: {why}; is `keyveil serve` running?") from None


def server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--url and --token."""
    url = click.option(
        "--url",
        envvar="KEYVEIL_URL",
        default="http://127.0.0.1:8765",
        show_default=True,
        help="The collector; KEYVEIL_URL in the environment if left out.",
    )
    return url(token_option(command))


def _words(error: urllib.error.HTTPError) -> str:
    try:
        said = json.loads(error.read())
        return f"the collector refused ({said['code']}): {said['detail']}; {said['remedy']}"
    except (ValueError, KeyError, TypeError, OSError):
        return f"the collector answered {error.code}"
