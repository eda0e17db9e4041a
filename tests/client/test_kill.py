"""A process that reports in a loop is killed at any moment; the ledger never knows less than the world."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter

import pytest
from devices import Collector, cheap_round, make_campaign

from keyveil.client import Reporter
from keyveil.client.permission import epsilon_of
from keyveil.numerics import price
from keyveil.report import Envelope
from keyveil.sealing import OpeningKey, SealedHeader

LOOP = """
import itertools, os, sys
sys.path.insert(0, sys.argv[3])
from devices import cheap_round, make_campaign
from keyveil.client import Caps, Limits, Reporter

campaign, caps = make_campaign(epsilon=32.0), Caps(campaign=32.0, lifetime=32.0)
limits = Limits(batch_reports=3)
device = Reporter(campaign, ledger=sys.argv[1], collector=sys.argv[2], caps=caps, limits=limits)
assert device.enable()
print("up", flush=True)
for step in itertools.count():
    # One round in three is one that was answered, so that answers are re-sent too.
    number = 1 + int.from_bytes(os.urandom(2), "little") % 65535 if step % 3 else 1
    device.submit({"app-1": step % 60.0}, cheap_round(campaign, number))
    if step % 4 == 3:
        device.upload()
"""


RELAYED = """
import sys
sys.path.insert(0, sys.argv[4])
from devices import cheap_round, make_campaign
from keyveil.client import Caps, Limits, Reporter

campaign = make_campaign(epsilon=32.0, relay="required", batch=10)
device = Reporter(
    campaign, ledger=sys.argv[1], collector=sys.argv[2], relay=sys.argv[3],
    caps=Caps(campaign=32.0, lifetime=32.0), limits=Limits(batch_reports=3),
)
assert device.enable()
print("up", flush=True)
while True:
    with device._book().transaction() as account:
        first = 1 + account.answers(campaign.id)
    # What was answered just before the last kill waits or was sent: asked again, it is the same bytes.
    for number in range(max(1, first - 4), first + 3):
        device.submit({"app-1": 1.0}, cheap_round(campaign, number))
        if number % 2:
            device.upload()
"""


def kill_again_and_again(path, collector, times, seed):
    """So many kills, up to four times as many where a busy machine lets devices say little."""
    rng = random.Random(seed)
    support = os.path.dirname(sys.modules["devices"].__file__)
    for kills in range(4 * times):
        if kills >= times and len(set(collector.received)) > times:
            break
        child = subprocess.Popen(
            [sys.executable, "-c", LOOP, str(path), collector.url, support],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert child.stdout.readline() == b"up\n", child.stderr.read().decode()
        time.sleep(rng.uniform(0.0, 0.2))
        child.send_signal(signal.SIGKILL)
        child.communicate()
        check(path, collector)


def check(path, collector):
    """All that must hold after every kill."""
    campaign = make_campaign(epsilon=32.0)
    status = Reporter(campaign, ledger=path).status()
    sent = set(collector.received)
    envelopes = [Envelope.from_bytes(report) for report in sent]
    ids = {envelope.report_id for envelope in envelopes}
    # Ten bytes of noise: two answers alike by chance would be news.
    payloads = {envelope.payload for envelope in envelopes}
    assert status.answers >= len(ids)
    assert status.spent == epsilon_of(status.answers * price(cheap_round(campaign, 1).mechanism.loss))
    assert len({envelope.round for envelope in envelopes}) == len(ids)
    assert len(ids) == len(sent) == len(payloads)
    connection = sqlite3.connect(path)
    assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
    queued = [Envelope.from_bytes(row[0]) for row in connection.execute("select report from outbox")]
    kept = {row[0] for row in connection.execute("select report from answer")}
    connection.close()
    assert all(envelope.to_bytes() in kept for envelope in queued)
    assert sent <= kept
    assert len(kept) == status.answers


@pytest.mark.parametrize(
    "times", [20, pytest.param(500, marks=[pytest.mark.nightly, pytest.mark.timeout(1800)])]
)
def test_no_kill_makes_the_ledger_forget(tmp_path, collector, times):
    path = tmp_path / "device.db"
    kill_again_and_again(path, collector, times, seed=times)
    repeats = Counter(collector.received)
    print(
        f"\n{times} kills: {len(repeats)} reports sent, {repeats.total() - len(repeats)} of them again, "
        f"epsilon spent {Reporter(make_campaign(epsilon=32.0), ledger=path).status().spent:.3f}"
    )
    assert len(repeats) > times


@pytest.mark.parametrize(
    "times", [15, pytest.param(200, marks=[pytest.mark.nightly, pytest.mark.timeout(1800)])]
)
def test_no_kill_seals_a_report_twice(tmp_path, times):
    """Killed anywhere, between sealing and answering too: a report that arrives again is the same bytes."""
    path, rng = tmp_path / "device.db", random.Random(times)
    campaign, key = make_campaign(epsilon=32.0, relay="required", batch=10), OpeningKey(bytes([1]) * 32)
    collector, relay = Collector(), Collector()
    collector.keys = relay.keys = [key]
    # Half of the answers do not arrive, so that reports are sent again.
    relay.cuts = lambda: rng.random() < 0.5
    support = os.path.dirname(sys.modules["devices"].__file__)
    for _ in range(times):
        child = subprocess.Popen(
            [sys.executable, "-c", RELAYED, str(path), collector.url, relay.url, support],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert child.stdout.readline() == b"up\n", child.stderr.read().decode()
        time.sleep(rng.uniform(0.1, 0.4))
        child.send_signal(signal.SIGKILL)
        child.communicate()
        # The next attempt is due at once.
        with sqlite3.connect(path) as connection:
            connection.execute("update route set not_before = 0")
        connection.close()
    collector.close()
    relay.close()
    assert collector.posts == []
    ways = Counter(relay.received)
    inside = {
        sealed: key.open(sealed, campaign=campaign.id, round=SealedHeader.read(sealed).round)
        for sealed in ways
    }
    assert len(set(inside.values())) == len(ways)
    status = Reporter(campaign, ledger=path).status()
    assert status.answers >= len(ways)
    print(f"\n{times} kills: {len(ways)} reports arrived, {ways.total() - len(ways)} of them again")
    assert len(ways) > times
    assert ways.total() > len(ways)
