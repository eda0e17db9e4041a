"""`keyveil attack` as people and scripts meet it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from keyveil import Campaign
from keyveil.cli.app import keyveil as command
from keyveil.methods import METHODS
from keyveil.report import Envelope, to_frames

KEYVEIL = Path(sys.executable).with_name("keyveil")
TOML = """
name = "apps"
epsilon = 2.0
keys = ["maps", "mail", "chess", "bank"]
value_range = [0, 60]
pairs_per_user = 2
mechanism = "{}"
"""


def keyveil(*arguments):
    return subprocess.run([KEYVEIL, *map(str, arguments)], capture_output=True, text=True)


@pytest.fixture
def campaign(tmp_path):
    def write(mechanism):
        path = tmp_path / f"{mechanism}.toml"
        path.write_text(TOML.format(mechanism))
        return path

    return write


def refused(*arguments):
    shown = keyveil(*arguments)
    assert shown.returncode == 2, shown
    assert len(shown.stderr.strip().splitlines()) == 1
    assert "Traceback" not in shown.stderr
    return shown.stderr


def test_all_attacks_are_printed_in_words_and_a_table(campaign):
    shown = keyveil("attack", campaign("pckv-ue"), "--targets", "chess,mail", "--users", 3000)
    assert shown.returncode == 0, shown.stderr
    for said in (
        "30 days, fresh noise",
        "maximal gain, hidden",
        "mean down",
        "under new ids",
        "one of 8 pairs",
    ):
        assert said in shown.stdout
    assert '1.00% hostile devices can move the frequency of "chess" by at most' in shown.stdout
    assert "cannot be detected, only bounded" in shown.stdout
    assert "shuffled: central epsilon" in shown.stdout


@pytest.mark.parametrize("mechanism", METHODS)
def test_every_method_can_be_attacked(campaign, mechanism):
    wanted = ["attack", str(campaign(mechanism)), "--kind", "poisoning", "--users", "2000", "--json"]
    shown = CliRunner().invoke(command, wanted, catch_exceptions=False)
    facts = json.loads(shown.stdout)
    gains = [each for each in facts["attacks"] if each["name"].endswith("maximal gain")]
    assert gains
    for each in gains:
        # With 500 reports a key the number that is asked of an honest crowd is itself uncertain.
        assert 0.8 * each["bound"] <= each["success"] <= 1.2 * each["bound"], each


def test_real_reports_are_attacked_and_judged(campaign, tmp_path):
    pairs, reports = tmp_path / "pairs.csv", tmp_path / "reports.parquet"
    rows = [f"{user},{('maps', 'mail', 'chess')[user % 3]},{user % 60}" for user in range(1500)]
    pairs.write_text("user,key,value\n" + "\n".join(rows) + "\n")
    path = campaign("kvue")
    assert keyveil("perturb", path, pairs, "-o", reports).returncode == 0
    shown = keyveil("attack", path, "--kind", "poisoning", "--kind", "replay", "--reports", reports, "--json")
    assert shown.returncode == 0, shown.stderr
    facts = json.loads(shown.stdout)
    assert facts["verdict"]["alarm"] is False
    assert {each["kind"] for each in facts["attacks"]} == {"poisoning", "replay"}


def test_bad_input_is_refused_in_one_sentence(campaign, tmp_path):
    path = campaign("bucket")
    assert "hostile share" in refused("attack", path, "--share", 1.5)
    assert "hostile share" in refused("attack", path, "--share", 0)
    assert "hostile share" in refused("attack", path, "--share", "nan")
    assert 'got "nobody"' in refused("attack", path, "--targets", "nobody")
    assert "no file at" in refused("attack", path, "--reports", tmp_path / "none.parquet", "--kind", "replay")
    empty = tmp_path / "empty.bin"
    empty.write_bytes(b"")
    assert "without reports" in refused("attack", path, "--reports", empty, "--kind", "poisoning")
    assert "several rounds" in refused("attack", campaign("auto"), "--reports", empty)
    assert "cannot read" in refused("attack", tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("mechanism", "kind", "sentence"),
    [
        (
            "auto",
            "poisoning",
            "sizes: poisoning, because none is defined for a round that speaks of no single key",
        ),
        ("auto", "replay", "sizes: replay, because none is defined for a round that speaks of no single key"),
        ("privkvm", "poisoning", "because a later round of privkvm asks for signs alone"),
    ],
)
def test_an_attack_that_is_not_defined_is_said_in_one_sentence(campaign, mechanism, kind, sentence):
    shown = keyveil("attack", campaign(mechanism), "--kind", kind, "--users", 2000)
    assert shown.returncode == 0, shown.stderr
    assert [line for line in shown.stdout.splitlines() if "not tried" in line and sentence in line]


def test_a_tally_can_be_checked_for_honest_noise(campaign, tmp_path):
    """Reports about one key only, where the index must be drawn evenly."""
    path = campaign("kvue")
    asked = Campaign.load(path)
    mechanism, n = asked.build(), 1200

    def write(indices):
        out = tmp_path / "reports.bin"
        sent = (
            Envelope(
                campaign=asked.tag,
                round=1,
                report_id=number.to_bytes(16, "little"),
                # Three in five are silent, as plausible as anything.
                payload=mechanism.layout.encode(3 * index + (0, 0, 0, 1, 2)[number // 4 % 5]),
            )
            for number, index in enumerate(indices)
        )
        out.write_bytes(to_frames(each.to_bytes() for each in sent))
        return out

    honest = write(number % 4 for number in range(n))
    shown = keyveil("tally", path, honest, "-o", tmp_path / "tally.json", "--check")
    assert (shown.returncode, "no attack that can be seen" in shown.stderr) == (0, True), shown.stderr
    crowded = write(number % 4 if number % 9 else 2 for number in range(n))
    shown = keyveil("tally", path, crowded, "-o", tmp_path / "tally.json", "--check")
    assert (shown.returncode, "NOT honest noise" in shown.stderr) == (1, True), shown.stderr


def test_what_a_clear_label_gives_away_and_what_liars_do_in_a_small_segment(campaign):
    plain = campaign("kvue")
    apart = plain.with_name("apart.toml")
    values = ", ".join(f'"v{n}"' for n in range(9))
    apart.write_text(plain.read_text() + f'[segments]\ntold = "clear"\nversion = [{values}]\n')
    shown = keyveil("attack", apart, "--kind", "segments", "--kind", "poisoning", "--users", 20000, "--json")
    assert shown.returncode == 0, shown.stderr
    tried = {each["name"]: each for each in json.loads(shown.stdout)["attacks"]}
    label, held = tried["reading the label"], tried["what is held, the label known"]
    assert (label["success"], label["bound"], label["note"]) == (1.0, 1.0, "in the clear")
    assert held["success"] < held["bound"] + 0.1 < 1.0
    # A hundredth of all devices is a tenth of a segment that is a tenth of the users.
    inside, whole = tried["small segment, maximal gain"], tried["maximal gain"]
    assert 7 < inside["bound"] / whole["bound"] < 11
    assert inside["success"] <= 1.2 * inside["bound"]
    assert "0.01 of all devices are 0.0917 of this segment" in inside["note"]
    assert "no label is in the clear" in refused("attack", plain, "--kind", "segments")
    names = json.loads(keyveil("attack", plain, "--users", 2000, "--json").stdout)["attacks"]
    assert {each["kind"] for each in names} == {"averaging", "poisoning", "replay", "reconstruction"}
