"""Settings of every test: Hypothesis repeats itself, and a slow machine is no failure."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import settings

from keyveil import compiled

settings.register_profile("keyveil", derandomize=True, deadline=None)
settings.load_profile("keyveil")

# Where a loop may be compiled.
FAST = (
    "keyveil.batch.answers",
    "keyveil.batch.noise",
    "keyveil.tally.bits",
    "keyveil.tally.count",
    "keyveil.tally.hashing",
)


# Seconds for a slow proof that does not say its own: a machine that has other work is no failure.
_SLOW = 1800


def pytest_collection_modifyitems(items):
    """A slow proof has the time that it needs; the gate's own limit is for tests that hang."""
    for item in items:
        if item.get_closest_marker("nightly") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(_SLOW))


@pytest.fixture(scope="session")
def published(tmp_path_factory):
    """A folder with both distributions, the bill of materials and the checksums."""
    folder = tmp_path_factory.mktemp("dist")
    script = Path(__file__).parents[1] / "scripts" / "release.py"
    shown = subprocess.run([sys.executable, script, folder], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    return folder


@pytest.fixture(params=["compiled", "numpy"])
def way(request, monkeypatch):
    """The test runs compiled and as numpy alone."""
    if request.param == "compiled" and not compiled.has_compiler():
        pytest.skip("numba is not installed")
    for module in FAST:
        monkeypatch.setattr(import_module(module), "is_compiled", lambda _: request.param == "compiled")
    return request.param
