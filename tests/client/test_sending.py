"""Consent, the queue, the network: nothing leaves without a yes, nothing is lost, nothing raises."""

import sqlite3
import time

import pytest
from devices import make_campaign

from keyveil.campaign import Campaign
from keyveil.client import Caps, Code, Limits, Reporter, fetch_campaign
from keyveil.client.transport import Answer, checked, seconds_asked
from keyveil.errors import CampaignError, ConsentError, TransportError

HELD = {"app-1": 30.0, "app-2": 5.0}


class Now:
    """A clock that tests turn."""

    def __init__(self):
        self.at = 1_700_000_000.0

    def __call__(self):
        return self.at


@pytest.fixture
def device(tmp_path, collector):
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


# --- consent ---


def test_nothing_is_queued_or_sent_until_somebody_says_yes(device, collector):
    reporter = device()
    assert reporter.submit(HELD).code is Code.OFF
    assert reporter.upload().code is Code.OFF
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
    assert "DO_NOT_TRACK" in reporter.enable().message
    for receipt in (reporter.submit(HELD), reporter.upload()):
        assert receipt.code is Code.OFF
    with pytest.raises(ConsentError, match="DO_NOT_TRACK"):
        reporter.report(HELD)
    assert collector.posts == []
    monkeypatch.setenv("DO_NOT_TRACK", "0")
    assert reporter.upload()


def test_a_no_wipes_queue_and_memo_but_not_what_was_spent(device, collector, tmp_path):
    reporter = device()
    reporter.enable()
    reporter.submit(HELD)
    before = reporter.report(HELD)
    assert reporter.disable()
    with pytest.raises(ConsentError, match="switched off"):
        reporter.report(HELD)
    status = reporter.status()
    assert (status.consent, status.epsilon_campaign, status.traffic.waiting) == ("withdrawn", 1.0, 0)
    assert before[19:35] not in (tmp_path / "device.db").read_bytes()
    reporter.enable()
    reporter.submit(HELD)
    assert reporter.report(HELD) != before
    assert reporter.status().epsilon_campaign == 2.0


# --- the queue ---


def test_the_queue_is_bounded_in_count_and_bytes_and_counts_what_it_drops(device):
    few = device(limits=Limits(reports=3))
    few.enable()
    for day in range(4):
        few.submit({"app-1": 10.0 * day})
    assert (few.status().traffic.waiting, few.status().traffic.dropped) == (3, 1)
    length = len(few.report(HELD))
    short = device(limits=Limits(bytes=2 * length + 1), caps=Caps(campaign=9.0))
    short.submit(HELD)
    assert (short.status().traffic.waiting, short.status().traffic.dropped) == (2, 3)


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
    for day in range(4):
        reporter.submit({"app-1": 15.0 * day})
    assert reporter.upload().message == "4 reports settled"
    assert [count for _, count in collector.posts] == [2, 2]
    assert {path for path, _ in collector.posts} == {f"/v1/campaigns/{make_campaign().id}/reports"}
    assert reporter.status().traffic.sent == 4


def test_a_batch_that_is_too_large_is_halved(device, collector):
    reporter = device()
    reporter.enable()
    for day in range(3):
        reporter.submit({"app-1": 15.0 * day})
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
        assert reporter.upload().code is Code.OFFLINE
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
    assert "due in 120 s" in reporter.upload().message
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
        Answer(status=200, body=b""),
        Answer(status=200, body=b'{"reports": []}'),
        Answer(status=200, body=b"[1]"),
        Answer(status=200, body=b"\xff"),
        Answer(status=404),
        Answer(status=302),
        TransportError("no answer"),
        RuntimeError("30.0 minutes of app-1"),
    ],
)
def test_an_answer_that_is_none_keeps_the_report(device, answer):
    def exchange(_url, _body, _timeout):
        if isinstance(answer, Exception):
            raise answer
        return answer

    reporter = device(exchange=exchange)
    reporter.enable()
    reporter.submit(HELD)
    receipt = reporter.upload()
    assert receipt.code in (Code.OFFLINE, Code.FAULT)
    assert "app-1" not in receipt.message
    assert reporter.status().traffic.waiting == 1


def test_redirects_are_not_followed(device, collector):
    reporter = device()
    reporter.enable()
    reporter.submit(HELD)
    collector.script = [(307, {"Location": "http://example.org/"})]
    assert reporter.upload().message.endswith("answered 307; the reports wait")


def test_nobody_there_is_no_crash(device):
    reporter = device(collector="http://127.0.0.1:9")
    reporter.enable()
    reporter.submit(HELD)
    assert reporter.upload(timeout=1.0).code is Code.OFFLINE


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
    assert reporter.upload().code is Code.OFFLINE
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
        assert (receipt.code, receipt.message) == (
            Code.LEDGER,
            "this reporter has no ledger; pass ledger='device.db'",
        )


def test_a_disk_that_fails_after_the_answer_sends_the_same_bytes_again(device, collector, tmp_path):
    reporter = device()
    reporter.enable()
    reporter.submit(HELD)
    answered = reporter._exchange

    def then_lock(*arguments):
        answer = answered(*arguments)
        then_lock.holder = sqlite3.connect(tmp_path / "device.db", isolation_level=None)
        then_lock.holder.execute("begin exclusive")
        return answer

    reporter._exchange = then_lock
    assert reporter.upload().code is Code.LEDGER
    then_lock.holder.close()
    reporter._exchange = answered
    assert reporter.upload()
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
    collector.campaign = {"name": "apps", "epsilon": 1.0, "keys": list(campaign.keys), "value_range": [0, 60],
                          "pairs_per_user": 3, "mechanism": "pckv-ue"}  # fmt: skip
    url = f"{collector.url}/v1/campaigns/{campaign.id}"
    assert fetch_campaign(url) == campaign
    fields, collector.campaign = collector.campaign, campaign.device_config()["campaign"]
    assert fetch_campaign(url) == campaign
    collector.campaign = fields
    collector.campaign["epsilon"] = 9.0
    with pytest.raises(CampaignError, match="got one whose hash is"):
        fetch_campaign(url)
    collector.campaign = ["no campaign"]
    with pytest.raises(CampaignError, match="sent is no campaign"):
        fetch_campaign(url)


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
    assert "Spent so far: epsilon 1 of the 4 allowed to this question, 1 of 16 in all" in told


def test_the_guess_is_the_posterior_of_the_kernel():
    """With words of zeros everybody tells the truth, and at one pair the guess is as good as it gets."""
    from keyveil.client.explain import Story, tell

    campaign = Campaign(
        name="glass", epsilon=1.0, keys=("a", "b"), value_range=(0, 1), pairs_per_user=1, mechanism="pckv-ue"
    )
    mechanism, record = campaign.build(), campaign.domain.encode({"a": 1.0})
    answer = mechanism.layout.encode(mechanism.perturb(record, [0] * mechanism.n_words))
    told = tell(
        Story(campaign=campaign, mechanism=mechanism, held={"a": 1.0}, record=record, narrow=None,
              sent=answer, spent=1.0, cap=4.0, spent_in_all=1.0, worst_case=16.0)
    )  # fmt: skip
    lift = float(mechanism.channel.own(1)[1] / mechanism.channel.other()[1])
    assert f"a is there may now think: from 50 % to {100 * lift / (1 + lift):.0f} %" in told
    assert "a high, b high" in told


def test_explain_never_raises(device):
    assert "record must be" in device().explain({"app-1": "text"})
    assert "record must be" in device().explain(None)
