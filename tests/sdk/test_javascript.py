"""The JavaScript device on the same vectors; without Node the test is skipped, under CI it fails."""

import shutil
import subprocess
from pathlib import Path

from parts import lacking

FOLDER = Path(__file__).resolve().parents[2] / "sdk" / "js"
OLDEST = 18


def find_node():
    node = shutil.which("node")
    if node is not None:
        version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
        if int(version.lstrip("v").partition(".")[0]) >= OLDEST:
            return node
    return lacking(
        f"Node {OLDEST} or newer is needed for the JavaScript tests; on Debian: apt-get install nodejs"
    )


def test_the_javascript_device_passes_its_tests():
    run = subprocess.run(
        [find_node(), "--test", "--test-reporter=tap", "test/"], cwd=FOLDER, capture_output=True, text=True
    )
    failed = [line for line in run.stdout.splitlines() if line.lstrip().startswith("not ok")]
    assert run.returncode == 0, "\n".join(failed) or run.stdout + run.stderr
    assert not failed


def test_the_javascript_device_has_no_dependencies():
    text = (FOLDER / "package.json").read_text(encoding="utf-8")
    assert "ependencies" not in text
    imports = [
        line for line in (FOLDER / "keyveil.js").read_text().splitlines() if line.startswith("import ")
    ]
    assert imports == []
