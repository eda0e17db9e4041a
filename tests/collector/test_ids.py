"""Ids that the collector hands out: no device picks the index or the hash of its report."""

import json
import secrets
from dataclasses import replace

import pytest
from click.testing import CliRunner
from collecting import NOW, Caller, make_question, make_reports
from serving import Process

from keyveil.cli.app import keyveil
from keyveil.client import Reporter
from keyveil.collector.campaigns.terms import Terms
from keyveil.estimate import lever
from keyveil.report import Envelope, public_word


@pytest.fixture
def caller(store_url):
    caller = Caller(store_url)
    yield caller
    caller.close()


def fetch(caller, campaign, token, count, nonce=None):
    nonce = secrets.token_hex(16) if nonce is None else nonce
    answer = caller("POST", f"/v1/campaigns/{campaign.id}/ids?count={count}&nonce={nonce}", token=token)
    assert answer.status == 200, answer
    return [bytes.fromhex(name) for name in answer.json["ids"]]


def issuing(mechanism="pckv-ue", **changes):
    return make_question(mechanism, ids="issued", **changes)


def under(ids, campaign):
    """Reports under these ids."""
    left = list(ids)
    device = Reporter(campaign, ids=left.pop)
    return [device.report({}) for _ in ids]


@pytest.mark.parametrize("mechanism", ["bucket", "kvue", "pckv-ue"])
def test_only_issued_ids_count_and_each_once(caller, mechanism):
    campaign = issuing(mechanism)
    token = caller.create(campaign)["device_token"]
    assert caller("GET", f"/v1/campaigns/{campaign.id}").json["ids"] == "issued"
    assert caller.send(campaign, make_reports(campaign, 3), token=token) == ["not-issued"] * 3
    issued = under(fetch(caller, campaign, token, 5), campaign)
    mixed = [issued[0], make_reports(campaign, 1)[0], issued[1], issued[0]]
    assert caller.send(campaign, mixed, token=token) == ["accepted", "not-issued", "accepted", "duplicate"]
    assert caller.send(campaign, issued, token=token) == ["duplicate"] * 2 + ["accepted"] * 3
    assert caller.collector.reports.recount(campaign.id, 1).tally_reports == 5


def test_a_campaign_that_was_stored_with_the_old_term_goes_on_as_it_did(caller):
    """Ids are checked, devices draw their index and have no nonce, and the bound is the larger one."""
    campaign = make_question("kvue", keys=tuple(f"k{i}" for i in range(100)))
    path = f"/v1/campaigns/{campaign.id}"
    with caller.collector.store.write() as tx:
        terms = Terms(ids="issued").to_json()
        tx.add_campaign(id=campaign.id, config=campaign.canonical_json, terms=terms, label="", now=NOW)
        tx.be_alone()
        tx.set_secret(secrets.token_bytes(32))
        tx.open_round(tx.campaign(campaign.id).no, campaign.first_round(), now=NOW, closes_at=None)
    made = caller("POST", f"{path}/tokens", token=caller.admin, json_body={"role": "device"})
    token = made.json["token"]
    view = caller("GET", path).json
    assert (view["ids"], "ids" in view["round"]["mechanism"]) == ("issued", False)
    assert caller.send(campaign, make_reports(campaign, 2), token=token) == ["not-issued"] * 2
    answer = caller("POST", f"{path}/ids?count=50", token=token)
    ids = [bytes.fromhex(name) for name in answer.json["ids"]]
    assert len(set(ids)) == 50
    assert caller.send(campaign, under(ids, campaign), token=token) == ["accepted"] * 50
    caller.close_round(campaign, 1)
    release = caller("GET", f"{path}/release", token=caller.admin).json
    assert min(row["frequency_hostile"] for row in release["rows"]) > 0.4


def test_an_id_is_for_one_campaign(caller):
    one, other = issuing(), issuing(name="other")
    tokens = [caller.create(campaign)["device_token"] for campaign in (one, other)]
    stolen = under(fetch(caller, one, tokens[0], 2), other)
    assert caller.send(other, stolen, token=tokens[1]) == ["not-issued"] * 2


def test_a_changed_bit_is_noticed(caller):
    campaign = issuing()
    token = caller.create(campaign)["device_token"]
    for name in fetch(caller, campaign, token, 4):
        bit = secrets.randbelow(128)
        forged = (int.from_bytes(name, "big") ^ 1 << bit).to_bytes(16, "big")
        assert caller.send(campaign, under([forged], campaign), token=token) == ["not-issued"]


def test_who_may_not_ask_is_told(caller):
    own, open_, moved = make_question(), issuing(name="open"), make_question(name="moved")
    token = caller.create(own)["device_token"]
    answer = caller("POST", f"/v1/campaigns/{own.id}/ids", token=token)
    assert (answer.status, answer.code) == (400, "bad-request")
    for campaign, terms, said in (
        (open_, {"uploads": "open"}, "uploads must be token"),
        (moved, {"ids": "issued"}, "at $.campaign.ids"),
    ):
        body = {"campaign": json.loads(campaign.canonical_json), "terms": terms}
        answer = caller("POST", "/v1/campaigns", token=caller.admin, json_body=body)
        assert (answer.status, answer.code) == (400, "bad-request")
        assert said in answer.json["detail"]
    for count in ("0", "10001", "x"):
        answer = caller("POST", f"/v1/campaigns/{own.id}/ids?count={count}", token=token)
        assert (answer.status, answer.code) == (400, "bad-request")


def test_a_token_and_a_nonce_have_one_id_however_often_they_ask(caller):
    campaign = issuing("kvue")
    token = caller.create(campaign)["device_token"]
    body = {"role": "device"}
    path = f"/v1/campaigns/{campaign.id}"
    other = caller("POST", f"{path}/tokens", token=caller.admin, json_body=body).json["token"]
    nonces = [secrets.token_hex(16) for _ in range(20)]
    ids = [fetch(caller, campaign, token, 1, nonce) for nonce in nonces]
    assert ids == [fetch(caller, campaign, token, 1, nonce) for nonce in nonces]
    # A crowd that asks at once has ids of its own, the first of them the nonce's.
    crowd = fetch(caller, campaign, token, 10_000, nonces[0])
    assert crowd[:1] == ids[0]
    assert len({*crowd, *(name for (name,) in ids)}) == 10_000 + 19
    assert not {*crowd} & {name for nonce in nonces for name in fetch(caller, campaign, other, 1, nonce)}
    for nonce in ("", "00", "g" * 32, "A" * 32, "0" * 33):
        answer = caller("POST", f"{path}/ids?nonce={nonce}", token=token)
        assert (answer.status, answer.code) == (400, "bad-request"), nonce
    answer = caller("POST", f"{path}/ids?count=1", token=token)
    assert (answer.status, answer.code) == (400, "bad-request")
    assert "nonce" in answer.json["detail"]


def test_ids_cost_what_reports_cost(caller):
    campaign = issuing("kvue")
    caller.create(campaign)
    path = f"/v1/campaigns/{campaign.id}"
    slow = caller("POST", f"{path}/tokens", token=caller.admin, json_body={"role": "device", "rate": 0.5})
    token, nonce = slow.json["token"], secrets.token_hex(16)
    fetch(caller, campaign, token, 1, nonce)
    answer = caller("POST", f"{path}/ids?nonce={nonce}", token=token)
    assert (answer.status, answer.code) == (429, "rate-limited")


@pytest.mark.parametrize("mechanism", ["kvue", "privkv", "levels", "bucket"])
def test_an_index_that_the_id_does_not_give_is_refused(caller, mechanism):
    campaign = issuing(mechanism)
    token = caller.create(campaign)["device_token"]
    one, two = under(fetch(caller, campaign, token, 2), campaign)
    swapped = one[:19] + two[19:35] + one[35:]
    asked = campaign.only_round()
    follows = asked.mechanism.follows(
        asked.mechanism.layout.decode(one[35:]), public_word(campaign.tag, 1, two[19:35])
    )
    expected = "accepted" if follows else "wrong-cohort"
    assert caller.send(campaign, [swapped, one], token=token) == [expected, "accepted"]


def test_a_campaign_of_several_rounds_asks_for_an_id_a_round(caller):
    campaign = issuing("privkvm", rounds=2, pairs_per_user=1)
    token = caller.create(campaign)["device_token"]
    for number in (1, 2):
        view = caller("GET", f"/v1/campaigns/{campaign.id}").json
        assert view["round"]["mechanism"]["ids"] == "issued"
        asked = campaign.read_round(view["round"])
        ids = fetch(caller, campaign, token, 40)
        device = Reporter(campaign, ids=ids.pop)
        reports = [device.report({campaign.keys[0]: 30.0}, asked) for _ in range(40)]
        assert caller.send(campaign, reports, token=token) == ["accepted"] * 40
        assert caller.close_round(campaign, number).status == 200
    release = caller("GET", f"/v1/campaigns/{campaign.id}/release", token=caller.admin).json
    bounds = [row["frequency_hostile"] for row in release["rows"]]
    pull = lever(campaign.first_round().mechanism)
    assert max(bounds) < max(abs(pull.of_report(said)) for said in pull.says) * 0.01 + 0.02


def test_a_release_prints_the_smaller_bound_where_ids_are_issued(caller):
    most = {}
    for ids in ("own", "issued"):
        campaign = make_question("kvue", ids=ids, keys=tuple(f"k{i}" for i in range(100)))
        token = caller.create(campaign)["device_token"]
        reports = (
            make_reports(campaign, 2000)
            if ids == "own"
            else under(fetch(caller, campaign, token, 2000), campaign)
        )
        assert set(caller.send(campaign, reports, token=token)) == {"accepted"}
        caller.close_round(campaign, 1)
        release = caller("GET", f"/v1/campaigns/{campaign.id}/release", token=caller.admin).json
        reach = caller("GET", f"/v1/campaigns/{campaign.id}/hostile?per_mille=10", token=caller.admin).json
        up = max(
            high - low for high, low in zip(reach["frequency_high"], reach["frequency_low"], strict=True)
        )
        most[ids] = max(row["frequency_hostile"] for row in release["rows"]), up
    # The share of liars among those asked about a key: 1 in 100, or as many as the others.
    assert most["own"][0] / most["issued"][0] == pytest.approx(0.5025 / 0.01, rel=0.35)
    assert most["own"][1] / most["issued"][1] == pytest.approx(0.5025 / 0.01, rel=1e-3)


@pytest.mark.parametrize("mechanism", ["bucket", "kvue"])
def test_devices_and_files_ask_for_their_ids_over_http(tmp_path, mechanism):
    server = Process(f"sqlite:///{tmp_path}/c.db")
    campaign = issuing(mechanism)
    token = server.create(campaign)["device_token"]
    url = f"{server.url}/v1/campaigns/{campaign.id}"
    # Given the collector's address, a device finds out by itself where its ids come from.
    device = Reporter(campaign, ledger=tmp_path / "device.db", collector=server.url, token=token)
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


def test_the_command_line_says_it_in_the_campaign(tmp_path):
    server = Process(f"sqlite:///{tmp_path}/c.db")
    campaign = make_question("kvue")
    file = tmp_path / "campaign.json"
    file.write_text(campaign.canonical_json)
    options = ["--url", server.url, "--token", server.admin]
    created = CliRunner().invoke(keyveil, ["campaign", "create", str(file), "--issue-ids", *options])
    server.stop()
    assert created.exit_code == 0, created.output
    assert replace(campaign, ids="issued").id in created.output
    assert 'write ids = "issued" into campaign.json' in created.output
