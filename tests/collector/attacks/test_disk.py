"""Disks that are full, read-only or broken for a while: senders hear why, and nobody has to restart."""

import json
import resource
import shutil

import pytest
from collecting import Caller, fast_folder, glass, glass_report, make_question, make_reports
from faulty_vfs import Disk, faults
from serving import Process

from keyveil.collector.store import open_store
from keyveil.collector.store.sqlite import SqliteStore
from keyveil.errors import StoreError
from keyveil.report import to_frames

CONDITIONS = {"full": "disk is full", "readonly": "readonly database", "broken": "disk I/O error"}


@pytest.fixture
def disk():
    with faults(Disk()) as made:
        yield made


@pytest.fixture
def caller(tmp_path, disk):
    folder = fast_folder(tmp_path)
    made = Caller(f"sqlite:///{folder}/c.db")
    yield made
    made.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_disk_that_cannot_be_written_is_told_and_recovered_from(caller, disk, condition):
    campaign, other = make_question(), make_question(name="other")
    token = caller.create(campaign)["device_token"]
    before, during = make_reports(campaign, 20), make_reports(campaign, 20)
    assert caller.send(campaign, before, token=token) == ["accepted"] * 20
    disk.lasting = condition
    for _ in range(2):
        answer = caller.send(campaign, during, token=token)
        assert (answer.status, answer.code, answer.headers["retry-after"]) == (503, "store-unavailable", "1")
        assert CONDITIONS[condition] in answer.json["detail"]
    body = {"campaign": json.loads(other.canonical_json)}
    assert caller("POST", "/v1/campaigns", token=caller.admin, json_body=body).code == "store-unavailable"
    assert caller("GET", f"/v1/campaigns/{campaign.id}").status == 200
    assert caller.collector.readout.tally(campaign.id, 1) == campaign.tally(before)
    disk.clear()
    assert caller.send(campaign, during, token=token) == ["accepted"] * 20
    assert caller.send(campaign, before + during, token=token) == ["duplicate"] * 40
    assert caller.create(other)["created"]
    assert caller.collector.readout.tally(campaign.id, 1) == campaign.tally(before + during)
    assert caller.collector.reports.recount(campaign.id, 1).agrees
    assert caller.collector.damaged == {}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_readiness_says_that_the_disk_cannot_be_written_and_when_it_can(caller, disk, condition):
    """Nobody sends to a collector that is not ready, so it finds out by itself that it is again."""
    campaign = make_question()
    token = caller.create(campaign)["device_token"]
    disk.lasting = condition
    caller.send(campaign, make_reports(campaign, 1), token=token)
    answer = caller("GET", "/readyz")
    assert (answer.status, answer.json["ready"]) == (503, False)
    assert CONDITIONS[condition] in answer.body.decode()
    disk.clear()
    assert caller("GET", "/readyz").status == 200


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_probe_meets_the_disk(tmp_path, disk, condition):
    store = SqliteStore(tmp_path / "c.db")
    for _ in range(2):
        with store.write() as tx:
            tx.probe()
        disk.lasting = condition
        with pytest.raises(StoreError, match=CONDITIONS[condition]), store.write() as tx:
            tx.probe()
        disk.clear()
    store.close()


def test_the_writer_says_why_it_fails_until_it_does_not(caller, disk):
    campaign = make_question()
    token = caller.create(campaign)["device_token"]
    disk.lasting = "full"
    caller.send(campaign, make_reports(campaign, 1), token=token)
    assert "disk is full" in caller.app.writer.failing
    disk.clear()
    caller.send(campaign, make_reports(campaign, 1), token=token)
    assert caller.app.writer.failing == ""


def test_a_collector_that_may_write_no_more_loses_and_doubles_nothing(tmp_path):
    """A real process whose files may not grow for a while: every bucket that was acknowledged holds one."""
    folder = fast_folder(tmp_path)
    server, campaign = Process(f"sqlite:///{folder}/c.db"), glass(1 << 11)
    token = server.create(campaign)["device_token"]
    heard, refused = set(), []

    def send(first):
        reports = [glass_report(campaign, bucket) for bucket in range(first, first + 50)]
        path = f"/v1/campaigns/{campaign.id}/reports"
        for attempt in range(3):
            status, said = server.ask("POST", path, to_frames(reports), token=token)
            if status == 200:
                assert set(json.loads(said)["reports"]) <= {"accepted", "duplicate"}
                heard.update(range(first, first + 50))
                return
            assert (status, json.loads(said)["code"]) == (503, "store-unavailable")
            refused.append(first)
            if attempt:
                resource.prlimit(server.child.pid, resource.RLIMIT_FSIZE, unlimited)

    unlimited = resource.prlimit(server.child.pid, resource.RLIMIT_FSIZE)
    for first in range(0, 1000, 50):
        if first % 250 == 100:
            size = (folder / "c.db-wal").stat().st_size
            resource.prlimit(server.child.pid, resource.RLIMIT_FSIZE, (size, unlimited[1]))
        send(first)
    _, body = server.ask("GET", f"/v1/campaigns/{campaign.id}/rounds/1/tally", token=server.admin)
    counts = json.loads(body)["cells"]["support"][: 1 << 11]
    again = json.loads(
        server.ask("POST", f"/v1/campaigns/{campaign.id}/rounds/1/recount", token=server.admin)[1]
    )
    server.stop()
    shutil.rmtree(folder, ignore_errors=True)
    assert counts == [int(bucket in heard) for bucket in range(1 << 11)]
    assert again["agrees"]
    assert len(refused) >= 4


def test_a_probe_leaves_the_store_as_it_was(store_url):
    for _ in range(2):
        store = open_store(store_url)
        for _ in range(3):
            with store.write() as tx:
                tx.probe()
        assert store.migrated is None
        store.close()
