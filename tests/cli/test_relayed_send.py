"""`keyveil send --relay`, as a process: a crowd's reports arrive sealed at a relay, and nowhere else."""

import os
import subprocess
import sys

import pytest
from devices import Collector

from keyveil import Campaign
from keyveil.report import Envelope
from keyveil.sealing import OpeningKey, SealedHeader

KEYVEIL = os.path.join(os.path.dirname(sys.executable), "keyveil")
USERS = 1200
OLD, NEW, OTHERS = (OpeningKey(bytes([number]) * 32) for number in (1, 2, 3))


def keyveil(*arguments):
    return subprocess.run([KEYVEIL, *map(str, arguments)], capture_output=True, text=True)


@pytest.fixture
def places():
    """A collector and a relay."""
    made = Collector(), Collector()
    yield made
    for each in made:
        each.close()


@pytest.fixture
def ask(places):
    """Opens a campaign at both; its addresses there."""

    def make(relay="required"):
        campaign = Campaign(
            name="apps",
            epsilon=2.0,
            keys=("maps", "mail", "chess"),
            value_range=(0, 60),
            pairs_per_user=2,
            mechanism="kvue",
            **({} if relay == "none" else {"relay": relay, "batch": 100}),
        )
        for place in places:
            place.campaign = campaign.canonical_json
            place.round = campaign.device_config() | {"campaign": campaign.id}
            place.keys = [NEW, OLD]
        return campaign, *(f"{place.url}/v1/campaigns/{campaign.id}" for place in places)

    return make


@pytest.fixture
def pairs(tmp_path):
    lines = [f"{user},{('maps', 'mail', 'chess')[user % 3]},{user % 60}" for user in range(USERS)]
    path = tmp_path / "pairs.csv"
    path.write_text("user,key,value\n" + "\n".join(lines) + "\n")
    return path


def test_a_crowd_reports_through_a_relay_and_the_collector_gets_nothing(places, ask, pairs):
    collector, relay = places
    campaign, address, _ = ask()
    done = keyveil("send", address, pairs, "--relay", relay.url, "--token", "devices-own")
    assert done.returncode == 0, done.stderr
    assert f"{USERS} reports accepted, 0 refused, 0 left" in done.stderr
    assert collector.posts == []
    # Whether this sender is welcome, then batches.
    assert relay.posts[0] == (f"/v1/campaigns/{campaign.id}/sealed", 0)
    assert {path for path, _ in relay.posts} == {relay.posts[0][0]}
    assert {SealedHeader.read(sealed) for sealed in relay.received} == {SealedHeader(NEW.id, 1)}
    opened = [NEW.open(sealed, campaign=campaign.id, round=1) for sealed in relay.received]
    assert len({Envelope.from_bytes(report).report_id for report in opened}) == USERS
    assert campaign.tally(opened).n_reports == USERS
    assert relay.tokens == {None}


def test_with_a_key_and_the_relay_s_address_the_collector_is_not_even_asked(places, ask, pairs):
    collector, relay = places
    collector.close()
    _, _, at_relay = ask()
    done = keyveil("send", at_relay, pairs, "--relay", relay.url, "--sealing-key", OLD.public.hex())
    assert done.returncode == 0, done.stderr
    assert {SealedHeader.read(sealed).key for sealed in relay.received} == {OLD.id}


def test_a_send_that_was_cut_off_goes_on_with_the_same_bytes(places, ask, pairs):
    _, relay = places
    _, address, _ = ask()
    relay.script = [200, 200, 503]
    first = keyveil("send", address, pairs, "--relay", relay.url, "--patience", 0)
    assert first.returncode == 1
    waiting = USERS - len(relay.received)
    assert 0 < waiting < USERS
    assert f"{waiting} left" in first.stderr
    relay.script = []
    again = keyveil("send", address, pairs, "--relay", relay.url)
    assert again.returncode == 0, again.stderr
    assert f"going on with {waiting} reports" in again.stderr
    assert len(relay.received) == len(set(relay.received)) == USERS


@pytest.mark.parametrize(
    ("relay_is", "options", "told"),
    [
        ("required", (), "name it with --relay"),
        ("none", ("--relay", "RELAY"), "leave --relay out"),
        ("required", ("--relay", "COLLECTOR"), "or the collector's key with --sealing-key"),
        ("required", ("--relay", "http://relay.example"), "https is required"),
        ("required", ("--relay", "RELAY", "--sealing-key", "abc"), "64 hexadecimal digits, got 3"),
    ],
)
def test_what_cannot_go_stops_before_anybody_is_asked(places, ask, pairs, relay_is, options, told):
    collector, relay = places
    _, address, _ = ask(relay_is)
    named = {"RELAY": relay.url, "COLLECTOR": collector.url}
    done = keyveil("send", address, pairs, *(named.get(option, option) for option in options))
    assert done.returncode == 2
    assert told in done.stderr.replace("\n", " ")
    assert collector.posts == relay.posts == []
    assert not pairs.with_name("keyveil.spool").exists()


def test_keys_that_differ_are_told_and_reports_wait(places, ask, pairs):
    _, relay = places
    _, address, _ = ask()
    relay.keys = [OTHERS]
    done = keyveil("send", address, pairs, "--relay", relay.url)
    assert done.returncode == 1
    assert "1 keys and the collector 2, and they share none" in done.stderr
    assert f"{USERS} left" in done.stderr
    relay.keys = [NEW]
    assert keyveil("send", address, pairs, "--relay", relay.url).returncode == 0
    assert len(relay.received) == USERS


def test_the_other_way_is_refused_for_what_waits_too(places, ask, pairs):
    collector, relay = places
    _, address, _ = ask("allowed")
    collector.script = [200, 503]
    assert keyveil("send", address, pairs, "--patience", 0).returncode == 1
    done = keyveil("send", address, pairs, "--relay", relay.url)
    assert done.returncode == 1
    assert "went to the collector directly before" in done.stderr
    assert relay.received == []
