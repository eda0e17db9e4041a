"""Where reports are kept: one interface, an embedded store and a shared one."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from keyveil.collector.store.base import Act, Block, CampaignRow, RoundRow, Store, TallyRow, Writing
from keyveil.errors import StoreError

__all__ = ["Act", "Block", "CampaignRow", "RoundRow", "Store", "TallyRow", "Writing", "open_store"]


def open_store(url: str) -> Store:
    """The store at an address: sqlite:///file (a fourth slash for an absolute path) or postgresql://...

    >>> open_store("mysql://host/db")
    Traceback (most recent call last):
        ...
    keyveil.errors.StoreError: expected sqlite:///FILE or postgresql://HOST/NAME, got mysql://...
    """
    scheme = urlsplit(url).scheme
    if scheme in ("postgresql", "postgres"):
        from keyveil.collector.store.postgres import PostgresStore

        return PostgresStore(url)
    if url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        from keyveil.collector.store.sqlite import SqliteStore

        return SqliteStore(Path(url.removeprefix("sqlite:///")))
    raise StoreError(f"expected sqlite:///FILE or postgresql://HOST/NAME, got {scheme or url[:20]}://...")
