"""Senders who take what belongs to others: room, memory, rates, locks."""

import asyncio
import base64
import gc
import gzip
import http.client
import json
import os
import signal
import socket
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from collecting import make_question, make_reports
from serving import Process

from keyveil.collector.store import open_store
from keyveil.report import to_frames


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    process = Process(f"sqlite:///{tmp_path_factory.mktemp('attacked')}/c.db")
    yield process
    process.stop()


@pytest.fixture(scope="module")
def hasty(tmp_path_factory):
    """A collector that waits for nobody longer than three seconds."""
    process = Process(f"sqlite:///{tmp_path_factory.mktemp('hasty')}/c.db", "--patience", "3")
    yield process
    process.stop()


def connection(stack, server, head):
    line = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=20))
    line.sendall(head.encode())
    return line


def heard(line):
    """The status of an answer, which is read whole."""
    said = b""
    while b"\r\n\r\n" not in said:
        said += line.recv(1 << 16)
    head, _, body = said.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split()[0])
    while len(body) < length:
        body += line.recv(1 << 16)
    return int(head.split(maxsplit=2)[1])


@pytest.mark.parametrize(("claimed", "lines"), [(8 << 20, 64), (1 << 16, 1100)], ids=["large", "small"])
def test_silent_connections_take_nothing_from_others(server, claimed, lines):
    """A6: eight connections that announced eight megabytes and sent none stopped all uploads."""
    campaign = make_question(name=f"silence {claimed}")
    token = server.create(campaign)["device_token"]
    path = f"/v1/campaigns/{campaign.id}/reports"
    assert server.ask("POST", path, to_frames(make_reports(campaign, 1)), token=token)[0] == 200
    who = f"Host: x\r\nAuthorization: Bearer {token}\r\n"
    head = f"POST {path} HTTP/1.1\r\n{who}Content-Length: {claimed}\r\n\r\n"
    with ExitStack() as stack:
        for _ in range(lines):
            connection(stack, server, head)
        time.sleep(0.3)
        for _ in range(5):
            status, said = server.ask("POST", path, to_frames(make_reports(campaign, 3)), token=token)
            assert (status, json.loads(said)) == (200, {"reports": ["accepted"] * 3})


def resident():
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmRSS:")[2].split()[0])


@pytest.mark.parametrize("kind", ["not frames", "too large", "no JSON"])
def test_refused_bodies_are_freed_at_once(caller, kind):
    """A7: refused bodies lived until Python looked for cycles: 6.5 GB by one connection with 8 KB bodies."""
    campaign = make_question()
    token = caller.create(campaign)["device_token"]
    large = bytes(4 << 20) if kind != "too large" else bytes(9 << 20)
    headers = [("content-encoding", "gzip")]
    if kind == "no JSON":
        large, headers = b"[" * (4 << 20), [*headers, ("content-type", "application/json")]
    body = gzip.compress(large, 9)
    path = f"/v1/campaigns/{campaign.id}/reports"
    gc.collect()
    gc.disable()
    try:
        caller("POST", path, body, token=token, headers=headers)
        before = resident()
        for _ in range(40):
            assert caller("POST", path, body, token=token, headers=headers).status in (400, 413)
        grown = resident() - before
    finally:
        gc.enable()
    assert grown < 50 << 20, f"{grown >> 20} MB after 40 refusals"


def test_a_rate_holds_also_for_headers_that_come_first(caller):
    """A11: at one report a second 60,000 were accepted, because all headers came before the first body."""
    campaign = make_question()
    caller.create(campaign)
    made = caller(
        "POST",
        f"/v1/campaigns/{campaign.id}/tokens",
        token=caller.admin,
        json_body={"role": "device", "rate": 1.0},
    )
    token, path = made.json["token"], f"/v1/campaigns/{campaign.id}/reports"
    bodies = [to_frames(make_reports(campaign, 200)) for _ in range(10)]

    async def ask_all():
        go = asyncio.Event()

        async def one(body):
            scope = {
                "type": "http",
                "http_version": "1.1",
                "method": "POST",
                "path": path,
                "query_string": b"",
                "headers": [
                    (b"authorization", f"Bearer {token}".encode()),
                    (b"content-length", b"%d" % len(body)),
                ],
            }
            said = []

            async def receive():
                await go.wait()
                return {"type": "http.request", "body": body, "more_body": False}

            async def send(message):
                said.append(message)

            await caller.app(scope, receive, send)
            return said[0]["status"]

        tasks = [asyncio.ensure_future(one(body)) for body in bodies]
        await asyncio.sleep(0.2)
        go.set()
        return await asyncio.gather(*tasks)

    statuses = caller.loop.run_until_complete(ask_all())
    assert sorted(set(statuses)) == [200, 429]
    assert statuses.count(200) == 1


def test_a_frozen_collector_holds_nobody(database):
    """A13: a collector stopped in the middle of a transaction blocked the others, once for 93 s."""
    campaign = make_question()
    store = database.fresh()
    one, other = Process(store), Process(store)
    try:
        other.admin = one.admin or other.admin
        one.admin = other.admin
        token = one.create(campaign)["device_token"]
        path = f"/v1/campaigns/{campaign.id}/reports"
        go, slowest = threading.Event(), [0.0]

        def send_to_the_first():
            while not go.is_set():
                try:
                    one.ask("POST", path, to_frames(make_reports(campaign, 20)), token=token, timeout=2)
                except OSError:
                    continue

        busy = threading.Thread(target=send_to_the_first)
        busy.start()
        for _ in range(6):
            time.sleep(0.3)
            os.kill(one.child.pid, signal.SIGSTOP)
            started = time.monotonic()
            while True:
                status, _ = other.ask(
                    "POST", path, to_frames(make_reports(campaign, 1)), token=token, timeout=60
                )
                if status == 200:
                    break
                time.sleep(0.1)
            slowest[0] = max(slowest[0], time.monotonic() - started)
            os.kill(one.child.pid, signal.SIGCONT)
        go.set()
        busy.join()
        assert slowest[0] < 20, f"{slowest[0]:.0f} s"
    finally:
        one.kill()
        other.kill()


def test_the_database_ends_a_transaction_that_does_nothing(database):
    """A13, without luck: six stops need not hit a transaction."""
    store = open_store(database.fresh())
    with store.read() as tx:
        assert tx._all("show idle_in_transaction_session_timeout") == [("10s",)]
        assert tx._all("show lock_timeout") == [("20s",)]
    store.close()


def test_a_full_folder_for_temporary_files_is_said(caller, monkeypatch):
    """A22: an export with no room for its copy was a fault, 500."""
    campaign = make_question()
    token = caller.create(campaign)["device_token"]
    assert caller.send(campaign, make_reports(campaign, 5), token=token) == ["accepted"] * 5

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("keyveil.collector.campaigns.stored_reports.write_frames", full)
    answer = caller("GET", f"/v1/campaigns/{campaign.id}/rounds/1/reports?format=frames", token=caller.admin)
    assert (answer.status, answer.code) == (503, "no-room")
    assert "No space left on device" in answer.json["detail"]


def test_headers_without_end_are_cut_off(server):
    """A8: 201 MB of header lines took 2.3 GB."""
    before = server.memory()
    with ExitStack() as stack:
        line = connection(stack, server, "GET /healthz HTTP/1.1\r\nHost: x\r\n")
        sent, lines = 0, b"".join(b"x-%04d: %s\r\n" % (number, b"y" * 200) for number in range(500))
        try:
            while sent < 64 << 20:
                line.sendall(lines)
                sent += len(lines)
        except OSError:
            """Cut off."""
    assert sent < 8 << 20, "megabytes of header were read"
    assert server.memory() - before < 30 << 20


@pytest.mark.parametrize(
    "start", ["", "GET /healthz HTTP/1.1\r\nHost: x\r\nx-slow: "], ids=["idle", "dripping"]
)
def test_a_header_that_does_not_come_is_not_waited_for(hasty, start):
    """A8: a thousand idle connections locked everybody out, for as long as they liked."""
    with ExitStack() as stack:
        line = connection(stack, hasty, start)
        started = time.monotonic()
        while time.monotonic() - started < 20:
            try:
                line.sendall(b"a" if start else b"")
                line.settimeout(0.2)
                if line.recv(1 << 16) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        assert 2 < time.monotonic() - started < 10
    assert hasty.ask("GET", "/healthz")[0] == 200


def test_a_connection_that_is_used_stays(hasty):
    """Deadlines are for what does not come: requests in pieces and one after the other are answered."""
    with ExitStack() as stack:
        line = connection(stack, hasty, "GET /healthz HTTP/1.1\r\n")
        # Together longer than the patience, each piece well within it.
        for _ in range(5):
            time.sleep(0.8)
            line.sendall(b"Host: x\r\n\r\n")
            assert heard(line) == 200
            line.sendall(b"GET /healthz HTTP/1.1\r\n")


# --- connections ---


@pytest.mark.parametrize("start", ["", "GET /healthz HTTP/1.1\r\nx: ", "silent body"])
def test_connections_that_say_nothing_lock_nobody_out(tmp_path, start):
    """A8: a thousand idle connections locked everybody out."""
    server = Process(f"sqlite:///{tmp_path}/c.db", "--connections", "128")
    try:
        campaign = make_question()
        token = server.create(campaign)["device_token"]
        path = f"/v1/campaigns/{campaign.id}/reports"
        if start == "silent body":
            who = f"Host: x\r\nAuthorization: Bearer {token}\r\n"
            start = f"POST {path} HTTP/1.1\r\n{who}Content-Length: 8000000\r\n\r\n"
        with ExitStack() as stack:
            for _ in range(600):
                connection(stack, server, start)
            started = time.monotonic()
            for _ in range(20):
                status, said = server.ask("POST", path, to_frames(make_reports(campaign, 3)), token=token)
                assert (status, json.loads(said)) == (200, {"reports": ["accepted"] * 3})
            assert server.ask("GET", "/readyz")[0] == 200
            assert time.monotonic() - started < 10
    finally:
        server.stop()


# --- bodies that are long to take apart ---


def costly(campaign, kind):
    """Bodies that took the event loop's time: A16."""
    [report] = make_reports(campaign, 1)
    if kind == "gzip JSON":
        texts = [base64.b64encode(report).decode()] * 60000
        return gzip.compress(json.dumps({"reports": texts}).encode()), [
            ("content-type", "application/json"),
            ("content-encoding", "gzip"),
        ]
    if kind == "JSON of nothing":
        return b'{"reports":[' + b"1," * 4000000 + b"1]}", [("content-type", "application/json")]
    odd = [report[:17] + i.to_bytes(2, "little") + report[19:] for i in range(65535)]
    return to_frames(odd), []


@pytest.mark.parametrize("kind", ["gzip JSON", "JSON of nothing", "many rounds"])
def test_no_body_stalls_the_others(tmp_path, kind):
    """A16: four senders of gzip JSON made everybody wait, 989 ms for what took 0.9."""
    server = Process(f"sqlite:///{tmp_path}/c.db")
    try:
        campaign = make_question()
        token = server.create(campaign)["device_token"]
        path = f"/v1/campaigns/{campaign.id}/reports"
        body, headers = costly(campaign, kind)
        is_over, asked = threading.Event(), [0]

        def attack(place):
            line = http.client.HTTPConnection(
                "127.0.0.1", server.port, timeout=60, source_address=(f"127.0.1.{place}", 0)
            )
            while not is_over.is_set():
                try:
                    line.request("POST", path, body, {"Authorization": f"Bearer {token}", **dict(headers)})
                    line.getresponse().read()
                except (OSError, http.client.HTTPException):
                    # Refused before all of it was sent.
                    line.close()
                asked[0] += 1
            line.close()

        attackers = [threading.Thread(target=attack, args=(place,)) for place in range(1, 5)]
        for attacker in attackers:
            attacker.start()
        time.sleep(0.5)
        waits = []
        for _ in range(100):
            batch = to_frames(make_reports(campaign, 1))
            started = time.monotonic()
            assert server.ask("POST", path, batch, token=token)[0] == 200
            waits.append(time.monotonic() - started)
        is_over.set()
        for attacker in attackers:
            attacker.join()
        assert asked[0] > 4
        assert sorted(waits)[95] < 0.5, f"{1000 * sorted(waits)[95]:.0f} ms"
    finally:
        server.stop()
