"""A file whose columns say what people are, all the way to a table a segment."""

import csv
import json

import pytest
from click.testing import CliRunner

from keyveil import Campaign
from keyveil.cli.app import keyveil as command
from keyveil.cli.files import Reports

TOML = """
name = "apps"
epsilon = 4.0
keys = ["maps", "mail"]
value_range = [0, 60]
pairs_per_user = 2
mechanism = "kvue"

[segments]
told = "clear"
platform = ["android", "ios"]
country = ["de"]
"""


def keyveil(*arguments):
    return CliRunner().invoke(command, [*map(str, arguments)], catch_exceptions=False)


@pytest.fixture
def campaign(tmp_path):
    path = tmp_path / "campaign.toml"
    path.write_text(TOML)
    return path


@pytest.fixture
def pairs(tmp_path):
    """900 people, a third each of android, ios and something else; some say it in their second row alone."""
    rows = ["user,key,value,platform"]
    for user in range(900):
        platform = ("android", "ios", "web")[user % 3]
        first = "" if user % 2 else platform
        rows += [f"{user},maps,{10 + 40 * (user % 3 == 1)},{first}", f"{user},mail,15,{platform}"]
    path = tmp_path / "pairs.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture
def reports(campaign, pairs, tmp_path):
    path = tmp_path / "reports.parquet"
    shown = keyveil("perturb", campaign, pairs, "-o", path)
    assert shown.exit_code == 0, shown.output
    assert 'no column country: everybody is "other"' in shown.output
    return path


def test_everybody_is_told_to_be_what_the_file_says(campaign, reports):
    asked = Campaign.load(campaign)
    tally = asked.tally(Reports(asked, [reports]))
    # Attributes lie by their names: country, platform.
    assert {segment: part.n_reports for segment, part in tally.segments.items()} == {
        (0, 0): 900,
        (1, 0): 300,
        (1, 1): 300,
        (1, 2): 300,
    }


def test_a_table_a_segment(campaign, reports, tmp_path):
    out = tmp_path / "by.csv"
    shown = keyveil("estimate", campaign, reports, "--by", "platform", "-o", out)
    assert shown.exit_code == 0, shown.output
    assert "People, by platform: labels in the clear, not private" in shown.output
    rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
    assert [(row["attribute"], row["segment"], row["key"]) for row in rows] == [
        ("platform", value, key) for value in ("android", "ios", "other") for key in ("maps", "mail")
    ]
    means = {row["segment"]: float(row["mean"]) for row in rows if row["key"] == "maps"}
    assert means["ios"] > max(means["android"], means["other"]) + 10
    said = json.loads(out.with_suffix(".metadata.json").read_text())
    assert said["users"] == {"platform": {"android": 300, "ios": 300, "other": 300}}
    assert "median" in rows[0]


def test_a_tally_as_a_file_keeps_its_segments(campaign, reports, tmp_path):
    tally = tmp_path / "tally.json"
    assert keyveil("tally", campaign, reports, "-o", tally).exit_code == 0
    one = keyveil("estimate", campaign, tally, "--by", "platform", "--json")
    two = keyveil("estimate", campaign, reports, "--by", "platform", "--json")
    assert json.loads(one.output) == json.loads(two.output)


def test_an_attribute_that_there_is_not_is_refused(campaign, reports):
    shown = CliRunner().invoke(command, ["estimate", str(campaign), str(reports), "--by", "colour"])
    assert "expected an attribute among country, platform" in str(shown.exception)


def test_simulations_score_every_segment_by_itself(pairs):
    shown = keyveil(
        "simulate",
        pairs,
        "--mechanism",
        "kvue",
        "--epsilon",
        "4",
        "--repeats",
        "2",
        "--segment",
        "platform",
        "--json",
    )
    rows = json.loads(shown.stdout)
    assert [(row["segment"], row["users"]) for row in rows] == [("android", 300), ("ios", 300), ("web", 300)]
    assert "ios: 300 users" in keyveil(
        "simulate", pairs, "--mechanism", "kvue", "--epsilon", "4", "--repeats", "1", "--segment", "platform"
    ).stdout.replace("\n", " ")
    refused = CliRunner().invoke(
        command, ["simulate", str(pairs), "--mechanism", "kvue", "--epsilon", "4", "--segment", "colour"]
    )
    assert 'lacks the column "colour" that --segment names' in str(refused.exception)


@pytest.fixture
def known(campaign, tmp_path):
    """A campaign of one attribute, and reports: 600 of android, 200 of ios, of other 100."""
    text = campaign.read_text().replace('country = ["de"]\n', "")
    path, rows = tmp_path / "known.toml", ["user,key,value,platform"]
    path.write_text(text)
    for user in range(900):
        platform = "android" if user < 600 else "ios" if user < 800 else "web"
        rows.append(f"{user},{'mail' if platform == 'android' else 'maps'},15,{platform}")
    (tmp_path / "known.csv").write_text("\n".join(rows) + "\n")
    assert keyveil("perturb", path, tmp_path / "known.csv", "-o", tmp_path / "known.parquet").exit_code == 0
    return path, tmp_path / "known.parquet"


def totals(known, tmp_path, rows, *more):
    sizes = tmp_path / "sizes.csv"
    sizes.write_text("segment,size\n" + rows)
    return CliRunner().invoke(
        command, ["estimate", *map(str, known), "--by", "platform", "--sizes", str(sizes), "--json", *more]
    )


def test_segments_of_known_sizes_count_by_them(known, tmp_path):
    """Nobody of android holds maps, and two in three reports are theirs; of the population one in ten is."""
    plain = json.loads(keyveil("estimate", *known, "--post", "none", "--json").stdout)
    shown = totals(known, tmp_path, "android,10\nios,60\nother,30\n", "--post", "none")
    assert shown.exit_code == 0, shown.output
    assert "2.44 times the variance" in shown.stderr
    said = json.loads(shown.stdout)
    assert said["metadata"]["sizes"] == {"android": 0.1, "ios": 0.6, "other": 0.3}
    assert "represent" in said["metadata"]["post"]
    (before,), (after,) = ([row for row in each["rows"] if row["key"] == "maps"] for each in (plain, said))
    for row, truth in ((before, 1 / 3), (after, 0.9)):
        assert abs(row["frequency"] - truth) < 5 * row["frequency_se"]
    assert after["frequency_low"] > before["frequency_high"]


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ("android,10\nios,60\n", 'the size of segment "other" is missing'),
        ("android,10\nios,60\nother,30\nplan 9,1\n", 'no segment is called "plan 9"'),
        ("android,10\nandroid,60\nother,30\n", 'says "android" a second time'),
        ("android,many\nios,2\nother,1\n", "row 1 of sizes.csv needs a segment and a number"),
        ("android,0\nios,0\nother,0\n", "not all of them 0"),
    ],
)
def test_sizes_that_say_nothing_are_refused(known, tmp_path, rows, why):
    refused = totals(known, tmp_path, rows)
    assert refused.exit_code != 0
    assert why in str(refused.exception)


def test_sizes_need_one_attribute(known, tmp_path):
    (tmp_path / "sizes.csv").write_text("segment,size\nandroid,1\n")
    refused = CliRunner().invoke(
        command, ["estimate", *map(str, known), "--sizes", str(tmp_path / "sizes.csv")]
    )
    assert "name it with --by ATTRIBUTE" in str(refused.exception)
