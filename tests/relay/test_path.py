"""From devices through a relay to a collector: every report once, in batches of the promised size."""

import json
from dataclasses import replace
from fractions import Fraction

import pytest
from collecting import NOW, Caller, answers, make_question, make_reports, make_series, wave_reports
from relaying import relayed
from relays import RelayCaller

from keyveil.client.answer import HttpAnswer
from keyveil.report import read_frames
from keyveil.sealing import OpeningKey, SealedHeader, SealingKey


def sizes(caller, campaign):
    """How many reports each batch brought to the collector."""
    with caller.collector.store.read() as tx:
        known = caller.collector.cache.campaign(tx, campaign.id)
        return sorted(row.received for row in tx.batches(known.no))


def test_reports_wait_until_twice_a_batch_is_there_and_the_end_takes_all(caller, campaign, relay):
    reports = answers(campaign, None, 37)
    sealed = relay.seal(campaign, reports)
    assert relay.send(campaign, sealed[:19]) == ["accepted"] * 19
    assert relay.turn()
    assert sizes(caller, campaign) == []
    assert relay.send(campaign, sealed[19:24]) == ["accepted"] * 5
    assert relay.turn()
    assert sizes(caller, campaign) == [14]
    assert relay.send(campaign, sealed[24:]) == ["accepted"] * 13
    assert relay.turn()
    assert sizes(caller, campaign) == [13, 14]
    assert relay.end(campaign).status == 200
    assert relay.turn()
    assert sizes(caller, campaign) == [10, 13, 14]
    assert caller.collector.readout.tally(campaign.id, 1) == campaign.tally(reports)
    [round] = relay.rounds()
    assert (round["waiting"], round["discarded"], sorted(round["batches"])) == (0, 0, [10, 13, 14])


def test_the_last_batch_says_how_many_were_merged_into_it(campaign, relay):
    relay.send(campaign, relay.seal(campaign, answers(campaign, None, 17)))
    relay.end(campaign)
    acts = relay("GET", "/v1/acts", token=relay.admin).json["acts"]
    assert [act["detail"] for act in acts if act["act"] == "last-batch"] == [
        "17 of round 1, 7 of them merged into it"
    ]


def test_repeats_are_dropped_and_hear_what_the_first_heard(caller, campaign, relay):
    sealed = relay.seal(campaign, answers(campaign, None, 15))
    first = relay.send(campaign, sealed)
    assert relay.send(campaign, sealed + sealed[:3]) == first + first[:3]
    assert relay.rounds()[0]["waiting"] == 15
    relay.end(campaign)
    assert relay.turn()
    assert relay.send(campaign, sealed) == first
    late = relay.seal(campaign, make_reports(campaign, 1))
    assert relay.send(campaign, [*late, sealed[0]]) == ["round-closed", "accepted"]
    assert sizes(caller, campaign) == [15]


def test_too_few_at_the_end_are_thrown_away(caller, campaign, relay):
    relay.send(campaign, relay.seal(campaign, answers(campaign, None, 9)))
    relay.end(campaign)
    assert relay.turn()
    assert sizes(caller, campaign) == []
    assert relay.rounds()[0]["discarded"] == 9
    acts = relay("GET", "/v1/acts", token=relay.admin).json["acts"]
    assert [act["detail"] for act in acts if act["act"] == "discarded"] == ["9 of round 1: fewer than 10"]
    assert '"event": "discarded"' in relay.out.getvalue()


def test_what_a_relay_sees_is_said_and_nothing_else(caller, campaign, relay):
    stranger = SealingKey(OpeningKey.fresh().public)
    [report] = make_reports(campaign, 1)
    [sound] = relay.seal(campaign, [report])
    sent = [
        sound,
        *relay.seal(campaign, [report], key=stranger),
        *relay.seal(campaign, [report], round=2),
        *relay.seal(campaign, [report + b"x"]),
        b"short",
        b"\x02" + sound[1:],
        # For the collector it is spoiled, and no relay knows.
        sound[:-1] + bytes([sound[-1] ^ 1]),
    ]
    said = ["accepted", "unknown-key", "wrong-round", "wrong-length", "wrong-length", "unknown-version"]
    assert relay.send(campaign, sent) == [*said, "accepted"]
    assert relay.rounds()[0]["waiting"] == 2


def test_what_no_relay_carries_is_refused(caller, relay):
    direct = make_question()
    caller.create(direct)
    refused = relay.send(direct, [bytes(80)])
    assert (refused.status, refused.code) == (409, "not-relayed")
    unknown = relayed(make_question, name="not there")
    for _ in range(3):
        refused = relay.send(unknown, [bytes(80)])
        assert (refused.status, refused.code) == (404, "unknown-campaign")
    # A stranger makes nobody ask twice.
    assert sum(unknown.id in path for path, _ in relay.asked) == 1


def test_a_round_for_few_is_not_carried(caller, relay, monkeypatch):
    grouped = relayed(make_question, mechanism="auto", users=5000)
    caller.create(grouped)
    stage = grouped.first_round()
    few = grouped.device_config(replace(stage, group=(Fraction(0), Fraction(1, 101))))
    path = f"/v1/campaigns/{grouped.id}"
    view = caller("GET", path).json
    honest = relay.relay.campaigns._ask

    def hostile(asked, *rest, **more):
        if asked != path:
            return honest(asked, *rest, **more)
        return json.dumps(view | {"round": few | {"campaign": grouped.id}}).encode()

    monkeypatch.setattr(relay.relay.campaigns, "_ask", hostile)
    assert relay.send(grouped, relay.seal(grouped, answers(grouped, stage, 1))) == ["wrong-round"]
    assert '"round-refused"' in relay.out.getvalue()
    assert relay.rounds() == []


def test_the_order_is_another_and_says_nothing_of_the_first(caller, campaign, relay):
    sealed = relay.seal(campaign, answers(campaign, None, 200))
    relay.send(campaign, sealed)
    relay.end(campaign)
    assert relay.turn()
    [(_, body)] = [asked for asked in relay.asked if "/batches?" in asked[0]]
    length = len(sealed[0]) + 4
    order = [sealed.index(body[at + 4 : at + length]) for at in range(0, len(body), length)]
    assert sorted(order) == list(range(200))
    # Of 200 in an order that is drawn, one stays in its place on average.
    assert sum(place == at for at, place in enumerate(order)) < 10


def test_keys_hide_apart(caller, campaign, relay):
    old = relay.seal(campaign, answers(campaign, None, 12))
    assert relay.send(campaign, old) == ["accepted"] * 12
    caller("POST", "/v1/keys", token=caller.admin)
    relay.relay.refresh()
    assert relay.send(campaign, relay.seal(campaign, answers(campaign, None, 8))) == ["accepted"] * 8
    # Twenty wait, and no ten of them have one key but the twelve.
    assert relay.turn()
    assert sizes(caller, campaign) == []
    relay.end(campaign)
    assert relay.turn()
    assert sizes(caller, campaign) == [12]
    assert relay.rounds()[0]["discarded"] == 8
    [(_, body)] = [asked for asked in relay.asked if "/batches?" in asked[0]]
    assert {SealedHeader.read(sealed).key for sealed in read_frames(body)} == {SealedHeader.read(old[0]).key}


def test_a_batch_is_of_one_key_whichever_is_drawn_first(caller, campaign, relay):
    waiting = [relay.seal(campaign, answers(campaign, None, 12))]
    caller("POST", "/v1/keys", token=caller.admin)
    relay.relay.refresh()
    waiting.append(relay.seal(campaign, answers(campaign, None, 13)))
    for sealed in waiting:
        assert relay.send(campaign, sealed) == ["accepted"] * len(sealed)
    relay.end(campaign)
    assert relay.turn()
    batches = [sorted(read_frames(body)) for path, body in relay.asked if "/batches?" in path]
    assert sorted(batches, key=len) == [sorted(sealed) for sealed in waiting]


def test_an_outage_loses_nothing(caller, campaign, tmp_path):
    relay = RelayCaller(f"sqlite:///{tmp_path}/outage.db", caller)
    assert relay("GET", f"/v1/campaigns/{campaign.id}").status == 200
    sealed = relay.seal(campaign, answers(campaign, None, 28))
    relay.is_away = True
    assert relay.send(campaign, sealed[:25]) == ["accepted"] * 25
    assert not relay.turn()
    relay.relay.tick()
    ready = relay("GET", "/readyz").json
    assert ready["ready"]
    assert "no answer" in ready["failing"]
    # The process ends, and another begins while the collector is still away.
    relay.close()
    again = RelayCaller(f"sqlite:///{tmp_path}/outage.db", caller)
    again.is_away = True
    assert again.send(campaign, sealed[20:]) == ["accepted"] * 8
    assert again("GET", "/v1/keys").status == 200
    again.is_away = False
    again.admin = relay.admin
    assert again.end(campaign).status == 200
    assert again.turn()
    assert sum(sizes(caller, campaign)) == 28
    again.close()


def test_a_round_that_the_collector_closes_takes_nothing_more(caller, campaign, relay):
    relay.send(campaign, relay.seal(campaign, answers(campaign, None, 12)))
    assert caller.close_round(campaign, 1).status == 200
    relay.relay.refresh()
    assert relay.send(campaign, relay.seal(campaign, make_reports(campaign, 1))) == ["round-closed"]
    assert relay.turn()
    assert relay.rounds()[0]["discarded"] == 12
    assert '"batch-refused"' in relay.out.getvalue()


@pytest.fixture
def now():
    return [1_780_000_000.0]


def test_the_last_batch_goes_before_the_round_ends(tmp_path, now):
    caller = Caller(f"sqlite:///{tmp_path}/c.db", clock=lambda: now[0])
    campaign = relayed(make_question)
    caller.create(campaign, close_after=3600)
    relay = RelayCaller(f"sqlite:///{tmp_path}/r.db", caller)
    assert relay.send(campaign, relay.seal(campaign, answers(campaign, None, 11))) == ["accepted"] * 11
    now[0] += 3539
    assert relay.turn()
    assert sizes(caller, campaign) == []
    now[0] += 1
    assert relay.send(campaign, relay.seal(campaign, make_reports(campaign, 1))) == ["round-closed"]
    assert relay.turn()
    assert sizes(caller, campaign) == [11]
    relay.close()
    caller.close()


def test_an_answer_that_was_lost_doubles_nothing(caller, campaign, relay):
    reports = answers(campaign, None, 30)
    relay.send(campaign, relay.seal(campaign, reports))
    relay.end(campaign)
    relay.relay.tick()
    exchange, lost = relay.relay.forwarding._exchange, []

    def losing(url, body, timeout, largest):
        answer = exchange(url, body, timeout, largest)
        if not lost:
            lost.append(answer)
            raise OSError("cut")
        return answer

    relay.relay.forwarding._exchange = losing
    assert not relay.relay.forwarding.forward_all()
    assert relay.relay.forwarding.forward_all()
    assert sizes(caller, campaign) == [30]
    assert caller.collector.readout.tally(campaign.id, 1) == campaign.tally(reports)


def test_large_batches_go_in_parts(tmp_path, caller, campaign):
    relay = RelayCaller(f"sqlite:///{tmp_path}/r2.db", caller, part_reports=7)
    reports = answers(campaign, None, 40)
    relay.send(campaign, relay.seal(campaign, reports))
    assert relay.turn()
    assert sizes(caller, campaign) == [30]
    assert sum("/batches?" in path for path, _ in relay.asked) == 5
    relay.end(campaign)
    assert relay.turn()
    assert sizes(caller, campaign) == [10, 30]
    assert caller.collector.readout.tally(campaign.id, 1) == campaign.tally(reports)
    relay.close()


def test_a_batch_that_is_not_taken_holds_up_no_other(caller, campaign, relay):
    other = relayed(make_question, name="another")
    caller.create(other)
    for each in (campaign, other):
        relay.send(each, relay.seal(each, answers(each, None, 12)))
        relay.end(each)
    exchange = relay.relay.forwarding._exchange

    def refusing(url, body, timeout, largest):
        if campaign.id in url:
            return HttpAnswer(status=503, body=b'{"code": "campaign-damaged", "detail": "it is damaged"}')
        return exchange(url, body, timeout, largest)

    relay.relay.forwarding._exchange = refusing
    assert not relay.relay.forwarding.forward_all()
    assert (sizes(caller, campaign), sizes(caller, other)) == ([], [12])
    relay.relay.tick()
    assert "it is damaged" in relay("GET", "/readyz").json["failing"]
    relay.relay.forwarding._exchange = exchange
    assert relay.relay.forwarding.forward_all()
    assert sizes(caller, campaign) == [12]
    relay.relay.tick()
    assert relay("GET", "/readyz").json["failing"] == ""


def test_a_key_that_was_just_made_is_asked_for_when_somebody_seals_to_it(caller, campaign, relay):
    relay("GET", f"/v1/campaigns/{campaign.id}")
    relay.key()
    newest = caller("POST", "/v1/keys", token=caller.admin).json["keys"][0]["public"]
    sealed = relay.seal(campaign, make_reports(campaign, 1), key=SealingKey(bytes.fromhex(newest)))
    assert relay.send(campaign, sealed) == ["unknown-key"]
    relay.relay.tick()
    assert relay.send(campaign, sealed) == ["accepted"]
    asked = sum(path == "/v1/keys" for path, _ in relay.asked)
    relay.relay.tick()
    assert sum(path == "/v1/keys" for path, _ in relay.asked) == asked


def test_waves_of_a_series_are_carried_and_those_who_are_late_too(tmp_path):
    now, week = [NOW], 7 * 86400.0
    caller = Caller(f"sqlite:///{tmp_path}/c.db", clock=lambda: now[0])
    relay = RelayCaller(f"sqlite:///{tmp_path}/r.db", caller)
    series = make_series("bucket", relay="required", batch=10)
    body = {"campaign": json.loads(series.canonical_json), "terms": {"late": 3600.0}}
    token = caller("POST", "/v1/series", token=caller.admin, json_body=body).json["device_token"]
    for number in (1, 2):
        wave = series.wave(number)
        now[0] = NOW + (number - 1) * week + 5
        caller.collector.calendar.tick()
        assert caller("GET", f"/v1/series/{series.id}").json["wave"]["id"] == wave.id
        assert caller.send(wave, wave_reports(wave, 1), token=token).code == "relay-required"
        assert relay.send(wave, relay.seal(wave, wave_reports(wave, 12))) == ["accepted"] * 12
        now[0] = NOW + number * week + 3000
        assert relay.send(wave, relay.seal(wave, wave_reports(wave, 3))) == ["accepted"] * 3
        # The last batch leaves before the collector takes no more.
        now[0] = NOW + number * week + 3600 - 60
        assert relay.turn()
        now[0] += 60
        assert relay.send(wave, relay.seal(wave, wave_reports(wave, 1))).code == "campaign-expired"
        caller.collector.running.tick()
        assert sizes(caller, wave) == [15]
    answer = caller("GET", f"/v1/series/{series.id}/release", token=caller.admin)
    assert {row["reports"] for row in answer.json["rows"]} == {15}
    assert set(answer.json["metadata"]["central"]) == {"1", "2"}
    relay.close()
    caller.close()
