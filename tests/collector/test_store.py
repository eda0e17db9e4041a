"""Stores that are new, old, foreign, damaged, full, or somebody else's."""

import json
import sqlite3

import pytest
from collecting import Caller, interim, make_question, make_reports

from keyveil.collector.store import open_store
from keyveil.collector.store.memtable import Memtable
from keyveil.collector.store.runs import N_SLICES
from keyveil.collector.store.sqlite import SqliteStore
from keyveil.errors import StoreError


def test_a_newer_schema_is_refused_in_words(store_url):
    store = open_store(store_url)
    with store.write() as tx:
        tx._run("update store set value = '9' where name = 'schema'")
    store.close()
    with pytest.raises(StoreError, match="schema 9, this keyveil reads schemas 1 to 8"):
        open_store(store_url)


def test_a_file_of_another_program_is_refused(tmp_path):
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table notes (text)")
    connection.close()
    with pytest.raises(StoreError, match="another program"):
        open_store(f"sqlite:///{path}")
    path.write_bytes(b"no database at all" * 1000)
    with pytest.raises(StoreError, match="damaged"):
        open_store(f"sqlite:///{path}")


def test_a_second_collector_on_one_file_is_refused(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/c.db")
    with pytest.raises(StoreError, match="another collector"):
        open_store(f"sqlite:///{tmp_path}/c.db")
    store.close()
    open_store(f"sqlite:///{tmp_path}/c.db").close()


def test_the_first_start_makes_one_admin(database):
    from concurrent.futures import ThreadPoolExecutor

    url = database.fresh()
    with ThreadPoolExecutor(6) as pool:
        callers = list(pool.map(lambda _: open_store(url), range(6)))
        from keyveil.collector.campaigns.collector import Collector

        tokens = list(pool.map(lambda store: Collector(store).access.first_token(), callers))
    assert sum(token is not None for token in tokens) == 1
    for store in callers:
        store.close()


def test_a_backup_is_one_moment_while_others_write(tmp_path):
    caller = Caller(f"sqlite:///{tmp_path}/c.db")
    campaign = make_question()
    token = caller.create(campaign)["device_token"]
    reports = make_reports(campaign, 30)
    caller.send(campaign, reports, token=token)
    answer = caller("GET", "/v1/backup", token=caller.admin)
    assert answer.status == 200
    (tmp_path / "copy.db").write_bytes(answer.body)
    caller.send(campaign, make_reports(campaign, 5), token=token)
    copy = Caller(f"sqlite:///{tmp_path}/copy.db")
    assert copy.admin is None
    assert copy.collector.readout.tally(campaign.id, 1) == campaign.tally(reports)
    assert copy.send(campaign, reports[:1], token=token) == ["duplicate"]
    copy.close()
    caller.close()


def test_a_shared_store_has_its_own_backups(database):
    caller = Caller(database.fresh())
    assert caller("GET", "/v1/backup", token=caller.admin).code == "not-embedded"
    caller.close()


def damage(path, needle):
    """Change one byte behind the first place where `needle` stands in the file."""
    data = bytearray(path.read_bytes())
    at = data.index(needle) + len(needle) // 2
    data[at] ^= 0xFF
    path.write_bytes(data)


def settled(folder):
    """A store with two campaigns of thirty reports, all of it in the main file."""
    caller = Caller(f"sqlite:///{folder}/c.db")
    campaigns = make_question(), make_question("privkv", name="other")
    reports = {}
    for campaign in campaigns:
        token = caller.create(campaign)["device_token"]
        reports[campaign.id] = make_reports(campaign, 30)
        caller.send(campaign, reports[campaign.id], token=token)
    admin = caller.admin
    caller.close()
    return campaigns, reports, admin


def reopened(folder, admin):
    caller = Caller(f"sqlite:///{folder}/c.db")
    caller.admin = admin
    return caller


def test_a_damaged_block_is_named_and_the_rest_served(tmp_path):
    (one, two), reports, admin = settled(tmp_path)
    damage(tmp_path / "c.db", reports[one.id][7][20:])
    caller = reopened(tmp_path, admin)
    for campaign in (one, two):
        answer = caller("GET", f"/v1/campaigns/{campaign.id}/release", token=admin)
        assert answer.body.decode() == interim(campaign.estimate(campaign.tally(reports[campaign.id])))
    export = caller("GET", f"/v1/campaigns/{one.id}/rounds/1/reports", token=admin)
    assert (export.status, export.code) == (503, "campaign-damaged")
    recount = caller("POST", f"/v1/campaigns/{one.id}/rounds/1/recount", token=admin).json
    assert (recount["agrees"], recount["damaged_blocks"]) == (False, 1)
    assert caller("POST", f"/v1/campaigns/{two.id}/rounds/1/recount", token=admin).json["agrees"]
    assert any(one.id in line for line in caller("GET", "/readyz").json["damaged"])
    caller.close()


def test_a_damaged_tally_is_named_at_the_start_and_the_rest_served(tmp_path):
    (one, two), _, admin = settled(tmp_path)
    caller = reopened(tmp_path, admin)
    with caller.collector.store.read() as tx:
        cells = tx.tally(1, 1).cells
    caller.close()
    damage(tmp_path / "c.db", cells)
    caller = reopened(tmp_path, admin)
    assert [one.id] == list(caller.collector.damaged)
    assert caller("GET", f"/v1/campaigns/{one.id}/release", token=admin).code == "campaign-damaged"
    # The reports themselves are whole: whoever exports them has the release.
    assert caller("GET", f"/v1/campaigns/{one.id}/rounds/1/reports", token=admin).status == 200
    assert caller("GET", f"/v1/campaigns/{two.id}/release", token=admin).status == 200
    for campaign in (one, two):
        token = caller(
            "POST", f"/v1/campaigns/{campaign.id}/tokens", token=admin, json_body={"role": "device"}
        )
        answer = caller.send(campaign, make_reports(campaign, 1), token=token.json["token"])
        if campaign is one:
            assert (answer.status, answer.code) == (503, "campaign-damaged")
        else:
            assert answer == ["accepted"]
    caller.close()


def test_a_damaged_campaign_is_named_at_the_start_and_the_rest_served(tmp_path):
    (one, two), _, admin = settled(tmp_path)
    damage(tmp_path / "c.db", one.canonical_json.encode())
    caller = reopened(tmp_path, admin)
    assert [one.id] == list(caller.collector.damaged)
    assert caller("GET", f"/v1/campaigns/{one.id}").code == "campaign-damaged"
    assert caller("GET", f"/v1/campaigns/{two.id}").status == 200
    lines = {
        line["id"]: line["state"] for line in caller("GET", "/v1/campaigns", token=admin).json["campaigns"]
    }
    assert lines == {one.id: "damaged", two.id: "open"}
    caller.close()


def test_a_full_disk_refuses_and_recovers(tmp_path):
    caller = Caller(f"sqlite:///{tmp_path}/c.db")
    campaign = make_question()
    token = caller.create(campaign)["device_token"]
    writer = caller.collector.store._writer
    (pages,) = writer.execute("pragma page_count").fetchone()
    writer.execute(f"pragma max_page_count = {pages}")
    reports = make_reports(campaign, 3000)
    answer = caller.send(campaign, reports, token=token)
    assert (answer.status, answer.code, answer.headers["retry-after"]) == (503, "store-unavailable", "1")
    assert caller.collector.readout.tally(campaign.id, 1).n_reports == 0
    assert caller("GET", f"/v1/campaigns/{campaign.id}").status == 200
    writer.execute("pragma max_page_count = 1000000")
    assert caller.send(campaign, reports, token=token) == ["accepted"] * 3000
    assert caller.collector.reports.recount(campaign.id, 1).agrees
    caller.close()


def test_campaigns_need_who_why_and_until_when(caller):
    for missing in ("owner", "purpose", "expires"):
        fields = json.loads(make_question(**{missing: ""}).canonical_json)
        answer = caller("POST", "/v1/campaigns", token=caller.admin, json_body=fields)
        assert (answer.status, answer.code) == (422, "campaign-incomplete")
        assert missing in answer.json["detail"]
    past = json.loads(make_question(expires="2020-01-01").canonical_json)
    assert caller("POST", "/v1/campaigns", token=caller.admin, json_body=past).code == "campaign-incomplete"


def test_a_campaign_cannot_read_files_of_the_server(caller, tmp_path):
    (tmp_path / "keys").write_text("secret")
    fields = json.loads(make_question().canonical_json)
    del fields["keys"]
    fields["keys_file"] = str(tmp_path / "keys")
    answer = caller("POST", "/v1/campaigns", token=caller.admin, json_body=fields)
    assert answer.code == "bad-campaign"
    assert b"secret" not in answer.body


def test_the_same_campaign_again_changes_nothing(caller):
    campaign = make_question()
    first, again = caller.create(campaign), caller.create(campaign, drop_reports=True)
    assert (first["created"], again["created"], again["device_token"]) == (True, False, None)
    toml = (
        'name = "t"\nepsilon = 1.0\nkeys = ["a", "b"]\nvalue_range = [0, 1]\npairs_per_user = 1\n'
        'mechanism = "privkv"\nowner = "o"\npurpose = "p"\nexpires = "2099-01-01"\n'
    )
    answer = caller(
        "POST",
        "/v1/campaigns",
        toml.encode(),
        token=caller.admin,
        headers=[("content-type", "application/toml")],
    )
    assert answer.status == 201


def test_what_changed_is_told(caller):
    campaign = make_question("privkv", pairs_per_user=1)
    caller.create(campaign)
    other = make_question("privkv-mle", pairs_per_user=1, name="renamed")
    path = f"/v1/campaigns/{campaign.id}/compare"
    answer = caller("POST", path, token=caller.admin, json_body=json.loads(other.canonical_json)).json
    assert answer["reports_stay_usable"]
    assert {change["field"] for change in answer["changes"]} == {"name", "mechanism"}
    wider = make_question("privkv", pairs_per_user=1, value_range=(0, 100))
    answer = caller("POST", path, token=caller.admin, json_body=json.loads(wider.canonical_json)).json
    assert not answer["reports_stay_usable"]


def test_any_page_may_be_damaged_without_a_fault(tmp_path):
    """Every page of the file in turn is overwritten: what is intact is served, or it is said why not."""
    (one, two), reports, admin = settled(tmp_path)
    path = tmp_path / "c.db"
    whole = path.read_bytes()
    size = int.from_bytes(whole[16:18], "big")
    served = refused = 0
    for page in range(len(whole) // size):
        for leftover in tmp_path.glob("c.db-*"):
            leftover.unlink()
        path.write_bytes(whole[: page * size] + b"\xa5" * size + whole[(page + 1) * size :])
        try:
            caller = reopened(tmp_path, admin)
        except StoreError:
            refused += 1
            continue
        for campaign in (one, two):
            for method, address in (
                ("GET", f"/v1/campaigns/{campaign.id}"),
                ("GET", f"/v1/campaigns/{campaign.id}/release"),
                ("GET", f"/v1/campaigns/{campaign.id}/rounds/1/reports"),
                ("POST", f"/v1/campaigns/{campaign.id}/rounds/1/recount"),
                ("GET", "/v1/campaigns"),
                ("GET", "/readyz"),
            ):
                answer = caller(method, address, token=admin)
                # A page of tokens or campaigns may be the one that is gone.
                assert answer.status in (200, 401, 404, 503), (page, address, answer)
                if answer.status == 200 and address.endswith("/release"):
                    right = interim(campaign.estimate(campaign.tally(reports[campaign.id])))
                    assert answer.body.decode() == right
                    served += 1
                if answer.status == 200 and address.endswith("/reports"):
                    from keyveil.report import read_frames

                    assert list(read_frames(answer.body)) == reports[campaign.id]
        caller.close()
    assert served > refused


def test_a_disk_that_is_really_full_refuses_and_recovers(tmp_path):
    """On a small file system of its own, where that may be mounted."""
    import subprocess

    from serving import Process

    from keyveil.report import to_frames

    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("a file system cannot be mounted here; the bounded file above stands in for it")
    try:
        server = Process(f"sqlite:///{disk}/c.db")
        campaign = make_question(keys=tuple(f"k{i}" for i in range(4000)))
        token = server.create(campaign)["device_token"]
        path, reports, taken = f"/v1/campaigns/{campaign.id}/reports", make_reports(campaign, 20), 0
        (disk / "ballast").write_bytes(bytes(4 << 20))
        statuses = []
        for turn in range(300):
            batch = [
                report[:19] + (turn * 20 + i).to_bytes(16, "big") + report[35:]
                for i, report in enumerate(reports)
            ]
            status, body = server.ask("POST", path, to_frames(batch), token=token)
            statuses.append(status)
            if status == 200:
                taken += json.loads(body)["reports"].count("accepted")
            else:
                assert (status, json.loads(body)["code"]) == (503, "store-unavailable")
                break
        assert statuses[-1] == 503
        assert server.ask("GET", f"/v1/campaigns/{campaign.id}")[0] == 200
        (disk / "ballast").unlink()
        status, body = server.ask("POST", path, to_frames(batch), token=token)
        assert status == 200, body
        taken += json.loads(body)["reports"].count("accepted")
        status, body = server.ask("POST", f"/v1/campaigns/{campaign.id}/rounds/1/recount", token=server.admin)
        said = json.loads(body)
        assert said["agrees"]
        assert said["stored_reports"] == taken
        server.stop()
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_reports_outside_the_trees_are_found_again_after_a_crash(tmp_path):
    caller = Caller(f"sqlite:///{tmp_path}/c.db")
    campaign, admin = make_question(), caller.admin
    token = caller.create(campaign)["device_token"]
    reports = make_reports(campaign, 40)
    for start in range(0, 40, 10):
        assert caller.send(campaign, reports[start : start + 10], token=token) == ["accepted"] * 10
    with sqlite3.connect(tmp_path / "c.db") as file:
        assert file.execute("select count(*) from memtable_ids").fetchone() == (4,)
        assert file.execute("select count(*) from runs").fetchone() == (0,)
    caller.crash()
    caller = reopened(tmp_path, admin)
    assert caller.send(campaign, reports[5:15], token=token) == ["duplicate"] * 10
    release = caller("GET", f"/v1/campaigns/{campaign.id}/release", token=admin).body.decode()
    assert release == interim(campaign.estimate(campaign.tally(reports)))
    caller.close()
    with sqlite3.connect(tmp_path / "c.db") as file:
        assert file.execute("select sum(n_ids) from runs").fetchone() == (40,)
        assert file.execute("select count(*) from memtable_ids").fetchone() == (0,)


@pytest.mark.parametrize("most", [64, 8])
def test_ids_move_into_runs_slice_by_slice(tmp_path, monkeypatch, most):
    monkeypatch.setattr("keyveil.collector.store.sqlite._STEP_REPORTS", 1)
    monkeypatch.setattr("keyveil.collector.store.sqlite._MOST_IDS", most)
    caller = Caller(f"sqlite:///{tmp_path}/c.db")
    admin, campaign, count = caller.admin, make_question(), 300
    token = caller.create(campaign)["device_token"]
    reports = make_reports(campaign, count)
    for report in reports:
        assert caller.send(campaign, [report], token=token) == ["accepted"]
    assert caller.collector.store._memory.memtable.n_ids() <= most + 1
    with sqlite3.connect(tmp_path / "c.db") as file:
        ((in_runs, slices, merges),) = file.execute(
            "select sum(n_ids), count(distinct slice), max(made) from runs"
        )
        assert count - most - 1 <= in_runs < count
        # Blocks whose ids are all in runs are gone.
        (first,) = file.execute("select min(block) from memtable_ids").fetchone()
        assert first > 1
        assert slices > N_SLICES // 2
        assert merges >= 2
    assert caller.send(campaign, reports, token=token) == ["duplicate"] * count
    caller.crash()
    caller = reopened(tmp_path, admin)
    assert caller.send(campaign, reports, token=token) == ["duplicate"] * count
    recount = caller("POST", f"/v1/campaigns/{campaign.id}/rounds/1/recount", token=admin).json
    assert (recount["agrees"], recount["tally_reports"]) == (True, count)
    caller.close()
    with sqlite3.connect(tmp_path / "c.db") as file:
        assert file.execute("select sum(n_ids) from runs").fetchone() == (count,)
        assert file.execute("select count(*) from memtable_ids").fetchone() == (0,)


def test_ids_that_are_dropped_are_dropped_from_memory_too(tmp_path):
    store = SqliteStore(tmp_path / "c.db")
    campaign = make_question()
    reports = make_reports(campaign, 8)
    ids = [report[19:35] for report in reports]
    with store.gather() as tx:
        for round_, part in ((1, slice(0, 4)), (2, slice(4, 8))):
            tx.claim_ids(1, round_, ids[part])
            tally = campaign.tally(reports[part])
            tx.add_block(1, round_, len(reports[0]), b"".join(reports[part]), tally)
    with store.write() as tx:
        tx.drop_ids(1, 1)
    with store.write() as tx:
        assert tx.known_ids(1, ids) == set(ids[4:])
    store._memory.memtable = Memtable()
    store.close()
    again = SqliteStore(tmp_path / "c.db")
    with again.write() as tx:
        assert tx.known_ids(1, ids) == set(ids[4:])
        assert [tx.tally(1, round_).n_reports for round_ in (1, 2)] == [4, 4]
    again.close()


def test_what_a_quarantined_campaign_has_outside_the_trees_stays_there(tmp_path):
    store, campaign = SqliteStore(tmp_path / "c.db"), make_question()
    reports = make_reports(campaign, 4)
    with store.gather() as tx:
        tx.claim_ids(1, 1, [report[19:35] for report in reports])
        tx.add_block(1, 1, len(reports[0]), b"".join(reports), campaign.tally(reports))
    store._memory.memtable = Memtable()
    store.close()
    with sqlite3.connect(tmp_path / "c.db") as file:
        file.execute("update memtable_ids set ids = zeroblob(length(ids))")
    again = SqliteStore(tmp_path / "c.db")
    with again.write() as tx:
        tx.drop_ids(1, 1)
    again.close()
    with sqlite3.connect(tmp_path / "c.db") as file:
        assert file.execute("select count(*) from memtable_ids").fetchone() == (1,)
        assert file.execute("select n_reports from memtable_tallies").fetchone() == (4,)


@pytest.mark.parametrize(("table", "part"), [("memtable_tallies", "cells"), ("memtable_ids", "ids")])
def test_a_damaged_block_outside_the_trees_stops_its_campaign_alone(tmp_path, table, part):
    caller = Caller(f"sqlite:///{tmp_path}/c.db")
    admin, campaigns = caller.admin, (make_question(), make_question("privkv", name="other"))
    tokens = [caller.create(campaign)["device_token"] for campaign in campaigns]
    for campaign, token in zip(campaigns, tokens, strict=True):
        caller.send(campaign, make_reports(campaign, 30), token=token)
    caller.crash()
    with sqlite3.connect(tmp_path / "c.db") as file:
        file.execute(f"update {table} set {part} = zeroblob(length({part})) where block = 1")
    caller = reopened(tmp_path, admin)
    assert list(caller.collector.damaged) == [campaigns[0].id]
    assert (
        caller.send(campaigns[0], make_reports(campaigns[0], 1), token=tokens[0]).code == "campaign-damaged"
    )
    assert caller.send(campaigns[1], make_reports(campaigns[1], 1), token=tokens[1]) == ["accepted"]
    assert caller("GET", f"/v1/campaigns/{campaigns[1].id}/release", token=admin).status == 200
    caller.close()


def test_a_flush_that_meets_damage_stops_its_campaign_and_says_so(tmp_path, monkeypatch):
    caller = Caller(f"sqlite:///{tmp_path}/c.db")
    campaign = make_question()
    token = caller.create(campaign)["device_token"]
    caller.send(campaign, make_reports(campaign, 30), token=token)

    def broken(*_):
        raise sqlite3.DatabaseError("database disk image is malformed")

    monkeypatch.setattr("keyveil.collector.store.sqlite.SqliteTransaction.flush", broken)
    monkeypatch.setattr("keyveil.collector.store.sqlite._STEP_REPORTS", 1)
    assert caller.send(campaign, make_reports(campaign, 1), token=token).code == "campaign-damaged"
    answer = caller("GET", f"/v1/campaigns/{campaign.id}/release", token=caller.admin)
    assert answer.code == "campaign-damaged"
    caller.close()
