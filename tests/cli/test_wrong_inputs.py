"""Wrong inputs, as people make them: each gets a sentence that says what is wrong, at once; no traceback."""

import sys
import time

import pytest

from keyveil.cli import main

GOOD = """
name = "x"
epsilon = 1.0
keys = ["a", "b"]
value_range = [0, 7]
pairs_per_user = 1
mechanism = "kvue"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files, most of them wrong in one way."""
    folder = tmp_path_factory.mktemp("wrong")

    def write(name, text):
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())

    write("good.toml", GOOD)
    write("pairs.csv", "user,key,value\n" + "".join(f"u{n},{'ab'[n % 2]},{n % 7}\n" for n in range(40)))
    write("empty.csv", "")
    write("head.csv", "user,key,value\n")
    write("one.csv", "nothing\n1\n")
    write("text.csv", "user,key,value\nu,a,many\n")
    write("nan.csv", "user,key,value\nu,a,nan\n")
    write("hole.csv", "user,key,value\nu,,3\nv,a,1\n")
    write("ragged.csv", "user,key,value\nu,a,3\nv,a\n")
    write("three.csv", "a,b,c\n1,2,3\n")
    write("broken.parquet", b"PAR1 not really")
    write("broken.jsonl", '{"user": "u"\n')
    write("list.json", "[1, 2]")
    write("binary.bin", bytes(range(256)))
    write("packed.csv.gz", b"\x1f\x8bnot gzip")
    write("no.toml", "name = ")
    write("list.toml", "keys = 1\n")
    write("missing.toml", GOOD.replace("epsilon = 1.0\n", ""))
    write("stranger.toml", GOOD + "colour = 1\n")
    write("negative.toml", GOOD.replace("1.0", "-1.0"))
    write("huge.toml", GOOD.replace("1.0", "1e9"))
    write("words.toml", GOOD.replace("1.0", '"one"'))
    write("twice.toml", GOOD.replace('"b"', '"a"'))
    write("nokeys.toml", GOOD.replace('["a", "b"]', "[]"))
    write("range.toml", GOOD.replace("[0, 7]", "[7, 0]"))
    write("mechanism.toml", GOOD.replace("kvue", "kvu"))
    write("rounds.toml", GOOD.replace("kvue", "privkvm"))
    write("expires.toml", GOOD + 'expires = "soon"\n')
    write("unit.toml", GOOD + f'unit = "{"m" * 50}"\n')
    write("names.toml", GOOD + '[names]\nz = "Z"\n')
    write("keysfile.toml", GOOD.replace('keys = ["a", "b"]', 'keys_file = "nowhere.txt"'))
    write("tally.json", "{}")
    write("other.json", '{"question": "x/1", "n_reports": 1}')
    return folder


NOBODY = 64 * "0"
# What is typed, and the beginning of what is said.
WRONG = {
    "init no file": (
        ["init", "nowhere.csv", "--yes"],
        "expected a CSV, JSON or Parquet file of pairs, found no file at nowhere.csv",
    ),
    "init empty": (["init", "empty.csv"], "empty.csv is empty; expected the columns user, key, value"),
    "init head": (["init", "head.csv"], "head.csv has no rows; expected one row a pair"),
    "init one column": (
        ["init", "one.csv"],
        'one.csv lacks the column "user"; expected user, key, value, got nothing; say whi',
    ),
    "init unknown columns": (
        ["init", "three.csv"],
        'three.csv lacks the column "user"; expected user, key, value, got a, b, c; say w',
    ),
    "init named column": (
        ["init", "pairs.csv", "--value", "minutes"],
        'pairs.csv lacks the column "minutes" that --value names; it has user, key, value',
    ),
    "init broken parquet": (["init", "broken.parquet"], "broken.parquet is not a readable Parquet file"),
    "init broken json": (["init", "broken.jsonl"], "broken.jsonl is not a readable JSON file"),
    "init json list": (
        ["init", "list.json"],
        "list.json is not a readable JSON file: expected a list of objects",
    ),
    "init binary": (["init", "binary.bin"], "binary.bin is not a readable CSV file"),
    "init bad gzip": (["init", "packed.csv.gz"], "packed.csv.gz is not a readable CSV file"),
    "init ragged": (["init", "ragged.csv"], "ragged.csv is not a readable CSV file"),
    "init folder": (["init", "."], "expected a CSV, JSON or Parquet file of pairs, found no file at ."),
    "init combine": (["init", "pairs.csv", "--combine", "median"], "Invalid value for '--combine': 'median'"),
    "init epsilon": (
        ["init", "pairs.csv", "--epsilon", "much", "-o", "n1.toml"],
        "--epsilon must be a positive number, got 'much'",
    ),
    "init epsilon 0": (
        ["init", "pairs.csv", "--epsilon", "0", "-o", "n2.toml"],
        "--epsilon must be a positive number, got 0",
    ),
    "init range": (
        ["init", "pairs.csv", "--value-range", "9", "-o", "n3.toml"],
        "--value-range must be two numbers LO,HI, got '9'",
    ),
    "init range reversed": (
        ["init", "pairs.csv", "--value-range", "9,1", "-o", "n4.toml"],
        "--value-range must be finite with LO below HI, got '9,1'",
    ),
    "init over": (
        ["init", "pairs.csv", "-o", "good.toml"],
        "good.toml is there already and stays as it is; name another with -o",
    ),
    "init nowhere": (
        ["init", "pairs.csv", "-o", "no/folder/c.toml"],
        "cannot write no/folder/c.toml: No such file or directory",
    ),
    "init telemetry over": (
        ["init", "telemetry", "-o", "."],
        ". is not empty and stays as it is; name another with -o",
    ),
    "init numbers as text": (
        ["init", "text.csv"],
        "text.csv names no key; at least one row must hold a key and a value; rows were skipped",
    ),
    "try no file": (
        ["try", "nowhere.csv"],
        "expected a CSV, JSON or Parquet file of pairs, found no file at nowhere.csv",
    ),
    "try no campaign": (
        ["try", "pairs.csv", "--campaign", "nowhere.toml"],
        "cannot read nowhere.toml: No such file or directory",
    ),
    "try bad campaign": (
        ["try", "pairs.csv", "--campaign", "no.toml"],
        "no.toml is neither TOML nor JSON: Invalid value (at end of document)",
    ),
    "try epsilon": (["try", "pairs.csv", "--epsilon", "-1"], "--epsilon must be a positive number, got -1"),
    "plan nothing": (
        ["plan"],
        "say how many keys there are with --keys, or where to count them with --from FILE",
    ),
    "plan no keys": (
        ["plan", "--users", "9", "--epsilon", "1"],
        "say how many keys there are with --keys, or where to count them with --from FILE",
    ),
    "plan no epsilon": (
        ["plan", "--users", "9", "--keys", "3"],
        "to solve for epsilon, say which error is wanted",
    ),
    "plan error": (
        ["plan", "--keys", "3", "--epsilon", "1", "--error", "2"],
        "the wanted error must lie between 0 and 1, got 2",
    ),
    "plan impossible": (
        ["plan", "--keys", "300", "--epsilon", "0.001", "--error", "1e-9"],
        "no number of users reaches an error of 1e-09 at epsilon 0.001: 0.021 is left eve",
    ),
    "plan skew": (
        ["plan", "--users", "9", "--keys", "3", "--epsilon", "1", "--skew", "steep"],
        "--skew must read \"zipf:NUMBER\", as zipf:1.0, got 'steep'",
    ),
    "plan frequency": (
        ["plan", "--users", "9", "--keys", "3", "--epsilon", "1", "--at-frequency", "2"],
        "a frequency lies between 0 and 1, got 2",
    ),
    "plan want": (
        ["plan", "--users", "9", "--keys", "3", "--epsilon", "1", "--want", "all"],
        "Invalid value for '--want': 'all'",
    ),
    "plan users": (
        ["plan", "--users", "0", "--keys", "3", "--epsilon", "1"],
        "Invalid value for '--users': 0",
    ),
    "plan epsilon nan": (
        ["plan", "--users", "9", "--keys", "3", "--epsilon", "nan"],
        "--epsilon must be a positive number, got 'nan'",
    ),
    "simulate value": (
        ["simulate", "text.csv", "--mechanism", "kvue", "--epsilon", "1"],
        'column "value" of text.csv must hold numbers, got string',
    ),
    "simulate nan": (
        ["simulate", "nan.csv", "--mechanism", "kvue", "--epsilon", "1"],
        "1 values of nan.csv are not finite numbers, first at pair 1; pass --skip to leave such rows out",
    ),
    "simulate hole": (
        ["simulate", "hole.csv", "--mechanism", "kvue", "--epsilon", "1"],
        'column "key" of hole.csv is empty in 1 rows, first at 1; pass --skip to leave such rows out',
    ),
    "simulate outside": (
        ["simulate", "pairs.csv", "--mechanism", "kvue", "--epsilon", "1", "--value-range", "0,2"],
        "22 values of pairs.csv lie outside [0, 2], first at pair 4; widen --value-range or pass --clamp",
    ),
    "simulate mechanism": (
        ["simulate", "pairs.csv", "--mechanism", "kvu", "--epsilon", "1"],
        'unknown mechanism "kvu"; did you mean "kvue"?',
    ),
    "simulate none": (
        ["simulate", "pairs.csv", "--mechanism", "", "--epsilon", "1"],
        "--mechanism must name at least one mechanism",
    ),
    "simulate set": (
        ["simulate", "pairs.csv", "--mechanism", "kvue", "--epsilon", "1", "--set", "colour=1"],
        "\"kvue\" has no such option: 'colour'",
    ),
    "simulate repeats": (
        ["simulate", "pairs.csv", "--mechanism", "kvue", "--epsilon", "1", "--repeats", "0"],
        "repeats must be at least 1, got 0",
    ),
    "perturb toml": (
        ["perturb", "no.toml", "pairs.csv", "-o", "r.parquet"],
        "no.toml is neither TOML nor JSON: Invalid value (at end of document)",
    ),
    "perturb missing": (
        ["perturb", "missing.toml", "pairs.csv", "-o", "r.parquet"],
        'field "epsilon" is missing, at $.epsilon, in missing.toml',
    ),
    "perturb stranger": (
        ["perturb", "stranger.toml", "pairs.csv", "-o", "r.parquet"],
        'unknown field "colour", at $.colour, in stranger.toml',
    ),
    "perturb negative": (
        ["perturb", "negative.toml", "pairs.csv", "-o", "r.parquet"],
        "epsilon must be a positive number, got -1.0, in negative.toml",
    ),
    "perturb huge": (
        ["perturb", "huge.toml", "pairs.csv", "-o", "r.parquet"],
        "epsilon must be at most 32, got 1000000000.0; beyond that a report hides nothing, in huge.toml",
    ),
    "perturb words": (
        ["perturb", "words.toml", "pairs.csv", "-o", "r.parquet"],
        "epsilon must be a positive number, got 'one', in words.toml",
    ),
    "perturb twice": (
        ["perturb", "twice.toml", "pairs.csv", "-o", "r.parquet"],
        'key "a" is listed twice, at $.keys[0] and $.keys[1], in twice.toml',
    ),
    "perturb no keys": (
        ["perturb", "nokeys.toml", "pairs.csv", "-o", "r.parquet"],
        "keys must name at least one key, got none, at $.keys, in nokeys.toml",
    ),
    "perturb range": (
        ["perturb", "range.toml", "pairs.csv", "-o", "r.parquet"],
        "value_range must be finite with low < high, got [7.0, 0.0], in range.toml",
    ),
    "perturb mechanism": (
        ["perturb", "mechanism.toml", "pairs.csv", "-o", "r.parquet"],
        'unknown mechanism "kvu"; did you mean "kvue"?, in mechanism.toml',
    ),
    "perturb rounds": (
        ["perturb", "rounds.toml", "pairs.csv", "-o", "r.parquet"],
        '"privkvm" has several rounds, and each follows from the tally before it; let a c',
    ),
    "perturb expires": (
        ["perturb", "expires.toml", "pairs.csv", "-o", "r.parquet"],
        "expires must be a date such as 2027-01-31, got 'soon', at $.expires, in expires.toml",
    ),
    "perturb unit": (
        ["perturb", "unit.toml", "pairs.csv", "-o", "r.parquet"],
        "unit must be a text of at most 40 letters, at $.unit, in unit.toml",
    ),
    "perturb names": (
        ["perturb", "names.toml", "pairs.csv", "-o", "r.parquet"],
        "names has a key that keys lacks: 'z', at $.names, in names.toml",
    ),
    "perturb keys file": (
        ["perturb", "keysfile.toml", "pairs.csv", "-o", "r.parquet"],
        "cannot read keys_file nowhere.txt",
    ),
    "perturb csv": (
        ["perturb", "good.toml", "pairs.csv", "-o", "r.csv"],
        "reports are written as Parquet; expected a name such as reports.parquet, got r.csv",
    ),
    "tally no reports": (
        ["tally", "good.toml", "nowhere.parquet", "-o", "t.json"],
        "expected a file of reports, found no file at nowhere.parquet",
    ),
    "tally pairs": (
        ["tally", "good.toml", "pairs.csv", "-o", "t.json"],
        "pairs.csv is neither Parquet nor a stream of frames: report refused (frame-too-l",
    ),
    "estimate empty tally": (
        ["estimate", "good.toml", "tally.json"],
        "expected a tally as JSON: question, n_reports and cells, in tally.json",
    ),
    "estimate other": (
        ["estimate", "good.toml", "other.json"],
        "expected a tally as JSON: question, n_reports and cells, in other.json",
    ),
    "estimate form": (
        ["estimate", "good.toml", "tally.json", "-o", "r.xlsx"],
        "expected a release to end with one of .csv, .json, .parquet, .arrow, got r.xlsx",
    ),
    "estimate nothing": (["estimate", "good.toml"], "Missing argument 'TALLY_OR_REPORTS...'."),
    "audit mechanism": (
        ["audit", "nobody", "--epsilon", "1", "--keys", "3"],
        'unknown mechanism "nobody"; known are privkv',
    ),
    "audit epsilon": (
        ["audit", "kvue", "--epsilon", "1e999", "--keys", "3"],
        "--epsilon must be at most 32, got 1e999; beyond that a report hides nothing",
    ),
    "serve store": (
        ["serve", "--store", "mysql://x"],
        "expected sqlite:///FILE or postgresql://HOST/NAME, got mysql://...",
    ),
    "serve port": (["serve", "--port", "99999"], "Invalid value for '--port': 99999"),
    "send nowhere": (
        [
            "send",
            f"http://127.0.0.1:1/v1/campaigns/{NOBODY}",
            "pairs.csv",
            "--patience",
            "0",
        ],
        "no answer from 127.0.0.1:1",
    ),
    "send no id": (
        ["send", "http://127.0.0.1:1/nothing", "pairs.csv"],
        "expected https://HOST/v1/campaigns/ID, got 'http://127.0.0.1:1/nothing'",
    ),
    "send http": (
        [
            "send",
            f"http://collect.example.org/v1/campaigns/{NOBODY}",
            "pairs.csv",
        ],
        "https is required to reach collect.example.org; http only reaches this machine",
    ),
    "campaign nowhere": (
        ["campaign", "list", "--url", "http://127.0.0.1:1"],
        "no answer from http://127.0.0.1:1",
    ),
    "campaign name": (
        ["campaign", "show", "apps", "--url", "http://127.0.0.1:1"],
        '"apps" is no whole id, and to look it up failed: no answer from http://127.0.0.1:1',
    ),
    "token role": (
        ["token", "create", "king", "--url", "http://127.0.0.1:1"],
        "Invalid value for '{device|analyst|operator|admin|monitor|relay|annotator}': 'king'",
    ),
    "token recover": (
        ["token", "recover", "--store", "sqlite:////proc/nowhere/x.db"],
        "cannot open the store /proc/nowhere/x.db: No such file or directory",
    ),
    "backup over": (
        ["backup", "-o", "good.toml", "--url", "http://127.0.0.1:1"],
        "good.toml exists already and stays as it is; name another file for the copy",
    ),
    "verify": (["verify", "nowhere.db"], "there is no store nowhere.db"),
    "verify other": (["verify", "good.toml"], "the store is damaged: file is not a database"),
    "unknown command": (["colect"], "No such command 'colect'."),
    "reproduce data": (
        ["reproduce", "--data", "nowhere", "--out", "pages", "--quick"],
        "Invalid value for '--data': Directory 'nowhere' does not exist.",
    ),
}
# A check that fails ends with 1, a mistake with 2.
ENDS_WITH_1 = ("verify other",)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_input_gets_one_sentence_at_once(name, folder, monkeypatch, capsys):
    arguments, words = WRONG[name]
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["keyveil", *arguments])
    started = time.perf_counter()
    with pytest.raises(SystemExit) as ended:
        main()
    took, said = time.perf_counter() - started, capsys.readouterr().err
    assert ended.value.code == (1 if name in ENDS_WITH_1 else 2)
    assert words in said.splitlines()[-1]
    assert "Traceback" not in said
    assert took < 5


def test_there_are_sixty_and_more():
    assert len(WRONG) >= 60
