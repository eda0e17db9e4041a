"""One process, the whole path: campaign file, devices, tally, release."""

import csv
import io
import json
import math
import sys
from dataclasses import replace

import pytest

from keyveil import Campaign
from keyveil.client import Reporter
from keyveil.errors import CampaignError, KeyveilError, Refusal, ReportRejected, TallyError
from keyveil.methods import METHODS, has_several_rounds
from keyveil.simulate.apps import APPS, app_minutes

TOML = """
name = "apps"
epsilon = 4.0
keys = ["maps", "mail", "=cmd()"]
value_range = [0, 60]
pairs_per_user = 1
mechanism = "{mechanism}"
"""


def load(tmp_path, text):
    path = tmp_path / "campaign.toml"
    path.write_text(text)
    return Campaign.load(path)


@pytest.mark.parametrize("mechanism", ["privkv", "kvue", "pckv-ue", "pckv-grr", "ks-ue"])
def test_the_truth_comes_back_within_its_intervals(tmp_path, mechanism):
    campaign = load(tmp_path, TOML.format(mechanism=mechanism))
    reporter = Reporter(campaign)
    holders = 3000
    reports = [reporter.report({"maps": 45.0}) for _ in range(holders)] + [reporter.report({})] * 0
    reports += [reporter.report({"mail": 15.0}) for _ in range(holders)]
    tally = campaign.tally(reports[:1000]) + campaign.tally(reports[1000:])
    release = campaign.estimate(tally)
    maps, mail, unused = release.rows()
    # Six standard errors: this test draws from the operating system, so it must not flake.
    assert abs(maps["frequency"] - 0.5) < 6 * maps["frequency_se"]
    assert abs(maps["mean"] - 45) < 6 * maps["mean_se"]
    assert abs(mail["mean"] - 15) < 6 * mail["mean_se"]
    assert abs(unused["frequency_raw"]) < 6 * unused["frequency_se"]
    assert release.metadata["users"] == 2 * holders
    assert release.metadata["campaign"] == campaign.id
    assert release.metadata["epsilon_exact"] <= 4.0
    assert release.metadata["post"] == ["readable"]


@pytest.mark.parametrize("mechanism", [name for name in METHODS if not has_several_rounds(name)])
def test_numbers_lie_inside_their_ranges_and_intervals_if_nobody_asks_otherwise(mechanism):
    """U5. Little budget, few people: unbiased numbers lie far outside, and stay beside what is shown."""
    campaign = Campaign(
        name="noise", epsilon=0.2, keys=APPS[:6], value_range=(0, 60), pairs_per_user=2, mechanism=mechanism
    )
    reporter = Reporter(campaign)
    tally = campaign.tally([reporter.report({"maps": 45.0, "mail": 3.0}) for _ in range(60)])
    outside = 0
    for row, raw in zip(
        campaign.estimate(tally).rows(), campaign.estimate(tally, post="none").rows(), strict=True
    ):
        assert 0 <= row["frequency_low"] <= row["frequency"] <= row["frequency_high"] <= 1
        assert row["frequency_raw"] == raw["frequency"]
        assert 0 <= row["mean_low"] <= row["mean_high"] <= 60
        if row["mean"] is not None:
            assert row["mean_low"] <= row["mean"] <= row["mean_high"]
        elif raw["mean"] is not None:
            assert (row["mean_low"], row["mean_high"]) == (0, 60), "left out only where nothing is known"
        outside += not 0 <= raw["frequency"] <= 1
    assert outside, "the unbiased numbers would have been no trouble"


def test_every_device_owns_a_key_so_a_replay_shows_as_two(tmp_path):
    """With words of zeros everybody tells the truth: counts of 1 are exactly-once, 2 a replay."""
    campaign = Campaign(
        name="glass",
        epsilon=2.0,
        keys=APPS,
        value_range=(0, 1),
        pairs_per_user=1,
        mechanism="pckv-grr",
    )
    truthful = Reporter(campaign, entropy=lambda n_words: [0] * n_words)
    reports = [truthful.report({app: 1.0}) for app in APPS]
    assert campaign.tally(reports).plus.tolist() == [1] * len(APPS)
    replayed = campaign.tally([*reports, reports[7]])
    assert replayed.plus[7] == 2


def test_releases_export_in_every_form(tmp_path):
    campaign = load(tmp_path, TOML.format(mechanism="ks-ue"))
    reporter = Reporter(campaign)
    release = campaign.estimate(
        campaign.tally(reporter.report({"maps": 30.0}) for _ in range(500)), post="clip"
    )
    parsed = json.loads(release.to_json())
    assert parsed["metadata"]["post"] == ["clip"]
    table = list(csv.DictReader(io.StringIO(release.to_csv())))
    assert [row["key"] for row in table] == ["maps", "mail", "'=cmd()"]
    assert float(table[0]["frequency"]) == parsed["rows"][0]["frequency"]
    arrow = release.to_arrow()
    assert arrow.column("frequency").to_pylist()[0] == parsed["rows"][0]["frequency"]
    assert json.loads(arrow.schema.metadata[b"keyveil"]) == parsed["metadata"]
    assert release.to_pandas().shape == (3, 23)
    raw = campaign.estimate(campaign.tally([]), post="none")
    told = [name for name in release.columns if not name.endswith("_raw")]
    assert list(raw.columns) == told, "raw numbers stand alone"
    assert {"frequency_raw", "mean_raw"} <= set(release.columns), "processed ones do not hide them"


def test_an_empty_tally_releases_unknowns_not_numbers(tmp_path):
    campaign = load(tmp_path, TOML.format(mechanism="pckv-ue"))
    row = campaign.estimate(campaign.tally([])).rows()[0]
    assert row["mean"] is None
    assert row["frequency_se"] is None
    assert (row["mean_low"], row["mean_high"]) == (0, 60)
    assert not any(isinstance(cell, float) and math.isnan(cell) for cell in row.values())


def test_reports_and_tallies_of_another_campaign_are_refused(tmp_path):
    one = load(tmp_path, TOML.format(mechanism="pckv-ue"))
    other = load(tmp_path, TOML.format(mechanism="ks-ue"))
    with pytest.raises(ReportRejected, match="report 1 answers campaign") as refusal:
        one.tally([Reporter(one).report({}), Reporter(other).report({})])
    assert refusal.value.code is Refusal.WRONG_CAMPAIGN
    with pytest.raises(TallyError, match="expected a tally of campaign"):
        one.estimate(other.tally([]))


def test_the_id_is_the_canonical_hash_and_any_change_changes_it(tmp_path):
    one = load(tmp_path, TOML.format(mechanism="pckv-ue"))
    (tmp_path / "same.json").write_text(one.canonical_json)
    assert Campaign.load(tmp_path / "same.json").id == one.id
    assert load(tmp_path, TOML.format(mechanism="pckv-ue").replace("4.0", "4.5")).id != one.id


def test_keys_may_come_from_a_file_of_lines(tmp_path):
    (tmp_path / "keys.txt").write_text("maps\nmail\n\n")
    text = TOML.format(mechanism="kvue").replace(
        'keys = ["maps", "mail", "=cmd()"]', 'keys_file = "keys.txt"'
    )
    assert load(tmp_path, text).keys == ("maps", "mail")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("epsilon = 4.0", "epsilon = -1"), "epsilon must be a positive number, got -1, in campaign.toml"),
        (("epsilon = 4.0", ""), r'field "epsilon" is missing, at \$.epsilon'),
        (("epsilon", "epsilom"), 'unknown field "epsilom"'),
        (("pairs_per_user = 1", "pairs_per_user = 0"), "pairs_per_user must be at least 1, got 0"),
        (("pairs_per_user = 1", "pairs_per_user = 1.5"), "must be a whole number, got 1.5"),
        (('["maps", "mail", "=cmd()"]', "[]"), "at least one key, got none"),
        (('["maps", "mail", "=cmd()"]', '["a", "a"]'), r"listed twice, at \$.keys\[0\] and \$.keys\[1\]"),
        (('["maps", "mail", "=cmd()"]', '"maps"'), "keys must be a list"),
        (("[0, 60]", "[60, 0]"), "low < high"),
        (('"kvue"', '"kvu"'), 'did you mean "kvue"'),
        (('"apps"', "7"), r"name must be text, got int, at \$.name"),
        (
            ("pairs_per_user = 1", 'pairs_per_user = 1\nrho = "1"'),
            r"rho must be a number from -1 to 1, got '1'",
        ),
        (
            ("pairs_per_user = 1", "pairs_per_user = 1\nrho = nan"),
            "rho must be a number from -1 to 1, got nan",
        ),
        (("pairs_per_user = 1", "pairs_per_user = 1\nrho = 1"), 'no option "rho" here; there is none'),
        (
            ("pairs_per_user = 1", 'pairs_per_user = 1\nwant = "all"'),
            r"want must be one of frequency, mean, distribution, both, got 'all', at \$.want",
        ),
        (
            ("pairs_per_user = 1", 'pairs_per_user = 1\nwant = "mean"'),
            r'got "mean" beside "kvue", which always asks alike, at \$.want; leave want out, or say '
            'mechanism = "auto", in campaign.toml',
        ),
        (("name", "= name"), "neither TOML nor JSON"),
    ],
)
def test_campaign_files_are_refused_with_the_place(tmp_path, change, message):
    with pytest.raises(KeyveilError, match=message):
        load(tmp_path, TOML.format(mechanism="kvue").replace(*change))


def test_campaign_files_that_cannot_be_read_are_refused(tmp_path):
    with pytest.raises(CampaignError, match="cannot read"):
        Campaign.load(tmp_path / "nowhere.toml")
    (tmp_path / "list.json").write_text("[1]")
    with pytest.raises(CampaignError, match="must hold a table of fields, got list"):
        Campaign.load(tmp_path / "list.json")


def test_the_demo_population_fits_its_campaign():
    people = app_minutes(users=500)
    assert max(map(len, people)) <= 3
    assert min(map(len, people)) == 0
    assert all(0 <= minutes <= 120 for held in people for minutes in held.values())


def test_units_and_names_are_for_people_and_older_campaigns_keep_their_ids():
    plain = Campaign(
        name="apps",
        epsilon=4.0,
        keys=("m", "c"),
        value_range=(0, 60),
        pairs_per_user=1,
        mechanism="pckv-ue",
        other=True,
        dither=1,
    )
    assert plain.id == "4322b924eec8baa1048a0b0db26d66ad714d00b5bf7337e07fd5a941e1a2da77"
    named = replace(plain, unit="minutes", names={"m": "Maps"})
    assert named.names == ("Maps", "c")
    assert (
        Campaign.from_text(named.canonical_json)
        == named
        == replace(plain, unit="minutes", names=["Maps", "c"])
    )
    assert named.id != plain.id
    release = named.estimate(named.tally([Reporter(named).report({"m": 5.0})]))
    assert [(row["key"], row["name"]) for row in release.rows()] == [
        ("m", "Maps"),
        ("c", "c"),
        ("other", "other"),
    ]
    assert release.metadata["unit"] == "minutes"
    assert release.to_csv().startswith("key,name,frequency,")
    for wrong in ({"x": "X"}, ["Maps"], ["Maps", ""], "Maps", ["Maps", 1]):
        with pytest.raises(CampaignError, match=r"at \$.names"):
            replace(plain, names=wrong)
    for unit in ("", "m" * 41, 1):
        with pytest.raises(CampaignError, match=r"at \$.unit"):
            replace(plain, unit=unit)


@pytest.mark.parametrize("want", ["frequency", "mean", "distribution", "both"])
def test_a_wish_goes_from_the_file_to_the_rounds_and_campaigns_without_one_keep_their_ids(tmp_path, want):
    undithered = TOML.format(mechanism="auto") + "dither = 1\n"
    plain = load(tmp_path, undithered)
    assert plain.id == "786786f1aa530238a7d5550498dd1690f6032661eed798b64fe5d3293e891ee8"
    assert "want" not in plain.canonical_json
    asked = load(tmp_path, undithered + f'want = "{want}"\n')
    assert asked.id != plain.id
    assert Campaign.from_text(asked.canonical_json) == asked == replace(plain, want=want)
    assert (asked.protocol().want, plain.protocol().want) == (want, "both")
    assert asked.protocol() == replace(plain.protocol(), want=want)
    told = Campaign.from_description(asked.device_config(asked.first_round()))
    assert told == (asked, asked.first_round())
    assert replace(asked, ids="issued").protocol().protocol.want == want


def test_a_release_shows_itself_in_a_notebook(tmp_path, monkeypatch):
    """U20: `to_pandas` raised ModuleNotFoundError, and a notebook showed the bare object."""
    campaign = replace(
        load(tmp_path, TOML.format(mechanism="ks-ue")), unit="minutes", names={"maps": "<Maps>"}
    )
    reporter = Reporter(campaign)
    release = campaign.estimate(campaign.tally(reporter.report({"maps": 30.0}) for _ in range(500)))
    shown = release._repr_html_()
    assert "&lt;Maps&gt;" in shown
    assert "<th>minutes</th>" in shown
    assert [row["key"] for row in release.top(1)] == ["maps"]
    figure = release.plot()
    assert [axes.get_xlabel() for axes in figure.axes] == ["% of people", "minutes"]
    for name, package in (
        ("to_arrow", "pyarrow"),
        ("to_pandas", "pandas"),
        ("to_polars", "polars"),
        ("plot", "matplotlib"),
    ):
        with monkeypatch.context() as without:
            without.setitem(sys.modules, package, None)
            with pytest.raises(KeyveilError, match=f"this needs {package}; pip install"):
                getattr(release, name)()
