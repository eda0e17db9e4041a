"""Settings of every test: Hypothesis repeats itself, and a slow machine is no failure."""

import pytest
from hypothesis import settings

settings.register_profile("keyveil", derandomize=True, deadline=None)
settings.load_profile("keyveil")


@pytest.fixture(autouse=True)
def _nobody_forbids(monkeypatch):
    """Whoever runs the tests may not want to be tracked; made-up devices do not mind."""
    monkeypatch.delenv("DO_NOT_TRACK", raising=False)
