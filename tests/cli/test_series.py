"""`keyveil series` against a real collector, and what plans and drafts say of series."""

import json
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner
from collecting import WHO, wave_reports
from serving import Process

from keyveil import Campaign
from keyveil.cli.app import keyveil
from keyveil.cli.series import sparkline
from keyveil.report import to_frames

FILE = """
name = "minutes"
owner = "tests"
purpose = "to see what changed"
expires = "2099-01-01"
epsilon = 2.0
keys = ["maps", "mail", "chat"]
value_range = [0, 60]
pairs_per_user = 1
mechanism = "kvue"

[series]
every = "week"
waves = 12
answers = 2
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    made = Process(f"sqlite:///{tmp_path_factory.mktemp('series')}/c.db")
    yield made
    made.stop()


@pytest.fixture
def run(server):
    def invoke(*words, fails=False):
        env = {"KEYVEIL_URL": server.url, "KEYVEIL_TOKEN": server.admin, "COLUMNS": "80"}
        done = CliRunner().invoke(keyveil, list(map(str, words)), env=env)
        assert (done.exit_code != 0) == fails, (done.output, done.exception)
        return str(done.exception) if fails else done

    return invoke


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "minutes.toml"
    path.write_text(FILE)
    return path


def test_a_series_from_its_file_to_its_release(server, run, file, tmp_path):
    made = run("series", "create", file, "--label", "how long")
    series = made.stdout.strip()
    today = datetime.now(UTC).date().isoformat()
    assert f'write start = "{today}" into minutes.toml' in made.stderr
    assert f"devices ask {server.url}/v1/series/{series}" in made.stderr
    token = made.stderr.split("shown this once: ")[1].split()[0]
    assert 'no series is called "nothing"' in run("series", "show", "nothing", fails=True)
    again = run("series", "create", file, "--json")
    assert json.loads(again.stdout) == {
        "id": series,
        "created": False,
        "start": today,
        "wave": 1,
        "device_token": None,
    }
    asked = Campaign.load(file)
    begun = Campaign.from_fields(
        {**json.loads(asked.canonical_json), "series": {**asked.series.to_fields(), "start": today}}
    )
    assert begun.id == series
    wave = begun.wave(1)
    status, said = server.ask(
        "POST",
        f"/v1/campaigns/{wave.id}/reports",
        to_frames(wave_reports(wave, 300)),
        token=token,
        headers={"Content-Type": "application/octet-stream"},
    )
    assert (status, json.loads(said)["reports"]) == (200, ["accepted"] * 300)

    # By its id, the beginning of it, its name, its label, or its file - which does not say when it began.
    for named in (series, series[:9], "minutes", "how long", file):
        shown = run("series", "show", named).stdout
        assert "epsilon    2 an answer, 4 a person in all" in shown
        assert f"asked      every week, 12 waves from {today}; a person answers 2 waves" in shown
        assert "state      running, wave 1; the next wave begins" in shown
        assert "reports    300" in shown
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 80
    [maps] = [line for line in lines if line.startswith("maps")]
    assert "█" in maps
    assert ".." in maps
    listed = run("series", "list").stdout
    assert listed.splitlines()[2].split()[1:] == ["how", "long", "week", "running", "1", "of", "12", "300"]
    assert "1  " in run("series", "waves", "minutes").stdout
    assert json.loads(run("series", "show", "minutes", "--json").stdout)["waves"][0]["reports"] == 300

    out = tmp_path / "release.csv"
    wrote = run("series", "release", "minutes", "-o", out)
    assert "interim" in wrote.stderr
    assert out.read_text().startswith("wave,begins,key,reports,frequency,")
    assert "expected a release to end with" in run(
        "series", "release", "minutes", "-o", tmp_path / "x.doc", fails=True
    )

    run("series", "annotate", "minutes", "2.3 released", "--at", today)
    notes = run("series", "annotate", "minutes").stdout
    assert f"1   {today}  2.3 released" in notes
    run("series", "annotate", "minutes", "--drop", 1)
    assert "2.3" not in run("series", "annotate", "minutes").stdout
    assert "expected a date" in run("series", "annotate", "minutes", "x", "--at", "soon", fails=True)
    assert "feed" in run("series", "keys", "minutes", "feed").stdout
    run("series", "label", "minutes", "other words")
    analyst = run("token", "create", "analyst", "--series", "minutes").stdout.strip()
    assert server.ask("GET", f"/v1/series/{series}/waves", token=analyst)[0] == 200
    assert "analyst" in run("token", "list", "--series", "minutes").stdout
    refused = run("token", "list", "--series", "minutes", "--campaign", "x", fails=True)
    assert "say one of --campaign and --series" in refused

    assert run("series", "pause", "minutes").stdout == "the series is paused; wave 1 is open\n"
    assert run("series", "resume", "minutes").stdout == "the series is running; wave 1 is open\n"
    assert "Aborted" in CliRunner().invoke(keyveil, ["series", "end", "minutes"], input="n\n").output
    assert run("series", "close", "minutes", "--yes").stdout == "the series is ended; no wave is open\n"
    run("series", "release", "minutes", "-o", tmp_path / "release.json")
    assert json.loads((tmp_path / "release.json").read_text())["metadata"]["state"] == "final"


def test_each_command_says_which_file_is_whose(run, file, tmp_path):
    assert f"use `keyveil series create {file}`" in run("campaign", "create", file, fails=True)
    once = tmp_path / "once.toml"
    once.write_text(FILE.partition("[series]")[0])
    assert "use `keyveil campaign create`" in run("series", "create", once, fails=True)


def test_a_line_of_text_rises_and_falls():
    assert sparkline([]) == ""
    assert sparkline([None, 0.0, 0.0]) == "·▁▁"
    assert sparkline([0.5, 0.25, -1.0, 1.0]) == "▅▃▁█"


def test_a_plan_of_a_series_says_what_changes_are_seen(run):
    asked = ("plan", "--users", 100_000, "--keys", 50, "--series", "every=week,waves=26,answers=1")
    said = json.loads(run(*asked, "--epsilon", 2, "--json").stdout)
    assert (said["users_a_wave"], said["epsilon_of_answer"]) == (3846, 2.0)
    assert said["epsilon_a_year"] == pytest.approx(2 * 365.25 / (26 * 7))
    [usual] = [row for row in said["frequencies"] if row["frequency"] == 0.2]
    assert usual["smallest_change"] == pytest.approx(0.035, abs=0.001)
    changes = said["smallest_change_by_answers"]
    assert changes["1"] < changes["2"] < changes["4"]
    shown = run(*asked, "--epsilon", 2).stdout
    assert "best: 1" in shown
    assert "whole series costs a person epsilon 2" in shown
    solved = json.loads(run(*asked, "--error", 0.05, "--json").stdout)
    [at] = [row for row in solved["frequencies"] if row["frequency"] == 0.2]
    assert at["smallest_change"] <= 0.05
    assert solved["epsilon"] < 2


@pytest.mark.parametrize(
    ("series", "why"),
    [
        ("weekly", "--series must read"),
        ("every=week,waves=x", "whole numbers"),
        ("every=week", "say how many waves"),
        ("every=hour,waves=3", "every must be one of"),
        ("every=week,waves=3,answers=4", "answers must be"),
        ("every=week,waves=3,colour=red", "--series must read"),
    ],
)
def test_a_series_that_cannot_be_read_is_refused(run, series, why):
    said = run("plan", "--users", 1000, "--keys", 5, "--epsilon", 1, "--series", series, fails=True)
    assert why in said


def test_what_is_drafted_is_a_series(run, tmp_path):
    out = tmp_path / "campaign.toml"
    wanted = ("--series", "every=month,waves=12,answers=2")
    run("plan", "--users", 5000, "--keys", 8, "--epsilon", 4, *wanted, "--write", out)
    asked = Campaign.load(out)
    assert asked.series.to_fields() == {"every": "month", "waves": 12, "answers": 2}
    assert (asked.epsilon, asked.promised, asked.users) == (2.0, 4.0, 5000)
    # A year and a month from now: no wave is cut off.
    assert (datetime.fromisoformat(asked.expires).date() - datetime.now(UTC).date()).days > 365
    pairs = tmp_path / "pairs.csv"
    rows = [f"u{no},{key},{no % 60}" for no in range(400) for key in ("maps", "mail")]
    pairs.write_text("\n".join(["user,app,minutes", *rows]))
    drafted = tmp_path / "drafted.toml"
    run("init", pairs, "-o", drafted, "--yes", "--owner", WHO["owner"], "--epsilon", 4, *wanted)
    asked = Campaign.load(drafted)
    assert (asked.series.waves, asked.epsilon, asked.users) == (12, 2.0, 400)
