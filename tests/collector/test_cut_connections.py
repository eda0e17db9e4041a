"""The shared store whose connection breaks at any message: nothing is lost, nothing doubled.

The histories are those of `test_faults`. A commit whose answer is lost is tried again, and its reports are
known by their ids.
"""

import psycopg
import pytest
from cutting_proxy import MODES, CuttingProxy
from fault_histories import History, Run, Verdict, check

# In the gate every so many messages of one seed.
STRIDES = {"before": 111, "half": 151, "after": 53, "delay": 223}
NIGHTLY = [pytest.mark.nightly, pytest.mark.timeout(3600)]
CASES = [
    *(pytest.param(1, mode, STRIDES[mode], id=f"1-{mode}-some") for mode in MODES),
    *(pytest.param(1, mode, 1, id=f"1-{mode}-all", marks=NIGHTLY) for mode in MODES),
]


@pytest.fixture
def proxy(database):
    made = CuttingProxy(database.port)
    yield made
    made.close()


@pytest.fixture
def url(database):
    return database.fresh()


def play(history: History, url: str, proxy: CuttingProxy, mode: str = "", at: int = 0) -> tuple[Verdict, Run]:
    """The history on an empty database, with a fault at a message."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("drop schema public cascade")
        connection.execute("create schema public")
    head, _, name = url.rpartition("/")
    proxied = f"{head.rpartition(':')[0]}:{proxy.port}/{name}?sslmode=disable&gssencmode=disable"
    proxy.arm(mode, at)
    run = Run(history, proxied, position=lambda: proxy.n_messages)
    run.play()
    proxy.arm()
    verdict = check(history, run.collector.store, run.heard)
    run.close()
    return verdict, run


@pytest.mark.parametrize(("seed", "mode", "stride"), CASES)
def test_no_connection_that_breaks_loses_or_doubles_a_report(url, proxy, seed, mode, stride):
    history = History(seed)
    _, seen = play(history, url, proxy)
    n_messages = seen.heard[-1].at
    chosen = range(1, n_messages + 1, stride)
    total, refusals, recognised = Verdict(), 0, 0
    for at in chosen:
        verdict, run = play(history, url, proxy, mode, at)
        assert (verdict.lost, verdict.doubled, verdict.wrong) == (0, 0, []), f"seed {seed}, {mode} at {at}"
        total += verdict
        refusals += run.refusals
        recognised += run.recognised
    print(
        f"\nPostgreSQL, seed {seed}, {mode}: {len(chosen)} of {n_messages} messages, a history each, "
        f"{refusals} refusals, {recognised} recognised, {total.acknowledged} acknowledged, "
        f"{total.lost} lost, {total.doubled} doubled, {len(total.wrong)} wrong"
    )
    assert total.acknowledged > 0
    assert (refusals > 0) == (mode != "delay")
    # A commit whose answer was lost is met again; in a pipeline only the Sync behind it may be lost.
    assert recognised == 0 or mode != "delay"


def test_reports_of_a_commit_whose_answer_was_lost_are_known(url, proxy):
    """The first group commits with the last message before anything of it is heard, or, as other threads have
    messages of their own, with one a little before or after it."""
    history = History(1)
    _, seen = play(history, url, proxy)
    commit = next(each.at for each in seen.heard if each.what == "counted")
    for at in sorted(range(commit - 3, commit + 4), key=lambda at: abs(at - commit)):
        verdict, run = play(history, url, proxy, "after", at)
        assert (verdict.lost, verdict.doubled, verdict.wrong) == (0, 0, [])
        if run.recognised:
            return
    pytest.fail("no report was recognised, wherever the connection was cut")
