"""Sending without waiting, and waiting without hanging (U10): threads, exits, forks, coroutines."""

import asyncio
import os
import subprocess
import sys
import threading
import time

import pytest
from devices import make_campaign

from keyveil.client import Code, Reporter
from keyveil.client.background import Background

HELD = {"app-1": 30.0}
SUPPORT = os.path.dirname(sys.modules["devices"].__file__)

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[3])
from devices import make_campaign
from keyveil.client import Reporter

device = Reporter(make_campaign(), ledger=sys.argv[1], collector=sys.argv[2], exit_timeout=2.0)
device.enable()
device.submit({"app-1": 30.0})
device.upload_soon()
"""


def run(program, *arguments):
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *map(str, arguments), SUPPORT],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return time.monotonic() - started


@pytest.fixture
def device(tmp_path, collector):
    made = Reporter(make_campaign(), ledger=tmp_path / "device.db", collector=collector.url)
    made.enable()
    return made


def test_a_short_program_has_sent_its_report_when_it_ends(tmp_path, collector):
    """U10: it ended with the report unsent."""
    run(PROGRAM, tmp_path / "device.db", collector.url)
    assert len(collector.received) == 1


def test_a_program_ends_though_the_collector_says_nothing(tmp_path):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        lasted = run(PROGRAM, tmp_path / "device.db", f"http://127.0.0.1:{silent.getsockname()[1]}")
    assert lasted < 2.0 + 5.0
    assert Reporter(make_campaign(), ledger=tmp_path / "device.db").status().traffic.waiting == 1


def test_a_program_does_not_wait_for_a_collector_that_asks_for_patience(tmp_path, collector):
    collector.script = [(503, {"Retry-After": "3600"})]
    program = PROGRAM.replace("exit_timeout=2.0", "exit_timeout=60.0") + "import time; time.sleep(1.0)\n"
    assert run(program, tmp_path / "device.db", collector.url) < 20
    assert collector.received == []


def test_a_request_goes_out_though_no_thread_can_be_started(device, collector, monkeypatch):
    """From Python 3.12 on a program that ends starts no threads; the one that sends does it by itself."""
    device.submit(HELD)
    start = threading.Thread.start

    def refuse(thread):
        if thread.name == "keyveil-request":
            raise RuntimeError("can't create new thread at interpreter shutdown")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert device.upload().code is Code.WAITING
    device._ledger._clock = lambda: time.time() + 3600
    device.upload_soon()
    assert device._background.rest(10)
    assert len(collector.received) == 1


def test_upload_soon_tries_again_when_it_is_due(device, collector):
    device.submit(HELD)
    collector.script = [(503, {"Retry-After": "0"})]
    device.upload_soon()
    ends = time.monotonic() + 20
    while not collector.received and time.monotonic() < ends:
        time.sleep(0.02)
    assert [count for _, count in collector.posts] == [1, 1]
    assert device._background.rest(10)


def test_many_askers_have_one_thread(device):
    at_once, most = [], []

    def attempt(_timeout):
        at_once.append(1)
        most.append(len(at_once))
        time.sleep(0.01)
        at_once.pop()

    background = Background(attempt, 1.0)
    askers = [threading.Thread(target=background.start, args=(1.0,)) for _ in range(20)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert background.rest(10)
    assert max(most) == 1
    assert len(most) >= 1
    background.start(1.0)
    assert background.rest(10)
    background.close()
    count = len(most)
    background.start(1.0)
    assert background.rest(1)
    assert len(most) == count


# --- flush and close ---


def test_leaving_the_context_sends_what_waits(tmp_path, collector):
    with Reporter(make_campaign(), ledger=tmp_path / "device.db", collector=collector.url) as device:
        device.enable()
        device.submit(HELD)
    assert len(collector.received) == 1
    # Closed, but still a device: asked again it repeats, and upload sends.
    assert device.submit(HELD).is_repeat
    device.upload_soon()
    assert len(collector.posts) == 1
    assert device.upload()


def test_an_error_in_the_block_is_the_applications_and_what_waits_is_sent(tmp_path, collector):
    class Own(Exception):
        pass

    def application():
        with Reporter(make_campaign(), ledger=tmp_path / "device.db", collector=collector.url) as device:
            device.enable()
            device.submit(HELD)
            raise Own

    with pytest.raises(Own):
        application()
    assert len(collector.received) == 1


def test_flush_tries_again_while_there_is_time(device, collector):
    device.submit(HELD)
    collector.script = [(503, {"Retry-After": "0"})] * 3
    assert device.flush(timeout=20)
    assert len(collector.posts) == 4
    assert device.status().traffic.waiting == 0


def test_flush_does_not_wait_for_what_will_not_come_in_time(device, collector):
    device.submit(HELD)
    collector.script = [(503, {"Retry-After": "3600"})]
    started = time.monotonic()
    assert device.flush(timeout=20).code is Code.WAITING
    assert device.close().code is Code.WAITING
    assert time.monotonic() - started < 5
    assert len(collector.posts) == 1


@pytest.mark.parametrize("timeout", [0, -1.0, 0.2])
def test_flush_is_over_in_time_where_nobody_listens(tmp_path, timeout):
    device = Reporter(make_campaign(), ledger=tmp_path / "device.db", collector="http://127.0.0.1:9")
    device.enable()
    device.submit(HELD)
    started = time.monotonic()
    assert device.flush(timeout).code is Code.WAITING
    assert time.monotonic() - started < 2


def test_flush_and_close_say_what_is_missing_and_never_raise(tmp_path):
    for device in (Reporter(make_campaign()), Reporter(make_campaign(), ledger=tmp_path / "device.db")):
        for receipt in (device.flush(), device.close(), device.close()):
            assert receipt.code is Code.NO_COLLECTOR
        device.upload_soon()


@pytest.mark.parametrize("seconds", [-1, 61, float("nan"), float("inf")])
def test_no_program_waits_for_ever(seconds):
    with pytest.raises(ValueError, match="exit_timeout"):
        Reporter(make_campaign(), exit_timeout=seconds)


# --- forks and coroutines ---

FORK = """
import os, sys, time
sys.path.insert(0, sys.argv[3])
from devices import cheap_round, make_campaign
from keyveil.client import Reporter

campaign = make_campaign()
device = Reporter(campaign, ledger=sys.argv[1], collector=sys.argv[2])
device.enable()
device.submit({"app-1": 30.0}, cheap_round(campaign, 1))
device.upload_soon()                      # the thread is there, and busy or asleep, when the fork comes
child = os.fork()
if child == 0:
    device.submit({"app-1": 30.0}, cheap_round(campaign, 2))
    device.upload_soon()
    sys.exit()                            # ends as a program does: waits for its own thread, no other
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where processes fork")
def test_a_fork_has_a_thread_of_its_own(tmp_path, collector):
    program = "import warnings; warnings.simplefilter('ignore')\n" + FORK
    run(program, tmp_path / "device.db", collector.url)
    assert len(set(collector.received)) == 2


def test_a_coroutine_waits_without_holding_the_others_up(device, collector):
    async def application():
        ticks = []

        async def tick():
            while True:
                ticks.append(1)
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        receipt = await asyncio.to_thread(device.submit, HELD)
        sent = await asyncio.to_thread(device.flush, 10.0)
        ticking.cancel()
        return receipt, sent, len(ticks)

    receipt, sent, ticks = asyncio.run(application())
    assert receipt
    assert sent
    assert ticks > 5
    assert len(collector.received) == 1
