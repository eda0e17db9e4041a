"""Tokens and the log of acts in the SQL that every store speaks, and how a statement is run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keyveil.collector.store.base import Act
from keyveil.collector.tokens import Credential, Role

# {number}, {blob} and {serial} are the store's words for a 64-bit integer, bytes and a key that counts up.
ACCESS_TABLES = (
    "create table store (name text primary key, value text not null)",
    """create table tokens (id text primary key, hash {blob} not null, role text not null, campaign text,
    label text not null, rate {real}, created_at {real} not null, revoked_at {real})""",
    """create table acts (no {serial}, at {real} not null, token text not null, act text not null,
    campaign text not null, detail text not null)""",
)
_TOKEN = "id, hash, role, campaign, label, rate, created_at, revoked_at"  # noqa: S105


class AccessTransaction:
    """What concerns tokens and acts; how a statement is run is the store's."""

    def _all(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a statement with `?` for values."""
        raise NotImplementedError

    def _run(self, statement: str, values: Sequence[Any] = ()) -> int:
        """How many rows a statement changed."""
        raise NotImplementedError

    def _run_each(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement once for each row of values."""
        raise NotImplementedError

    def _by_number(self, table: str, columns: str, nos: list[int]) -> list[tuple[Any, ...]]:
        """The rows of a table that have one of the numbers, by number."""
        raise NotImplementedError

    # --- reading ---

    def credential(self, id: str) -> Credential | None:
        """The token with this id."""
        rows = self._all(f"select {_TOKEN} from tokens where id = ?", (id,))  # noqa: S608
        return _credential(rows[0]) if rows else None

    def credentials(self, campaign: str | None) -> list[Credential]:
        """The tokens of a campaign, or those of the whole collector."""
        which, values = ("campaign is null", ()) if campaign is None else ("campaign = ?", (campaign,))
        rows = self._all(f"select {_TOKEN} from tokens where {which} order by created_at, id", values)  # noqa: S608
        return list(map(_credential, rows))

    def has_admin(self) -> bool:
        """Whether any admin token was ever made."""
        return bool(self._all("select 1 from tokens where role = ? limit 1", (Role.ADMIN.value,)))

    def acts(self, *, after: int = 0, most: int = 1000) -> list[Act]:
        """The log from a place on."""
        rows = self._all(
            "select no, at, token, act, campaign, detail from acts where no > ? order by no limit ?",
            (after, most),
        )
        return [
            Act(no=no, at=at, token=token, act=act, campaign=campaign, detail=detail)
            for no, at, token, act, campaign, detail in rows
        ]

    # --- writing ---

    def probe(self) -> None:
        """Write a little that means nothing: a disk that is full or read-only shows at the commit."""
        # Another value each time: SQLite writes no page whose bytes stay the same.
        self._run(
            "insert into store values ('probe', 'even') on conflict (name) "
            "do update set value = case when store.value = 'even' then 'odd' else 'even' end"
        )

    def add_credential(self, credential: Credential) -> None:
        """A new token."""
        self._run(
            f"insert into tokens ({_TOKEN}) values (?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
            (
                credential.id,
                credential.hash,
                credential.role.value,
                credential.campaign,
                credential.label,
                credential.rate,
                credential.created_at,
                credential.revoked_at,
            ),
        )

    def revoke(self, id: str, now: float) -> None:
        """The token opens nothing from now on."""
        self._run("update tokens set revoked_at = ? where id = ? and revoked_at is null", (now, id))

    def log(self, *, at: float, token: str, act: str, campaign: str = "", detail: str = "") -> None:
        """A line that is never changed."""
        self._run(
            "insert into acts (at, token, act, campaign, detail) values (?, ?, ?, ?, ?)",
            (at, token, act, campaign, detail),
        )


def _credential(row: tuple[Any, ...]) -> Credential:
    said = dict(zip(_TOKEN.split(", "), row, strict=True))
    return Credential(**{**said, "hash": bytes(said["hash"]), "role": Role(said["role"])})
