import pytest
from devices import Collector


@pytest.fixture
def collector():
    made = Collector()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _nobody_forbids(monkeypatch):
    monkeypatch.delenv("DO_NOT_TRACK", raising=False)
