import pytest
from devices import Collector


@pytest.fixture
def collector():
    made = Collector()
    yield made
    made.close()
