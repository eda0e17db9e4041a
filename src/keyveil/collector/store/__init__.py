"""Where reports are kept: one interface, an embedded store and a shared one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from keyveil.collector.store.base import Act, CampaignRow, ReportBlock, RoundRow, Store, TallyRow, Writing
from keyveil.collector.store.migrations import Migration
from keyveil.errors import StoreError

__all__ = [
    "Act",
    "CampaignRow",
    "Migration",
    "ReportBlock",
    "RoundRow",
    "Store",
    "TallyRow",
    "Writing",
    "open_store",
]


def open_store(
    url: str,
    *,
    backup_first: Path | None = None,
    announce: Callable[[Migration], None] = lambda _: None,
    read_only: bool = False,
) -> Store:
    """The store at an address: sqlite:///file (a fourth slash for an absolute path) or postgresql://...

    An older store is migrated: `announce` hears of it first, and the embedded store is copied to
    `backup_first` as it was. One that is only read must be of today's schema.

    >>> open_store("mysql://host/db")
    Traceback (most recent call last):
        ...
    keyveil.errors.StoreError: expected sqlite:///FILE or postgresql://HOST/NAME, got mysql://...
    """
    scheme = urlsplit(url).scheme
    if scheme in ("postgresql", "postgres"):
        from keyveil.collector.store.postgres import PostgresStore

        if backup_first is not None:
            raise StoreError("only the embedded store is copied first; run pg_dump, then start without that")
        return PostgresStore(url, announce=announce, read_only=read_only)
    if url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        from keyveil.collector.store.sqlite import SqliteStore

        path = Path(url.removeprefix("sqlite:///"))
        return SqliteStore(path, backup_first=backup_first, announce=announce, read_only=read_only)
    raise StoreError(f"expected sqlite:///FILE or postgresql://HOST/NAME, got {scheme or url[:20]}://...")
