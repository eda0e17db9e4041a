import pytest
from browsing import close_round, launched, send
from collecting import make_question, make_reports
from serving import Process

KEYS = tuple(f"key {letter}" for letter in "abcdefghij")


@pytest.fixture(scope="module")
def browser():
    """Chromium; for a module at a time, because its driver keeps an event loop that others' tests need."""
    with launched() as made:
        yield made


@pytest.fixture
def collector(tmp_path):
    """An empty collector, a process of its own."""
    made = Process(f"sqlite:///{tmp_path}/dashboard.db")
    yield made
    if made.child.poll() is None:
        made.kill()


def question(mechanism="pckv-ue", **changes):
    """A small campaign whose results are clear after a few hundred reports."""
    wanted = {"name": "apps", "keys": KEYS, "value_range": (0.0, 60.0), "pairs_per_user": 1, "epsilon": 4.0}
    return make_question(mechanism, **(wanted | changes))


@pytest.fixture(scope="session")
def furnished(tmp_path_factory):
    """A collector with four campaigns: closed, open to all, one of several rounds, one without reports."""
    process = Process(f"sqlite:///{tmp_path_factory.mktemp('dashboard')}/furnished.db")
    process.campaigns = {
        "closed": question(name="closed"),
        "open": question(name="open to all", epsilon=2.0),
        "rounds": make_question("privkvm", name="of three rounds", keys=KEYS, rounds=3),
        "empty": question(name="nobody yet"),
        "values": question("ue-sw", name="spread", bins=8),
    }
    for name, campaign in process.campaigns.items():
        made = process.create(campaign, uploads="open" if name == "open" else "token")
        if name in ("closed", "open", "values"):
            send(process, campaign, make_reports(campaign, 600), made["device_token"])
    close_round(process, process.campaigns["closed"])
    close_round(process, process.campaigns["values"])
    yield process
    process.kill()
