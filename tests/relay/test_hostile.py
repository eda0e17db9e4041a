"""Bodies, disks and collectors that mean no good: refused in words, nothing lost, and nothing told."""

import json
import random
import shutil

import pytest
from collecting import Caller, answers, fast_folder, make_question, make_reports
from faulty_vfs import Disk, faults
from hostile_bodies import mutated
from relaying import relayed
from relays import RelayCaller

from keyveil.errors import StoreError, TransportError
from keyveil.relay.store import RelayStore
from keyveil.report import read_frames, to_frames

CONDITIONS = {"full": "disk is full", "readonly": "readonly database", "broken": "disk I/O error"}


@pytest.fixture
def quick(tmp_path):
    """A collector and a relay in memory, and a disk that can be spoiled."""
    folder = fast_folder(tmp_path)
    caller = Caller(f"sqlite:///{folder}/c.db")
    campaign = relayed(make_question)
    caller.create(campaign)
    with faults(Disk()) as disk:
        relay = RelayCaller(f"sqlite:///{folder}/r.db", caller)
        yield caller, campaign, relay, disk
        relay.close()
    caller.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("count", [10_000])
def test_malformed_bodies_are_no_fault(quick, count):
    caller, campaign, relay, _ = quick
    rng = random.Random(11)
    sealed = relay.seal(campaign, make_reports(campaign, 5))
    plain, path = to_frames(sealed), f"/v1/campaigns/{campaign.id}/sealed"
    taken = 0
    for step in range(count):
        body = rng.randbytes(rng.randrange(200)) if step % 10 == 1 else mutated(rng, plain)
        headers = [("content-type", "application/json" if step % 29 == 0 else "application/octet-stream")]
        if step % 17 == 0:
            headers.append(("content-encoding", rng.choice(["gzip", "deflate", "identity", "br"])))
        answer = relay("POST", path, body, headers=headers)
        assert answer.status in (200, 400, 413, 415), answer
        if answer.status == 200:
            taken += answer.json["reports"].count("accepted")
            assert len(answer.json["reports"]) == len(list(read_frames(body)))
    [round] = relay.rounds()
    # What is spoiled where a relay cannot see it waits with the others; a repeat waits once.
    assert 0 < round["waiting"] <= taken
    relay.end(campaign)
    assert relay.turn()
    tally = caller.collector.readout.tally(campaign.id, 1)
    assert tally.n_reports <= 5


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_disk_that_cannot_be_written_is_told_and_recovered_from(quick, condition):
    caller, campaign, relay, disk = quick
    before, during = (relay.seal(campaign, answers(campaign, None, count)) for count in (25, 15))
    assert relay.send(campaign, before) == ["accepted"] * 25
    disk.lasting = condition
    answer = relay.send(campaign, during)
    assert (answer.status, answer.code, answer.headers["retry-after"]) == (503, "store-unavailable", "1")
    assert CONDITIONS[condition] in answer.json["detail"]
    assert relay("GET", "/readyz").status == 503
    with pytest.raises(StoreError):
        relay.turn()
    disk.clear()
    assert relay("GET", "/readyz").status == 200
    assert relay.send(campaign, during) == ["accepted"] * 15
    relay.end(campaign)
    assert relay.turn()
    assert caller.collector.readout.tally(campaign.id, 1).n_reports == 40


def test_no_address_and_no_time_is_kept(quick):
    _, campaign, relay, _ = quick
    sealed = relay.seal(campaign, make_reports(campaign, 12))
    headers = [("x-forwarded-for", "198.51.100.77"), ("user-agent", "phone-of-somebody")]
    assert relay.send(campaign, sealed, headers=headers) == ["accepted"] * 12
    relay.send(campaign, [b"short"], headers=headers)
    relay.relay.tick()
    path = relay.relay.store._path
    kept = b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))
    kept += relay.out.getvalue().encode()
    kept += relay("GET", "/metrics", token=relay.admin).body
    assert b"198.51.100.77" not in kept
    assert b"phone-of-somebody" not in kept
    with relay.relay.store.read() as tx:
        columns = {
            row[1]
            for table in ("sealed", "digests", "parts")
            for row in tx._all(f"pragma table_info({table})")
        }
    assert columns == {"no", "round", "key", "report", "digest", "batch", "part", "n_reports", "reports"}


def test_nothing_of_what_the_collector_makes_of_a_report_is_told(quick):
    """What is answered before and after the collector has judged, for good and spoiled reports, is one."""
    _, campaign, relay, _ = quick
    sound = relay.seal(campaign, make_reports(campaign, 20))
    spoiled = [report[:-1] + bytes([report[-1] ^ 1]) for report in sound]
    first = [relay.send(campaign, [report]) for report in (sound[0], spoiled[0])]
    relay.send(campaign, sound + spoiled)
    relay.turn()
    again = [relay.send(campaign, [report]) for report in (sound[0], spoiled[0])]
    assert first == again == [["accepted"], ["accepted"]]


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"[]",
        b"{}",
        b'{"campaign": {}, "round": null}',
        b'{"campaign": 1, "round": null, "closes_at": "x"}',
        b"[" * 100_000,
        b'{"suite": "x25519-hkdf-sha256-aes128gcm", "keys": [{"id": "00", "public": "00"}]}',
        b'{"suite": "another", "keys": []}',
    ],
)
def test_a_collector_that_talks_nonsense_is_not_believed(quick, said):
    _, campaign, relay, _ = quick
    relay("GET", f"/v1/campaigns/{campaign.id}")
    honest, campaigns = relay.relay.campaigns._exchange, relay.relay.campaigns

    def lying(url, body, timeout, largest):
        answer = honest(url, body, timeout, largest)
        object.__setattr__(answer, "body", said)
        return answer

    campaigns._exchange = lying
    with pytest.raises(TransportError):
        campaigns.refresh()
    campaigns._exchange = honest
    sealed = relay.seal(campaign, make_reports(campaign, 3))
    assert relay.send(campaign, sealed) == ["accepted"] * 3
    assert relay("GET", f"/v1/campaigns/{campaign.id}").json["round"]["number"] == 1


def test_a_collector_with_a_key_for_each_device_is_not_served(quick):
    """Reports to more than a few keys are not taken, and each key's go apart."""
    caller, campaign, relay, _ = quick
    reports = make_reports(campaign, 12)
    sealed = []
    for report in reports:
        caller("POST", "/v1/keys", token=caller.admin)
        relay.relay.refresh()
        sealed += relay.seal(campaign, [report])
    statuses = relay.send(campaign, sealed)
    assert statuses == ["unknown-key"] * 8 + ["accepted"] * 4
    relay.end(campaign)
    assert relay.turn()
    assert not any("/batches" in path for path, _ in relay.asked)


def test_a_store_of_another_program_is_refused(tmp_path, caller):
    copy = tmp_path / "copy.db"
    caller.collector.store.backup(copy)
    with pytest.raises(StoreError, match="another program"):
        RelayStore(copy)
    RelayStore(tmp_path / "once.db").close()
    held = RelayStore(tmp_path / "once.db")
    with pytest.raises(StoreError, match="another relay"):
        RelayStore(tmp_path / "once.db")
    held.close()


def test_a_newer_store_is_refused(tmp_path):
    store = RelayStore(tmp_path / "r.db")
    with store.write() as tx:
        tx.set_value("schema", "99")
    store.close()
    with pytest.raises(StoreError, match="schema 99"):
        RelayStore(tmp_path / "r.db")


def test_a_backup_is_a_relay_s_store(tmp_path, quick):
    _, campaign, relay, _ = quick
    relay.send(campaign, relay.seal(campaign, make_reports(campaign, 12)))
    answer = relay("GET", "/v1/backup", token=relay.admin)
    assert answer.status == 200
    (tmp_path / "copy.db").write_bytes(answer.body)
    copy = RelayStore(tmp_path / "copy.db")
    with copy.read() as tx:
        assert [crowd.n_waiting for crowd in tx.crowds()] == [12]
    copy.close()


def test_pages_of_other_origins_may_send_where_they_are_allowed(tmp_path, caller, campaign):
    from keyveil.collector.http.origins import CrossOrigin

    relay = RelayCaller(f"sqlite:///{tmp_path}/o.db", caller)
    wrapped = CrossOrigin(relay.app, relay.app.endpoints, ("https://app.example",))
    inner, relay.app = relay.app, wrapped
    origin = ("origin", "https://app.example")
    sealed = to_frames(relay.seal(campaign, make_reports(campaign, 1)))
    answer = relay("POST", f"/v1/campaigns/{campaign.id}/sealed", sealed, headers=[origin])
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    asked = [origin, ("access-control-request-method", "POST")]
    for path in (f"/v1/campaigns/{campaign.id}/sealed", "/v1/keys", f"/v1/campaigns/{campaign.id}"):
        assert relay("OPTIONS", path, headers=asked).status == 204
    refused = relay("OPTIONS", "/v1/tokens", headers=asked)
    assert "access-control-allow-origin" not in refused.headers
    relay.app = inner
    relay.close()


def test_what_cannot_be_read_of_a_request_is_refused(relay, campaign):
    sealed = relay.seal(campaign, make_reports(campaign, 1))
    body = json.dumps({"reports": []}).encode()
    path = f"/v1/campaigns/{campaign.id}/sealed"
    refused = relay("POST", path, body, headers=[("content-type", "application/json")])
    assert (refused.status, refused.code) == (415, "unsupported-type")
    assert relay("POST", f"{path}?round=1", to_frames(sealed)).code == "bad-request"
    assert relay("POST", path, to_frames(sealed) + b"\xff").code == "bad-batch"
