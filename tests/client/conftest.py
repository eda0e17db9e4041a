import pytest
from devices import Collector

from keyveil.client.ledger import _connect


@pytest.fixture
def collector():
    made = Collector()
    yield made
    made.close()


@pytest.fixture
def hurried(monkeypatch):
    """Ledgers that do not wait for the disk: thousands are made here, and kills are tried elsewhere."""

    def connect(path):
        connection = _connect(path)
        connection.execute("pragma synchronous = off")
        connection.execute("pragma journal_mode = memory")
        return connection

    monkeypatch.setattr("keyveil.client.ledger._connect", connect)
