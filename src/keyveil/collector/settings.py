"""What an operator may set, with defaults for one small machine."""

from __future__ import annotations

from dataclasses import dataclass


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
    retry_after: float = 1.0
    """The Retry-After of a refused upload, in seconds."""
    tick: float = 1.0
    """Seconds between looks at rounds that end by time."""
    tidy: float = 60.0
    """Seconds between looks at what retention drops."""
    patience: float = 30.0
    """Seconds that a body may take to come."""
