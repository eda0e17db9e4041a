"""Stores that older commits wrote open, hold what they held, and go on."""

import itertools
import json
import random
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import psycopg
import pytest
from collecting import Caller, answers
from serving import MAIN, Process

from keyveil.collector.store import open_store
from keyveil.collector.store.base import SCHEMA
from keyveil.errors import StoreError
from old_stores import SCHEMAS, check, load_embedded, load_shared


@pytest.fixture(params=["sqlite", "postgresql"])
def load(request, tmp_path):
    """Stores of a schema, each in a place of its own."""
    if request.param == "postgresql":
        database = request.getfixturevalue("database")
        return lambda schema: load_shared(schema, database.fresh())
    numbers = itertools.count()
    return lambda schema: load_embedded(schema, tmp_path / f"{next(numbers)}.db")


@pytest.mark.parametrize("schema", SCHEMAS)
def test_an_older_store_holds_what_it_held(load, schema):
    old = load(schema)
    caller = Caller(old.url)
    assert caller.collector.damaged == {}
    # The shared store says "1" of schema 2 too, and no table tells.
    start = 1 if old.kind == "postgresql" and schema == 2 else schema
    logged = json.loads(caller.out.getvalue().splitlines()[0])
    assert (logged["event"], logged["from"], logged["to"]) == ("store-migrated", start, SCHEMA)
    assert caller("GET", "/v1/acts", token=old.admin).status == 200
    assert caller("GET", "/v1/campaigns", token=old.revoked).code == "unknown-token"
    check(caller, old)
    caller.close()
    # What was migrated is not migrated again.
    again = Caller(old.url)
    assert "store-migrated" not in again.out.getvalue()
    again.close()


@pytest.mark.parametrize("schema", SCHEMAS)
def test_campaigns_of_an_older_store_go_on_to_their_end(load, schema):
    old = load(schema)
    caller = Caller(old.url)
    caller.admin = old.admin
    for name, one in old.campaigns.items():
        if one.is_finished:
            assert caller.send(one.campaign, one.fresh[:0] or one.sent[:1], token=one.token) == ["duplicate"]
            continue
        assert caller.send(one.campaign, one.fresh, token=one.token) == ["accepted"] * len(one.fresh), name
        number = one.rounds[-1]["number"]
        counted = caller.collector.readout.tally(one.id, number).n_reports
        assert counted == one.tallies[-1]["n_reports"] + len(one.fresh)
        closed = caller.close_round(one.campaign, number)
        assert closed.status == 200, closed
        if closed.json["next_round"] is None:
            release = caller("GET", f"/v1/campaigns/{one.id}/release", token=old.admin)
            assert release.headers["keyveil-state"] == "final"
        else:
            assert closed.json["next_round"] == number + 1
    caller.close()


@pytest.mark.parametrize(
    "kills", [5, pytest.param(50, marks=[pytest.mark.nightly, pytest.mark.timeout(1200)])]
)
def test_killing_a_migration_loses_nothing(load, kills):
    """Whenever the process dies, the store is of one schema or of the other, and whole."""
    rng, migrated = random.Random(kills), 0
    old = load(SCHEMAS[-1])
    for _ in range(kills):
        kill_while_migrating(old.url, 10 ** rng.uniform(-4.0, -0.5))
        if schema_of(old.url) == str(SCHEMA):
            migrated += 1
            verify(old)
            old = load(SCHEMAS[-1])
        else:
            assert schema_of(old.url) == str(SCHEMAS[-1])
    verify(old)
    print(f"\n{kills} kills of {old.kind}: {migrated} after the migration, {kills - migrated} before its end")


def kill_while_migrating(url, seconds):
    """SIGKILL so many seconds after the start of a migration."""
    child = subprocess.Popen(
        [sys.executable, "-c", MAIN, "serve", "--store", url, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert child.stdout.readline().startswith("migrating the store from schema")
    time.sleep(seconds)
    child.kill()
    child.wait()
    child.stdout.close()


def schema_of(url):
    question = "select value from store where name = 'schema'"
    if url.startswith("sqlite"):
        file = sqlite3.connect(url.removeprefix("sqlite:///"))
        ((said,),) = file.execute(question).fetchall()
        file.close()
        return said
    with psycopg.connect(url) as connection:
        return connection.execute(question).fetchone()[0]


def verify(old):
    caller = Caller(old.url)
    assert caller.collector.damaged == {}
    check(caller, old)
    caller.close()


def test_a_migrated_store_has_the_tables_of_a_new_one(load):
    urls = [load(schema).url for schema in SCHEMAS]
    new = _tables(_opened(_new(urls[0])))
    assert [_tables(_opened(url)) for url in urls] == [new] * len(urls)


def _new(url):
    """The address of an empty store beside another."""
    if url.startswith("sqlite"):
        return f"{url}.new"
    name = url.rpartition("/")[2]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"create database {name}_new")
    return f"{url}_new"


def _opened(url):
    open_store(url).close()
    return url


def _tables(url):
    """Columns of all tables, in any order."""
    if url.startswith("sqlite"):
        file = sqlite3.connect(url.removeprefix("sqlite:///"))
        question = (
            'select m.name, c.name, lower(c.type), c."notnull", c.dflt_value, c.pk '
            "from sqlite_master m join pragma_table_info(m.name) c"
        )
        others = "select type, name, tbl_name from sqlite_master where type <> 'table'"
        found = sorted(map(str, file.execute(question).fetchall() + file.execute(others).fetchall()))
        file.close()
        return found
    question = (
        "select table_name, column_name, data_type, is_nullable, column_default, attstorage::text "
        "from information_schema.columns "
        "join pg_attribute on attrelid = table_name::regclass and attname = column_name "
        "where table_schema = 'public'"
    )
    with psycopg.connect(url) as connection:
        return sorted(map(str, connection.execute(question).fetchall()))


def test_a_store_from_before_the_memtable_opens(tmp_path):
    old = load_embedded(1, tmp_path / "c.db")
    with sqlite3.connect(tmp_path / "c.db") as file:
        file.execute("drop table young")
    assert _tables(_opened(old.url)) == _tables(_opened(f"sqlite:///{tmp_path}/new.db"))


def test_a_damaged_block_that_was_not_flushed_stops_its_campaign_alone(tmp_path):
    old = load_embedded(1, tmp_path / "c.db")
    with sqlite3.connect(tmp_path / "c.db") as file:
        block, no = file.execute("select max(block), campaign from young").fetchone()
        file.execute("update blocks set reports = zeroblob(length(reports)) where no = ?", (block,))
        (campaign,) = file.execute("select id from campaigns where no = ?", (no,)).fetchone()
    caller = Caller(old.url)
    assert list(caller.collector.damaged) == [campaign]
    caller.close()


def retuned(monkeypatch, tunings):
    """`auto` with other numbers."""
    from keyveil.protocols.auto import tuning

    monkeypatch.setattr(tuning, "TUNINGS", tunings)


@pytest.mark.parametrize("versions", [1, 2])
def test_a_retuned_constant_leaves_campaigns_readable(load, monkeypatch, versions):
    """Whether somebody adds a version, as they should, or changes the numbers of the one that there is."""
    from keyveil.protocols.auto import Tuning

    old = load(2)
    caller = Caller(old.url)
    caller.admin = old.admin
    paths = [f"/v1/campaigns/{one.id}/release" for one in old.campaigns.values() if one.is_finished]
    before = [caller("GET", path, token=old.admin).body for path in paths]
    caller.close()
    other = Tuning(anchors=220, sizes=Fraction(4, 100), check=Fraction(1, 100))
    retuned(monkeypatch, {1: other} if versions == 1 else {1: Tuning(), 2: other})
    caller = Caller(old.url)
    caller.admin = old.admin
    assert caller.collector.damaged == {}
    assert [caller("GET", path, token=old.admin).body for path in paths] == before
    one = old.campaigns["auto open"]
    recount = caller("POST", f"/v1/campaigns/{one.id}/rounds/2/recount", token=old.admin).json
    assert recount["agrees"]
    assert bool(recount["difference"]) == (versions == 1)
    assert caller.send(one.campaign, one.fresh, token=one.token) == ["accepted"] * len(one.fresh)
    while (opened := caller("GET", f"/v1/campaigns/{one.id}").json["round"]) is not None:
        asked = one.campaign.read_round(opened)
        assert asked.protocol == "auto/1"
        caller.send(one.campaign, answers(one.campaign, asked, 40), token=one.token)
        assert caller.close_round(one.campaign, asked.number).status == 200
    assert caller("GET", f"/v1/campaigns/{one.id}/release", token=old.admin).status == 200
    caller.close()


def edit(url, statement, *values):
    """Change a store from outside."""
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as file:
            file.execute(statement, values)
        return
    with psycopg.connect(url) as connection:
        connection.execute(statement.replace("?", "%s"), values)


def test_a_campaign_that_would_be_opened_otherwise_is_quarantined_alone(load):
    old = load(2)
    one = old.campaigns["auto open"]
    # As if its second round had asked another group.
    numbers = "number = 2 and campaign = (select no from campaigns where id = ?)"
    edit(
        old.url,
        f'update rounds set told = replace(told, \'"group": ["\', \'"group": ["1\') where {numbers}',
        one.id,
    )
    caller = Caller(old.url)
    assert list(caller.collector.damaged) == [one.id]
    why = caller.collector.damaged[one.id]
    assert "round 2 was opened with other parameters than this keyveil gives it" in why
    assert "on a backup" in why
    assert caller.send(one.campaign, one.fresh, token=one.token).code == "campaign-damaged"
    refused = caller("GET", f"/v1/campaigns/{one.id}")
    assert (refused.code, refused.json["detail"]) == ("campaign-damaged", why)
    lines = caller("GET", "/v1/campaigns", token=old.admin).json["campaigns"]
    assert [line["id"] for line in lines if line["state"] == "damaged"] == [one.id]
    # The others are as they were, and what the campaign had is still there.
    del old.campaigns["auto open"]
    check(caller, old)
    caller.collector.running.tick()
    caller.collector.running.tidy()
    caller.close()
    again = Caller(old.url)
    assert again.collector.damaged == {one.id: why}
    with again.collector.store.read() as tx:
        no = tx.campaign(one.id).no
        assert [tx.tally(no, row.number).n_reports for row in tx.rounds(no)] == [
            tally["n_reports"] for tally in one.tallies
        ]
        assert "keyveil-device/1" in tx.rounds(no)[0].description
    again.close()


def test_a_round_of_a_version_that_is_not_here_takes_reports_and_is_not_closed(load, monkeypatch):
    from keyveil.protocols.auto import Tuning

    old = load(2)
    caller = Caller(old.url)
    caller.admin = old.admin
    retuned(monkeypatch, {2: Tuning()})
    one = old.campaigns["auto open"]
    assert caller.send(one.campaign, one.fresh, token=one.token) == ["accepted"] * len(one.fresh)
    refused = caller.close_round(one.campaign, 2)
    assert (refused.status, refused.code) == (409, "other-version")
    assert "auto/1" in refused.json["detail"]
    assert caller("GET", f"/v1/campaigns/{one.id}").json["round"]["number"] == 2
    done = old.campaigns["auto finished"]
    monkeypatch.undo()
    release = caller("GET", f"/v1/campaigns/{done.id}/release", token=old.admin).body
    retuned(monkeypatch, {2: Tuning()})
    caller = reopen(caller, old)
    assert caller("GET", f"/v1/campaigns/{done.id}/release", token=old.admin).body == release
    caller.close()


def reopen(caller, old):
    caller.close()
    caller = Caller(old.url)
    caller.admin = old.admin
    return caller


def test_a_changed_description_is_found_by_its_pin(load):
    old = load(2)
    open_store(old.url).close()
    one = old.campaigns["one round"]
    numbers = "campaign = (select no from campaigns where id = ?)"
    edit(
        old.url,
        f"update rounds set description = replace(description, 'collect', 'collecT') where {numbers}",
        one.id,
    )
    caller = Caller(old.url)
    assert list(caller.collector.damaged) == [one.id]
    assert "description of round 1 is damaged" in caller.collector.damaged[one.id]
    caller.close()


def test_a_copy_of_the_store_as_it_was_is_made_first(tmp_path):
    old, copy = load_embedded(1, tmp_path / "c.db"), tmp_path / "copy.db"
    heard = []
    open_store(old.url, backup_first=copy, announce=heard.append).close()
    assert [(said.start, said.end) for said in heard] == [(1, SCHEMA)]
    assert copy.stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob("*.part"))
    as_it_was = sqlite3.connect(copy)
    assert as_it_was.execute("select value from store where name = 'schema'").fetchone() == ("1",)
    as_it_was.close()
    # The copy opens as the store did.
    before = copy.read_bytes()
    with pytest.raises(StoreError, match=r"copy\.db exists already"):
        open_store(load_embedded(2, tmp_path / "d.db").url, backup_first=copy)
    assert copy.read_bytes() == before
    # Nothing was changed, and a store that is up to date needs no copy.
    open_store(f"sqlite:///{tmp_path}/d.db", backup_first=tmp_path / "other.db").close()
    assert (tmp_path / "other.db").exists()
    open_store(f"sqlite:///{tmp_path}/d.db", backup_first=copy).close()
    open_store(f"sqlite:///{copy}").close()


def test_serve_says_that_it_migrates_and_copies(tmp_path):
    old, copy = load_embedded(2, tmp_path / "c.db"), tmp_path / "copy.db"
    server = Process(old.url, "--backup-first", str(copy), admin=old.admin)
    assert server.said[0] == f"migrating the store from schema 2 to {SCHEMA}; a copy goes to {copy}\n"
    assert json.loads(server.ask("GET", "/readyz")[1])["damaged"] == []
    server.stop()
    assert json.loads(server.log[0])["event"] == "store-migrated"
    again = Process(old.url, "--backup-first", str(copy), admin=old.admin)
    assert [line.split()[0] for line in again.said] == ["listening"]
    again.stop()
    with pytest.raises(RuntimeError, match="exists already; name another file"):
        Process(load_embedded(1, tmp_path / "d.db").url, "--backup-first", str(copy))


def test_collectors_that_start_at_once_migrate_once(database):
    old = load_shared(1, database.fresh())
    with ThreadPoolExecutor(6) as pool:
        stores = list(pool.map(lambda _: open_store(old.url), range(6)))
    assert [store.migrated.start for store in stores if store.migrated] == [1]
    for store in stores:
        store.close()
    verify(old)


def test_a_shared_store_is_copied_by_its_own_tools(database):
    with pytest.raises(StoreError, match="pg_dump"):
        open_store(database.fresh(), backup_first="copy.db")
