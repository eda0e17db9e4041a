"""A collector with a campaign that a relay carries, and the relay."""

import pytest
from collecting import Caller, make_question
from relaying import relayed
from relays import RelayCaller


@pytest.fixture
def caller(tmp_path):
    caller = Caller(f"sqlite:///{tmp_path}/c.db")
    yield caller
    caller.close()


@pytest.fixture
def campaign(caller):
    campaign = relayed(make_question)
    caller.create(campaign)
    return campaign


@pytest.fixture
def relay(tmp_path, caller):
    relay = RelayCaller(f"sqlite:///{tmp_path}/r.db", caller)
    yield relay
    relay.close()
