"""Reports in, statuses out, tallies that are what was accepted."""

import base64
import gzip
import json
import random

import pytest
from collecting import NOW, Caller, make_question, make_reports

from keyveil.collector.http.limits import Budget
from keyveil.collector.settings import Settings
from keyveil.collector.writing.fair_queue import PIECE, FairQueue, Sender
from keyveil.collector.writing.upload import FRAMED, Upload, UploadPart, read_upload
from keyveil.errors import ReportRejected
from keyveil.report import Envelope, to_frames


def test_reports_are_accepted_once(caller):
    campaign = make_question()
    token = caller.create(campaign)["device_token"]
    reports = make_reports(campaign, 5)
    assert caller.send(campaign, reports, token=token) == ["accepted"] * 5
    assert caller.send(campaign, reports[:2], token=token) == ["duplicate"] * 2
    more = make_reports(campaign, 1)
    batch = [reports[4], *more, *more]
    assert caller.send(campaign, batch, token=token) == ["duplicate", "accepted", "duplicate"]
    assert caller.collector.readout.tally(campaign.id, 1) == campaign.tally([*reports, *more])
    assert caller.collector.reports.recount(campaign.id, 1).agrees


@pytest.mark.parametrize(
    "mechanism", ["pckv-ue", "pckv-grr", "privkv", "ue-sw", "olh", "bucket", "oue", "grr", "subset"]
)
def test_each_report_of_a_batch_gets_its_own_status(tmp_path, mechanism):
    caller = Caller(f"sqlite:///{tmp_path}/c.db")
    campaign, other = make_question(mechanism), make_question(mechanism, name="other")
    token = caller.create(campaign)["device_token"]
    good = make_reports(campaign, 3)
    stranger = make_reports(other, 1)[0]
    header = Envelope.from_bytes(good[0])
    late = Envelope(campaign=campaign.tag, round=2, report_id=bytes(16), payload=header.payload).to_bytes()
    future = b"\x02" + good[1][1:]
    no_answer = good[2][:35] + b"\xff" * (len(good[2]) - 35)
    batch = [good[0], stranger, late, future, b"", good[1][:-1], no_answer, good[2], good[0]]
    assert caller.send(campaign, batch, token=token) == [
        "accepted",
        "wrong-campaign",
        "wrong-round",
        "unknown-version",
        "wrong-length",
        "wrong-length",
        # The id is the last good report's, which comes later: the first that can be counted is.
        "duplicate",
        "accepted",
        "duplicate",
    ]
    fresh = Envelope(campaign=campaign.tag, round=1, report_id=b"f" * 16, payload=no_answer[35:]).to_bytes()
    assert caller.send(campaign, [fresh], token=token) == ["not-canonical"]
    assert caller.collector.readout.tally(campaign.id, 1) == campaign.tally([good[0], good[2]])
    caller.close()


def test_a_hash_that_the_id_does_not_give_is_refused(caller):
    campaign = make_question("olh")
    token = caller.create(campaign)["device_token"]
    report = make_reports(campaign, 1)[0]
    moved = report[:19] + bytes(16) + report[35:]
    assert caller.send(campaign, [moved, report], token=token) == ["wrong-cohort", "accepted"]


def test_json_says_the_same_as_frames(caller):
    campaign = make_question()
    token = caller.create(campaign)["device_token"]
    reports = make_reports(campaign, 4)
    items = [
        base64.b64encode(reports[0]).decode(),
        json.loads(Envelope.from_bytes(reports[1]).to_json()),
        base64.b64encode(reports[2]).decode().rstrip("=") + "!",
        {"version": 1},
        7,
        None,
    ]
    path = f"/v1/campaigns/{campaign.id}/reports"
    answer = caller("POST", path, token=token, json_body={"reports": items})
    assert answer.json["reports"] == ["accepted", "accepted", *["not-json"] * 4]
    for body in (
        b'{"reports": [], "reports": []}',
        b"[]",
        b"{}",
        b'{"reports": 1}',
        b"\xff",
        b'{"reports": [NaN]}',
    ):
        answer = caller("POST", path, body, token=token, headers=[("content-type", "application/json")])
        assert (answer.status, answer.code) == (400, "bad-batch"), body


def test_gzip_is_expanded_to_a_bound(caller):
    campaign = make_question()
    token = caller.create(campaign)["device_token"]
    reports, path = make_reports(campaign, 50), f"/v1/campaigns/{campaign.id}/reports"
    zipped, coded = gzip.compress(to_frames(reports)), [("content-encoding", "gzip")]
    assert caller("POST", path, zipped, token=token, headers=coded).json["reports"] == ["accepted"] * 50
    bomb = gzip.compress(bytes(100 << 20))
    assert len(bomb) < 1 << 20
    assert caller("POST", path, bomb, token=token, headers=coded).code == "too-large"
    for broken in (zipped[:-3], zipped + b"more", b"no gzip", b""):
        assert caller("POST", path, broken, token=token, headers=coded).code == "bad-batch"
    odd = caller("POST", path, zipped, token=token, headers=[("content-encoding", "br")])
    assert odd.code == "unsupported-type"
    assert caller.collector.readout.tally(campaign.id, 1).n_reports == 50


def test_a_body_that_claims_too_much_is_not_read(caller):
    campaign = make_question()
    token = caller.create(campaign)["device_token"]
    path = f"/v1/campaigns/{campaign.id}/reports"
    answer = caller("POST", path, b"", token=token, headers=[("content-length", str(300 << 20))])
    assert (answer.status, answer.code, answer.headers["connection"]) == (413, "too-large", "close")


def test_bytes_in_flight_are_bounded(tmp_path):
    caller = Caller(f"sqlite:///{tmp_path}/c.db", settings=Settings(waiting_bytes=1000, tick=3600))
    campaign = make_question()
    token = caller.create(campaign)["device_token"]
    intake, report = caller.app.intake, make_reports(campaign, 1)
    # What would not fit if it were alone is never taken; what does not fit now is, later.
    answer = caller.send(campaign, make_reports(campaign, 100), token=token)
    assert (answer.status, answer.code) == (413, "too-large")
    others = [(Sender(f"10.0.0.{place}", None), 1000 >> place) for place in range(1, 6)]
    for other, size in others:
        intake.take(other, size)
    answer = caller.send(campaign, report, token=token)
    assert (answer.status, answer.code, answer.headers["retry-after"]) == (503, "overloaded", "1")
    for other, size in others:
        intake.give(other, size)
    # What was taken is given back.
    assert caller.send(campaign, report, token=token) == ["accepted"]
    assert intake._budget.taken == 0
    caller.close()


def test_one_sender_leaves_room_for_others():
    budget = Budget(64 << 20)
    held = {}
    for sender in "abcd":
        held[sender] = 0
        while budget.take(sender, 1 << 16):
            held[sender] += 1 << 16
    # A half, a half of the rest, and so on: never all.
    assert [round(held[sender] / (1 << 20)) for sender in "abcd"] == [32, 16, 8, 4]
    assert budget.take("e", 1 << 20)


def put_all(queue, address, sizes):
    for size in sizes:
        queue.put(Sender(address, None), *Upload("", None, 0, [], size).pieces(PIECE))


def test_senders_take_turns():
    """Sixteen megabytes of one sender's uploads are before another's in the queue, and not in the writing."""
    queue = FairQueue()
    put_all(queue, "10.0.0.1", [1 << 18] * 64)
    put_all(queue, "10.0.0.2", [100] * 8)
    first = queue.take(most=100, work=1 << 20)
    assert sum(one.size == 100 for one in first) == 8
    assert 3 <= sum(one.size == 1 << 18 for one in first) <= 4
    n_taken = len(first)
    while n_taken < 72:
        n_taken += len(queue.take(most=100, work=1 << 20))
    assert len(queue) == 0
    queue.end()
    assert queue.take(most=100, work=1) == []


def test_large_uploads_leave_the_small_half_of_the_time():
    """Even where all have one address and one token."""
    queue = FairQueue()
    large = Upload("", None, 16000, [UploadPart(1, 40, bytes(40 * 16000), range(16000))], 40 * 16000)
    queue.put(Sender("10.0.0.1", None), *large.pieces(PIECE))
    # A group that nobody else wants takes what it can.
    alone = queue.take(most=2048, work=16 << 20)
    assert (16 << 20) <= sum(one.work for one in alone) < (17 << 20)
    while len(queue):
        put_all(queue, "10.0.0.1", [1 << 17] * 4)
        group = queue.take(most=2048, work=16 << 20)
        small = sum(one.work for one in group if one.whole is None)
        assert (small, sum(one.work for one in group)) <= (4 << 17, (8 << 17) + PIECE)


def test_a_group_of_small_and_large_has_no_more_than_its_bound():
    queue = FairQueue()
    put_all(queue, "10.0.0.1", [1 << 17] * 6)
    put_all(queue, "10.0.0.2", [1 << 20] * 6)
    assert len(queue.take(most=6, work=16 << 20)) == 6


def test_a_large_upload_is_answered_as_a_whole(caller):
    campaign = make_question()
    token = caller.create(campaign)["device_token"]
    reports = make_reports(campaign, 700)
    assert caller.send(campaign, reports[100:101], token=token) == ["accepted"]
    odd = [*reports[:300], b"", *reports[300:], reports[0], b"\x02" + reports[1][1:]]
    said = caller.send(campaign, odd, token=token)
    expected = ["accepted"] * 703
    expected[100] = expected[701] = "duplicate"
    expected[300], expected[702] = "wrong-length", "unknown-version"
    assert said == expected
    assert caller.collector.metrics.of_campaign(campaign.id) == {
        "accepted": 700,
        "duplicate": 2,
        "wrong-length": 1,
        "unknown-version": 1,
    }
    assert caller.collector.readout.tally(campaign.id, 1) == campaign.tally(reports)


def test_a_full_queue_refuses_before_reading(tmp_path):
    caller = Caller(f"sqlite:///{tmp_path}/c.db", settings=Settings(waiting_uploads=0, tick=3600))
    campaign = make_question()
    token = caller.create(campaign)["device_token"]
    answer = caller.send(campaign, make_reports(campaign, 1), token=token)
    assert (answer.status, answer.code) == (503, "overloaded")
    assert caller("GET", "/readyz").status == 503
    caller.close()


def test_a_rate_is_kept(caller):
    campaign = make_question()
    caller.create(campaign)
    path = f"/v1/campaigns/{campaign.id}/tokens"
    made = caller("POST", path, token=caller.admin, json_body={"role": "device", "rate": 5})
    token = made.json["token"]
    assert caller.send(campaign, make_reports(campaign, 30), token=token) == ["accepted"] * 30
    answer = caller.send(campaign, make_reports(campaign, 1), token=token)
    assert (answer.status, answer.code) == (429, "rate-limited")
    assert 3 <= int(answer.headers["retry-after"]) <= 6


def test_an_expired_campaign_takes_nothing(tmp_path):
    now = [NOW]
    caller = Caller(f"sqlite:///{tmp_path}/c.db", clock=lambda: now[0])
    campaign = make_question(expires="2026-06-30")
    token = caller.create(campaign)["device_token"]
    assert caller.send(campaign, make_reports(campaign, 1), token=token) == ["accepted"]
    now[0] += 40 * 86400
    answer = caller.send(campaign, make_reports(campaign, 1), token=token)
    assert (answer.status, answer.code) == (410, "campaign-expired")
    # A clock that jumps back does not bring it to life again.
    now[0] = NOW
    assert caller.send(campaign, make_reports(campaign, 1), token=token).status == 410
    assert caller("GET", f"/v1/campaigns/{campaign.id}").json["state"] == "expired"
    caller.close()


def test_a_token_that_is_revoked_opens_nothing_at_once(caller):
    campaign = make_question()
    made = caller.create(campaign)
    token = made["device_token"]
    assert caller.send(campaign, make_reports(campaign, 1), token=token) == ["accepted"]
    # Another process revokes it: this one still has the token cached, and learns of it in the transaction.
    with caller.collector.store.write() as tx:
        tx.revoke(token.split("-")[1], NOW)
    answer = caller.send(campaign, make_reports(campaign, 1), token=token)
    assert (answer.status, answer.code) == (401, "unknown-token")
    assert caller.collector.readout.tally(campaign.id, 1).n_reports == 1


def test_open_campaigns_need_no_token(caller):
    campaign = make_question()
    assert caller.create(campaign, uploads="open")["device_token"] is None
    assert caller.send(campaign, make_reports(campaign, 2)) == ["accepted"] * 2
    assert caller.send(campaign, make_reports(campaign, 1), token="kv-nonsense").code == "unknown-token"


def test_two_campaigns_in_one_group_do_not_mix(caller):
    one, two = make_question(), make_question("privkv", name="two")
    tokens = {campaign.id: caller.create(campaign)["device_token"] for campaign in (one, two)}
    sent = {campaign.id: make_reports(campaign, 20) for campaign in (one, two)}

    async def both():
        import asyncio

        async def send(campaign):
            path = f"/v1/campaigns/{campaign.id}/reports"
            calls = [
                caller.ask("POST", path, to_frames([report]), token=tokens[campaign.id])
                for report in sent[campaign.id]
            ]
            return await asyncio.gather(*calls)

        return await asyncio.gather(send(one), send(two))

    for answers in caller.loop.run_until_complete(both()):
        assert [answer.json["reports"] for answer in answers] == [["accepted"]] * 20
    for campaign in (one, two):
        assert caller.collector.readout.tally(campaign.id, 1) == campaign.tally(sent[campaign.id])
    # Forty uploads, few transactions.
    assert caller.collector.metrics.groups < 30


def test_nothing_that_was_sent_is_logged(caller):
    campaign = make_question(name="secret-name")
    token = caller.create(campaign)["device_token"]
    caller.send(campaign, make_reports(campaign, 3), token=token)
    caller("POST", f"/v1/campaigns/{campaign.id}/reports", b"rubbish-body", token=token)
    caller("GET", "/v1/campaigns", token="kv-0123456789abcdef-" + "x" * 43)
    logged = caller.out.getvalue()
    for secret in (token, caller.admin, token.split("-", 2)[2], "rubbish", "127.0.0.1", "secret-name"):
        assert secret not in logged


def test_a_batch_of_many_kinds_is_one_question(caller):
    campaign = make_question()
    token = caller.create(campaign)["device_token"]
    good = make_reports(campaign, 1)[0]
    odd = [good[:17] + (7 + i).to_bytes(2, "little") + i.to_bytes(16, "big") + bytes(i) for i in range(64)]
    assert caller.send(campaign, [good, *odd[1:]], token=token) == ["accepted", *["wrong-round"] * 63]
    assert caller.collector.metrics.groups == 1
    answer = caller.send(campaign, [good, *odd], token=token)
    assert (answer.status, answer.code) == (400, "bad-batch")
    assert "65 kinds" in answer.json["detail"]


@pytest.mark.parametrize("seed", range(20))
def test_reports_are_sorted_as_one_by_one(seed):
    """All headers at once say what each says alone."""
    rng, tag = random.Random(seed), b"t" * 16
    reports = []
    for place in range(rng.randrange(1, 60)):
        whole = Envelope(
            campaign=rng.choice([tag, b"u" * 16]),
            round=rng.choice([1, 1, 1, 2, 65535]),
            report_id=place.to_bytes(16, "big"),
            payload=bytes(rng.choice([1, 1, 2])),
        ).to_bytes()
        reports.append(rng.choice([whole, whole, whole, b"\x02" + whole[1:], whole[: rng.randrange(36)]]))
    upload = read_upload(to_frames(reports), FRAMED, tag=tag, campaign="", token=None, most=100)
    statuses, parts = ["accepted"] * len(reports), {}
    for place, report in enumerate(reports):
        try:
            envelope = Envelope.from_bytes(report)
        except ReportRejected as refusal:
            statuses[place] = refusal.code.value
            continue
        if envelope.campaign != tag:
            statuses[place] = "wrong-campaign"
        else:
            parts.setdefault((envelope.round, len(report)), []).append(place)
    assert (upload.statuses or ["accepted"] * len(reports)) == statuses
    assert {(part.round, part.length): list(part.places) for part in upload.parts} == parts
    for part in upload.parts:
        assert part.reports == b"".join(reports[place] for place in part.places)
