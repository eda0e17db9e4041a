"""What a stranger, a full disk or a busy hour once did to the collector."""

import threading
import time

import pytest
from collecting import make_question, make_reports

from keyveil.collector.logs import Log
from keyveil.collector.store.sqlite import SqliteStore
from keyveil.errors import StoreError


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
    monkeypatch.setattr("keyveil.collector.writer.commit_group", _failing(times=1))
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
    from keyveil.collector.commit import commit_group

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
    filler = bytes(200_000)
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


@pytest.mark.parametrize("name", ["%00", "a%00b", "%00" * 64, "x" * 64, "..%2f..", "0" * 63, "%F0%9F%98%80"])
def test_an_id_that_is_none_is_an_unknown_campaign(caller, name):
    """A18: a zero byte in an id was a fault of PostgreSQL's, told as 503."""
    from urllib.parse import unquote

    for path in ("", "/about", "/progress"):
        answer = caller("GET", f"/v1/campaigns/{unquote(name)}{path}", token=caller.admin)
        assert answer.status in (404, 405), (path, answer)


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
