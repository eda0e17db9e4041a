"""What is published, as it is installed: both distributions, and every extra by itself."""

import hashlib
import json
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 300_000
MOST_SECONDS = 0.060


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    shown = subprocess.run(
        [sys.executable, ROOT / "scripts" / "release.py", folder], capture_output=True, text=True
    )
    assert shown.returncode == 0, shown.stderr
    return folder


def clock(what):
    return f"import time; at = time.process_time(); import {what}; print(time.process_time() - at)"


def only(folder, pattern):
    (found,) = folder.glob(pattern)
    return found


def test_a_release_is_complete_and_its_sums_hold(made):
    names = {path.name.partition("-0")[0] for path in made.iterdir()}
    assert names == {"keyveil", "keyveil_client", "SHA256SUMS"}
    lines = (made / "SHA256SUMS").read_text().split("\n")[:-1]
    assert len(lines) == 4
    for line in lines:
        told, name = line.split("  ")
        assert hashlib.sha256((made / name).read_bytes()).hexdigest() == told
    bill = json.loads(only(made, "*.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    assert {"numpy", "uvicorn", "pyarrow"} <= {each["name"] for each in bill["components"]}


def test_metadata_is_valid_and_the_same_in_both(made):
    with zipfile.ZipFile(only(made, "keyveil-*.whl")) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith("METADATA"))
        told = Metadata.from_email(wheel.read(name), validate=True)
        files = set(wheel.namelist())
    assert (told.name, told.license_expression, str(told.requires_python)) == (
        "keyveil",
        "Apache-2.0",
        ">=3.11",
    )
    assert "keyveil/dashboard/sdk/keyveil.js" in files
    assert "keyveil/cli/telemetry/files/compose.yaml" in files
    with tarfile.open(only(made, "keyveil-*.tar.gz")) as archive:
        top = archive.getnames()[0].partition("/")[0]
        file = archive.extractfile(f"{top}/PKG-INFO")
        assert Metadata.from_email(file.read(), validate=True).version == told.version
    with zipfile.ZipFile(only(made, "keyveil_client-*.whl")) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith("METADATA"))
        device = Metadata.from_email(wheel.read(name), validate=True)
    assert (device.version, device.requires_dist or []) == (told.version, [])


def test_the_devices_side_is_small_quick_and_stands_alone(made, tmp_path):
    wheel = only(made, "keyveil_client-*.whl")
    assert wheel.stat().st_size < MOST_BYTES
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    assert not [
        name for name in ("collector", "dashboard", "cli", "tally") if (tmp_path / "keyveil" / name).exists()
    ]
    start = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    path = (ROOT / "tests" / "packaging" / "device_path.py").read_text()
    shown = subprocess.run([sys.executable, "-I", "-S", "-c", start + path], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["outside"] == []
    # Processor time, the least of several. A busy machine takes longer for what the standard library alone
    # needs, too: then that says how much longer.
    took, alone = (
        min(
            float(
                subprocess.run(
                    [sys.executable, "-I", "-S", "-c", start + clock(what)], capture_output=True
                ).stdout
            )
            for _ in range(7)
        )
        for what in (
            "keyveil.client",
            "json, sqlite3, dataclasses, fractions, hmac, hashlib, pathlib, logging",
        )
    )
    assert took < max(MOST_SECONDS, 2.5 * alone), (took, alone)


def test_the_module_runs_as_the_command_does():
    shown = subprocess.run([sys.executable, "-m", "keyveil", "--version"], capture_output=True, text=True)
    assert shown.stdout.startswith("keyveil, version")


# --- extras ---

COMMANDS = {
    "mechanisms": ["mechanisms"],
    "plan": ["plan", "--users", "1000", "--keys", "5", "--epsilon", "1"],
    "plan --from": ["plan", "--from", "PAIRS", "--epsilon", "1"],
    "audit": ["audit", "kvue", "--epsilon", "1", "--keys", "3"],
    "simulate": ["simulate", "PAIRS", "--mechanism", "kvue", "--epsilon", "1", "--repeats", "1"],
    "init": ["init", "PAIRS", "-o", "NEW.toml"],
    "init telemetry": ["init", "telemetry", "-o", "NEW"],
    "perturb": ["perturb", "CAMPAIGN", "PAIRS", "-o", "REPORTS.parquet"],
    "tally": ["tally", "CAMPAIGN", "REPORTS.parquet", "-o", "TALLY.json"],
    "estimate": ["estimate", "CAMPAIGN", "TALLY.json"],
    "serve": ["serve", "--store", "mysql://nowhere", "--port", "0"],
    "verify": ["verify", "nowhere.db"],
    "reproduce": ["reproduce", "--help"],
}
CAMPAIGN = """
name = "x"
epsilon = 1.0
keys = ["a", "b"]
value_range = [0, 7]
pairs_per_user = 1
mechanism = "kvue"
"""
# What a command needs beside `cli`; the others run with whatever has it.
NEEDS = {
    "cli": set(),
    "analysis": {name for name in COMMANDS if name not in ("serve", "verify")},
    "server": {
        "mechanisms",
        "plan",
        "plan --from",
        "audit",
        "init",
        "init telemetry",
        "serve",
        "verify",
        "tally",
    },
}


def brought_by(extra):
    """The names of packages that an extra installs, with all they need."""
    seen, left = set(), [("keyveil", frozenset({extra}))]
    while left:
        name, extras = left.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            wanted = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        for each in map(Requirement, wanted):
            environments = [{"extra": one} for one in extras] or [{"extra": ""}]
            if each.marker is None or any(each.marker.evaluate(one) for one in environments):
                left.append((each.name.lower().replace("_", "-"), frozenset(each.extras)))
    return {name for name, _ in seen}


PLAY = """
import contextlib, io, json, sys
from importlib.machinery import PathFinder
OUTSIDE = set(json.loads(sys.argv[1]))
class Inside(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in OUTSIDE else super().find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Inside
from keyveil.cli import main
said = {}
for name, arguments in json.loads(sys.argv[2]).items():
    sys.argv = ["keyveil", *arguments]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code
        except BaseException as error:
            code = repr(error)
    said[name] = [code, err.getvalue() or out.getvalue()]
print(json.dumps(said))
"""


@pytest.mark.parametrize("extra", ["none", "cli", "collect", "analysis", "server", "fast"])
def test_with_every_extra_a_command_runs_or_names_the_one_it_needs(extra, tmp_path):
    pairs, campaign = tmp_path / "pairs.csv", tmp_path / "campaign.toml"
    pairs.write_text("user,key,value\n" + "".join(f"u{n},{'ab'[n % 2]},{n % 7}\n" for n in range(40)))
    campaign.write_text(CAMPAIGN)
    brought = brought_by(extra)
    outside = {
        module
        for module, packages in metadata.packages_distributions().items()
        if not {name.lower().replace("_", "-") for name in packages} & brought
    } - {"keyveil", "_distutils_hack", "pkg_resources", "setuptools", "pip"}
    places = {"PAIRS": str(pairs), "CAMPAIGN": str(campaign)}
    commands = {
        name: [
            places.get(word, str(tmp_path / word) if word.startswith(("NEW", "REPORTS", "TALLY")) else word)
            for word in words
        ]
        for name, words in COMMANDS.items()
    }
    shown = subprocess.run(
        [sys.executable, "-c", PLAY, json.dumps(sorted(outside)), json.dumps(commands)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert shown.returncode == 0, shown.stderr
    for name, (code, words) in json.loads(shown.stdout).items():
        lacks = "comes with an extra; pip install 'keyveil[" in words
        assert code in (0, 1, 2), (name, code, words)
        assert "Traceback" not in words, (name, words)
        if name in NEEDS.get(extra, ()):
            assert not lacks, (extra, name, words)
        elif extra in ("none", "collect", "fast"):
            assert lacks, (extra, name, words)
