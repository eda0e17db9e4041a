"""From somebody's own data to a campaign and a chart, by `keyveil init`, `plan --from` and `try`."""

import gzip
import json
import random
import tomllib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from keyveil import Campaign
from keyveil.cli.app import keyveil
from keyveil.errors import PairsError
from keyveil.plan.draft import Draft, find_range, find_skew, public_keys
from keyveil.simulate.pairs import Columns, read_file

APPS = ("Karten", "Müsli", "Café", "Post", "Schach", "Musik", "Nachrichten", "Wetter")


def run(*arguments):
    return CliRunner().invoke(keyveil, [str(each) for each in arguments])


def own_rows(users=600, seed=1):
    drawn = random.Random(seed)
    return [
        (f"u{user}", app, round(drawn.gammavariate(2, 10), 1))
        for user in range(users)
        for place, app in enumerate(APPS)
        if drawn.random() < 0.7 / (place + 1)
    ]


@pytest.fixture
def own(tmp_path):
    """As a German spreadsheet saves it: Latin-1, semicolons, decimal commas, capitals; two bad rows."""
    path = tmp_path / "own.csv"
    lines = [f"{user};{app};{str(minutes).replace('.', ',')}" for user, app, minutes in own_rows()]
    text = "\n".join(["User;App;Minutes", *lines, "u1;Karten;x", ";Karten;3"]) + "\n"
    path.write_bytes(text.encode("latin-1"))
    return path


def same(reading, other):
    return (
        reading.population.names == other.population.names
        and np.array_equal(reading.population.offsets, other.population.offsets)
        and np.array_equal(reading.values, other.values)
    )


# --- files as people have them ---


def test_every_form_reads_alike(tmp_path, own):
    """U13: Latin-1 was a traceback; semicolons, tabs and capitals were refused."""
    rows = own_rows()
    plain = tmp_path / "plain.csv"
    plain.write_text("user,key,value\n" + "".join(f"{u},{a},{m}\n" for u, a, m in rows))
    expected = read_file(plain)
    text = "user\tapp\tminutes\n" + "".join(f"{u}\t{a}\t{m}\n" for u, a, m in rows)
    forms = {
        "tabs.tsv": text.encode(),
        "marked.csv": b"\xef\xbb\xbf" + text.replace("\t", ";").encode(),
        "wide.csv": text.replace("\t", "|").encode("utf-16"),
        "quoted.csv": ("user,key,value\n" + "".join(f'"{u}","{a}","{m}"\n' for u, a, m in rows)).encode(),
        "packed.csv.gz": gzip.compress(plain.read_bytes()),
        "lines.jsonl": "".join(
            json.dumps({"user": u, "key": a, "value": m}) + "\n" for u, a, m in rows
        ).encode(),
        "list.json": json.dumps([{"user": u, "key": a, "value": m} for u, a, m in rows]).encode(),
    }
    for name, data in forms.items():
        (tmp_path / name).write_bytes(data)
        assert same(read_file(tmp_path / name), expected), name
    users, keys, values = zip(*rows, strict=True)
    pq.write_table(pa.table({"user": users, "key": keys, "value": values}), tmp_path / "table.parquet")
    assert same(read_file(tmp_path / "table.parquet"), expected)
    german = read_file(own, skip=True)
    assert same(german, expected)
    assert german.skipped["without a user"] == german.skipped["whose value is no number"] == 1
    assert german.form == "CSV in Latin-1 (Windows-1252), separated by semicolons"


@pytest.mark.parametrize(("combine", "value"), [("mean", 4.0), ("sum", 12.0), ("last", 2.0), ("max", 7.0)])
def test_rows_that_repeat_a_pair_are_combined_as_asked(tmp_path, combine, value):
    """U13: they were averaged, where minutes want a sum."""
    path = tmp_path / "again.csv"
    path.write_text("user,key,value\na,k,3\nb,k,1\na,k,7\na,k,2\n")
    reading = read_file(path, combine=combine)
    assert reading.values.tolist() == [value, 1.0]
    assert reading.population.repeated_rows == 3
    assert f"3 rows repeat a (user, key): combined by their {combine}" in reading.words()


def test_what_is_added_up_is_clamped_afterwards(tmp_path):
    path = tmp_path / "again.csv"
    path.write_text("user,key,value\na,k,30\na,k,40\nb,k,10\n")
    reading = read_file(path, combine="sum", value_range=(0, 60), clamp=True)
    assert reading.clamped == 1
    assert reading.population.values.tolist() == [1.0, 2 * 10 / 60 - 1]


def test_columns_are_named_or_found_and_never_guessed_at_random(tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text("when,CustomerID,Product,note,stars\n1,a,x,hi,3\n2,b,y,ho,5\n")
    found = read_file(path).columns
    assert (found.user, found.key, found.value) == ("CustomerID", "Product", "stars")
    named = read_file(path, Columns(key="NOTE", value="when")).columns
    assert (named.user, named.key, named.value) == ("CustomerID", "note", "when")
    with pytest.raises(
        PairsError, match='lacks the column "hours" that --value names; it has when, CustomerID'
    ):
        read_file(path, Columns(value="hours"))
    path.write_text("a,b,c\n1,2,3\n")
    with pytest.raises(PairsError, match="say which it is with --user COLUMN"):
        read_file(path)


# --- drafts ---


def test_ranges_are_round_and_hold_nearly_all_values():
    rng = np.random.default_rng(1)
    minutes = rng.gamma(2, 10, 10_000)
    low, high = find_range(minutes)
    assert (low, (minutes > high).mean() <= 0.01, high <= 2 * np.quantile(minutes, 0.99)) == (0.0, True, True)
    assert find_range(np.append(minutes, 1e6)) == find_range(minutes)
    assert find_range(np.array([1.0, 5.0, 2.0])) == (1.0, 5.0)
    low, high = find_range(rng.normal(0, 3, 10_000))
    assert low < -6 < 6 < high
    assert find_range(np.array([7.0])) == (0.0, 7.0)
    assert find_range(np.array([-7.0, -7.0])) == (-8.0, -6.0)


def test_the_skew_of_a_power_law_is_found():
    for skew in (0.0, 0.5, 1.0, 1.5):
        assert find_skew(0.3 * np.arange(1.0, 201) ** -skew) == skew


def test_a_key_that_few_people_hold_is_not_named_in_public():
    assert public_keys(["a", "b", "c"], np.array([5, 4, 900])) == (["a", "c"], 1)
    assert public_keys(["a", "b"], np.array([1, 2])) == (["a", "b"], 0)


def test_a_draft_is_a_campaign_whatever_its_keys_are_called():
    keys = ['say "hi"', "back\\slash", "tab\t", "new\nline", "é", "\x7f", "[x]", "# no comment"]
    draft = Draft(
        name='a "name"', epsilon=1.0, keys=keys, value_range=(0.0, 9.0), pairs_per_user=1, mechanism="pckv-ue"
    )
    read = tomllib.loads(draft.to_toml())
    assert read["keys"] == keys
    assert Campaign.from_fields(read) == draft.campaign()


# --- commands ---


def test_two_commands_lead_from_ones_own_file_to_a_chart(own, tmp_path):
    """U7: columns of other names were refused, and nothing wrote a campaign."""
    campaign = tmp_path / "campaign.toml"
    made = run("init", own, "--combine", "sum", "-o", campaign)
    assert made.exit_code == 0, made.output
    assert "CSV in Latin-1 (Windows-1252), separated by semicolons" in made.output
    assert "rows skipped without a user: 1" in made.output
    asked = Campaign.load(campaign)
    assert set(asked.keys) == set(APPS)
    assert (asked.owner, asked.value_range[0]) == ("your team", 0.0)
    page = tmp_path / "page.html"
    tried = run("try", own, "--combine", "sum", "--campaign", campaign, "-o", page)
    assert tried.exit_code == 0, tried.output
    assert (
        "600 reports" in tried.output or f"{len({user for user, *_ in own_rows()})} reports" in tried.output
    )
    drawn = page.read_text()
    assert drawn.count("<svg") == 1
    assert all(f"<td>{app}</td>" in drawn for app in APPS)
    assert "intervals of frequencies hold the truth" in drawn


def test_trying_needs_no_campaign_and_covers_the_truth(own, tmp_path):
    tried = run("try", own, "--epsilon", 4, "-o", tmp_path / "page.html", "--no-open")
    assert tried.exit_code == 0, tried.output
    covered, of = map(int, tried.output.split(" intervals of frequencies")[0].split("; ")[-1].split(" of "))
    # Eight intervals of 95 %: fewer than five of them cover once in 10^4 runs.
    assert of == len(APPS)
    assert covered >= 5


def test_several_rounds_are_tried_too(own, tmp_path):
    campaign = tmp_path / "campaign.toml"
    run("init", own, "-o", campaign)
    campaign.write_text(
        campaign.read_text().replace(
            f'mechanism = "{Campaign.load(campaign).mechanism}"', 'mechanism = "auto"'
        )
    )
    assert Campaign.load(campaign).mechanism == "auto"
    tried = run("try", own, "--campaign", campaign, "-o", tmp_path / "page.html")
    assert tried.exit_code == 0, tried.output
    assert "auto at epsilon" in tried.output


def test_what_was_edited_is_never_overwritten(own, tmp_path):
    campaign = tmp_path / "campaign.toml"
    campaign.write_text("mine")
    for command in (
        ("init", own, "-o", campaign),
        ("plan", "--from", own, "--epsilon", 1, "--write", campaign),
    ):
        refused = run(*command)
        assert "is there already and stays as it is" in str(refused.exception)
    assert campaign.read_text() == "mine"


def test_a_plan_reads_sizes_from_data_and_writes_what_it_recommends(own, tmp_path):
    campaign = tmp_path / "planned.toml"
    made = run("plan", "--from", own, "--epsilon", 1, "--want", "mean", "--write", campaign, "--json")
    assert made.exit_code == 0, made.output
    plan = json.loads(made.stdout)
    assert plan["choice"]["users"] == len({user for user, *_ in own_rows()})
    asked = Campaign.load(campaign)
    assert asked.mechanism == plan["choice"]["mechanism"]
    assert asked.pairs_per_user == plan["choice"]["pairs_per_user"]
    bare = tmp_path / "bare.toml"
    assert run("plan", "--users", 1000, "--keys", 3, "--epsilon", 1, "--write", bare).exit_code == 0
    assert list(Campaign.load(bare).keys) == ["key 1", "key 2", "key 3"]
    assert "say how many keys there are with --keys" in str(
        run("plan", "--users", 9, "--epsilon", 1).exception
    )


def test_telemetry_starts_from_nothing(tmp_path):
    """U14: no unit, proxy or compose file, and the first token went to the log."""
    folder = tmp_path / "telemetry"
    made = run("init", "telemetry", "-o", folder)
    assert made.exit_code == 0, made.output
    assert Campaign.load(folder / "campaign.toml").owner == "your team"
    names = {path.name for path in folder.iterdir()}
    assert names >= {"README.md", "consent.md", "device.py", "device.html", "keyveil.service", "compose.yaml"}
    assert names >= {"Caddyfile", "nginx.conf"}
    assert not [path for path in folder.iterdir() if "@" in path.read_text().replace("@sha", "")]
    compile((folder / "device.py").read_text(), "device.py", "exec")
    assert "is not empty and stays as it is" in str(run("init", "telemetry", "-o", folder).exception)
