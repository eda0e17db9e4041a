"""The keys that open sealed reports: made here, shown by their public halves, retired by an operator.

Devices seal to the newest. The older ones go on opening what is under way, until somebody retires them.
"""

from __future__ import annotations

from keyveil.collector.campaigns.context import Context
from keyveil.collector.campaigns.messages import KeyList, KeyView
from keyveil.collector.problems import Problem
from keyveil.collector.store.base import OpeningKeyRow, Writing
from keyveil.errors import MissingPackage
from keyveil.sealing import SUITE, OpeningKey


class Opening:
    """The keys of a collector."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._keys: dict[bytes, OpeningKey] = {}

    def list(self) -> KeyList:
        """The public halves, the newest first."""
        with self._context.store.read() as tx:
            rows = tx.opening_keys()
        found = [(OpeningKey(row.private), row.made_at) for row in rows]
        return KeyList(
            suite=SUITE,
            keys=[
                KeyView(id=key.id.hex(), public=key.public.hex(), made_at=made_at) for key, made_at in found
            ],
        )

    def make(self, actor: str) -> KeyList:
        """Another key, to which devices seal from now on."""
        with self._context.store.write() as tx:
            add_fresh(tx, actor=actor, now=self._context.now())
        return self.list()

    def retire(self, actor: str, id: str) -> None:
        """A key that opens nothing from now on; devices may hold the newest, so that one stays."""
        with self._context.store.write() as tx:
            rows = tx.opening_keys()
            if id not in {row.id for row in rows}:
                raise Problem("unknown-key")
            if rows[0].id == id:
                raise Problem("key-in-use")
            tx.drop_opening_key(id)
            tx.log(at=self._context.now(), token=actor, act="key-retired", detail=id)
        self._keys.clear()

    def find(self, ids: set[bytes]) -> dict[bytes, OpeningKey]:
        """The keys with these ids, those of them that there are."""
        if not ids <= self._keys.keys():
            with self._context.store.read() as tx:
                rows = tx.opening_keys()
            self._keys = {key.id: key for key in (OpeningKey(row.private) for row in rows)}
        return {id: self._keys[id] for id in ids if id in self._keys}


def add_fresh(tx: Writing, *, actor: str, now: float) -> None:
    """A key of the operating system's randomness."""
    try:
        key = OpeningKey.fresh()
    except MissingPackage as error:
        raise Problem("bad-request", str(error)) from None
    tx.add_opening_key(OpeningKeyRow(id=key.id.hex(), private=key.private, made_at=now))
    tx.log(at=now, token=actor, act="key-made", detail=key.id.hex())
