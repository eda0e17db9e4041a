"""What is published: both distributions, their metadata, the device's side's size and how fast it starts."""

import hashlib
import json
import subprocess
import sys
import tarfile
import zipfile

from packaging.metadata import Metadata

MOST_BYTES = 300_000
MOST_SECONDS = 0.060


def clock(what):
    return f"import time; at = time.process_time(); import {what}; print(time.process_time() - at)"


def only(folder, pattern):
    (found,) = folder.glob(pattern)
    return found


def test_a_release_is_complete_and_its_sums_hold(published):
    names = {path.name.partition("-0")[0] for path in published.iterdir()}
    assert names == {"keyveil", "keyveil_client", "SHA256SUMS"}
    lines = (published / "SHA256SUMS").read_text().split("\n")[:-1]
    assert len(lines) == 4
    for line in lines:
        told, name = line.split("  ")
        assert hashlib.sha256((published / name).read_bytes()).hexdigest() == told
    bill = json.loads(only(published, "*.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    assert {"numpy", "uvicorn", "pyarrow"} <= {each["name"] for each in bill["components"]}


def test_metadata_is_valid_and_the_same_in_both(published):
    with zipfile.ZipFile(only(published, "keyveil-*.whl")) as wheel:
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
    with tarfile.open(only(published, "keyveil-*.tar.gz")) as archive:
        top = archive.getnames()[0].partition("/")[0]
        file = archive.extractfile(f"{top}/PKG-INFO")
        assert Metadata.from_email(file.read(), validate=True).version == told.version
    with zipfile.ZipFile(only(published, "keyveil_client-*.whl")) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith("METADATA"))
        device = Metadata.from_email(wheel.read(name), validate=True)
    assert (device.version, device.requires_dist or []) == (told.version, [])


def test_the_devices_side_is_small_and_quick(published, tmp_path):
    wheel = only(published, "keyveil_client-*.whl")
    assert wheel.stat().st_size < MOST_BYTES
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    assert not [
        name for name in ("collector", "dashboard", "cli", "tally") if (tmp_path / "keyveil" / name).exists()
    ]
    start = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
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
