"""Node and the pinned tools that check the JavaScript."""

import json
import shutil
import subprocess
from pathlib import Path

from parts import lacking

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "sdk" / "js"
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


def find_tool(name):
    """A tool of package.json, a program for Node; `make check` and `make test` install it."""
    path = ROOT / "node_modules" / ".bin" / name
    return str(path.resolve()) if path.exists() else lacking(f"no {name}: run make node_modules/.installed")


def run_node(script, *given):
    """What a module prints, as JSON; it finds what it is given in process.argv[1]."""
    run = subprocess.run(
        [find_node(), "--input-type=module", "-e", script, json.dumps(given)], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)
