"""The command as people and scripts meet it: real processes, real exit codes."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from keyveil.methods import METHODS

KEYVEIL = Path(sys.executable).with_name("keyveil")


def keyveil(*arguments):
    return subprocess.run([KEYVEIL, *map(str, arguments)], capture_output=True, text=True)


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.csv"
    rows = [f"{user},{key},{(user * 7 + key) % 5 + 1}" for user in range(300) for key in range(user % 4)]
    path.write_text("user,key,value\n" + "\n".join(rows) + "\n")
    return path


def test_help_answers_at_once():
    took = []
    for _ in range(5):
        # Processor time: what the command itself needs, however busy the machine is.
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        shown = keyveil("--help")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert shown.returncode == 0
    assert all(
        name in shown.stdout for name in ("demo", "mechanisms", "audit", "simulate", "perturb", "reproduce")
    )
    assert min(took) < 0.25


def test_mechanisms_are_listed():
    table = keyveil("mechanisms").stdout
    assert all(name in table for name in METHODS)
    assert [row["mechanism"] for row in json.loads(keyveil("mechanisms", "--json").stdout)] == list(METHODS)


@pytest.mark.parametrize("mechanism", METHODS)
def test_audit_prints_the_contract(mechanism):
    shown = keyveil("audit", mechanism, "--epsilon", 1, "--keys", 4, "--pairs-per-user", 2, "--json")
    facts = json.loads(shown.stdout)
    assert shown.returncode == 0
    assert facts["mechanism"] == mechanism
    assert facts["epsilon_exact"] <= facts["epsilon"] == 1
    assert facts["epsilon_lower_bound"] is None
    assert facts["sound"] is True
    assert set(facts["worst_pair"]) == {"first", "second", "report"}


def test_audit_with_trials_bounds_from_below():
    shown = keyveil("audit", "kvue", "--epsilon", 1, "--keys", 2, "--trials", 20000, "--json")
    assert 0.5 < json.loads(shown.stdout)["epsilon_lower_bound"] <= 1
    table = keyveil("audit", "kvue", "--epsilon", 1, "--keys", 2, "--trials", 2000).stdout
    assert "proved by draws" in table
    assert "sound" in table


def test_audit_of_a_million_keys_answers():
    shown = keyveil("audit", "pckv-grr", "--epsilon", 1, "--keys", 10**6, "--pairs-per-user", 100, "--json")
    assert json.loads(shown.stdout)["method"] == "closed form, reached"


def test_simulate_prints_the_contract_and_writes_plots(pairs, tmp_path):
    out = tmp_path / "out"
    shown = keyveil(
        "simulate",
        pairs,
        "--mechanism",
        "pckv-ue,privkv",
        "--epsilon",
        "1,2",
        "--repeats",
        3,
        "--top",
        2,
        "--json",
        "--out",
        out,
    )
    cells = json.loads(shown.stdout)
    assert [(cell["mechanism"], cell["epsilon"]) for cell in cells] == [
        ("pckv-ue", 1),
        ("pckv-ue", 2),
        ("privkv", 1),
        ("privkv", 2),
    ]
    wanted = {
        "mechanism", "epsilon", "users", "keys", "pairs_per_user", "repeats", "post", "frequency_mse",
        "mean_mse", "frequency_mse_top", "mean_mse_top", "top", "seconds",
    }  # fmt: skip
    assert wanted <= set(cells[0])
    assert cells[0]["users"] == 225
    assert cells[0]["pairs_per_user"] == 3
    assert json.loads((out / "cells.json").read_text()) == cells
    assert len(list(out.glob("*.svg"))) == 5
    assert "epsilon" in (out / "frequency_mse.svg").read_text()


def test_simulate_scores_distributions_where_they_are_wanted(pairs):
    asked = (
        "simulate",
        pairs,
        "--mechanism",
        "auto,kvue,ue-sw,grr",
        "--epsilon",
        4,
        "--want",
        "distribution",
    )
    auto, kvue, wave, shares = json.loads(keyveil(*asked, "--repeats", 2, "--json").stdout)
    for cell in (auto, kvue, wave):
        assert 0 < cell["w1_top"] == cell["wasserstein_top"] < 0.5
        assert 0.5 < cell["median_coverage"] <= 1
    assert (shares["w1_top"], shares["median_coverage"]) == (None, None)
    plain = json.loads(keyveil("simulate", pairs, "--mechanism", "kvue", "--epsilon", 4, "--json").stdout)[0]
    assert (plain["w1_top"], plain["median_coverage"]) == (None, None)


def test_simulate_prints_a_table_with_standard_errors(pairs):
    shown = keyveil("simulate", pairs, "--mechanism", "ks-ue", "--epsilon", 1)
    assert "±" in shown.stdout
    assert shown.stderr == ""


def test_reproduce_writes_a_page_and_says_what_was_skipped(tmp_path):
    shown = keyveil("reproduce", "kskv", "--quick", "--out", tmp_path)
    assert shown.returncode == 0
    assert "kskv" in shown.stdout
    assert (tmp_path / "index.html").is_file()


BAD = {
    "epsilon zero": (("audit", "kvue", "--epsilon", "0", "--keys", "3"), "must be a positive number, got 0"),
    "epsilon negative": (("audit", "kvue", "--epsilon", "-1", "--keys", "3"), "positive number, got -1"),
    "epsilon nan": (("audit", "kvue", "--epsilon", "nan", "--keys", "3"), "positive number, got 'nan'"),
    "epsilon infinite": (("audit", "kvue", "--epsilon", "inf", "--keys", "3"), "positive number, got 'inf'"),
    "epsilon text": (("audit", "kvue", "--epsilon", "much", "--keys", "3"), "positive number, got 'much'"),
    "epsilon huge": (("audit", "kvue", "--epsilon", "99", "--keys", "3"), "at most 32"),
    "zero keys": (("audit", "kvue", "--epsilon", "1", "--keys", "0"), "expected at least one key, got 0"),
    "negative keys": (("audit", "pckv-ue", "--epsilon", "1", "--keys", "-4"), "expected at least one key"),
    "l below one": (
        ("audit", "pckv-ue", "--epsilon", "1", "--keys", "3", "--pairs-per-user", "0"),
        "pairs_per_user must be at least 1, got 0",
    ),
    "unknown mechanism": (("audit", "pckvue", "--epsilon", "1", "--keys", "3"), 'did you mean "pckv-ue"?'),
    "unknown command": (("audti",), "No such command 'audti'"),
    "no file": (("simulate", "nowhere.csv", "--mechanism", "kvue", "--epsilon", "1"), "found no file at"),
    "no mechanism": (("simulate", "PAIRS", "--mechanism", ",", "--epsilon", "1"), "at least one mechanism"),
    "no epsilon": (("simulate", "PAIRS", "--mechanism", "kvue", "--epsilon", ","), "at least one budget"),
    "one bad epsilon": (("simulate", "PAIRS", "--mechanism", "kvue", "--epsilon", "1,x"), "got 'x'"),
    "bad l": (
        ("simulate", "PAIRS", "--mechanism", "ks-ue", "--epsilon", "1", "--pairs-per-user", "0"),
        "pairs_per_user must be at least 1",
    ),
    "range": (
        ("simulate", "PAIRS", "--mechanism", "kvue", "--epsilon", "1", "--value-range", "5,1"),
        "--value-range must be finite with LO below HI",
    ),
    "range text": (
        ("simulate", "PAIRS", "--mechanism", "kvue", "--epsilon", "1", "--value-range", "low,high"),
        "--value-range must be two numbers",
    ),
    "values outside": (
        ("simulate", "PAIRS", "--mechanism", "kvue", "--epsilon", "1", "--value-range", "2,4"),
        "lie outside [2, 4]",
    ),
    "unknown post": (
        ("simulate", "PAIRS", "--mechanism", "kvue", "--epsilon", "1", "--post", "clop"),
        'did you mean "clip"?',
    ),
    "unknown paper": (("reproduce", "pckvv", "--out", "pages"), 'unknown paper "pckvv"; expected pckv'),
    "repeats": (
        ("simulate", "PAIRS", "--mechanism", "kvue", "--epsilon", "1", "--repeats", "0"),
        "repeats must be at least 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_sentence_exit_2_and_no_trace(case, pairs):
    arguments, message = BAD[case]
    shown = keyveil(*(pairs if argument == "PAIRS" else argument for argument in arguments))
    assert shown.returncode == 2
    assert message in shown.stderr
    assert "Traceback" not in shown.stderr
    assert shown.stdout == ""
    if case != "unknown command":
        assert shown.stderr.count("\n") == 1
