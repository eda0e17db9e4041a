"""Requests to a running collector, with its refusals put into one sentence."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import click

from keyveil.cli.settings import token_option
from keyveil.errors import CampaignError, TallyError, TransportError

if TYPE_CHECKING:
    import urllib.error

_TIMEOUT = 600.0
_RELEASES = ("json", "csv", "parquet", "arrow")
# Under which name the collector lists them.
_LISTS = {"campaign": "campaigns", "series": "series"}
_ID = re.compile("[0-9a-f]{64}")
# Letters of an id that people are shown, and how many candidates.
_SHORT, _MOST = 12, 10


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

    def campaign(self, named: str) -> str:
        """The path of a campaign by its id, the beginning of its id, its name, its label or its file."""
        return f"/v1/campaigns/{self.id_of(named)}"

    def series(self, named: str) -> str:
        """The path of a series, named in any of these ways."""
        return f"/v1/series/{self.id_of(named, 'series')}"

    def id_of(self, named: str, kind: str = "campaign") -> str:
        """The id of a campaign, or of a series, however it is named.

        A whole one is not looked up, so it needs no token.
        """
        if _ID.fullmatch(named):
            return named
        file = Path(named)
        if file.suffix in (".toml", ".json") and file.is_file():
            from keyveil.campaign import Campaign

            asked = Campaign.load(file)
            if asked.series is None or asked.series.start:
                return asked.id
            # The collector chose the day on which it starts.
            named = asked.name
        try:
            listed = self.ask("GET", f"/v1/{_LISTS[kind]}")[_LISTS[kind]]
        except TransportError as error:
            raise TransportError(
                f'"{_shown(named)}" is no whole id, and to look it up failed: {error}'
            ) from None
        return _chosen(named, listed, kind)

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


def write_release(
    server: Server,
    find: Callable[[], str],
    out: Path,
    query: Mapping[str, str],
    interim: str,
    *,
    kind: str = "release",
) -> None:
    """Write the release of what `find` leads to, in the form that the file's name asks for.

    `interim` says why its numbers will change, where it is not final; `kind` is what the address ends with.
    """
    form = out.suffix.removeprefix(".")
    if form not in _RELEASES:
        raise TallyError(f"expected a release to end with one of {', '.join(_RELEASES)}, got {out.name}")
    said = server.download(f"{find()}/{kind}?{urlencode({'format': form, **query})}", out)
    if said.get("keyveil-state") == "open":
        click.echo(f"interim: {interim}", err=True)
    click.echo(f"wrote {out}", err=True)


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


def _chosen(named: str, listed: list[dict[str, Any]], kind: str = "campaign") -> str:
    """What a name means: by its own name or label, or else as the beginning of its id.

    >>> listed = [{"id": "ab" * 32, "name": "apps", "label": ""},
    ...           {"id": "ac" * 32, "name": "sites", "label": "ours"}]
    >>> _chosen("ours", listed)[:4], _chosen("AB", listed)[:4]
    ('acac', 'abab')
    >>> _chosen("a", listed)
    Traceback (most recent call last):
        ...
    keyveil.errors.CampaignError: "a" may be abababababab (apps) or acacacacacac (ours); say more of the id
    """
    found = [one for one in listed if named and named in (one["name"], one["label"])]
    found = found or [one for one in listed if named and one["id"].startswith(named.lower())]
    if not found:
        raise CampaignError(
            f'no {kind} is called "{_shown(named)}", and no id begins so; `keyveil {kind} list` shows '
            "those that the token is for"
        )
    if len(found) > 1:
        choices = [f"{one['id'][:_SHORT]} ({_shown(one['label'] or one['name'])})" for one in found[:_MOST]]
        more = f" or {len(found) - _MOST} others" if len(found) > _MOST else ""
        raise CampaignError(f'"{_shown(named)}" may be {" or ".join(choices)}{more}; say more of the id')
    chosen: str = found[0]["id"]
    return chosen


def _shown(text: str) -> str:
    from keyveil.cli.console import printable

    return printable(text[:80])


def _words(error: urllib.error.HTTPError) -> str:
    try:
        said = json.loads(error.read())
        detail, remedy = (str(said[part]).strip(" .") for part in ("detail", "remedy"))
        return f"the collector refused ({said['code']}): {detail}; {remedy}"
    except (ValueError, KeyError, TypeError, OSError):
        return f"the collector answered {error.code}"


def print_answer(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print what a collector said as a table: names are text, and whole ids short."""
    from rich.text import Text

    from keyveil.cli.console import output, printable, table

    cells = [[Text(printable(_short(cell))) for cell in row] for row in rows]
    output().print(table(title, columns, cells))


def _short(cell: object) -> object:
    return cell[:_SHORT] if isinstance(cell, str) and _ID.fullmatch(cell) else cell
