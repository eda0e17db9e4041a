"""Counting compiled, counting as numpy alone, and counting one by one give the same integers."""

import numpy as np
import pytest

from keyveil.batch import InsecureSeededStream, Records
from keyveil.batch.answers import draw_answers
from keyveil.domain import Record
from keyveil.mechanisms import REGISTRY, build
from keyveil.mechanisms.oracles import bucket_of
from keyveil.report import Row, Trits
from keyveil.tally import count
from keyveil.tally.bits import count_bits
from keyveil.tally.count import Counter, count_answers
from keyveil.tally.hashing import signed_supports
from keyveil.tally.payloads import Payloads
from keyveil.testing.laws import answer_cell, tally_cell


def payloads_of(mechanism, n, seed=3):
    rng = np.random.default_rng(seed)
    records = [Record.of({int(k): 0.5 for k in rng.choice(mechanism.n_keys, 2)}) for _ in range(n)]
    public = rng.integers(0, 2**64, n, dtype=np.uint64)
    return draw_answers(mechanism, Records.of(records), InsecureSeededStream(seed), public)


@pytest.mark.parametrize("name", REGISTRY)
def test_every_way_counts_what_each_answer_ticks(name, way):
    mechanism = build(name, 1, n_keys=7, pairs_per_user=2)
    payloads = [row.tobytes() for row in payloads_of(mechanism, 500)]
    ticked = (answer_cell(mechanism, mechanism.layout.decode(payload)) for payload in payloads)
    assert tally_cell(count(mechanism, payloads, question="q")) == tuple(map(sum, zip(*ticked, strict=True)))


@pytest.mark.parametrize("name", REGISTRY)
def test_bad_answers_are_marked_wherever_they_are_and_the_rest_is_counted(name, way):
    mechanism = build(name, 1, n_keys=6, pairs_per_user=2)
    good = payloads_of(mechanism, 70)
    refused = []
    for number in range(256):
        answer = bytes([number]) * mechanism.layout.n_bytes
        try:
            mechanism.layout.decode(answer)
        except Exception:
            refused.append(answer)
    if not refused:
        pytest.skip("every byte string of this length is an answer")
    rows = [row.tobytes() for row in good]
    places = [0, 5, 16, 40, 71, 73]
    for place, answer in zip(places, refused * 6, strict=False):
        rows.insert(place, answer)
    counter = Counter(mechanism, question="q")
    bad = counter.add(Payloads.of(rows, mechanism.layout.n_bytes))
    assert np.flatnonzero(bad).tolist() == places
    assert counter.tally() == count(mechanism, [row.tobytes() for row in good], question="q")


@pytest.mark.parametrize("length", [1, 4, 100, 117, 1000])
@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 256, 4100])
def test_sums_of_bits_are_exact_for_every_number_of_rows_and_columns(length, n, way):
    rng, layout = np.random.default_rng(n + length), Row(length, 2)
    bits = rng.integers(0, 2, (n, length), dtype=np.uint8)
    packed = np.packbits(bits, axis=1, bitorder="little").reshape(n, layout.n_bytes)
    # Headers of other bits in front, nothing behind the last: neither may be counted.
    reports = np.full((n, 35 + layout.n_bytes), 0xFF, dtype=np.uint8)
    reports[:, 35:] = packed
    starts = 35 + reports.shape[1] * np.arange(n, dtype=np.int64)
    counts, bad = count_bits(
        layout, Payloads(data=reports.reshape(-1), starts=starts, n_bytes=layout.n_bytes)
    )
    assert counts[:length].tolist() == bits.sum(axis=0, dtype=np.int64).tolist()
    assert not counts[length:].any()
    assert not bad.any()


def test_sums_of_bits_pass_the_most_that_planes_hold():
    """Seventy thousand rows of ones: every level carries, and the planes are emptied on the way."""
    rows = np.full((70_001, 3), 0xFF, dtype=np.uint8)
    rows[:, 2] = 0x0F
    counts, bad = count_bits(Row(20, 2), Payloads.of_matrix(rows))
    assert (counts[:20] == 70_001).all()
    assert not bad.any()


def test_rows_that_lie_unevenly_are_counted_where_they_lie(way):
    rng = np.random.default_rng(1)
    data = rng.integers(0, 256, 20_000, dtype=np.uint8) & 0x55
    starts = np.sort(rng.choice(19_000, 500, replace=False)).astype(np.int64)
    counts, _ = count_bits(Trits(400), Payloads(data=data, starts=starts, n_bytes=100))
    rows = np.stack([data[start : start + 100] for start in starts])
    assert counts.tolist() == np.unpackbits(rows, axis=1, bitorder="little").sum(axis=0).tolist()


@pytest.mark.parametrize("rho", ["0", "1/2", "-1/8"])
def test_hash_sums_are_those_of_the_hash(rho, way):
    mechanism = build("bucket", 1, n_keys=1100, pairs_per_user=2, buckets=9, rho=rho, cohorts=50)
    answers = np.random.default_rng(2).integers(0, 450, 300)
    plus, minus = signed_supports(mechanism, answers)
    for code in (0, 1, 511, 1023, 1024, 1099):
        told = [mechanism.symbol_bucket(cohort, code, sign) for sign in (1, -1) for cohort in range(50)]
        hits = [sum(a % 9 == told[50 * side + a // 9] for a in answers.tolist()) for side in (0, 1)]
        assert [plus[code], minus[code]] == hits


def test_olh_in_threads_is_olh_in_one(monkeypatch):
    from keyveil.tally import hashing

    mechanism = build("olh", 1, n_keys=3000)
    answers = payloads_of(mechanism, 400)
    alone = count_answers(mechanism, Payloads.of_matrix(answers)).cells["support"]
    monkeypatch.setattr(hashing, "_WORTH_A_THREAD", 1000)
    monkeypatch.setattr(hashing, "usable_cores", lambda: 3)
    together = count_answers(mechanism, Payloads.of_matrix(answers)).cells["support"]
    assert alone.tolist() == together.tolist()
    oracle, numbers = mechanism.oracle, [int.from_bytes(row.tobytes(), "little") for row in answers]
    expected = sum(bucket_of(a // oracle.buckets, 77, oracle.buckets) == a % oracle.buckets for a in numbers)
    assert together[77] == expected


def test_hashed_answers_wait_and_are_counted_once(monkeypatch):
    import importlib

    from keyveil.tally import count as _  # noqa: F401

    module = importlib.import_module("keyveil.tally.count")
    mechanism = build("bucket", 1, n_keys=20, pairs_per_user=2)
    rows = payloads_of(mechanism, 300)
    whole = count(mechanism, [row.tobytes() for row in rows], question="q")
    monkeypatch.setattr(module, "_WAITING", 50)
    counter = Counter(mechanism, question="q")
    for start in range(0, 300, 40):
        counter.add(Payloads.of_matrix(rows[start : start + 40]))
        counter.tally()
    assert counter.tally() == whole
