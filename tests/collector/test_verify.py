"""`recount` and `keyveil verify`: a store that is whole is said to be, and any change of it is named."""

import json
import sqlite3

import psycopg
import pytest
from click.testing import CliRunner
from collecting import Caller, answers, make_question, make_reports

from keyveil.cli.app import keyveil
from keyveil.collector.store import open_store
from keyveil.collector.store.run_tables import id_hash
from keyveil.collector.store.runs import page_crc


def verify(url):
    """The exit code, what was looked at, and the faults."""
    found = CliRunner().invoke(keyveil, ["verify", url])
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    lines = found.output.splitlines()
    return found.exit_code, lines[0], [line for line in lines if line.startswith("fault: ")]


def edit(url, statement, *values):
    """Change a store from outside."""
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as file:
            return file.execute(statement, values).fetchall()
    with psycopg.connect(url) as connection:
        cursor = connection.execute(statement.replace("?", "%s"), values)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
def filled(store_url):
    """A store with a campaign of two rounds, one that is finished, and one that drops its reports."""
    caller = Caller(store_url)
    auto = make_question("privkvm", rounds=2, pairs_per_user=1)
    token = caller.create(auto)["device_token"]
    caller.send(auto, answers(auto, auto.first_round(), 40), token=token)
    assert caller.close_round(auto, 1).status == 200
    done = make_question("kvue", name="done")
    caller.send(done, make_reports(done, 30), token=caller.create(done)["device_token"])
    caller.close_round(done, 1)
    dropped = make_question("privkv", name="dropped")
    caller.send(
        dropped, make_reports(dropped, 20), token=caller.create(dropped, drop_reports=True)["device_token"]
    )
    caller.close_round(dropped, 1)
    caller.collector.running.tidy()
    plain = make_question(name="plain")
    token = caller.create(plain)["device_token"]
    for _ in range(4):
        caller.send(plain, make_reports(plain, 100), token=token)
    yield caller
    if not caller.loop.is_closed():
        caller.close()


def test_a_store_that_is_whole_is_said_to_be(filled, store_url):
    caller = filled
    if store_url.startswith("sqlite"):
        refused = CliRunner().invoke(keyveil, ["verify", store_url])
        assert refused.exit_code == 2
        assert "another collector has collector.db open; stop it" in refused.output
        caller.close()
    # Beside its collector, where there is a server.
    assert verify(store_url) == (0, "4 campaigns, 5 rounds, 6 blocks of 470 reports, 490 ids", [])


def test_verifying_a_crashed_store_changes_nothing(filled, store_url, tmp_path):
    caller = filled
    if not store_url.startswith("sqlite"):
        pytest.skip("PostgreSQL recovers by itself")
    caller.crash()
    before = edit(store_url, "select count(*) from memtable_ids")
    assert verify(store_url)[0] == 0
    assert edit(store_url, "select count(*) from memtable_ids") == before != [(0,)]
    assert verify(str(tmp_path / "nothing.db"))[1].endswith("nothing.db")
    assert not (tmp_path / "nothing.db").exists()


def test_an_older_store_is_not_migrated_by_a_look(tmp_path):
    from old_stores import load_embedded

    old = load_embedded(3, tmp_path / "c.db")
    code, said, _ = verify(old.url)
    assert (code, "schema 3" in said) == (2, True)
    assert edit(old.url, "select value from store where name = 'schema'") == [("3",)]


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        ("update blocks set reports = ? where no = 4", "is damaged"),
        ("update tallies set cells = ? where campaign = 1", "stored tally"),
        ("update outcomes set body = ?", "stored outcome"),
        ("update rounds set description = replace(description, ' ', '') || encode(?, 'hex')", "description"),
        ("update runs set filter = ?", "run"),
        ("update run_pages set ids = ?", "page"),
        ("delete from blocks where no = 4 and reports <> ?", "reports"),
        ("update campaigns set config = '{}' where config <> encode(?, 'hex')", "is damaged"),
    ],
)
def test_any_change_is_named(filled, store_url, harm, why):
    caller = filled
    caller.close()
    if store_url.startswith("sqlite"):
        harm = harm.replace("encode(?, 'hex')", "hex(?)")
    elif "run" in harm:
        pytest.skip("so few ids stay in recent_ids")
    edit(store_url, harm, b"x")
    code, _, faults = verify(store_url)
    assert code == 1
    assert any(why in fault for fault in faults), faults


def flip(url, ids):
    """Change ids that are known, and all their checksums: as if others had been claimed."""
    if not url.startswith("sqlite"):
        for name in ids:
            edit(url, "update recent_ids set id = ? where id = ?", bytes(255 - byte for byte in name), name)
        return
    for no, joined in edit(url, "select no, ids from run_pages"):
        names = [joined[at : at + 16] for at in range(0, len(joined), 16)]
        changed = b"".join(bytes(255 - byte for byte in name) if name in ids else name for name in names)
        edit(url, "update run_pages set ids = ?, crc = ? where no = ?", changed, page_crc(no, changed), no)


def test_flipped_ids_are_found(store_url):
    """A15, with checksums that match: 200 reports are counted twice, and the store says so."""
    caller, campaign = Caller(store_url), make_question()
    admin, token = caller.admin, caller.create(campaign)["device_token"]
    reports = make_reports(campaign, 600)
    caller.send(campaign, reports, token=token)
    caller.close()
    assert verify(store_url)[0] == 0
    flip(store_url, {report[19:35] for report in reports[:200]})
    code, _, faults = verify(store_url)
    assert (code, len(faults) > 0) == (1, True)
    caller = Caller(store_url)
    path = f"/v1/campaigns/{campaign.id}/rounds/1/recount"
    said = caller("POST", path, token=admin).json
    assert (said["agrees"], said["ids"] != "") == (False, True)
    # Whether the flipped ones are counted again or not, they are found.
    caller.send(campaign, reports[:200], token=token)
    said = caller("POST", path, token=admin).json
    assert not said["agrees"]
    assert any(campaign.id in line for line in json.loads(caller("GET", "/readyz").body)["damaged"])
    caller.close()
    assert verify(store_url)[0] == 1


def test_reports_that_were_doubled_are_found_where_ids_are_forgotten(store_url):
    caller, campaign = Caller(store_url), make_question()
    token = caller.create(campaign, replay_days=0)["device_token"]
    caller.send(campaign, make_reports(campaign, 50), token=token)
    caller.close_round(campaign, 1)
    caller.collector.running.tidy()
    with caller.collector.store.write() as tx:
        assert list(tx.ids_by_slice(1, print)) == [[]] * 64
        assert id_hash(tx)
    caller.close()
    assert verify(store_url)[0] == 0
    edit(
        store_url,
        "insert into blocks (campaign, round, length, crc, reports) "
        "select campaign, round, length, crc, reports from blocks",
    )
    code, _, faults = verify(store_url)
    assert (code, any("50 reports have the id of another" in fault for fault in faults)) == (1, True)
    open_store(store_url).close()
