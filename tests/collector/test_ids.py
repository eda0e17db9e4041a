"""Ids that the collector hands out: no device picks the hash of its report."""

import json
import secrets

import pytest
from click.testing import CliRunner
from collecting import Caller, make_question, make_reports
from serving import Process

from keyveil.cli.app import keyveil
from keyveil.client import Reporter, issued_ids
from keyveil.report import Envelope


@pytest.fixture
def caller(store_url):
    caller = Caller(store_url)
    yield caller
    caller.close()


def fetch(caller, campaign, token, count):
    answer = caller("POST", f"/v1/campaigns/{campaign.id}/ids?count={count}", token=token)
    assert answer.status == 200, answer
    return [bytes.fromhex(name) for name in answer.json["ids"]]


def under(ids, campaign):
    """Reports under these ids."""
    left = list(ids)
    device = Reporter(campaign, ids=left.pop)
    return [device.report({}) for _ in ids]


def test_only_issued_ids_count_and_each_once(caller):
    campaign = make_question("bucket")
    token = caller.create(campaign, ids="issued")["device_token"]
    assert caller("GET", f"/v1/campaigns/{campaign.id}").json["ids"] == "issued"
    assert caller.send(campaign, make_reports(campaign, 3), token=token) == ["not-issued"] * 3
    issued = under(fetch(caller, campaign, token, 5), campaign)
    mixed = [issued[0], make_reports(campaign, 1)[0], issued[1], issued[0]]
    assert caller.send(campaign, mixed, token=token) == ["accepted", "not-issued", "accepted", "duplicate"]
    assert caller.send(campaign, issued, token=token) == ["duplicate"] * 2 + ["accepted"] * 3
    assert caller.collector.readout.recount(campaign.id, 1).tally_reports == 5


def test_an_id_is_for_one_campaign(caller):
    one, other = make_question(), make_question(name="other")
    tokens = [caller.create(campaign, ids="issued")["device_token"] for campaign in (one, other)]
    stolen = under(fetch(caller, one, tokens[0], 2), other)
    assert caller.send(other, stolen, token=tokens[1]) == ["not-issued"] * 2


def test_a_changed_bit_is_noticed(caller):
    campaign = make_question()
    token = caller.create(campaign, ids="issued")["device_token"]
    for name in fetch(caller, campaign, token, 4):
        bit = secrets.randbelow(128)
        forged = (int.from_bytes(name, "big") ^ 1 << bit).to_bytes(16, "big")
        assert caller.send(campaign, under([forged], campaign), token=token) == ["not-issued"]


def test_who_may_not_ask_is_told(caller):
    own, analyst = make_question(), make_question(name="analysed")
    token = caller.create(own)["device_token"]
    answer = caller("POST", f"/v1/campaigns/{own.id}/ids", token=token)
    assert (answer.status, answer.code) == (400, "bad-request")
    body = {"campaign": json.loads(analyst.canonical_json), "terms": {"ids": "issued", "uploads": "open"}}
    answer = caller("POST", "/v1/campaigns", token=caller.admin, json_body=body)
    assert (answer.status, answer.code) == (400, "bad-request")
    assert "token" in answer.json["detail"]
    for count in ("0", "10001", "x"):
        answer = caller("POST", f"/v1/campaigns/{own.id}/ids?count={count}", token=token)
        assert (answer.status, answer.code) == (400, "bad-request")


def test_devices_and_files_ask_for_their_ids_over_http(tmp_path):
    server = Process(f"sqlite:///{tmp_path}/c.db")
    campaign = make_question("bucket")
    token = server.create(campaign, ids="issued")["device_token"]
    url = f"{server.url}/v1/campaigns/{campaign.id}"
    device = Reporter(
        campaign,
        ledger=tmp_path / "device.db",
        collector=server.url,
        token=token,
        ids=issued_ids(url, token=token),
    )
    assert device.enable()
    assert device.submit({campaign.keys[0]: 1.0})
    assert device.upload()
    assert device.status().traffic.sent == 1
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("user,key,value\n" + "".join(f"u{i},{campaign.keys[i % 3]},1\n" for i in range(300)))
    sent = CliRunner().invoke(keyveil, ["send", url, str(pairs)], env={"KEYVEIL_TOKEN": token})
    assert "300 reports accepted, 0 refused, 0 left" in sent.output
    _, export = server.ask("GET", f"/v1/campaigns/{campaign.id}/rounds/1/reports", token=server.admin)
    server.stop()
    from keyveil.report import read_frames

    assert len({Envelope.from_bytes(report).report_id for report in read_frames(export)}) == 301
