"""The schemas of a store, and the step from each to the next.

    1   the embedded store has no memtable, or one table of it, `young`: what blocks add to tallies
    2   `young` holds the ids of blocks, `added` what they add, `swept` how far each slice is flushed
    3   these three are called memtable_ids, memtable_tallies and flushed; rounds have descriptions, with
        their pins, in place of the text that devices read; `outcomes` of finished campaigns; campaigns that
        could not be brought over say why
    4   the tree `ids` is cut into `runs` and `run_pages`, found by a hash with a key of the store's own; the
        shared store has `recent_ids` for those that are not in runs yet
    5   the shared store has `recent_tallies`, what groups add to tallies; the embedded one is as it was
    6   `batch_parts` that relays forwarded, and `opening_keys` of what they carry
    7   `series` with their `waves`, `added_keys` and `annotations`
    8   tallies hold those of segments as well, and places of counts in bins; the tables are as they were

A store of schema 2 says "1" of itself too: its tables tell. All steps run in the transaction that writes
the new number, so a store is of one schema or of another, whenever the process dies. What a step does
never changes: it names tables and columns as they were then.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from keyveil.collector.store.base import SCHEMA
from keyveil.collector.store.descriptions import describe_rounds
from keyveil.collector.store.run_tables import (
    RUN_TABLES,
    SHARED_RUN_TABLES,
    add_key,
    flush_sliced,
    id_hash,
    load_runs,
)
from keyveil.collector.store.runs import Ids, ids_in, rows_of
from keyveil.collector.store.sql import SqlTransaction
from keyveil.errors import StoreError

Step = Callable[[SqlTransaction], None]
# What no bytes have for a checksum, so that recovery finds the row damaged.
_NO_CRC = 1
# Ids of a tree that are read at once, and that become runs together: 128 MB of them.
_READ, _SORTED = 1 << 16, 1 << 23


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """From one schema to another."""

    start: int
    end: int = SCHEMA

    @property
    def is_needed(self) -> bool:
        """Whether the schemas differ."""
        return self.start != self.end


def find_migration(tx: SqlTransaction, *, tables: set[str]) -> Migration:
    """What a store with these tables needs; one that a newer keyveil wrote is refused."""
    rows = tx._all("select value from store where name = 'schema'")
    said = rows[0][0] if rows else "none"
    if not said.isdecimal() or int(said) < 1:
        raise StoreError(f"the store names no schema (it says {said[:20]!r}); restore a backup", damaged=True)
    if int(said) > SCHEMA:
        raise StoreError(
            f"the store has schema {said}, this keyveil reads schemas 1 to {SCHEMA}; "
            "install the keyveil that wrote it or a newer one, or restore an older backup"
        )
    return Migration(start=2 if said == "1" and "swept" in tables else int(said))


def refuse_to_change(tx: SqlTransaction, *, tables: set[str]) -> None:
    """Refuse what would have to be made or migrated first."""
    if "store" not in tables:
        raise StoreError("there is no store here; name the file or the database of a collector")
    migration = find_migration(tx, tables=tables)
    if migration.is_needed:
        raise StoreError(
            f"the store has schema {migration.start}; start `keyveil serve` on it once, which brings it to "
            f"schema {migration.end}"
        )


def migrate(tx: SqlTransaction, migration: Migration, steps: Mapping[int, Step]) -> None:
    """Take every step, and write the number of the last."""
    for schema in range(migration.start, migration.end):
        steps[schema](tx)
    tx._run("update store set value = ? where name = 'schema'", (str(migration.end),))


def _add_descriptions(tx: SqlTransaction) -> None:
    """In the words that both stores understand."""
    tx._run("alter table campaigns add column quarantined text")
    tx._run("alter table rounds rename column told to description")
    tx._run("alter table rounds add column pin text not null default ''")


def _cut_into_runs(tx: SqlTransaction) -> None:
    """Move every id from the tree into runs."""
    add_key(tx)
    hash_ = id_hash(tx)
    for campaign, round_ in tx._all("select campaign, number from rounds order by campaign, number"):
        runs = load_runs(tx, campaign)
        for ids in _in_tree(tx, campaign, round_):
            runs = flush_sliced(tx, runs, campaign, round_, ids, hash_)
    tx._run("drop table ids")


def _in_tree(tx: SqlTransaction, campaign: int, round_: int) -> Iterator[Ids]:
    """The ids of a round in large parts."""
    last, waiting, n_waiting = b"", [], 0
    while rows := tx._all(
        "select id from ids where campaign = ? and round = ? and id > ? order by id limit ?",
        (campaign, round_, last, _READ),
    ):
        waiting.append(b"".join(bytes(row[0]) for row in rows))
        last, n_waiting = bytes(rows[-1][0]), n_waiting + len(rows)
        if n_waiting >= _SORTED:
            yield rows_of(b"".join(waiting))
            waiting, n_waiting = [], 0
    yield rows_of(b"".join(waiting))


def _add_relays(tx: SqlTransaction, *, number: str, blob: str, real: str, serial: str) -> None:
    """In the words of either store."""
    tx._run(
        f"create table batch_parts (campaign {number} not null, round {number} not null, id text not null, "
        f"part {number} not null, size {number} not null, received {number} not null, "
        f"counted {number} not null, primary key (campaign, round, id, part))"
    )
    tx._run(
        f"create table opening_keys (no {serial}, id text not null unique, private {blob} not null, "
        f"made_at {real} not null)"
    )


def _add_series(tx: SqlTransaction, *, number: str, real: str, serial: str) -> None:
    """In the words of either store."""
    for statement in (
        f"create table series (no {serial}, id text not null unique, settled_from {real}, due_at {real}, "
        f"created_at {real} not null, paused_at {real}, ended_at {real}, label text not null, "
        "terms text not null, config text not null)",
        "create index series_by_due on series (due_at)",
        "create index series_by_settled on series (settled_from)",
        f"create table waves (series {number} not null, number {number} not null, campaign {number}, "
        f"opened_at {real} not null, why text not null, primary key (series, number))",
        f"create table added_keys (series {number} not null, place {number} not null, name text not null, "
        f"wave {number} not null, primary key (series, place), unique (series, name))",
        f"create table annotations (no {serial}, series {number} not null, at {real} not null, "
        "text text not null, token text not null)",
        "create index annotations_by_series on annotations (series, at)",
    ):
        tx._run(statement)


def _count_alone(_: SqlTransaction) -> None:
    """The number alone is new: both stores count the same schemas, and what was stored is read as it was."""


# --- the embedded store ---


def _embedded_1_to_2(tx: SqlTransaction) -> None:
    """Ids of blocks that are not flushed get rows of their own; they are read from the blocks."""
    if tx._all("select 1 from sqlite_master where name = 'young'"):
        tx._run("alter table young rename to added")
    else:
        tx._run(
            """create table added (block integer primary key, campaign integer not null,
            round integer not null, question text not null, n_reports integer not null,
            cells blob not null)"""
        )
    tx._run(
        """create table young (block integer primary key, campaign integer not null, round integer not null,
        crc integer not null, ids blob not null)"""
    )
    tx._run(
        """create table swept (campaign integer not null, slice integer not null, block integer not null,
        primary key (campaign, slice)) without rowid"""
    )
    for block, campaign, round_ in tx._all("select block, campaign, round from added order by block"):
        ids = _ids_of(tx, block)
        crc = _NO_CRC if ids is None else zlib.crc32(ids)
        tx._run("insert into young values (?, ?, ?, ?, ?)", (block, campaign, round_, crc, ids or b""))


def _ids_of(tx: SqlTransaction, block: int) -> bytes | None:
    """The ids of a block's reports, joined; None where it is missing or damaged."""
    rows = tx._all("select length, crc, reports from blocks where no = ?", (block,))
    if not rows or zlib.crc32(rows[0][2]) != rows[0][1]:
        return None
    length, _, reports = rows[0]
    return b"".join(ids_in(reports, length))


def _embedded_2_to_3(tx: SqlTransaction) -> None:
    tx._run(
        "create table outcomes (campaign integer primary key, version integer not null, body blob not null)"
    )
    for table, name in (("young", "memtable_ids"), ("added", "memtable_tallies"), ("swept", "flushed")):
        tx._run(f"alter table {table} rename to {name}")
    _add_descriptions(tx)
    describe_rounds(tx, tables=("tallies", "memtable_tallies"))


def _embedded_3_to_4(tx: SqlTransaction) -> None:
    """The memtable's slices were those of an id's first byte: its ids go into the tree first."""
    words = {"number": "integer", "blob": "blob", "serial": "integer primary key autoincrement"}
    for table in RUN_TABLES:
        tx._run(table.format(**words))
    damaged = set()
    flushed_to = {(campaign, at): block for campaign, at, block in tx._all("select * from flushed")}
    for block, campaign, round_, crc, joined in tx._all("select * from memtable_ids order by block"):
        if zlib.crc32(joined) != crc:
            # Recovery finds the row again, and quarantines the campaign.
            damaged.add(campaign)
            continue
        names = (joined[at : at + 16] for at in range(0, len(joined), 16))
        left = [name for name in names if block > flushed_to.get((campaign, name[0] >> 2), 0)]
        tx._run_each(
            "insert or ignore into ids (campaign, id, round) values (?, ?, ?)",
            [(campaign, name, round_) for name in left],
        )
    for campaign in {row[0] for row in tx._all("select distinct campaign from memtable_ids")} - damaged:
        tx._run("delete from memtable_ids where campaign = ?", (campaign,))
    tx._run("delete from flushed")
    _cut_into_runs(tx)


def _embedded_5_to_6(tx: SqlTransaction) -> None:
    _add_relays(tx, number="integer", blob="blob", real="real", serial="integer primary key autoincrement")


def _embedded_6_to_7(tx: SqlTransaction) -> None:
    _add_series(tx, number="integer", real="real", serial="integer primary key autoincrement")


# --- the shared store ---


def _shared_1_to_2(tx: SqlTransaction) -> None:
    """The tables were the same; only how cells are stored was said later."""
    tx._run("alter table tallies alter column cells set storage external")


def _shared_2_to_3(tx: SqlTransaction) -> None:
    tx._run(
        "create table outcomes (campaign bigint primary key, version bigint not null, body bytea not null)"
    )
    _add_descriptions(tx)
    describe_rounds(tx, tables=("tallies",))


def _shared_3_to_4(tx: SqlTransaction) -> None:
    words = {
        "number": "bigint",
        "blob": "bytea",
        "serial": "bigint generated always as identity primary key",
    }
    for table in (*RUN_TABLES, *SHARED_RUN_TABLES):
        tx._run(table.format(**words))
    _cut_into_runs(tx)


def _shared_4_to_5(tx: SqlTransaction) -> None:
    tx._run(
        """create table recent_tallies (no bigint generated always as identity primary key,
        campaign bigint not null, round bigint not null, n_reports bigint not null, cells bytea not null)"""
    )
    tx._run("create index recent_tallies_by_round on recent_tallies (campaign, round)")
    tx._run("alter table recent_tallies alter column cells set storage external")


def _shared_5_to_6(tx: SqlTransaction) -> None:
    serial = "bigint generated always as identity primary key"
    _add_relays(tx, number="bigint", blob="bytea", real="double precision", serial=serial)


def _shared_6_to_7(tx: SqlTransaction) -> None:
    serial = "bigint generated always as identity primary key"
    _add_series(tx, number="bigint", real="double precision", serial=serial)


EMBEDDED: Mapping[int, Step] = {
    1: _embedded_1_to_2,
    2: _embedded_2_to_3,
    3: _embedded_3_to_4,
    4: _count_alone,
    5: _embedded_5_to_6,
    6: _embedded_6_to_7,
    7: _count_alone,
}
SHARED: Mapping[int, Step] = {
    1: _shared_1_to_2,
    2: _shared_2_to_3,
    3: _shared_3_to_4,
    4: _shared_4_to_5,
    5: _shared_5_to_6,
    6: _shared_6_to_7,
    7: _count_alone,
}
