"""Many reports as one matrix say what the same reports say one by one."""

import numpy as np
import pytest

from keyveil.errors import Refusal, ReportRejected
from keyveil.mechanisms import build
from keyveil.report import Envelope
from keyveil.tally import Packed, count, refusals
from keyveil.tally.packed import bit_sums, non_canonical

NAMES = (
    "pckv-ue",
    "pckv-grr",
    "privkv",
    "ue-sw",
    "olh",
    "bucket",
    "oue",
    "grr",
    "krr-harmony",
    "oue-harmony",
    "levels",
)


def random_rows(mechanism, count, seed):
    """Bytes of the right length, most of them no answers, and some answers."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 256, size=(count, mechanism.layout.n_bytes), dtype=np.uint8)
    rows[::2] &= rng.integers(0, 256, size=rows[::2].shape, dtype=np.uint8)
    rows[::4] = 0
    return rows


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n_keys", [1, 3, 4, 37])
def test_rows_that_decode_are_those_that_count(name, n_keys):
    mechanism = build(name, 1.0, n_keys=n_keys, pairs_per_user=2)
    rows = random_rows(mechanism, 200, n_keys)
    decodes = []
    for row in rows:
        try:
            mechanism.layout.decode(row.tobytes())
            decodes.append(True)
        except ReportRejected:
            decodes.append(False)
    assert (~non_canonical(mechanism.layout, rows)).tolist() == decodes
    sound = rows[np.array(decodes)]
    one_by_one = count(mechanism, [row.tobytes() for row in sound], question="q")
    for packed in (Packed(sound), Packed(sound, is_sound=True)):
        assert count(mechanism, packed, question="q") == one_by_one
    if not all(decodes):
        with pytest.raises(ReportRejected):
            count(mechanism, Packed(rows), question="q")


@pytest.mark.parametrize("name", ["olh", "bucket"])
def test_cohorts_that_ids_do_not_give_are_named(name):
    mechanism = build(name, 1.0, n_keys=5, pairs_per_user=2)
    rows = []
    for i in range(40):
        envelope = Envelope(
            campaign=bytes(16),
            round=1,
            report_id=i.to_bytes(16, "big"),
            payload=bytes(mechanism.layout.n_bytes),
        )
        rows.append(envelope.to_bytes())
    matrix = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(40, -1)
    found = refusals(mechanism, matrix, tag=bytes(16), round=1)
    assert set(found.values()) <= {Refusal.WRONG_COHORT}
    assert len(found) >= 30


@pytest.mark.parametrize("n_rows", [0, 1, 15, 16, 239, 240, 241, 1000])
def test_bits_are_summed_without_a_carry(n_rows):
    rows = np.full((n_rows, 3), 255, dtype=np.uint8)
    assert bit_sums(rows).tolist() == [n_rows] * 24
    rng = np.random.default_rng(n_rows)
    rows = rng.integers(0, 256, size=(n_rows, 5), dtype=np.uint8)
    wanted = np.unpackbits(rows, axis=1, bitorder="little").astype(np.int64).sum(axis=0)
    assert bit_sums(rows).tolist() == wanted.tolist()
