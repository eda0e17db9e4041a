"""Clocks that jump: nothing ends or comes to life again for good."""

import pytest
from collecting import NOW, Caller, make_question, make_reports

from keyveil.collector.clock import Clock

YEAR = 365 * 86400.0


class Time:
    """A machine's two clocks."""

    def __init__(self):
        self.wall, self.steady, self.jumps = NOW, 0.0, []
        self.clock = Clock(lambda: self.wall, steady=lambda: self.steady, jumped=self.jumps.append)

    def pass_by(self, seconds):
        self.wall += seconds
        self.steady += seconds


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def caller(time, store_url):
    made = Caller(store_url, clock=time.clock)
    yield made
    made.close()


@pytest.fixture
def asked(caller):
    campaign = make_question(expires="2026-06-30")
    token = caller.create(campaign, close_after=86400.0, replay_days=1)["device_token"]
    return campaign, token


def sent(caller, asked):
    campaign, token = asked
    answer = caller.send(campaign, make_reports(campaign, 1), token=token)
    return answer if isinstance(answer, list) else (answer.status, answer.code)


def test_a_clock_a_year_ahead_for_two_seconds_ends_nothing(caller, time, asked):
    """A17: it answered 410 until the restart, and devices take 410 for the last word."""
    assert sent(caller, asked) == ["accepted"]
    time.wall += YEAR
    assert sent(caller, asked) == (503, "clock-in-doubt")
    caller.collector.running.tick()
    caller.collector.running.tidy()
    ready = caller("GET", "/readyz").json
    assert (ready["ready"], ready["clock_doubt"]) == (True, YEAR)
    time.pass_by(2)
    time.wall -= YEAR
    assert sent(caller, asked) == ["accepted"]
    assert caller("GET", "/readyz").json["clock_doubt"] == 0
    assert time.jumps == [YEAR]
    [only] = caller.collector.running.list(asked[0].id).rounds
    assert (only.closed_at, only.reports) == (None, 2)


def test_a_clock_that_goes_back_revives_nothing(caller, time, asked):
    time.pass_by(40 * 86400)
    assert sent(caller, asked) == (410, "campaign-expired")
    time.wall = NOW
    # Over by one clock, not by the other: nobody is let in, and nobody sent away for good.
    assert sent(caller, asked) == (503, "clock-in-doubt")
    time.pass_by(300)
    assert sent(caller, asked) == (503, "clock-in-doubt")
    time.wall += 40 * 86400
    assert sent(caller, asked) == (410, "campaign-expired")


def test_a_clock_that_stands_is_believed(caller, time, asked):
    """Whoever starts with a wrong clock and sets it right is served again, either way."""
    time.wall += YEAR
    for _ in range(10):
        assert sent(caller, asked) == (503, "clock-in-doubt")
        time.pass_by(61)
    assert sent(caller, asked) == (410, "campaign-expired")
    time.wall -= YEAR
    for _ in range(10):
        assert sent(caller, asked) == (503, "clock-in-doubt")
        time.pass_by(61)
    assert sent(caller, asked) == ["accepted"]
    assert [round(by) for by in time.jumps] == [YEAR, -YEAR]


def test_a_clock_that_is_corrected_by_little_is_no_jump(caller, time, asked):
    for by in (3.0, -3.0, 4.0):
        time.pass_by(60)
        time.wall += by
        assert sent(caller, asked) == ["accepted"]
    assert time.jumps == []


def test_a_round_ends_when_both_clocks_say_so(caller, time, asked):
    assert sent(caller, asked) == ["accepted"]
    time.wall += 2 * 86400.0
    caller.collector.running.tick()
    assert caller.collector.running.list(asked[0].id).rounds[0].closed_at is None
    time.wall -= 2 * 86400.0
    time.pass_by(86400.0)
    caller.collector.running.tick()
    assert caller.collector.running.list(asked[0].id).rounds[0].why == "by time"
