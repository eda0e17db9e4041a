"""Batches from relays: opened, counted once, and nothing said of single reports."""

import json
import secrets

import pytest
from collecting import Caller, answers, make_question, make_reports
from relaying import TestRelay, relayed

from keyveil.client import Reporter
from keyveil.collector.settings import Settings
from keyveil.report import Envelope
from keyveil.sealing import OpeningKey, SealingKey
from keyveil.shuffle import shuffled


@pytest.fixture
def campaign():
    return relayed(make_question)


@pytest.fixture
def relay(caller, campaign):
    caller.create(campaign)
    return TestRelay(caller, campaign)


def batches(caller, campaign):
    """What the store knows of batches: round, reports received and counted."""
    with caller.collector.store.read() as tx:
        known = caller.collector.cache.campaign(tx, campaign.id)
        return [(row.round, row.received, row.counted) for row in tx.batches(known.no)]


def test_what_was_sealed_is_counted_once(caller, campaign, relay):
    reports = make_reports(campaign, 12)
    sealed, batch = relay.seal(reports), secrets.token_hex(16)
    first = relay.bring(sealed, batch=batch)
    assert (first.status, first.json) == (200, {"batch": batch, "part": 0})
    again = relay.bring(sealed, batch=batch)
    assert (again.status, again.body) == (200, first.body)
    # Sealed anew, a report is still the same report.
    assert relay.bring(relay.seal(reports)).status == 200
    assert caller.collector.readout.tally(campaign.id, 1) == campaign.tally(reports)
    assert sorted(batches(caller, campaign)) == [(1, 12, 0), (1, 12, 12)]
    assert caller.collector.reports.recount(campaign.id, 1).agrees


def test_parts_of_a_batch_add_up(caller, campaign, relay):
    reports, batch = make_reports(campaign, 15), secrets.token_hex(16)
    sealed = relay.seal(reports)
    for part in (0, 1, 0, 2, 2):
        rows = sealed[5 * part : 5 * part + 5]
        assert relay.bring(rows, batch=batch, size=15, part=part, parts=3).json["part"] == part
    assert batches(caller, campaign) == [(1, 15, 15)]


def test_a_batch_in_many_pieces_adds_up(tmp_path):
    caller = Caller(f"sqlite:///{tmp_path}/c.db", settings=Settings(tick=3600, group_work=1 << 15))
    campaign = relayed(make_question)
    caller.create(campaign)
    reports = make_reports(campaign, 1) * 3 + answers(campaign, None, 600)
    relay = TestRelay(caller, campaign)
    assert relay.bring(relay.seal(reports)).status == 200
    assert batches(caller, campaign) == [(1, 603, 601)]
    caller.close()


def test_nothing_is_said_of_what_does_not_open(caller, campaign, relay):
    reports = make_reports(campaign, 4)
    stranger = SealingKey(OpeningKey.fresh().public)
    inside = Envelope.from_bytes(reports[1])
    other_round = Envelope(
        campaign=campaign.tag, round=2, report_id=bytes(16), payload=inside.payload
    ).to_bytes()
    damaged = bytearray(relay.seal(reports[2:3])[0])
    damaged[-1] ^= 1
    sealed = [
        *relay.seal(reports[:1]),
        *relay.seal(reports[1:2], key=stranger),
        *relay.seal([other_round]),
        *relay.seal(reports[3:4], round=2),
        bytes(damaged),
        b"",
        *relay.seal([b"no report at all"]),
    ]
    batch = secrets.token_hex(16)
    answer = relay.bring(sealed, batch=batch)
    assert (answer.status, answer.json) == (200, {"batch": batch, "part": 0})
    assert caller.collector.readout.tally(campaign.id, 1) == campaign.tally(reports[:1])
    assert batches(caller, campaign) == [(1, 7, 1)]
    counted = caller.collector.metrics.text()
    assert 'keyveil_sealed_reports_total{status="opened"} 1' in counted
    assert 'keyveil_sealed_reports_total{status="unknown-key"} 1' in counted
    assert 'keyveil_sealed_reports_total{status="not-sealed"} 3' in counted


def test_a_key_is_replaced_while_reports_are_under_way(caller, campaign, relay):
    old = relay.key()
    sealed = relay.seal(make_reports(campaign, 2))
    made = caller("POST", "/v1/keys", token=caller.admin)
    assert made.status == 201
    assert [key["id"] for key in made.json["keys"]] == [relay.key().id.hex(), old.id.hex()]
    assert relay.bring(sealed[:1]).status == 200
    assert relay.bring(relay.seal(make_reports(campaign, 1))).status == 200
    newest = caller("DELETE", f"/v1/keys/{relay.key().id.hex()}", token=caller.admin)
    assert (newest.status, newest.code) == (409, "key-in-use")
    assert caller("DELETE", f"/v1/keys/{old.id.hex()}", token=caller.admin).status == 204
    assert caller("DELETE", f"/v1/keys/{old.id.hex()}", token=caller.admin).code == "unknown-key"
    assert relay.bring(sealed[1:]).status == 200
    assert caller.collector.readout.tally(campaign.id, 1).n_reports == 2
    acts = [act["act"] for act in caller("GET", "/v1/acts", token=caller.admin).json["acts"]]
    assert acts.count("key-made") == 2
    assert acts.count("key-retired") == 1


def test_no_private_key_is_ever_shown(caller, campaign, relay):
    with caller.collector.store.read() as tx:
        [row] = tx.opening_keys()
    assert row.private.hex().encode() not in caller("GET", "/v1/keys").body
    assert row.private.hex() not in repr(caller.collector.opening.find({bytes.fromhex(row.id)}))


def test_the_second_relayed_campaign_shares_the_key(caller, campaign, relay):
    caller.create(relayed(make_question, name="another"))
    assert len(caller("GET", "/v1/keys").json["keys"]) == 1


def test_with_required_nobody_sends_directly(caller, campaign, relay):
    token = caller(
        "POST", f"/v1/campaigns/{campaign.id}/tokens", token=caller.admin, json_body={"role": "device"}
    )
    refused = caller.send(campaign, make_reports(campaign, 1), token=token.json["token"])
    assert (refused.status, refused.code) == (409, "relay-required")
    assert caller.collector.readout.tally(campaign.id, 1).n_reports == 0


def test_with_allowed_both_ways_count_the_same_report_once(caller):
    campaign = relayed(make_question, relay="allowed")
    token = caller.create(campaign)["device_token"]
    relay, reports = TestRelay(caller, campaign), make_reports(campaign, 3)
    assert caller.send(campaign, reports[:2], token=token) == ["accepted"] * 2
    assert relay.bring(relay.seal(reports[1:])).status == 200
    assert caller.collector.readout.tally(campaign.id, 1) == campaign.tally(reports)
    assert batches(caller, campaign) == [(1, 2, 1)]


def test_what_no_relay_carries_takes_no_batches(caller, campaign, relay):
    direct = make_question()
    caller.create(direct)
    refused = TestRelay(caller, direct).bring(relay.seal(make_reports(campaign, 1)))
    assert (refused.status, refused.code) == (409, "not-relayed")


def test_a_round_that_is_over_takes_no_batch(caller, campaign, relay):
    counted, late = relay.seal(make_reports(campaign, 2)), relay.seal(make_reports(campaign, 2))
    assert relay.bring(counted).status == 200
    assert caller.close_round(campaign, 1).status == 200
    # A batch that was counted before, and whose answer was lost, hears the same again.
    assert relay.bring(counted).status == 200
    refused = relay.bring(late)
    assert (refused.status, refused.code) == (409, "round-closed")
    assert caller.collector.readout.tally(campaign.id, 1).n_reports == 2


@pytest.mark.parametrize(
    "query",
    [
        "",
        "batch=ab&round=1&size=1",
        f"batch={'g' * 32}&round=1&size=1",
        f"batch={'a' * 32}&size=1",
        f"batch={'a' * 32}&round=1",
        f"batch={'a' * 32}&round=0&size=1",
        f"batch={'a' * 32}&round=1&size=1&part=1",
        f"batch={'a' * 32}&round=1&size=1&part=2&parts=2",
        f"batch={'a' * 32}&round=1&size=1&other=1",
    ],
)
def test_an_address_that_names_no_batch_is_refused(caller, campaign, relay, query):
    answer = caller("POST", f"/v1/campaigns/{campaign.id}/batches?{query}", b"", token=relay.token)
    assert (answer.status, answer.code) == (400, "bad-request")


def test_bodies_that_are_no_batch_are_refused(caller, campaign, relay):
    path = f"/v1/campaigns/{campaign.id}/batches?batch={'a' * 32}&round=1&size=1"

    def refused(body, *headers):
        return caller("POST", path, body, token=relay.token, headers=headers).code

    assert refused(b"\xff") == "bad-batch"
    assert refused(b"\x05\x00\x00\x00abc") == "bad-batch"
    assert refused(b"{}", ("content-type", "application/json")) == "unsupported-type"
    assert refused(b"", ("content-encoding", "gzip")) == "unsupported-type"
    assert refused(b"", ("content-length", str(1 << 40))) == "too-large"
    assert caller.app.intake._budget.taken == 0


def test_rounds_of_a_relayed_campaign_are_not_closed_by_count(caller, campaign):
    body = {"campaign": json.loads(campaign.canonical_json), "terms": {"close_at_count": 5}}
    answer = caller("POST", "/v1/campaigns", token=caller.admin, json_body=body)
    assert (answer.status, answer.code) == (400, "bad-request")


def test_the_view_says_when_the_open_round_ends(caller, campaign):
    caller.create(campaign, close_after=600)
    view = caller("GET", f"/v1/campaigns/{campaign.id}").json
    assert view["closes_at"] == caller.clock() + 600
    device = Reporter(campaign)
    assert device.report({}, {**view["round"], "campaign": view["campaign"]})


# --- what the release and the label say of it ---

PROMISE = {"batch": 40, "central_epsilon": 0.9, "delta": 1e-4, "epsilon": 1.0, "pairs_per_user": 1}


def released(caller, campaign):
    """The metadata of the release as it is now."""
    answer = caller("GET", f"/v1/campaigns/{campaign.id}/release", token=caller.admin)
    return answer.json["metadata"]["central"]


def test_the_release_says_what_the_smallest_batch_leaves(caller):
    campaign = relayed(make_question, **PROMISE)
    caller.create(campaign)
    relay = TestRelay(caller, campaign)
    for count in (50, 40):
        assert relay.bring(relay.seal(answers(campaign, None, count))).status == 200
    central = released(caller, campaign)
    assert central["epsilon"] == shuffled(campaign.build(), 20, 1e-4).best
    assert (central["delta"], central["honest"], central["smallest_batch"]) == (1e-4, 0.5, {"1": 40})
    label = caller("GET", f"/v1/campaigns/{campaign.id}/privacy").json
    assert label["central"]["seen"] == central
    assert label["central"]["promised"]["epsilon"] == central["epsilon"]
    assert central["words"] in label["words"]
    # The next batch is smaller than what was promised.
    repeated = relay.seal(answers(campaign, None, 30))
    assert relay.bring(repeated).status == 200
    central = released(caller, campaign)
    assert central["epsilon"] is None
    assert "a batch of round 1 had 30 reports, fewer than 40" in central["words"]


def test_a_batch_that_was_all_known_before_exposes_nobody(caller):
    campaign = relayed(make_question, **PROMISE)
    caller.create(campaign)
    relay, reports = TestRelay(caller, campaign), answers(campaign, None, 40)
    for _ in range(2):
        assert relay.bring(relay.seal(reports)).status == 200
    assert released(caller, campaign)["smallest_batch"] == {"1": 40}


def test_a_spoiled_report_in_a_batch_of_just_the_size_takes_nothing_away(caller):
    campaign = relayed(make_question, **PROMISE)
    caller.create(campaign)
    relay = TestRelay(caller, campaign)
    sealed = relay.seal(answers(campaign, None, 40))
    assert relay.bring([*sealed[:-1], bytes(len(sealed[-1]))]).status == 200
    central = released(caller, campaign)
    assert central["epsilon"] == shuffled(campaign.build(), 20, 1e-4).best
    assert (central["smallest_batch"], central["hidden_among"]) == ({"1": 40}, {"1": 20})


def test_a_batch_is_as_large_as_what_came_of_it(caller):
    campaign = relayed(make_question, **PROMISE)
    caller.create(campaign)
    relay, batch = TestRelay(caller, campaign), secrets.token_hex(16)
    sealed = relay.seal(answers(campaign, None, 60))
    assert relay.bring(sealed[:30], batch=batch, size=60, part=0, parts=2).status == 200
    assert released(caller, campaign)["epsilon"] is None
    # What came once is not added when it comes again.
    assert relay.bring(sealed[:30], batch=batch, size=60, part=0, parts=2).status == 200
    assert released(caller, campaign)["smallest_batch"] == {"1": 30}
    assert relay.bring(sealed[30:], batch=batch, size=60, part=1, parts=2).status == 200
    assert released(caller, campaign)["smallest_batch"] == {"1": 60}


def test_a_report_that_came_directly_leaves_nothing_central(caller):
    campaign = relayed(make_question, relay="allowed", batch=10)
    token = caller.create(campaign)["device_token"]
    relay = TestRelay(caller, campaign)
    assert relay.bring(relay.seal(answers(campaign, None, 20))).status == 200
    assert released(caller, campaign)["epsilon"] is not None
    assert caller.send(campaign, make_reports(campaign, 1), token=token) == ["accepted"]
    assert "1 reports to round 1 came in no batch" in released(caller, campaign)["words"]


def test_without_a_relay_nothing_central_is_said(caller):
    campaign = make_question()
    token = caller.create(campaign)["device_token"]
    caller.send(campaign, make_reports(campaign, 1), token=token)
    answer = caller("GET", f"/v1/campaigns/{campaign.id}/release", token=caller.admin)
    assert "central" not in answer.json["metadata"]
    assert caller("GET", f"/v1/campaigns/{campaign.id}/privacy").json["central"] is None


def test_a_promise_that_batches_do_not_keep_is_refused_with_what_would_do(caller):
    said = PROMISE | {"epsilon": 6.0}
    body = {"campaign": json.loads(relayed(make_question, **said).canonical_json), "terms": {}}
    answer = caller("POST", "/v1/campaigns", token=caller.admin, json_body=body)
    assert answer.json["code"] == "bad-campaign"
    detail = answer.json["detail"]
    assert "do not hide an answer of epsilon 6 down to 0.9 at delta 0.0001; epsilon " in detail
    most = float(detail.partition("; epsilon ")[2].partition(",")[0])
    caller.create(relayed(make_question, **said | {"epsilon": most}))
