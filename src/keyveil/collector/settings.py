"""What an operator may set, with defaults for one small machine."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

# Said in place of an origin: every page of every site.
ANY_ORIGIN = "*"
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Limits of one collector process.

    Memory in use by uploads is at most `waiting_bytes`, plus what one group takes while it is written.
    """

    largest_body: int = 8 << 20
    """Bytes of an upload, as sent and as expanded."""
    largest_unannounced: int = 1 << 19
    """Bytes of an upload that does not say its length first."""
    largest_config: int = 32 << 20
    """Bytes of a campaign."""
    largest_json: int = 1 << 18
    """Bytes of an upload in JSON, which costs a hundred times what frames cost to read."""
    most_reports: int = 1 << 14
    """Reports in one upload: a sixth of a second of the writer's time."""
    waiting_bytes: int = 64 << 20
    """Bytes of uploads that are being read, waited for or written."""
    waiting_uploads: int = 4096
    """Uploads that wait for the writer."""
    group_work: int = 16 << 20
    group_uploads: int = 2048
    """What is written in one transaction, as `Upload.work` counts it: all wait for the group before."""
    connections: int = 2048
    """Connections at once; beyond them one that is not being answered makes room."""
    spare_connections: int = 64
    """How many of them take no uploads: for health checks and operators when uploads have all others."""
    proxies: tuple[str, ...] = ("127.0.0.1", "::1")
    """Addresses of servers in front, who are believed about whom they speak for."""
    origins: tuple[str, ...] = ()
    """Origins of pages that may be devices, as `read_origin` writes them; other sites' pages may not."""
    retry_after: float = 1.0
    """The Retry-After of a refused upload, in seconds."""
    tick: float = 1.0
    """Seconds between looks at rounds that end by time."""
    tidy: float = 60.0
    """Seconds between looks at what retention drops."""
    is_demo: bool = False
    """Whether people may be made up here: pages offer it to whoever holds a token, and nowhere else."""
    patience: float = 30.0
    """Seconds that a body may take to come."""


def read_origin(text: str) -> str:
    """An origin as browsers write it; what names no origin is a ValueError that says why.

    >>> read_origin("https://App.example:443/"), read_origin("http://localhost:3000"), read_origin("*")
    ('https://app.example', 'http://localhost:3000', '*')
    >>> read_origin("app.example")
    Traceback (most recent call last):
        ...
    ValueError: expected an origin such as https://app.example, or *, got 'app.example'
    """
    if text == ANY_ORIGIN:
        return text
    wrong = ValueError(f"expected an origin such as https://app.example, or *, got {text[:80]!r}")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise wrong from None
    is_bare = parts.path in ("", "/") and not parts.query and not parts.fragment and "@" not in parts.netloc
    # Browsers write other letters as xn--...
    if parts.scheme not in _PORTS or not host or not host.isascii() or "*" in host or not is_bare:
        raise wrong
    written = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{written}" + ("" if port in (None, _PORTS[parts.scheme]) else f":{port}")
