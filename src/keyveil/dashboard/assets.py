"""The files of the page, read once, and the policy under which a browser runs them.

Scripts and styles come from this address only. Plot writes one style element of its own, whose text never
changes: it is named by its hash. Nothing is inline, nothing comes from elsewhere, nothing is framed.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

_HERE = Path(__file__).resolve().parent
# In a wheel the JavaScript client lies beside this file; in a checkout it lies where it is developed.
_CLIENTS = (_HERE / "sdk", _HERE.parents[2] / "sdk" / "js")
_TYPES = {".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".svg": "image/svg+xml"}
_PLOT_STYLE = "sha256-+TfQir1nvDucAdvE6XUQBt4ayUjpAWkbw2kCdSfekHM="

HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "content-security-policy": (
            f"default-src 'self'; style-src 'self' '{_PLOT_STYLE}'; object-src 'none'; base-uri 'none'; "
            "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
        ),
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        # Asked again every time, answered with 304: a new version is seen at once.
        "cache-control": "no-cache",
    }
)


@dataclass(frozen=True, slots=True)
class Asset:
    """A file as it is sent."""

    kind: str
    body: bytes
    packed: bytes
    tag: str


@cache
def assets() -> Mapping[str, Asset]:
    """Every file by its name in the address.

    >>> sorted(assets())[:2], assets()["index.html"].kind
    (['api.js', 'app.js'], 'text/html; charset=utf-8')
    """
    found = {path.relative_to(_HERE / "static").as_posix(): path for path in (_HERE / "static").rglob("*.*")}
    found |= {f"vendor/{path.name}": path for path in (_HERE / "vendor").iterdir() if path.suffix in _TYPES}
    client = next(folder for folder in _CLIENTS if folder.exists())
    found |= {
        path.relative_to(client).as_posix(): path
        for path in (client / "keyveil.js", *(client / "src").rglob("*.js"))
    }
    return MappingProxyType({name: _read(path) for name, path in sorted(found.items())})


def answer(name: str, *, takes_gzip: bool, known_tag: str | None) -> tuple[int, dict[str, str], bytes] | None:
    """Status, headers and body for a file, or None where there is none of this name."""
    asset = assets().get(name)
    if asset is None:
        return None
    headers = {**HEADERS, "etag": asset.tag, "vary": "accept-encoding"}
    if known_tag == asset.tag:
        return 304, headers, b""
    headers["content-type"] = asset.kind
    if takes_gzip:
        headers["content-encoding"] = "gzip"
    return 200, headers, asset.packed if takes_gzip else asset.body


def _read(path: Path) -> Asset:
    body = path.read_bytes()
    return Asset(
        kind=f"{_TYPES[path.suffix]}; charset=utf-8",
        body=body,
        packed=gzip.compress(body, 6, mtime=0),
        tag=f'"{hashlib.sha256(body).hexdigest()[:32]}"',
    )
