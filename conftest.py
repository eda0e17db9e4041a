"""Settings of every test and every example."""

import pytest


@pytest.fixture(autouse=True)
def _nobody_forbids(monkeypatch):
    """Whoever runs the tests may not want to be tracked; made-up devices do not mind."""
    monkeypatch.delenv("DO_NOT_TRACK", raising=False)
