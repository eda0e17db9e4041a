"""Pairs of keys in a collector: the table is that of files, open and closed, for those who may read it."""

import csv
import io
import json

import pytest
from click.testing import CliRunner
from collecting import WHO, make_reports
from crossed import asking
from hostile_names import NAMES
from serving import Process

from keyveil.cli.app import keyveil as command
from keyveil.client import Reporter
from keyveil.client.transport import send, with_token
from keyveil.numerics import two_sided_z
from keyveil.pairs import pairs_of

KEYS = ["maps", "=mail", "chat"]


def about_pairs(**changes):
    return asking(**{**WHO, "ids": "own", "epsilon": 8.0, "keys": KEYS, "pairs": "all", **changes})


def reports_to(campaign, count):
    """Half of the people hold maps and mail, half chat."""
    device = Reporter(campaign)
    return [device.report({"maps": 60.0, "=mail": 0.0} if n % 2 else {"chat": 30.0}) for n in range(count)]


@pytest.fixture
def asked(caller):
    campaign = about_pairs()
    caller.create(campaign, uploads="open")
    reports = reports_to(campaign, 6000)
    assert set(caller.send(campaign, reports)) == {"accepted"}
    return caller, campaign, pairs_of(campaign, campaign.estimate(campaign.tally(reports)))


def test_pairs_are_those_of_files_while_reports_come_and_after(asked):
    caller, campaign, expected = asked
    path = f"/v1/campaigns/{campaign.id}"
    assert caller("GET", f"{path}/about", token=caller.admin).json["has_pairs"]
    for state in ("open", "final"):
        answer = caller("GET", f"{path}/pairs", token=caller.admin)
        assert (answer.status, answer.headers["keyveil-state"]) == (200, state)
        assert answer.json["rows"] == json.loads(expected.to_json())["rows"]
        assert answer.json["metadata"].get("state") == {"open": "interim"}.get(state)
        assert answer.json["metadata"]["false_alarms"] == 0.05
        if state == "open":
            caller.close_round(campaign, 1)
    (held, *_) = answer.json["rows"]
    assert (held["first"], held["second"]) == ("maps", "=mail")
    assert held["surely"] == "more often than by chance"
    # Six standard errors: a sound build fails in one of 10**9 runs.
    assert abs(held["lift"] - 2) < 6 * (held["lift_high"] - held["lift_low"]) / (2 * two_sided_z())
    assert held["second_given_first_low"] > 0.5


@pytest.mark.parametrize("form", ["csv", "parquet", "arrow"])
def test_pairs_are_a_file_of_every_form(asked, form):
    caller, campaign, expected = asked
    answer = caller("GET", f"/v1/campaigns/{campaign.id}/pairs?format={form}", token=caller.admin)
    assert answer.status == 200
    assert answer.headers["content-disposition"] == f'attachment; filename="release.{form}"'
    if form == "csv":
        assert answer.body.decode() == expected.to_csv()
        (row, *_) = csv.DictReader(io.StringIO(answer.body.decode()))
        assert row["second"] == "'=mail"


def test_names_for_people_stand_beside_keys(caller):
    campaign = about_pairs(names=["Maps", NAMES[3], "Chat"], pairs=[["=mail", "chat"]])
    caller.create(campaign, uploads="open")
    caller.send(campaign, reports_to(campaign, 50))
    (row,) = caller("GET", f"/v1/campaigns/{campaign.id}/pairs", token=caller.admin).json["rows"]
    assert [row[name] for name in ("first", "first_name", "second", "second_name")] == [
        "=mail", NAMES[3], "chat", "Chat",
    ]  # fmt: skip


def test_without_reports_or_pairs_there_is_no_table(caller):
    empty, plain = about_pairs(name="empty"), about_pairs(pairs=None)
    for campaign in (empty, plain):
        caller.create(campaign, uploads="open")
    caller.send(plain, make_reports(plain, 3))
    path = "/v1/campaigns/{}/pairs"
    assert caller("GET", path.format(empty.id), token=caller.admin).code == "no-reports"
    refused = caller("GET", path.format(plain.id), token=caller.admin)
    assert refused.code == "bad-request"
    assert 'pairs = "all"' in refused.json["detail"]
    assert caller("GET", path.format(empty.id)).code == "no-token"
    assert not caller("GET", f"/v1/campaigns/{plain.id}/about", token=caller.admin).json["has_pairs"]


def test_a_shell_shows_pairs_and_segments_of_a_collector_and_writes_them(tmp_path):
    process = Process(f"sqlite:///{tmp_path}/c.db")
    campaign, hidden = (
        about_pairs(),
        about_pairs(name="hidden", pairs=None, segments={"told": "private", "platform": ["ios"]}),
    )
    for each in (campaign, hidden):
        exchange = with_token(process.create(each)["device_token"])
        url = f"{process.url}/v1/campaigns/{each.id}/reports"
        assert all(send(url, reports_to(each, 300), timeout=30, exchange=exchange).counts)

    def keyveil(*arguments):
        options = ["--url", process.url, "--token", process.admin]
        return CliRunner().invoke(
            command, ["campaign", *map(str, arguments), *options], catch_exceptions=False
        )

    shown = keyveil("pairs", campaign.id)
    assert shown.exit_code == 0, shown.output
    assert "maps & =mail" in shown.output
    assert "interim" in shown.output
    out = tmp_path / "pairs.csv"
    assert keyveil("pairs", campaign.id, "-o", out).exit_code == 0
    rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
    assert [row["first"] for row in rows] == ["maps", "maps", "'=mail"]
    out = tmp_path / "by.csv"
    assert keyveil("release", hidden.id, "--by", "platform", "-o", out).exit_code == 0
    rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
    assert {row["attribute"] for row in rows} == {"platform"}
    process.kill()
