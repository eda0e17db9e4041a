"""Runs in the tables of a store: `runs` has a row each with its filter, `run_pages` a row a page."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from keyveil.collector.store.runs import (
    ALL,
    KEY_BYTES,
    N_SLICES,
    PLACE_BITS,
    Drafted,
    IdHash,
    Ids,
    Run,
    Runs,
    as_ids,
    draft,
    page_crc,
    read_key,
    rows_of,
    run_crc,
    to_merge,
    write_key,
)
from keyveil.collector.store.sql import SqlTransaction
from keyveil.errors import StoreError

RUN_TABLES = (
    """create table runs (no {serial}, campaign {number} not null, slice {number} not null,
    round {number} not null, made {number} not null, n_ids {number} not null, n_pages {number} not null,
    crc {number} not null, filter {blob} not null)""",
    "create index runs_by_campaign on runs (campaign, no)",
    "create table run_pages (no {number} primary key, crc {number} not null, ids {blob} not null)",
)
# What the shared store has beside them. Noise does not compress, and a page stays in its row.
SHARED_RUN_TABLES = (
    """create table recent_ids (campaign bigint not null, slice smallint not null, id bytea not null,
    round bigint not null, primary key (campaign, slice, id))""",
    "alter table runs alter column filter set storage external",
    "alter table run_pages alter column ids set storage external",
    "alter table run_pages set (toast_tuple_target = 8160)",
)
# Pages and filters read at once: 3 MB, and 12 MB.
_PAGES, _FILTERS = 1024, 32
_TRIES = 10
# Fewer ids than this are not cut into slices.
_FEW = 1 << 17


class PageGone(StoreError):
    """A page of a run that is known is not there."""


def add_key(tx: SqlTransaction) -> None:
    """Draw what the ids of a new store are hashed with."""
    tx._run("insert into store values ('id_key', ?)", (write_key(secrets.token_bytes(KEY_BYTES)),))


def id_hash(tx: SqlTransaction) -> IdHash:
    """What the ids of this store are hashed with."""
    rows = tx._all("select value from store where name = 'id_key'")
    return IdHash(read_key(rows[0][0] if rows else ""))


# --- reading ---


def load_runs(tx: SqlTransaction, campaign: int, before: Runs | None = None) -> Runs:
    """The runs of a campaign as they are now; filters that are in memory are not read again."""
    held = {} if before is None else before.by_no
    for _ in range(_TRIES):
        nos = [no for (no,) in tx._all("select no from runs where campaign = ? order by no", (campaign,))]
        new = [no for no in nos if no not in held]
        found = {run.no: run for part in _parts(new, _FILTERS) for run in _read_runs(tx, campaign, part)}
        # Another collector may have merged some between the two questions.
        if len(found) == len(new):
            return Runs([held.get(no) or found[no] for no in nos], before=before)
    raise StoreError("runs of the ids are listed and not there", damaged=True)


def _read_runs(tx: SqlTransaction, campaign: int, nos: list[int]) -> Iterator[Run]:
    columns = "no, slice, round, made, n_ids, n_pages, crc, filter"
    for no, slice_, round_, made, n_ids, n_pages, crc, filter_ in tx._by_number("runs", columns, nos):
        if run_crc(campaign, (slice_, round_, made, n_ids, n_pages), bytes(filter_)) != crc:
            raise StoreError(f"run {no} of the ids is damaged: its checksum does not match", damaged=True)
        words = np.frombuffer(bytes(filter_), dtype="<u8")
        yield Run(no=no, slice=slice_, round=round_, made=made, n_ids=n_ids, n_pages=n_pages, words=words)


def _read_pages(tx: SqlTransaction, nos: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """Pages by number, each as it was written."""
    for part in _parts(nos, _PAGES):
        rows = tx._by_number("run_pages", "no, crc, ids", part)
        if len(rows) < len(part):
            raise PageGone("a page of the ids is missing", damaged=True)
        for no, crc, ids in rows:
            if page_crc(no, bytes(ids)) != crc:
                run, place = no >> PLACE_BITS, no & ((1 << PLACE_BITS) - 1)
                raise StoreError(
                    f"page {place} of run {run} of the ids is damaged: its checksum does not match",
                    damaged=True,
                )
            yield no, bytes(ids)


def _parts(nos: Sequence[int], size: int) -> Iterator[list[int]]:
    for at in range(0, len(nos), size):
        yield list(nos[at : at + size])


def read_ids(tx: SqlTransaction, run: Run) -> Ids:
    """All ids of a run."""
    return rows_of(b"".join(ids for _, ids in _read_pages(tx, run.pages)))


def ids_by_slice(
    tx: SqlTransaction,
    campaign: int,
    hash: IdHash,
    recent: Callable[[int], list[tuple[int, Ids]]],
    damaged: Callable[[str], None],
) -> Iterator[list[tuple[int, Ids]]]:
    """All ids of a campaign, a slice at a time; `recent` knows those of a slice that are not in runs."""
    nos = [no for (no,) in tx._all("select no from runs where campaign = ? order by no", (campaign,))]
    slices: dict[int, list[Run]] = {at: [] for at in range(N_SLICES + 1)}
    for no in nos:
        try:
            (run,) = _read_runs(tx, campaign, [no])
            slices[run.slice].append(run)
        except StoreError as error:
            damaged(str(error))
    common = [(run.round, _checked_ids(tx, run, hash, damaged)) for run in slices.pop(ALL)]
    split = [(round_, ids, hash(ids).slices) for round_, ids in common]
    for at, runs in slices.items():
        yield [
            *recent(at),
            *((round_, ids[of == at]) for round_, ids, of in split),
            *((run.round, _checked_ids(tx, run, hash, damaged)) for run in runs),
        ]


def _checked_ids(tx: SqlTransaction, run: Run, hash: IdHash, damaged: Callable[[str], None]) -> Ids:
    """The ids of a run, if all of them are there and its filter knows them."""
    try:
        ids = read_ids(tx, run)
    except StoreError as error:
        damaged(str(error))
        return rows_of(b"")
    which, _ = Runs([run]).look(hash(ids))
    if len(ids) != run.n_ids or len(which) != run.n_ids:
        damaged(f"run {run.no} of the ids has {run.n_ids}, its pages {len(ids)}, its filter {len(which)}")
    return ids


def known_in_runs(tx: SqlTransaction, runs: Runs, ids: Sequence[bytes], hash: IdHash) -> set[bytes]:
    """Those of the ids that runs hold."""
    which, pages = runs.look(hash(as_ids(ids)))
    wanted: dict[int, list[bytes]] = {}
    for place, page in zip(which.tolist(), pages.tolist(), strict=True):
        wanted.setdefault(page, []).append(ids[place])
    found: set[bytes] = set()
    for page, joined in _read_pages(tx, sorted(wanted)):
        found.update(name for name in wanted[page] if _holds(joined, name))
    return found


def _holds(joined: bytes, name: bytes) -> bool:
    at = joined.find(name)
    while at % len(name) and at >= 0:
        at = joined.find(name, at + 1)
    return at >= 0


# --- writing ---


def flush_ids(
    tx: SqlTransaction, runs: Runs, campaign: int, round: int, slice: int, ids: Ids, hash: IdHash
) -> Runs:
    """The runs with some more ids of a slice; runs whose turn it is become one with them."""
    here = runs.of(slice, round)
    made = 1 + max((run.made for run in here), default=0)
    merged = to_merge(here, slice=slice, made=made)
    together = np.concatenate([ids, *(read_ids(tx, run) for run in merged)])
    added = write_run(tx, campaign, slice, round, made, draft(together, hash(together)))
    delete_runs(tx, merged)
    return runs.changed(without=[run.no for run in merged], added=[added])


def flush_sliced(tx: SqlTransaction, runs: Runs, campaign: int, round: int, ids: Ids, hash: IdHash) -> Runs:
    """The runs with some more ids of any slice; a few ids make one run."""
    if len(ids) < _FEW:
        return flush_ids(tx, runs, campaign, round, ALL, ids, hash) if len(ids) else runs
    slices = hash(ids).slices
    for at in np.unique(slices).tolist():
        runs = flush_ids(tx, runs, campaign, round, at, ids[slices == at], hash)
    return runs


def write_run(tx: SqlTransaction, campaign: int, slice: int, round: int, made: int, drafted: Drafted) -> Run:
    """Store a run."""
    head = slice, round, made, drafted.n_ids, len(drafted.pages)
    ((no,),) = tx._all(
        "insert into runs (campaign, slice, round, made, n_ids, n_pages, crc, filter) "
        "values (?, ?, ?, ?, ?, ?, ?, ?) returning no",
        (campaign, *head, run_crc(campaign, head, drafted.filter), drafted.filter),
    )
    first = no << PLACE_BITS
    tx._run_each(
        "insert into run_pages (no, crc, ids) values (?, ?, ?)",
        [(page, page_crc(page, ids), ids) for page, ids in enumerate(drafted.pages, first)],
    )
    return Run(
        no=no,
        slice=slice,
        round=round,
        made=made,
        n_ids=drafted.n_ids,
        n_pages=len(drafted.pages),
        words=np.frombuffer(drafted.filter, dtype="<u8"),
    )


def delete_runs(tx: SqlTransaction, runs: Iterable[Run]) -> None:
    """Forget runs."""
    _delete(tx, [run.no for run in runs])


def drop_runs(tx: SqlTransaction, campaign: int, round: int) -> list[int]:
    """Forget the runs of a round, damaged ones too; their numbers."""
    rows = tx._all("select no from runs where campaign = ? and round = ?", (campaign, round))
    _delete(tx, [no for (no,) in rows])
    return [no for (no,) in rows]


def _delete(tx: SqlTransaction, nos: list[int]) -> None:
    for no in nos:
        tx._run("delete from run_pages where no >= ? and no < ?", (no << PLACE_BITS, no + 1 << PLACE_BITS))
        tx._run("delete from runs where no = ?", (no,))
