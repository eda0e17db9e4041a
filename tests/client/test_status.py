"""`python -m keyveil.client status`: what a ledger says; nothing is changed, nothing else needed."""

import json
import os
import sqlite3
import subprocess
import sys
import time

import pytest
from devices import make_campaign

from keyveil.client import Reporter
from keyveil.client.__main__ import main
from keyveil.client.status import look


@pytest.fixture
def ledger(tmp_path, collector):
    """A device that answered two campaigns, sent one report, and failed with the other."""
    path = tmp_path / "device.db"
    one, other = (
        Reporter(make_campaign(name=name), ledger=path, collector=collector.url) for name in ("one", "other")
    )
    one.enable()
    one.submit({"app-1": 3.0})
    assert one.upload()
    other.submit({"app-1": 3.0})
    collector.script = [(503, {"Retry-After": "600"}, b'{"detail": "The queue is full."}')]
    assert not other.upload()
    return path


def test_it_tells_consent_spending_what_waits_and_the_last_failure(ledger, capsys):
    found = look(ledger)
    assert (found["consent"], found["do_not_track"], found["epsilon_lifetime"]) == ("given", False, 2.0)
    by_id = {one["campaign"]: one for one in found["campaigns"]}
    one, other = (by_id[make_campaign(name=name).id] for name in ("one", "other"))
    assert (one["epsilon"], one["rounds_answered"], one["sent"], one["waiting"]) == (1.0, [1], 1, 0)
    assert (one["last_failure"], one["not_before"]) == (None, None)
    assert (other["waiting"], other["failures"]) == (1, 1)
    assert other["waiting_bytes"] == make_campaign().only_round().report_bytes
    assert other["last_failure"]["code"] == "waiting"
    assert "answered 503: The queue is full" in other["last_failure"]["words"]
    due = time.strptime(other["not_before"], "%Y-%m-%dT%H:%M:%SZ")
    assert 500 < time.mktime(due) - time.mktime(time.gmtime()) <= 601
    assert main(["status", str(ledger), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == found
    assert main(["status", str(ledger)]) == 0
    shown = capsys.readouterr().out
    for said in (
        "consent   given",
        "epsilon 2 in all",
        "1 sent",
        "route   to the collector directly",
        "1 reports",
        "The queue is full",
        "not before",
    ):
        assert said in shown


def test_it_changes_nothing_and_needs_the_standard_library_alone(ledger):
    before, at = ledger.read_bytes(), ledger.stat().st_mtime_ns
    os.chmod(ledger, 0o400)
    code = (
        "import sys, runpy; sys.argv = ['x', 'status', sys.argv[1]]\n"
        "try: runpy.run_module('keyveil.client', run_name='__main__')\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "strangers = {m.partition('.')[0] for m in sys.modules} - set(sys.stdlib_module_names)\n"
        "strangers = {m for m in strangers if not m.startswith('_')}\n"
        "assert strangers == {'keyveil'}, strangers"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, str(ledger)], capture_output=True, text=True, env=environment
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "consent   given" in done.stdout
    assert (ledger.read_bytes(), ledger.stat().st_mtime_ns) == (before, at)
    assert os.listdir(ledger.parent) == ["device.db"]


def test_what_cannot_be_read_is_one_sentence(tmp_path, ledger, capsys):
    nonsense, older = tmp_path / "nonsense.db", tmp_path / "older.db"
    nonsense.write_bytes(b"no ledger" * 1000)
    with sqlite3.connect(older) as connection:
        connection.execute("pragma user_version = 1")
    connection.close()
    with sqlite3.connect(ledger) as connection:
        connection.execute("update answer set units = '1'")
    connection.close()
    for path in (tmp_path / "nowhere.db", nonsense, older, ledger, tmp_path):
        assert main(["status", str(path)]) == 2
        shown = capsys.readouterr()
        assert shown.err.startswith("keyveil: the ledger")
        assert shown.err.count("\n") == 1
    assert not (tmp_path / "nowhere.db").exists()


def test_a_failure_that_was_mended_is_still_told(tmp_path, collector):
    device = Reporter(make_campaign(), ledger=tmp_path / "device.db", collector=collector.url)
    device.enable()
    device.submit({})
    collector.script = [(404, {}, b'{"detail": "No such campaign."}')]
    device.upload()
    assert device.flush(20)
    (one,) = look(tmp_path / "device.db")["campaigns"]
    assert (one["waiting"], one["failures"], one["not_before"]) == (0, 0, None)
    assert one["last_failure"]["code"] == "refused"
