"""`keyveil send` to a series: every user of a file is a device with a panel of its own."""

import time
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner
from devices import Collector, make_campaign

from keyveil.cli.app import keyveil as command
from keyveil.cli.spool import Spool
from keyveil.client.waves import Wave
from keyveil.errors import CampaignError, DescriptionError
from keyveil.series import Series

USERS = 300


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("user,key,value\n" + "".join(f"u{number},app-1,30\n" for number in range(USERS)))
    return path


@pytest.fixture
def whole():
    """Ten days, of which today is the second."""
    start = (datetime.fromtimestamp(time.time(), UTC) - timedelta(days=1)).date().isoformat()
    return make_campaign(series=Series(every="day", waves=10, answers=3, start=start))


def opened(collector, wave):
    collector.campaign = wave.canonical_json
    collector.round = {**wave.device_config(), "campaign": wave.id}


@pytest.fixture
def collector():
    made = Collector()
    yield made
    made.close()


def send(collector, whole, pairs):
    address = f"{collector.url}/v1/series/{whole.id}"
    return CliRunner().invoke(command, ["send", address, str(pairs)], catch_exceptions=False)


def test_those_whose_panel_has_the_wave_are_asked_and_nobody_twice(collector, whole, pairs):
    collector.series = whole.canonical_json
    sent = Counter()
    for number in range(2, 11):
        before = len(collector.received)
        opened(collector, whole.wave(number))
        done = send(collector, whole, pairs)
        assert done.exit_code == 0, done.output
        sent[number] = len(collector.received) - before
        assert f"wave {number} of 10 asks {sent[number]} of {USERS} users" in done.output
        assert send(collector, whole, pairs).exit_code == 0
        assert len(collector.received) - before == sent[number]
    # Everybody answers three of ten; who answers the first is the one that is missing.
    with_first = Spool(pairs.with_name("keyveil.spool"), "none", 1, Wave.of(whole.wave(2)))
    assert sum(with_first.are_asked([f"user u{number}" for number in range(USERS)])) == sent[2]
    assert 2 * USERS < sum(sent.values()) < 3 * USERS
    assert min(sent.values()) > 0.3 * USERS - 5 * (0.3 * 0.7 * USERS) ** 0.5


def test_a_wave_is_one_campaign_for_the_whole_file(collector, whole, pairs):
    collector.series = whole.canonical_json
    opened(collector, whole.wave(2))
    assert send(collector, whole, pairs).exit_code == 0
    opened(collector, whole.wave(2, ["late"]))
    done = CliRunner().invoke(command, ["send", f"{collector.url}/v1/series/{whole.id}", str(pairs)])
    assert done.exit_code != 0
    spool = Spool(pairs.with_name("keyveil.spool"), "none", 1, Wave.of(whole.wave(2, ["late"])))
    with pytest.raises(DescriptionError, match="was answered as campaign"):
        spool.are_asked(["user u1"])


def test_a_wave_that_is_over_asks_nobody(tmp_path, whole):
    spool = Spool(tmp_path / "spool", "none", 1, Wave.of(whole.wave(1)))
    with pytest.raises(CampaignError, match="wave 1 of the series ended"):
        spool.are_asked(["user u1"])
