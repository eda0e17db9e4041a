"""Hashed answers are kept undecoded, and decoded when somebody asks what they say."""

import sys

import numpy as np
import pytest
from collecting import Caller, interim, make_question, make_reports

from keyveil.collector.store.cells import add, pack, unpack
from keyveil.tally import Tally, count
from keyveil.tally.count import UNDECODED, decode

MANY = tuple(f"k{i}" for i in range(600))


def forbid(monkeypatch):
    def fail(*_):
        raise AssertionError("hashed answers were decoded")

    for name in ("supports", "signed_supports", "dithered_supports"):
        # The package has a function of the module's name.
        monkeypatch.setattr(sys.modules["keyveil.tally.count"], name, fail)


@pytest.mark.parametrize(("mechanism", "options"), [("bucket", {"cohorts": 4096}), ("olh", {})])
def test_a_commit_decodes_nothing_and_the_tally_is_the_same(store_url, monkeypatch, mechanism, options):
    caller, campaign = Caller(store_url), make_question(mechanism, keys=MANY, pairs_per_user=1, **options)
    admin, token = caller.admin, caller.create(campaign)["device_token"]
    reports = make_reports(campaign, 400)
    with monkeypatch.context() as patched:
        forbid(patched)
        for at in range(0, 300, 100):
            assert caller.send(campaign, reports[at : at + 100], token=token) == ["accepted"] * 100
        with pytest.raises(AssertionError, match="decoded"):
            caller.collector.readout.tally(campaign.id, 1)
    assert caller.collector.readout.tally(campaign.id, 1) == campaign.tally(reports[:300])
    with monkeypatch.context() as patched:
        forbid(patched)
        # Decoded once for so many reports.
        assert caller.collector.readout.tally(campaign.id, 1).n_reports == 300
    # What an older version stored is decoded; both are in one row.
    older = campaign.tally(reports[300:])
    with caller.collector.store.write() as tx:
        tx.claim_ids(1, 1, [report[19:35] for report in reports[300:]])
        tx.add_block(1, 1, len(reports[0]), b"".join(reports[300:]), older)
        row = tx.tally(1, 1)
    assert caller.collector.readout.tally(campaign.id, 1) == campaign.tally(reports)
    caller.close()
    caller = Caller(store_url)
    with caller.collector.store.read() as tx:
        row = tx.tally(1, 1)
        assert UNDECODED in unpack(row.cells, question="q", n_reports=400).cells
    assert caller.collector.readout.tally(campaign.id, 1) == campaign.tally(reports)
    recount = caller("POST", f"/v1/campaigns/{campaign.id}/rounds/1/recount", token=admin).json
    assert (recount["agrees"], recount["tally_reports"]) == (True, 400)
    release = caller("GET", f"/v1/campaigns/{campaign.id}/release", token=admin).body.decode()
    assert release == interim(campaign.estimate(campaign.tally(reports)))
    caller.close()


def test_few_keys_are_decoded_at_once(caller):
    """2^18 counts would say less than the six that they are about."""
    campaign = make_question("bucket", pairs_per_user=1)
    caller.send(campaign, make_reports(campaign, 20), token=caller.create(campaign)["device_token"])
    with caller.collector.store.read() as tx:
        assert UNDECODED not in unpack(tx.tally(1, 1).cells, question="q", n_reports=20).cells


@pytest.mark.parametrize("n_answers", [0, 1, 100, 5000, 90_000])
def test_sparse_counts_come_back(n_answers):
    rng = np.random.default_rng(n_answers)
    counts = np.bincount(rng.integers(0, 1 << 16, n_answers), minlength=1 << 16) * 300
    tally = Tally.of(question="q", n_reports=n_answers, asked=[1, 2, 3], **{UNDECODED: counts})
    packed = pack(tally)
    assert unpack(packed, question="q", n_reports=n_answers) == tally
    assert len(packed) < 200 + min(6 * n_answers, 3 << 16)


def test_tallies_of_other_cells_add_by_name():
    undecoded, other = (
        Tally.of(question="q", n_reports=1, **cells) for cells in ({UNDECODED: [0, 1]}, {"plus": [1]})
    )
    both = add(add(undecoded, other), undecoded)
    assert (both.n_reports, both.cells[UNDECODED].tolist(), both.cells["plus"].tolist()) == (3, [0, 2], [1])


def test_no_answers_decode_to_nothing():
    mechanism = make_question("bucket", keys=MANY, pairs_per_user=1).build()
    empty = Tally.of(question="q", n_reports=0, **{UNDECODED: np.zeros(mechanism.layout.size, dtype=int)})
    assert decode(mechanism, empty) == count(mechanism, [], question="q")
