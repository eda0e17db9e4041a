"""Ids in runs: every one that is known is found, few others cost anything, and damage is seen."""

import secrets
import sqlite3
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from collecting import Caller, make_question, make_reports

from keyveil.collector.store import open_store, postgres
from keyveil.collector.store.run_tables import flush_ids, flush_sliced, id_hash, known_in_runs, load_runs
from keyveil.collector.store.runs import ALL, KEY_BYTES, N_SLICES, IdHash, Run, Runs, draft, to_merge
from keyveil.collector.store.sqlite import SqliteStore
from keyveil.errors import StoreError

KEY = bytes(range(KEY_BYTES))


def random_ids(count, seed=1):
    return np.random.default_rng(seed).integers(0, 256, (count, 16), dtype=np.uint8)


def make_run(ids, *, no=1, slice=ALL, made=1):
    made_of = draft(ids, IdHash(KEY)(ids))
    words = np.frombuffer(made_of.filter, dtype="<u8")
    return Run(
        no=no, slice=slice, round=1, made=made, n_ids=len(ids), n_pages=len(made_of.pages), words=words
    ), made_of.pages


@pytest.mark.parametrize(("count", "most"), [(1, 0.1), (4096, 0.0005), (32768, 0.0005), (262144, 0.006)])
def test_a_filter_passes_all_that_is_in_its_run_and_little_else(count, most):
    ids, hash_ = random_ids(count), IdHash(KEY)
    run, pages = make_run(ids)
    which, at = Runs([run]).look(hash_(ids))
    assert which.tolist() == list(range(count))
    # The page that the hash names is the one in which the id is.
    for place in range(0, count, 1 + count // 100):
        assert ids[place].tobytes() in pages[at[place] - run.pages.start]
    others, _ = Runs([run]).look(hash_(random_ids(100_000, seed=2)))
    assert others.size <= most * 100_000
    assert max(map(len, pages)) < 2 * 16 * 205


def crafted(kind):
    numbers = np.arange(64_000, dtype=">u8")
    zeros = np.zeros_like(numbers)
    halves = {
        "alike in front": (zeros, numbers),
        "alike behind": (numbers, zeros),
        "high bits": (numbers << np.uint64(40), zeros),
        "both": (numbers, numbers),
    }[kind]
    return np.stack(halves, axis=1).view(np.uint8).reshape(-1, 16)


@pytest.mark.parametrize("kind", ["alike in front", "alike behind", "high bits", "both"])
def test_whoever_chooses_ids_cannot_crowd_a_slice_or_a_page(kind):
    for _ in range(3):
        hash_ = IdHash(secrets.token_bytes(KEY_BYTES))
        ids = crafted(kind)
        in_slices = np.bincount(hash_(ids).slices, minlength=N_SLICES)
        # 1,000 a slice, give or take six standard deviations.
        assert np.abs(in_slices - 1000).max() < 200
        assert max(map(len, draft(ids, hash_(ids)).pages)) < 16 * (205 + 7 * 15)


def test_flushes_keep_runs_few_and_ids_written_three_times():
    """A slice's flushes, with sizes alone: how many runs there are, and what merging costs."""
    empty = np.zeros(1, dtype=np.uint64)
    for at in (0, 5, ALL):
        runs, written = [], 0
        for made in range(1, 300):
            merged = to_merge(runs, slice=at, made=made)
            size = 4096 + sum(run.n_ids for run in merged)
            written += size
            runs = [run for run in runs if run not in merged]
            runs.append(Run(no=made, slice=at, round=1, made=made, n_ids=size, n_pages=1, words=empty))
            assert sum(run.tier < 2 for run in runs) <= 16
        assert sum(run.n_ids for run in runs) == 299 * 4096
        assert len(runs) < 16 + 299 / 60
        assert written <= 3.1 * 299 * 4096
    turns = [bool(to_merge(runs, slice=at, made=3)) for at in range(N_SLICES)]
    assert sum(turns) == N_SLICES // 8


@pytest.fixture
def store(store_url):
    made = open_store(store_url)
    yield made
    made.close()


def test_ids_are_known_whatever_was_merged(store):
    parts = [random_ids(300, seed) for seed in range(140)]
    with store.write() as tx:
        hash_, runs = id_hash(tx), load_runs(tx, 1)
        for part in parts:
            runs = flush_ids(tx, runs, 1, 1, 7, part, hash_)
        runs = flush_sliced(tx, runs, 1, 2, random_ids(1 << 17, 999), hash_)
    everything = np.concatenate(parts)
    # Whoever flushes names the slice; whoever looks, finds it by the hash.
    asked = [row.tobytes() for row in everything[hash_(everything).slices == 7]]
    with store.write() as tx:
        again = load_runs(tx, 1)
        assert {no: run.n_ids for no, run in again.by_no.items()} == {
            no: run.n_ids for no, run in runs.by_no.items()
        }
        assert sum(run.n_ids for run in again.of(7, 1)) == 140 * 300
        assert len(again.of(7, 1)) < 12
        assert known_in_runs(tx, again, asked, hash_) == set(asked)
        assert known_in_runs(tx, again, [row.tobytes() for row in random_ids(5000, 555)], hash_) == set()
        assert tx.known_ids(1, [row.tobytes() for row in random_ids(1 << 17, 999)[:3000]]) != set()
        tx.drop_ids(1, 2)
    with store.write() as tx:
        assert tx.known_ids(1, [row.tobytes() for row in random_ids(1 << 17, 999)[:3000]]) == set()
        assert tx.known_ids(1, asked) == set(asked)
        assert tx.known_ids(2, asked) == set()


def test_a_batch_that_is_sent_again_asks_few_questions(store, monkeypatch):
    ids = random_ids(65_536)
    with store.write() as tx:
        flush_sliced(tx, load_runs(tx, 1), 1, 1, ids, id_hash(tx))
    names = [row.tobytes() for row in ids]
    kind, statements = type(tx), []
    all_ = kind._all
    monkeypatch.setattr(kind, "_all", lambda self, *said: statements.append(said) or all_(self, *said))
    with store.write() as tx:
        assert tx.claim_ids(1, 1, names) == set()
    assert len(statements) < 10


# --- damage ---


def test_flipped_ids_are_found_and_harm_no_other_campaign(tmp_path):
    """A15: 200 flipped ids were counted twice, and nobody noticed."""
    caller = Caller(f"sqlite:///{tmp_path}/c.db")
    one, two = make_question(), make_question("privkv", name="other")
    admin, reports = caller.admin, {}
    tokens = {each.id: caller.create(each)["device_token"] for each in (one, two)}
    for each in (one, two):
        reports[each.id] = make_reports(each, 1000)
        assert caller.send(each, reports[each.id], token=tokens[each.id]) == ["accepted"] * 1000
    caller.close()
    flipped = [report[19:35] for report in reports[one.id][:200]]
    with sqlite3.connect(tmp_path / "c.db") as file:
        for no, ids in file.execute("select no, ids from run_pages").fetchall():
            names = [ids[at : at + 16] for at in range(0, len(ids), 16)]
            changed = [bytes(255 - byte for byte in name) if name in flipped else name for name in names]
            file.execute("update run_pages set ids = ? where no = ?", (b"".join(changed), no))
    caller = Caller(f"sqlite:///{tmp_path}/c.db")
    answer = caller.send(one, reports[one.id][:200], token=tokens[one.id])
    assert (answer.status, answer.code) == (503, "campaign-damaged")
    assert caller.send(two, reports[two.id], token=tokens[two.id]) == ["duplicate"] * 1000
    assert caller.send(two, make_reports(two, 5), token=tokens[two.id]) == ["accepted"] * 5
    tally = caller("GET", f"/v1/campaigns/{one.id}/rounds/1/tally", token=admin).json
    assert tally["n_reports"] == 1000
    caller.close()


@pytest.mark.parametrize(
    "harm",
    [
        "update runs set filter = zeroblob(length(filter))",
        "update runs set slice = 3",
        "update runs set n_pages = n_pages + 1",
        "update run_pages set ids = zeroblob(length(ids))",
        "update run_pages set crc = crc + 1",
        "delete from run_pages",
    ],
)
def test_any_change_of_a_run_is_damage(tmp_path, harm):
    store = SqliteStore(tmp_path / "c.db")
    ids = random_ids(100)
    with store.write() as tx:
        flush_sliced(tx, load_runs(tx, 1), 1, 1, ids, id_hash(tx))
    store.close()
    with sqlite3.connect(tmp_path / "c.db") as file:
        file.execute(harm)
    store = SqliteStore(tmp_path / "c.db")
    with pytest.raises(StoreError) as caught, store.write() as tx:
        tx.claim_ids(1, 1, [row.tobytes() for row in ids])
    assert caught.value.damaged
    with store.write() as tx:
        assert len(tx.claim_ids(2, 1, [row.tobytes() for row in ids])) == 100
    store.close()


def test_a_damaged_key_is_said_and_not_used(store_url):
    store = open_store(store_url)
    with store.write() as tx:
        tx._run("update store set value = '00' || substr(value, 3) where name = 'id_key'")
    store.close()
    with pytest.raises(StoreError, match="key of the store's ids is damaged"):
        open_store(store_url)


# --- several collectors ---


def test_collectors_that_race_a_flush_claim_every_id_once(database, monkeypatch):
    """Each id is sent by everybody, again and again, while slices move into runs and runs merge."""
    monkeypatch.setattr(postgres, "_STEP_IDS", 16)
    monkeypatch.setattr(postgres, "_FEWEST_IDS", 1)
    url = database.fresh()
    stores = [open_store(url) for _ in range(3)]
    names = [row.tobytes() for row in random_ids(3000)]
    claimed, lock = Counter(), threading.Lock()

    def send(worker):
        store, rng = stores[worker % 3], np.random.default_rng(worker)
        for start in np.concatenate([rng.permutation(150) * 20 for _ in range(2)]):
            part = [names[place] for place in rng.permutation(np.arange(start, start + 20))]
            with store.gather() as tx:
                fresh = tx.claim_ids(1, 1, part)
            with lock:
                claimed.update(fresh)
            store.after_group()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(send, range(6)))
    assert Counter(claimed.values()) == {1: 3000}
    with stores[0].write() as tx:
        assert tx.known_ids(1, names) == set(names)
        ((n_recent,),) = tx._all("select count(*) from recent_ids")
        ((n_flushed, made),) = tx._all("select sum(n_ids)::bigint, max(made) from runs")
    assert n_recent + n_flushed == 3000
    assert made >= 4
    for store in stores:
        store.close()


def test_a_claim_that_meets_a_flush_waits_and_sees_its_run(database, monkeypatch):
    """The order that a race may miss: the row is deleted, the claim inserts, the flush commits."""
    monkeypatch.setattr(postgres, "_FEWEST_IDS", 1)
    url = database.fresh()
    one, other = open_store(url), open_store(url)
    name = secrets.token_bytes(16)
    with one.gather() as tx:
        assert tx.claim_ids(1, 1, [name]) == {name}
    at = one._memory.slices_of([name])[0]
    with ThreadPoolExecutor(1) as pool:
        with one.write() as tx:
            assert tx.flush(1, at)

            def claim():
                with other.gather() as late:
                    return late.claim_ids(1, 1, [name])

            waiting = pool.submit(claim)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.5)
        assert waiting.result(timeout=20) == set()
    with other.write() as tx:
        assert tx._all("select count(*) from recent_ids") == [(0,)]
    one.close()
    other.close()
