"""What a stranger, a full disk or a busy hour once did to the collector."""

import json
import socket
import threading
import time

import pytest
from collecting import NOW, Caller, make_question, make_reports
from serving import Process

from keyveil.collector.logs import Log
from keyveil.collector.store.sqlite import SqliteStore
from keyveil.errors import StoreError
from keyveil.report import to_frames
from keyveil.tally import Tally


class FullDisk:
    """A log that can no longer be written."""

    def write(self, _):
        raise OSError(28, "No space left on device")

    def flush(self):
        raise OSError(28, "No space left on device")


def test_a_log_that_cannot_be_written_raises_nothing_and_counts_what_it_lost():
    """A9: the writer thread died of a log on a full disk; uploads hung while health said 200."""
    log = Log(FullDisk())
    log.event("started")
    log.event("fault", where="writer")
    assert log.lost == 2


def test_uploads_go_on_when_the_log_cannot_be_written(caller, monkeypatch):
    campaign = make_question()
    token = caller.create(campaign)["device_token"]
    monkeypatch.setattr(caller.collector.log, "_out", FullDisk())
    monkeypatch.setattr("keyveil.collector.writing.writer.commit_group", _failing(times=1))
    assert caller.send(campaign, make_reports(campaign, 1), token=token).status >= 500
    assert caller.send(campaign, make_reports(campaign, 1), token=token) == ["accepted"]
    assert caller("GET", "/readyz").status == 200
    assert "keyveil_log_lines_lost" in caller("GET", "/metrics", token=caller.admin).body.decode()


def test_a_writer_that_ended_is_seen(caller):
    """A9: whatever ends it, /readyz says so."""
    caller.app.writer._queue.end()
    for thread in caller.app.writer._threads:
        thread.join(5)
    answer = caller("GET", "/readyz")
    assert (answer.status, answer.json["ready"]) == (503, False)


def _failing(times):
    """The commit of groups, which fails in a way that nobody foresaw, for a while."""
    from keyveil.collector.writing.commit import commit_group

    left = [times]

    def commit(*arguments):
        if left[0]:
            left[0] -= 1
            raise RuntimeError("unforeseen")
        return commit_group(*arguments)

    return commit


def test_a_backup_ends_while_others_write(tmp_path):
    """A10: every commit started the copy anew, so at 50 uploads a second it never ended."""
    store = SqliteStore(tmp_path / "c.db")
    filler = bytes(4_000_000)
    with store.write() as tx:
        tx._run("create table filler (place integer primary key, bytes blob)")
        for _ in range(100):
            tx._run("insert into filler (bytes) values (?)", (filler,))
    is_over, commits = threading.Event(), [0]

    def write():
        while not is_over.is_set():
            with store.write() as tx:
                tx.log(at=0.0, token="", act="busy")
            commits[0] += 1

    busy = threading.Thread(target=write)
    busy.start()
    copying = threading.Thread(target=store.backup, args=(tmp_path / "copy.db",), daemon=True)
    started = time.monotonic()
    copying.start()
    copying.join(20)
    took, is_done = time.monotonic() - started, not copying.is_alive()
    is_over.set()
    busy.join()
    copying.join()
    store.close()
    assert is_done, f"no end after {took:.0f} s and {commits[0]} commits"
    assert commits[0] > 0
    copy = SqliteStore(tmp_path / "copy.db")
    with copy.read() as tx:
        assert tx._all("select count(*) from filler") == [(100,)]
    copy.close()


def test_a_backup_ends_with_whoever_asked_for_it(tmp_path):
    """A10: it went on copying after the asker had left."""
    store = SqliteStore(tmp_path / "c.db")
    with store.write() as tx:
        tx._run("create table filler (place integer primary key, bytes blob)")
        for _ in range(2000):
            tx._run("insert into filler (bytes) values (?)", (bytes(100_000),))
    with pytest.raises(StoreError):
        store.backup(tmp_path / "copy.db", is_cancelled=lambda: True)
    store.close()
    room = tmp_path / "room"
    room.mkdir()
    server = Process(f"sqlite:///{tmp_path}/c.db", env={"TMPDIR": str(room)})
    try:
        with socket.create_connection(("127.0.0.1", server.port)) as line:
            head = f"GET /v1/backup HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.admin}\r\n\r\n"
            line.sendall(head.encode())
            while not any(room.iterdir()):
                time.sleep(0.001)
        left = time.monotonic()
        while any(room.iterdir()) and time.monotonic() - left < 20:
            time.sleep(0.01)
        assert not any(room.iterdir())
        _, said = server.ask("GET", "/v1/acts", token=server.admin)
        assert "backup-taken" not in said.decode()
    finally:
        server.stop()


def test_a_backup_under_load_is_a_collector_again(tmp_path):
    """Restored: its tally is what its reports say, it knows them again, and it goes on."""
    campaign = make_question()
    server = Process(f"sqlite:///{tmp_path}/c.db")
    token = server.create(campaign)["device_token"]
    path = f"/v1/campaigns/{campaign.id}"
    batches, is_over = [], threading.Event()

    def send():
        while not is_over.is_set():
            reports = make_reports(campaign, 20)
            status, _ = server.ask("POST", f"{path}/reports", to_frames(reports), token=token)
            assert status == 200
            batches.append(reports)

    busy = threading.Thread(target=send)
    busy.start()
    while len(batches) < 5:
        time.sleep(0.01)
    acknowledged = [report for batch in list(batches) for report in batch]
    status, copy = server.ask("GET", "/v1/backup", token=server.admin)
    is_over.set()
    busy.join()
    server.stop()
    assert status == 200
    (tmp_path / "copy.db").write_bytes(copy)
    restored = Process(f"sqlite:///{tmp_path}/copy.db", admin=server.admin)
    try:
        again = restored.ask("POST", f"{path}/reports", to_frames(acknowledged), token=token)[1]
        assert json.loads(again)["reports"] == ["duplicate"] * len(acknowledged)
        rest = [report for batch in batches for report in batch]
        said = json.loads(restored.ask("POST", f"{path}/reports", to_frames(rest), token=token)[1])["reports"]
        assert set(said) <= {"accepted", "duplicate"}
        recount = restored.ask("POST", f"{path}/rounds/1/recount", token=server.admin)[1]
        assert json.loads(recount)["agrees"]
        tally = Tally.from_json(restored.ask("GET", f"{path}/rounds/1/tally", token=server.admin)[1].decode())
        assert tally == campaign.tally(rest)
    finally:
        restored.stop()


@pytest.mark.parametrize("name", ["%00", "a%00b", "%00" * 64, "x" * 64, "..%2f..", "0" * 63, "%F0%9F%98%80"])
def test_an_id_that_is_none_is_an_unknown_campaign(caller, name):
    """A18: a zero byte in an id was a fault of PostgreSQL's, answered with 503."""
    from urllib.parse import unquote

    for path in ("", "/about", "/progress"):
        answer = caller("GET", f"/v1/campaigns/{unquote(name)}{path}", token=caller.admin)
        assert answer.status in (404, 405), (path, answer)


def test_a_damaged_campaign_harms_no_other(store_url):
    """A12: rounds of campaigns behind it were not closed by time any more."""
    now = [NOW]
    caller = Caller(store_url, clock=lambda: now[0])
    campaigns = [make_question(name=f"number {place}") for place in range(3)]
    for campaign in campaigns:
        caller.create(campaign, close_after=60.0)
    with caller.collector.store.write() as tx:
        tx._run("update campaigns set config = 'x' where id = ?", (campaigns[0].id,))
        tx._run("update rounds set description = 'x' where campaign = 2")
    caller.collector.cache.__init__()
    now[0] += 61
    caller.collector.running.tick()
    caller.collector.running.tidy()
    assert [one.why for one in caller.collector.running.list(campaigns[2].id).rounds] == ["by time"]
    for campaign in campaigns[:2]:
        assert campaign.id in caller.out.getvalue()
    caller.close()


@pytest.mark.parametrize("path", ["/docs/", "/healthz/", "/v1/campaigns/", "/errors/"])
def test_no_address_sends_anybody_to_another_host(caller, path):
    """A19: a slash too many was redirected, over http, to whatever host the request named."""
    answer = caller("GET", path, headers=[("host", "evil.example")])
    assert answer.status == 404
    assert "location" not in answer.headers


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_a_store_is_open_once_under_whatever_name(tmp_path, link):
    """A14: a link got around the lock, and two collectors counted half each."""
    store = SqliteStore(tmp_path / "c.db")
    other = tmp_path / "other.db"
    getattr(other, link)(tmp_path / "c.db")
    with pytest.raises(StoreError, match=r"another collector has c\.db open|has two names"):
        SqliteStore(other)
    store.close()
