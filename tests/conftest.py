"""Settings of every test: Hypothesis repeats itself, and a slow machine is no failure."""

from importlib import import_module

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


@pytest.fixture(params=["compiled", "numpy"])
def way(request, monkeypatch):
    """The test runs compiled and as numpy alone."""
    if request.param == "compiled" and not compiled.has_compiler():
        pytest.skip("numba is not installed")
    for module in FAST:
        monkeypatch.setattr(import_module(module), "is_compiled", lambda _: request.param == "compiled")
    return request.param
