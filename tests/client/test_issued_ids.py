"""Where a campaign issues the ids of reports, a device asks for each with a nonce that never changes."""

import json
from dataclasses import replace

import pytest
from devices import make_campaign

from keyveil.client import Code, Reporter
from keyveil.client.answer import HttpAnswer
from keyveil.client.ledger import Ledger, nonce_of
from keyveil.errors import TransportError
from keyveil.report import Envelope, public_word

BASE = "https://collector.example"
HELD = {"app-0": 30.0}


class Collector:
    """Hands out one id a nonce, after it was silent for a while, and notes what it was asked."""

    def __init__(self, silent=0):
        self.asked, self.silent = [], silent

    def __call__(self, url, body, timeout, largest):
        self.asked.append(url)
        if len(self.asked) <= self.silent:
            raise TransportError("no answer")
        nonce = url.rpartition("nonce=")[2] if "nonce=" in url else "ff" * 16
        return HttpAnswer(status=200, body=json.dumps({"ids": [nonce]}).encode())


def device(path, collector, campaign=None, **options):
    campaign = campaign or make_campaign("kvue", ids="issued")
    made = Reporter(campaign, ledger=path, collector=BASE, exchange=collector, **options)
    assert made.enable()
    return made


def test_a_device_asks_by_itself_with_a_nonce_of_its_ledger_and_answers_under_the_id(tmp_path):
    collector, path = Collector(), tmp_path / "device.db"
    asking = device(path, collector)
    report = asking.report(HELD)
    with Ledger(path).transaction() as account:
        nonce = nonce_of(account.secret, asking.campaign.id, 1)
    assert collector.asked == [f"{BASE}/v1/campaigns/{asking.campaign.id}/ids?count=1&nonce={nonce.hex()}"]
    envelope = Envelope.from_bytes(report)
    assert envelope.report_id == nonce
    mechanism = asking.campaign.only_round().mechanism
    answer = mechanism.layout.decode(envelope.payload)
    assert mechanism.follows(answer, public_word(asking.campaign.tag, 1, nonce))
    # Once a round: what was answered is repeated without asking.
    assert asking.report({}) == report
    assert device(path, collector).report(HELD) == report
    assert len(collector.asked) == 1


def test_whoever_asks_again_asks_with_the_same_nonce_and_in_another_round_with_another(tmp_path):
    campaign = make_campaign("privkvm", ids="issued", rounds=2, pairs_per_user=1)
    stages = [campaign.device_config(round) for round in rounds_of(campaign)]
    collector, path = Collector(silent=2), tmp_path / "device.db"
    for _ in range(2):
        with pytest.raises(TransportError) as refused:
            device(path, collector, campaign).report(HELD, stages[0])
        assert refused.value.code == "no-id"
    assert device(path, collector, campaign).status().answers == 0
    for stage in stages:
        device(path, collector, campaign).report(HELD, stage)
    assert len(set(collector.asked[:3])) == 1
    assert len(collector.asked) == 4
    assert collector.asked[3] != collector.asked[0]
    other = Collector()
    device(tmp_path / "other.db", other, campaign).report(HELD, stages[0])
    assert other.asked[0] != collector.asked[0]


def rounds_of(campaign):
    return [replace(stage, campaign=campaign.id) for stage in campaign.protocol().stages()]


def test_without_a_collector_nothing_is_spent_on_a_report_that_would_never_count(tmp_path):
    campaign = make_campaign("kvue", ids="issued")
    alone = Reporter(campaign, ledger=tmp_path / "device.db")
    assert alone.enable()
    assert alone.submit(HELD).code is Code.NO_ID
    assert (alone.status().answers, alone.status().spent) == (0, 0.0)
    # A simulation has no collector, and needs none.
    report = Reporter(campaign).report(HELD)
    assert campaign.tally([report]).n_reports == 1


def test_a_campaign_whose_collector_issues_ids_without_its_text_saying_so_is_asked_as_ever(tmp_path):
    campaign = make_campaign("kvue")
    view = {"campaign": campaign.canonical_json, "round": campaign.device_config(), "ids": "issued"}
    url, collector = f"{BASE}/v1/campaigns/{campaign.id}", Collector()

    def exchange(asked, body, timeout, largest):
        if asked == url:
            return HttpAnswer(status=200, body=json.dumps(view).encode())
        return collector(asked, body, timeout, largest)

    Reporter.connect(url, ledger=tmp_path / "device.db", exchange=exchange).report(HELD)
    assert collector.asked == [f"{url}/ids?count=1"]
