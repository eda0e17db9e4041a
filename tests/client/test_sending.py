"""Consent, the queue, the network: nothing leaves without a yes, nothing is lost, nothing raises."""

import json
import sqlite3
import time
from dataclasses import replace

import pytest
from devices import cheap_round, make_campaign

from keyveil.campaign import Campaign
from keyveil.client import SENTENCES, Code, Limits, Reporter, fetch_campaign, fetch_round, transport
from keyveil.client.answer import HttpAnswer, seconds_asked
from keyveil.client.receipt import receipt_for
from keyveil.client.transport import checked
from keyveil.errors import (
    CampaignError,
    ConsentError,
    DescriptionError,
    KeyveilError,
    ProtocolError,
    Refusal,
    ReportRejected,
    TransportError,
)

HELD = {"app-1": 30.0, "app-2": 5.0}


class Now:
    """A clock that tests turn."""

    def __init__(self):
        self.at = 1_700_000_000.0

    def __call__(self):
        return self.at


@pytest.fixture
def device(tmp_path, collector):
    """Makes reporters on one ledger; `campaign` holds changes of the campaign."""
    now = Now()

    def make(**changes):
        made = Reporter(
            make_campaign(**changes.pop("campaign", {})),
            ledger=tmp_path / "device.db",
            collector=changes.pop("collector", collector.url),
            clock=now,
            **changes,
        )
        made.now = now
        return made

    return make


def submit_rounds(reporter, count):
    """Answers to so many rounds of one campaign, queued; together they keep the promise."""
    for number in range(1, count + 1):
        assert reporter.submit(HELD, cheap_round(reporter._campaign, number))


# --- consent ---


def test_nothing_is_queued_or_sent_until_somebody_says_yes(device, collector):
    reporter = device()
    assert reporter.submit(HELD).code is Code.NOT_ENABLED
    assert reporter.upload().code is Code.NOT_ENABLED
    assert reporter.status().traffic.waiting == 0
    assert reporter.status().epsilon_lifetime == 0
    assert collector.posts == []
    assert reporter.enable()
    assert reporter.submit(HELD)
    assert reporter.upload()
    assert len(collector.received) == 1


@pytest.mark.parametrize("value", ["1", "true", "yes"])
def test_do_not_track_wins_over_a_yes(device, collector, monkeypatch, value):
    reporter = device()
    reporter.enable()
    reporter.submit(HELD)
    monkeypatch.setenv("DO_NOT_TRACK", value)
    assert "DO_NOT_TRACK" in reporter.enable().detail
    for receipt in (reporter.submit(HELD), reporter.upload()):
        assert receipt.code is Code.DO_NOT_TRACK
    with pytest.raises(ConsentError, match="DO_NOT_TRACK"):
        reporter.report(HELD)
    assert collector.posts == []
    monkeypatch.setenv("DO_NOT_TRACK", "0")
    assert reporter.upload()


def test_a_no_wipes_queue_and_answers_and_a_yes_brings_neither_back(device, collector, tmp_path):
    """P2: switching off and on again used to buy a fresh answer; now the round stays answered."""
    reporter, elsewhere = device(), device(campaign={"name": "elsewhere"})
    reporter.enable()
    reporter.submit(HELD)
    elsewhere.submit(HELD)
    said = [reporter.report(HELD), elsewhere.report(HELD)]
    assert reporter.disable()
    with pytest.raises(ConsentError, match="switched off") as refusal:
        reporter.report(HELD)
    assert refusal.value.code == "disabled"
    assert reporter.submit(HELD).code is Code.DISABLED
    status = reporter.status()
    assert (status.consent, status.spent, status.traffic.waiting) == ("withdrawn", 1.0, 0)
    on_disk = (tmp_path / "device.db").read_bytes()
    assert all(report[19:35] not in on_disk for report in said)
    assert reporter.enable()
    for asked in (reporter, elsewhere):
        assert asked.submit(HELD).code is Code.ANSWERED
        with pytest.raises(ProtocolError, match="wiped") as refusal:
            asked.report(HELD)
        assert refusal.value.code == "answered"
    assert reporter.status().epsilon_lifetime == 2.0
    assert reporter.upload()
    assert collector.received == []


# --- the queue ---


def test_the_queue_is_bounded_in_count_and_bytes_and_counts_what_it_drops(device):
    few = device(limits=Limits(reports=3))
    few.enable()
    submit_rounds(few, 4)
    assert (few.status().traffic.waiting, few.status().traffic.dropped) == (3, 1)
    short = device(limits=Limits(bytes=2 * few._campaign.only_round().report_bytes + 1))
    # What was dropped is answered still: asked again, it waits again.
    submit_rounds(short, 1)
    assert (short.status().traffic.waiting, short.status().traffic.dropped) == (2, 3)
    assert short.status().answers == 4


def test_a_report_that_waits_already_is_queued_once(device, collector):
    reporter = device()
    reporter.enable()
    for _ in range(5):
        reporter.submit(HELD)
    assert reporter.status().traffic.waiting == 1
    reporter.upload()
    reporter.submit(HELD)
    assert reporter.upload()
    assert len(collector.received) == 2
    assert len(set(collector.received)) == 1


def test_batches_are_bounded(device, collector):
    reporter = device(limits=Limits(batch_reports=2))
    reporter.enable()
    submit_rounds(reporter, 4)
    assert reporter.upload().detail == "4 reports settled"
    assert [count for _, count in collector.posts] == [2, 2]
    assert {path for path, _ in collector.posts} == {f"/v1/campaigns/{make_campaign().id}/reports"}
    assert reporter.status().traffic.sent == 4


def test_a_batch_that_is_too_large_is_halved(device, collector):
    reporter = device()
    reporter.enable()
    submit_rounds(reporter, 3)
    collector.script = [413]
    assert reporter.upload()
    assert [count for _, count in collector.posts] == [3, 1, 2]
    assert len(collector.received) == 3


# --- failures ---


def test_failures_back_off_with_full_jitter_and_nothing_is_lost(device, collector):
    reporter = device()
    reporter.enable()
    reporter.submit(HELD)
    waits = []
    for attempt in range(12):
        collector.script = [503]
        assert reporter.upload().code is Code.WAITING
        traffic = reporter.status().traffic
        assert traffic.failures == attempt + 1
        waits.append(traffic.not_before - reporter.now.at)
        assert 0 <= waits[-1] <= min(3600.0, 2.0**attempt)
        reporter.now.at = traffic.not_before
    assert max(waits) > 10
    assert reporter.upload()
    assert len(collector.received) == 1
    assert reporter.status().traffic.failures == 0


def test_an_attempt_that_is_not_due_asks_nobody(device, collector):
    reporter = device()
    reporter.enable()
    reporter.submit(HELD)
    collector.script = [(429, {"Retry-After": "120"})]
    assert not reporter.upload()
    assert "due in 120 s" in reporter.upload().detail
    reporter.now.at += 119
    assert not reporter.upload()
    assert len(collector.posts) == 1
    reporter.now.at += 2
    assert reporter.upload()


def test_a_clock_set_back_does_not_stop_the_sending_for_ever(device, collector):
    reporter = device()
    reporter.enable()
    reporter.submit(HELD)
    collector.script = [(503, {"Retry-After": "999999999"})]
    reporter.upload()
    assert reporter.status().traffic.not_before - reporter.now.at <= 86_400
    reporter.now.at -= 40 * 86_400
    assert reporter.upload()


def test_what_the_collector_will_never_take_is_counted_and_let_go(device, collector):
    reporter = device()
    reporter.enable()
    reporter.submit(HELD)
    collector.script = [410]
    assert reporter.upload()
    traffic = reporter.status().traffic
    assert (traffic.waiting, traffic.sent, traffic.refused) == (0, 0, 1)


@pytest.mark.parametrize(
    "answer",
    [
        HttpAnswer(status=200, body=b""),
        HttpAnswer(status=200, body=b'{"reports": []}'),
        HttpAnswer(status=200, body=b"[1]"),
        HttpAnswer(status=200, body=b"\xff"),
        HttpAnswer(status=200, body=b"[" * 60_000),
        HttpAnswer(status=200, body=b'{"reports": 1}'),
        HttpAnswer(status=200, body=b'{"reports": "a"}'),
        HttpAnswer(status=200, body=b'{"reports": {"a": 1}}'),
        HttpAnswer(status=200, body=b'{"reports": [null]}'),
        HttpAnswer(status=408),
        HttpAnswer(status=429),
        HttpAnswer(status=500),
        HttpAnswer(status=302),
        TransportError("no answer"),
        RuntimeError("30.0 minutes of app-1"),
    ],
)
def test_an_answer_that_is_none_keeps_the_report(device, answer):
    def exchange(_url, _body, _timeout, _largest):
        if isinstance(answer, Exception):
            raise answer
        return answer

    reporter = device(exchange=exchange)
    reporter.enable()
    reporter.submit(HELD)
    receipt = reporter.upload()
    assert receipt.code is (Code.FAULT if isinstance(answer, RuntimeError) else Code.WAITING)
    assert "app-1" not in receipt.message + receipt.detail
    assert reporter.status().traffic.waiting == 1


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (401, Code.TOKEN_REFUSED),
        (403, Code.TOKEN_REFUSED),
        (404, Code.REFUSED),
        (405, Code.REFUSED),
        (409, Code.REFUSED),
        (451, Code.REFUSED),
    ],
)
def test_what_repeating_cannot_cure_is_said_in_the_collectors_words_and_stops_the_sender(
    device, collector, status, code
):
    """U1: 403 was repeated for minutes, without the words that the collector had said."""
    reporter = device()
    reporter.enable()
    reporter.submit(HELD)
    problem = {"title": "No", "detail": "reports are sent with a device's token", "remedy": "Use one."}
    collector.script = [(status, {}, json.dumps(problem).encode())]
    started = time.monotonic()
    receipt = reporter.flush(timeout=20)
    assert time.monotonic() - started < 5
    assert receipt.code is code
    assert f"answered {status}: reports are sent with a device's token; Use one;" in receipt.detail
    assert len(collector.posts) == 1
    assert reporter.status().traffic.waiting == 1
    # The thread behind upload_soon ends as well.
    collector.script = [status]
    reporter.now.at += 86_400
    reporter.upload_soon()
    assert reporter._background.rest(10)
    assert not reporter._background._turn.is_running
    assert len(collector.posts) == 2


@pytest.mark.parametrize(
    "said", [b"", b"<html>", b"[1]", b'{"detail": 7}', b'{"title": null}', b"[" * 9999, b"\xff"]
)
def test_a_refusal_without_words_is_a_number(said):
    assert HttpAnswer(status=404, body=said).said == "404"


def test_a_strangers_words_fit_a_line():
    told = HttpAnswer(status=404, body=json.dumps({"detail": "a\nb\x1b[2J" + "c" * 9999}).encode()).said
    assert told.startswith("404: a?b?[2J")
    assert len(told) < 320


def test_a_batch_that_will_never_be_taken_says_why(device, collector):
    reporter = device()
    reporter.enable()
    reporter.submit(HELD)
    collector.script = [(410, {}, b'{"detail": "Its expiry has passed."}')]
    assert reporter.upload().detail == "1 reports settled, 1 of them refused (410: Its expiry has passed)"


def test_reports_that_are_refused_one_by_one_are_counted_by_code(device):
    answer = HttpAnswer(status=200, body=b'{"reports": ["round-closed", "accepted", "round-closed"]}')
    reporter = device(exchange=lambda *_: answer)
    reporter.enable()
    submit_rounds(reporter, 3)
    assert reporter.upload().detail == "3 reports settled, 2 of them refused (2 round-closed)"


def test_redirects_are_not_followed(device, collector):
    reporter = device()
    reporter.enable()
    reporter.submit(HELD)
    collector.script = [(307, {"Location": "http://example.org/"})]
    assert reporter.upload().detail.endswith("answered 307; the reports wait")


def test_nobody_there_is_no_crash(device):
    reporter = device(collector="http://127.0.0.1:9")
    reporter.enable()
    reporter.submit(HELD)
    assert reporter.upload(timeout=1.0).code is Code.WAITING


@pytest.mark.parametrize(
    "url",
    ["http://example.org", "http://127.0.0.1.example.org/", "ftp://x", "file:///etc/passwd", "", "//x",
     "http://[::1", "http://localhost.evil.org"],
)  # fmt: skip
def test_https_is_required_except_towards_this_machine(device, url):
    with pytest.raises(TransportError, match="https"):
        checked(url)
    reporter = device(collector=url)
    reporter.enable()
    reporter.submit(HELD)
    told = Code.NO_COLLECTOR if url in ("", "//x", "http://[::1") else Code.HTTPS_REQUIRED
    assert reporter.upload().code is told
    for fine in ("https://example.org", "http://localhost:1", "http://127.8.9.1/x", "http://[::1]:80"):
        assert checked(fine) == fine


def test_uploads_from_a_thread_return_at_once(device, collector):
    reporter = device()
    reporter.enable()
    reporter.submit(HELD)
    reporter.upload_soon()
    ends = time.monotonic() + 10
    while not collector.received and time.monotonic() < ends:
        time.sleep(0.01)
    assert len(collector.received) == 1


def test_without_a_ledger_nothing_is_kept_and_calls_say_so():
    reporter = Reporter(make_campaign())
    for receipt in (reporter.submit(HELD), reporter.enable(), reporter.status(), reporter.disable()):
        assert receipt.code is Code.NO_LEDGER
        assert receipt.message == "A device needs a ledger, which remembers what was spent; pass one."


def test_a_disk_that_fails_after_the_answer_sends_the_same_bytes_again(device, collector, tmp_path):
    def then_lock(*arguments):
        answer = transport.exchange(*arguments)
        then_lock.holder = sqlite3.connect(tmp_path / "device.db", isolation_level=None)
        then_lock.holder.execute("begin exclusive")
        return answer

    reporter = device(exchange=then_lock)
    reporter.enable()
    reporter.submit(HELD)
    assert reporter.upload().code is Code.LEDGER_BUSY
    then_lock.holder.close()
    assert device().upload()
    assert len(collector.received) == 2
    assert len(set(collector.received)) == 1


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("0", 0.0), (" 30 ", 30.0), ("-5", None), ("1e3", None), ("", None), (None, None), ("²", None)],
)
def test_retry_after_in_every_form(header, seconds):
    assert seconds_asked(header) == seconds


def test_retry_after_as_a_date():
    later = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 600))
    assert 590 < seconds_asked(later) <= 600


# --- a campaign from the network ---


def test_a_campaign_is_fetched_and_its_hash_checked(collector):
    campaign = make_campaign()
    collector.campaign = campaign.canonical_json
    url = f"{collector.url}/v1/campaigns/{campaign.id}"
    assert fetch_campaign(url) == campaign
    collector.campaign = make_campaign(epsilon=9.0).canonical_json
    with pytest.raises(DescriptionError, match="got one whose hash is") as refusal:
        fetch_campaign(url)
    assert refusal.value.code == "other-campaign"
    for wrong in (["no campaign"], None, 7, campaign.canonical_json.replace(",", ", "), "[" * 99_999):
        collector.campaign = wrong
        with pytest.raises(DescriptionError) as refusal:
            fetch_campaign(url)
        assert refusal.value.code == "bad-description"


def test_a_device_connects_to_the_open_round_of_an_address(tmp_path, collector):
    campaign = make_campaign("privkvm", rounds=2)
    url = f"{collector.url}/v1/campaigns/{campaign.id}"
    collector.campaign, collector.round = campaign.canonical_json, campaign.first_round().fields()
    # An older collector says the campaign's text in the round once more; the round is the same.
    older = {**collector.round, "campaign": campaign.canonical_json}
    assert campaign.read_round(older) == fetch_round(url).round
    reporter = Reporter.connect(url, ledger=tmp_path / "device.db")
    assert reporter.enable()
    assert reporter.submit(HELD)
    assert reporter.upload()
    assert [path for path, _ in collector.posts] == [f"/v1/campaigns/{campaign.id}/reports"]
    collector.round = None
    with pytest.raises(CampaignError, match="no round") as refusal:
        Reporter.connect(url)
    assert refusal.value.code == "waiting"


# --- what the person is told ---


def test_explain_tells_truth_report_and_guess(device):
    reporter = device(campaign={"owner": "the shop", "purpose": "learn what is used"})
    told = reporter.explain({"app-1": 3.0})
    assert 'The question "apps" is asked by the shop, to learn what is used.' in told
    assert "True here: app-1 3. This stays on the device." in told
    assert "Sent: nothing yet." in told
    assert "from 50 % to 73 %" in told
    reporter.report({"app-1": 3.0})
    told = reporter.explain({"app-1": 3.0})
    assert "noised bytes" in told
    assert "thought it as likely as not that app-1 is there may now think: from 50 % to" in told
    assert "Spent so far: epsilon 1 of the 1 promised for this question" in told
    assert "All questions together: 1 of 16, from 50 % to at most 73 % so far and 99.99999 % ever." in told
    # A record that has changed since changes nothing that was said.
    assert "noised bytes" in reporter.explain({"app-2": 3.0})


def test_the_guess_is_the_posterior_of_the_kernel():
    """With words of zeros everybody tells the truth, and at one pair the guess is as good as it gets."""
    from keyveil.client.explain import Story, tell

    campaign = Campaign(
        name="glass", epsilon=1.0, keys=("a", "b"), value_range=(0, 1), pairs_per_user=1, mechanism="pckv-ue"
    )
    mechanism, record = campaign.build(), campaign.domain.encode({"a": 1.0})
    answer = mechanism.layout.encode(mechanism.perturb(record, [0] * mechanism.n_words))
    told = tell(
        Story(campaign=campaign, round=campaign.only_round(), held={"a": 1.0}, record=record,
              report_id=bytes(16), sent=answer, goes_through_relay=False, spent=1.0, promised=1.0,
              spent_in_all=1.0, worst_case=16.0)
    )  # fmt: skip
    lift = float(mechanism.channel.own(1)[1] / mechanism.channel.other()[1])
    assert f"a is there may now think: from 50 % to {100 * lift / (1 + lift):.0f} %" in told
    assert "a high, b high" in told


def test_explain_never_raises(device):
    assert device().explain({"app-1": "text"}) == SENTENCES[Code.BAD_RECORD]
    assert device().explain(None) == SENTENCES[Code.BAD_RECORD]
    assert device().explain(HELD, {"format": "keyveil-round/9"}) == SENTENCES[Code.UNKNOWN_VERSION]


def test_explain_does_not_read_an_answer_by_another_round(device):
    reporter = device()
    reporter.report(HELD)
    other = replace(make_campaign().only_round(), mechanism=make_campaign("kvue").build())
    assert reporter.explain(HELD, other) == SENTENCES[Code.PINNED]


# --- what calls say ---


def test_every_code_has_a_sentence_and_every_refusal_a_code():
    assert set(SENTENCES) == set(Code)
    assert len(set(SENTENCES.values())) == len(Code)
    pending = [KeyveilError]
    while pending:
        kind = pending.pop()
        pending += kind.__subclasses__()
        assert Code(getattr(kind, "code", None)) in SENTENCES


@pytest.mark.parametrize(
    "error",
    [
        ReportRejected(Refusal.WRONG_LENGTH, "3 bytes"),
        KeyveilError("odd", code="no-such-code"),
        KeyveilError("odd", code=["unhashable"]),
        RecursionError("30.0 minutes of app-1"),
        MemoryError(),
        UnicodeDecodeError("utf-8", b"app-1", 0, 1, "app-1"),
    ],
)
def test_whatever_goes_wrong_becomes_a_receipt(error):
    def work():
        raise error

    receipt = receipt_for("upload", work)
    assert receipt.code is Code.FAULT
    assert "app-1" not in receipt.message + receipt.detail
