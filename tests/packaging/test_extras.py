"""Every extra in a virtual environment of its own: what it promises runs there, what it lacks is named.

Each environment holds the built wheel, installed by pip, and the distributions that the extra asks for, found
from the wheel's metadata (`environments`); an interpreter of its own runs a short program for each extra
(`promises`) and every documented command. So these tests prove that an extra asks for all that its part of
the package imports, that pip takes the wheel with those versions, and that what is not there is refused in
one sentence with the extra's name. They do not prove that an index has those packages and that their files
arrive whole: `scripts/stranger.py`, in the gate too, installs from one. Spark's executors run in the
environment of `spark` (tests/batch/test_spark.py); `dev` is the environment that runs the tests.
"""

import json
from pathlib import Path

import pytest
from environments import Environment, brought_by, make_environment

PROMISES = Path(__file__).with_name("promises")
DEVICE = Path(__file__).with_name("device_path.py")

COMMANDS = {
    "--version": ["--version"],
    "mechanisms": ["mechanisms"],
    "plan": ["plan", "--users", "1000", "--keys", "5", "--epsilon", "1"],
    "plan --from": ["plan", "--from", "pairs.csv", "--epsilon", "1"],
    "audit": ["audit", "kvue", "--epsilon", "1", "--keys", "3"],
    "simulate": ["simulate", "pairs.csv", "--mechanism", "kvue", "--epsilon", "1", "--repeats", "1"],
    "init": ["init", "pairs.csv", "-o", "new.toml"],
    "init telemetry": ["init", "telemetry", "-o", "new"],
    "perturb": ["perturb", "campaign.toml", "pairs.csv", "-o", "reports.parquet"],
    "tally": ["tally", "campaign.toml", "reports.parquet", "-o", "tally.json"],
    "tally --engine spark": [
        *("tally", "campaign.toml", "reports.parquet", "-o", "spark.json"),
        *("--engine", "spark", "--master", "local[1]"),
    ],
    "estimate": ["estimate", "campaign.toml", "tally.json"],
    "reproduce": ["reproduce", "--help"],
    "try": ["try", "pairs.csv", "--no-open"],
    "demo": ["demo", "--users", "100", "--once", "--port", "0"],
    "serve": ["serve", "--store", "mysql://nowhere", "--port", "0"],
    "verify": ["verify", "nowhere.db"],
}
CAMPAIGN = """
name = "x"
epsilon = 1.0
keys = ["a", "b"]
value_range = [0, 7]
pairs_per_user = 1
mechanism = "kvue"
"""
# Commands that run and then refuse what they were given.
WRONG = {
    "serve": "expected sqlite:///FILE or postgresql://HOST/NAME",
    "verify": "there is no store nowhere.db",
}
OF_THE_SERVER = dict.fromkeys(("demo", "serve", "verify"), "server") | {"try": "analysis,server"}
EVERYTHING = dict.fromkeys(COMMANDS, "analysis") | OF_THE_SERVER
# What each extra lacks, command by command, and which extra is named for it; every other command runs.
LACKS = {
    "": EVERYTHING,
    "collect": EVERYTHING,
    "cli": {name: extra for name, extra in EVERYTHING.items() if name not in ("--version", "reproduce")},
    "analysis": OF_THE_SERVER | {"tally --engine spark": "spark"},
    "server": {"try": "analysis,server", "tally --engine spark": "spark"},
    "fast": EVERYTHING,
}
# What these promise is the commands themselves; the server's demo starts a collector that devices report to.
BY_COMMANDS = ("cli", "server")


def only(folder, pattern):
    (found,) = folder.glob(pattern)
    return found


@pytest.fixture(scope="session")
def wheel(published):
    return only(published, "keyveil-*.whl")


def keep_promise(environment, name, tmp_path):
    shown = environment.run(environment.python, "-I", PROMISES / f"{name}.py", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr


def report_as_a_device(environment, tmp_path):
    shown = environment.run(environment.python, "-I", DEVICE, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["outside"] == []


def run_commands(environment, tmp_path):
    """How every command ended, in an environment; and what is installed there."""
    lines = "".join(f"u{n},{'ab'[n % 2]},{n % 7}\n" for n in range(40))
    (tmp_path / "pairs.csv").write_text(f"user,key,value\n{lines}")
    (tmp_path / "campaign.toml").write_text(CAMPAIGN)
    shown = environment.run(
        *(environment.python, "-I", PROMISES / "commands.py"), input=json.dumps(COMMANDS), cwd=tmp_path
    )
    assert shown.returncode == 0, shown.stderr
    told = json.loads(shown.stdout)
    return told["said"], {name.lower().replace("_", "-") for name in told["packages"]}


@pytest.mark.parametrize("extra", list(LACKS), ids=lambda extra: extra or "none")
def test_an_extra_does_what_it_promises_and_names_what_it_lacks(extra, wheel, tmp_path):
    """U4: `serve` without its packages was a traceback."""
    environment = make_environment(tmp_path / "venv", wheel, extra)
    said, there = run_commands(environment, tmp_path)
    assert there == brought_by(wheel, extra) | {"keyveil"}
    for name, (code, words) in said.items():
        needed = LACKS[extra].get(name)
        if needed is not None:
            assert (code, words.count("\n")) == (2, 1), (name, words)
            assert f"comes with an extra; pip install 'keyveil[{needed}]'" in words, (name, words)
        elif name in WRONG:
            assert code in (1, 2), (name, code, words)
            assert WRONG[name] in words, (name, words)
        else:
            assert code == 0, (name, code, words)
    assert environment.run("keyveil", "--version").returncode == said["--version"][0]
    if not extra:
        report_as_a_device(environment, tmp_path)
    if extra not in BY_COMMANDS:
        keep_promise(environment, extra or "none", tmp_path)


def test_the_devices_distribution_stands_alone(published, tmp_path):
    environment = make_environment(tmp_path / "venv", only(published, "keyveil_client-*.whl"))
    report_as_a_device(environment, tmp_path)
    keep_promise(environment, "none", tmp_path)


def test_the_sites_pages_are_made_with_its_extra_alone(wheel, tmp_path):
    keep_promise(make_environment(tmp_path / "venv", wheel, "docs"), "docs", tmp_path)


def test_an_environment_that_lacks_a_package_does_not_take_the_wheel(wheel, tmp_path):
    environment = Environment(tmp_path / "venv")
    for name in brought_by(wheel, "analysis") - {"pyarrow"}:
        environment.link(name)
    assert "No matching distribution found for pyarrow" in environment.install(wheel, "analysis").stderr
