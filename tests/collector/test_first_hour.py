"""What an operator meets in the first hour, and must not be hurt by."""

import json
import os
import stat

import pytest
from click.testing import CliRunner
from collecting import Caller, make_question, make_reports
from serving import Process

from keyveil.cli.app import keyveil


def run(*arguments, server=None):
    named = {} if server is None else {"KEYVEIL_URL": server.url, "KEYVEIL_TOKEN": server.admin}
    return CliRunner().invoke(keyveil, [str(each) for each in arguments], env=named)


@pytest.fixture
def server(tmp_path):
    made = Process(f"sqlite:///{tmp_path}/c.db")
    yield made
    made.stop()


def test_the_last_admin_token_cannot_be_revoked(caller):
    """U6: whoever revoked it was locked out for good."""
    mine = caller.admin.split("-")[1]
    refused = caller("DELETE", f"/v1/tokens/{mine}", token=caller.admin)
    assert (refused.status, refused.code) == (409, "last-admin")
    assert "Make another admin token first" in refused.json["remedy"]
    other = caller("POST", "/v1/tokens", json_body={"role": "admin"}, token=caller.admin).json["token"]
    assert caller("DELETE", f"/v1/tokens/{mine}", token=other).status == 204
    assert caller("GET", "/v1/tokens", token=caller.admin).status == 401
    assert caller("DELETE", f"/v1/tokens/{other.split('-')[1]}", token=other).code == "last-admin"


def test_whoever_holds_the_store_makes_another_admin_token(tmp_path):
    url, file = f"sqlite:///{tmp_path}/store.db", tmp_path / "admin.token"
    caller = Caller(url)
    caller.close()
    made = run("token", "recover", "--store", url, "--token-file", file)
    assert made.exit_code == 0, made.output
    token = file.read_text().strip()
    assert token not in made.output
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = Caller(url)
    assert again("GET", "/v1/tokens", token=token).status == 200
    acts = again("GET", "/v1/acts", token=token).json["acts"]
    again.close()
    assert any("recovered by whoever holds the store" in act["detail"] for act in acts)


def test_a_store_is_its_owners_alone(tmp_path):
    """U16: stores were readable to everybody on the machine."""
    before = os.umask(0o022)
    try:
        caller = Caller(f"sqlite:///{tmp_path}/store.db")
        caller.create(make_question())
        caller.close()
        caller = Caller(f"sqlite:///{tmp_path}/store.db")
        modes = {
            path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir() if path.is_file()
        }
        caller.close()
    finally:
        os.umask(before)
    assert {"store.db", "store.db-wal"} <= set(modes)
    assert set(modes.values()) == {0o600}, modes


def test_nothing_is_released_where_nothing_was_reported(caller):
    """U9: a release of 0 reports was a success of empty numbers, not marked interim."""
    campaign = make_question()
    token = caller.create(campaign)["device_token"]
    refused = caller("GET", f"/v1/campaigns/{campaign.id}/release", token=caller.admin)
    assert (refused.status, refused.code) == (409, "no-reports")
    caller.send(campaign, make_reports(campaign, 3), token=token)
    interim = caller("GET", f"/v1/campaigns/{campaign.id}/release", token=caller.admin).json
    assert interim["metadata"]["state"] == "interim"
    caller("POST", f"/v1/campaigns/{campaign.id}/rounds/1/close", token=caller.admin)
    final = caller("GET", f"/v1/campaigns/{campaign.id}/release", token=caller.admin).json
    assert "state" not in final["metadata"]


def test_the_command_asks_before_it_closes_a_round_that_nobody_answered(server, tmp_path):
    """U9: the campaign was finished, and nobody was asked."""
    file = tmp_path / "campaign.json"
    file.write_text(make_question().canonical_json)
    made = json.loads(run("campaign", "create", file, "--json", server=server).stdout)
    refused = run("campaign", "close", made["id"], server=server)
    assert "has no reports, and a closed round is not opened again; pass --yes" in str(refused.exception)
    assert run("campaign", "close", made["id"], "--yes", server=server).exit_code == 0


def test_a_backup_never_overwrites_and_is_private(server, tmp_path):
    """U16: a second backup replaced the first."""
    copy = tmp_path / "copy.db"
    assert run("backup", "-o", copy, server=server).exit_code == 0
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert "exists already and stays as it is" in str(run("backup", "-o", copy, server=server).exception)


def test_a_dead_database_is_named_in_plain_words():
    """U16: it was an `OperationalError`."""
    shown = run("serve", "--port", 0, "--store", "postgresql://nobody@127.0.0.1:1/nothing")
    assert "PostgreSQL does not answer; is it running" in str(shown.exception)
