"""Series: waves open by the calendar, once, whatever the clock, the process or an operator does."""

import json
import random
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from collecting import NOW, START, Caller, make_question, make_series, wave_reports
from serving import Process

from keyveil.collector.campaigns import calendar
from keyveil.collector.campaigns.verify import verify
from keyveil.collector.clock import Clock

DAY, WEEK = 86400.0, 7 * 86400.0


class Clocked(Caller):
    """A collector whose clock is set by hand."""

    def __init__(self, store, now=NOW, clock=None):
        self.now = now
        super().__init__(store, clock=clock or (lambda: self.now))

    def begin(self, campaign, status=201, label="", **terms):
        body = {"campaign": json.loads(campaign.canonical_json), "terms": terms, "label": label}
        answer = self("POST", "/v1/series", token=self.admin, json_body=body)
        assert answer.status == status, answer
        return answer.json

    def at(self, seconds):
        """Let time pass to a moment after NOW, and the clock's work be done."""
        self.now = NOW + seconds
        self.tick()

    def tick(self):
        self.collector.calendar.tick()
        self.collector.running.tick()

    def series(self, campaign):
        answer = self("GET", f"/v1/series/{campaign.id}")
        assert answer.status == 200, answer
        return answer.json

    def waves(self, campaign):
        answer = self("GET", f"/v1/series/{campaign.id}/waves", token=self.admin)
        assert answer.status == 200, answer
        return answer.json["waves"]

    def act(self, campaign, verb):
        return self("POST", f"/v1/series/{campaign.id}/{verb}", token=self.admin)


@pytest.fixture
def clocked(store_url):
    made = Clocked(store_url)
    yield made
    made.close()


def states(waves):
    return [wave["state"] if wave["state"] != "missed" else wave["why"] for wave in waves]


def test_waves_open_one_after_another(clocked):
    series = make_series()
    made = clocked.begin(series)
    assert (made["id"], made["created"], made["start"], made["wave"]) == (series.id, True, START, 1)
    token = made["device_token"]
    for number in range(1, 5):
        clocked.at((number - 1) * WEEK + 1)
        view = clocked.series(series)
        wave = series.wave(number)
        assert view["campaign"] == series.canonical_json
        assert (view["state"], view["every"]) == ("running", "week")
        assert view["opens_at"] == (NOW + number * WEEK if number < 4 else None)
        assert (view["wave"]["number"], view["wave"]["id"]) == (number, wave.id)
        assert {"number": number, **clocked("GET", f"/v1/campaigns/{wave.id}").json} == view["wave"]
        assert view["wave"]["round"] == wave.only_round().fields()
        assert view["wave"]["closes_at"] == NOW + number * WEEK + 0.1 * WEEK
        assert clocked.send(wave, wave_reports(wave, number), token=token) == ["accepted"] * number
    clocked.at(5 * WEEK)
    assert clocked.series(series)["state"] == "finished"
    assert clocked.series(series)["wave"] is None
    lines = clocked.waves(series)
    assert states(lines) == ["finished"] * 4
    assert [line["reports"] for line in lines] == [1, 2, 3, 4]
    listed = clocked("GET", "/v1/series", token=clocked.admin).json["series"]
    assert [(one["id"], one["reports"], one["state"], one["wave"]) for one in listed] == [
        (series.id, 10, "finished", 5)
    ]
    campaigns = clocked("GET", "/v1/campaigns", token=clocked.admin).json["campaigns"]
    assert [(one["series"], one["wave"], one["state"]) for one in campaigns] == [
        (series.id, number, "finished") for number in range(1, 5)
    ]


def release(clocked, campaign, query="", status=200):
    answer = clocked("GET", f"/v1/series/{campaign.id}/release{query}", token=clocked.admin)
    assert answer.status == status, answer
    return answer


def test_a_release_says_what_every_wave_said_and_what_all_say(clocked):
    series = make_series(unit="minutes")
    token = clocked.begin(series)["device_token"]
    assert release(clocked, series, status=409).code == "no-waves"
    for number in (1, 2, 4):
        # Nobody is there for the third.
        clocked.at((number - 1) * WEEK + 1)
        wave = series.wave(number)
        assert clocked.send(wave, wave_reports(wave, 200), token=token) == ["accepted"] * 200
    assert states(clocked.waves(series)) == ["finished", "finished", "down", "open"]
    answer = release(clocked, series)
    assert answer.headers["keyveil-state"] == "open"
    said = answer.json
    metadata, rows = said["metadata"], said["rows"]
    assert (metadata["series"], metadata["state"], metadata["unit"]) == (series.id, "interim", "minutes")
    assert (metadata["epsilon"], metadata["epsilon_series"], metadata["answers"]) == (1.0, 1.0, 1)
    assert metadata["notes"] == ["wave 3: the collector was away"]
    assert [row["wave"] for row in rows] == [number for number in range(1, 5) for _ in series.keys]
    assert {row["begins"] for row in rows if row["wave"] == 2} == {"2026-06-08"}
    for number in (1, 2, 4):
        one = clocked("GET", f"/v1/campaigns/{series.wave(number).id}/release", token=clocked.admin).json
        ours = [row for row in rows if row["wave"] == number]
        for name in ("key", "frequency", "frequency_low", "frequency_high", "mean", "mean_low", "mean_high"):
            assert [row[name] for row in ours] == [row[name] for row in one["rows"]], name
        assert {row["reports"] for row in ours} == {200}
    missed = [row for row in rows if row["wave"] == 3]
    assert {(row["reports"], row["frequency"], row["mean"]) for row in missed} == {(0, None, None)}
    for row in rows:
        assert row["frequency_smoothed_low"] <= row["frequency_smoothed"] <= row["frequency_smoothed_high"]
    clocked.at(5 * WEEK)
    answer = release(clocked, series, "?post=none")
    assert (answer.headers["keyveil-state"], answer.json["metadata"]["state"]) == ("final", "final")
    for row in answer.json["rows"]:
        # Everybody holds the first key and no other; an interval is 3.92 standard errors long.
        error = (row["frequency_smoothed_high"] - row["frequency_smoothed_low"]) / 3.92
        assert abs(row["frequency_smoothed"] - (row["key"] == series.keys[0])) < 5 * error
    lines = release(clocked, series, "?format=csv").body.decode().splitlines()
    assert len(lines) == 1 + len(rows)
    assert lines[0].startswith(
        "wave,begins,key,reports,frequency,frequency_low,frequency_high,frequency_smoothed,"
    )
    for form in ("parquet", "arrow"):
        assert len(release(clocked, series, f"?format={form}").body) > 1000
    assert release(clocked, series, "?post=nonsense", status=422).code == "unknown-step"


def test_a_series_without_a_start_begins_today(clocked):
    said = make_series(series={"start": ""})
    clocked.now = NOW + 3 * DAY + 5
    made = clocked.begin(said)
    assert (made["start"], made["wave"]) == ("2026-06-04", 1)
    whole = make_series(series={"start": "2026-06-04"})
    assert made["id"] == whole.id
    assert clocked.series(whole)["campaign"] == whole.canonical_json
    # The same again changes nothing, and shows no token.
    again = clocked.begin(whole, status=200)
    assert (again["id"], again["created"], again["device_token"]) == (whole.id, False, None)
    assert len(clocked("GET", "/v1/series", token=clocked.admin).json["series"]) == 1


def test_a_series_waits_for_its_first_day(clocked):
    series = make_series(series={"start": "2026-06-10"})
    assert clocked.begin(series)["wave"] is None
    view = clocked.series(series)
    assert (view["state"], view["wave"], view["opens_at"]) == ("waiting", None, NOW + 9 * DAY)
    clocked.at(9 * DAY - 1)
    assert clocked.series(series)["wave"] is None
    clocked.at(9 * DAY)
    assert clocked.series(series)["wave"]["number"] == 1


def test_what_began_before_the_series_was_created_says_so(clocked):
    series = make_series()
    clocked.now = NOW + 2 * WEEK + 1
    assert clocked.begin(series)["wave"] == 3
    assert states(clocked.waves(series)) == ["before", "before", "open", "coming"]


def test_late_reports_are_taken_for_a_while_and_then_refused_in_words(clocked):
    series = make_series()
    token = clocked.begin(series, late=3600.0)["device_token"]
    first, second = series.wave(1), series.wave(2)
    kept = wave_reports(first, 3)
    clocked.at(WEEK + 3599)
    assert clocked.series(series)["wave"]["number"] == 2
    assert clocked.send(first, kept[:2], token=token) == ["accepted"] * 2
    assert clocked.send(second, wave_reports(second, 1), token=token) == ["accepted"]
    assert states(clocked.waves(series))[:2] == ["late", "open"]
    # Even if nobody has closed the round yet.
    clocked.now = NOW + WEEK + 3600
    refused = clocked.send(first, kept[2:], token=token)
    assert (refused.status, refused.code) == (410, "campaign-expired")
    clocked.tick()
    assert clocked.send(first, kept, token=token).code == "campaign-expired"
    line = clocked.waves(series)[0]
    assert (line["state"], line["reports"], line["closes"]) == ("finished", 2, NOW + WEEK + 3600)
    [closed] = clocked.collector.running.list(first.id).rounds
    assert (closed.why, closed.closed_at) == ("by time", NOW + WEEK + 3600)


@pytest.mark.parametrize(("every", "late"), [("day", 8640.0), ("week", 0.1 * WEEK), ("month", DAY)])
def test_late_is_a_tenth_of_a_wave_and_at_most_a_day(tmp_path, every, late):
    clocked = Clocked(f"sqlite:///{tmp_path}/c.db")
    series = make_series(every=every)
    clocked.begin(series)
    line = clocked.waves(series)[0]
    assert line["closes"] - line["ends"] == late
    clocked.close()


def test_a_collector_that_was_down_over_three_boundaries_opens_the_right_wave(store_url):
    clocked = Clocked(store_url)
    series = make_series(waves=9)
    token = clocked.begin(series)["device_token"]
    first = series.wave(1)
    assert clocked.send(first, wave_reports(first, 2), token=token) == ["accepted"] * 2
    admin = clocked.admin
    clocked.close()
    again = Clocked(store_url, now=NOW + 3 * WEEK + 3 * DAY)
    again.admin = admin
    again.tick()
    assert again.series(series)["wave"]["number"] == 4
    assert states(again.waves(series)) == ["finished", "down", "down", "open", *["coming"] * 5]
    assert again.waves(series)[0]["reports"] == 2
    fourth = series.wave(4)
    assert again.send(fourth, wave_reports(fourth, 1), token=token) == ["accepted"]
    missed = [json.loads(line) for line in again.out.getvalue().splitlines() if "wave-missed" in line]
    assert [(line["wave"], line["why"]) for line in missed] == [(2, "down"), (3, "down")]
    text = again("GET", "/metrics", token=admin).body.decode()
    assert "keyveil_waves_opened_total 1\n" in text
    assert "keyveil_waves_missed_total 2\n" in text
    again.close()


def test_a_start_opens_what_is_due_before_the_first_tick(store_url):
    clocked = Clocked(store_url)
    series = make_series()
    clocked.begin(series)
    admin = clocked.admin
    clocked.close()
    again = Clocked(store_url, now=NOW + WEEK)
    again.admin = admin
    for _ in range(200):
        if again.series(series)["wave"] is not None:
            break
        time.sleep(0.02)
    assert again.series(series)["wave"]["number"] == 2
    again.close()


class Jumping:
    """A wall clock and a steady one."""

    def __init__(self):
        self.wall, self.steady = NOW, 0.0
        self.clock = self.restarted()

    def restarted(self):
        """The clock of a process that starts now."""
        return Clock(lambda: self.wall, steady=lambda: self.steady)

    def goes_on(self, seconds):
        self.wall += seconds
        self.steady += seconds


def opened(caller, series):
    """The numbers of waves that have campaigns, and what the store has of each."""
    with caller.collector.store.read() as tx:
        rows = tx.waves(tx.series(series.id).no)
        ids = [row.id for row in rows if row.id is not None]
        assert len(ids) == len(set(ids)) == len(tx.campaign_ids())
    return [row.number for row in rows if row.campaign is not None]


def test_no_wave_is_opened_while_the_clock_is_in_doubt(store_url):
    jumping = Jumping()
    caller = Clocked(store_url, clock=jumping.clock)
    series = make_series(waves=9)
    caller.begin(series)
    jumping.wall += 3 * WEEK
    caller.tick()
    assert opened(caller, series) == [1]
    assert caller.series(series)["wave"]["number"] == 1
    jumping.wall -= 3 * WEEK
    jumping.goes_on(WEEK)
    caller.tick()
    assert opened(caller, series) == [1, 2]
    caller.close()


def test_nothing_is_opened_for_a_past_that_may_not_be(store_url):
    jumping = Jumping()
    jumping.wall += 2 * WEEK
    caller = Clocked(store_url, clock=jumping.restarted())
    series = make_series(waves=9)
    caller.begin(series)
    assert opened(caller, series) == [3]
    jumping.wall -= 2 * WEEK
    caller.tick()
    assert opened(caller, series) == [3]
    # Ten minutes later it is believed: it is the first week after all.
    jumping.goes_on(601)
    caller.tick()
    assert opened(caller, series) == [1, 3]
    caller.close()


def test_what_changes_while_a_wave_is_worked_out_is_heeded(clocked, monkeypatch):
    """Another thread, or another collector, may pause the series or add keys at any moment."""
    series = make_series(keys=("maps", "mail"), pairs_per_user=1)
    clocked.begin(series)
    work_out, desk = calendar._worked_out, clocked.collector.series

    def meanwhile(act):
        def worked_out(*words):
            monkeypatch.setattr(calendar, "_worked_out", work_out)
            made = work_out(*words)
            act()
            return made

        monkeypatch.setattr(calendar, "_worked_out", worked_out)

    meanwhile(lambda: desk.pause("operator", series.id))
    clocked.at(WEEK)
    assert opened(clocked, series) == [1]
    clocked.tick()
    assert states(clocked.waves(series))[:2] == ["late", "paused"]
    clocked.act(series, "resume")
    meanwhile(lambda: desk.add_keys("operator", series.id, ["chat"]))
    clocked.at(2 * WEEK)
    assert opened(clocked, series) == [1, 2]
    clocked.tick()
    assert clocked.series(series)["wave"]["id"] == series.wave(3, ["chat"]).id


def test_a_clock_that_jumped_for_long_opens_nothing_twice_and_gives_nothing_up_for_good(store_url):
    jumping = Jumping()
    caller = Clocked(store_url, clock=jumping.clock)
    series = make_series(waves=9)
    token = caller.begin(series)["device_token"]
    # Ahead by three weeks, for so long that it is believed; then somebody sets it right.
    jumping.wall += 3 * WEEK
    caller.tick()
    jumping.goes_on(601)
    caller.tick()
    assert opened(caller, series) == [1, 4]
    assert states(caller.waves(series))[:4] == ["finished", "down", "down", "open"]
    jumping.wall -= 3 * WEEK
    caller.tick()
    jumping.goes_on(601)
    caller.tick()
    # What was opened too early waits for its time; what was given up is opened when it is its time after all.
    assert states(caller.waves(series))[:5] == ["finished", "down", "down", "coming", "coming"]
    for number in (2, 3, 4, 5):
        jumping.goes_on(number * WEEK - WEEK - (jumping.wall - NOW))
        caller.tick()
        wave = series.wave(number)
        assert caller.series(series)["wave"]["id"] == wave.id
        assert caller.send(wave, wave_reports(wave, 1), token=token) == ["accepted"]
    assert opened(caller, series) == [1, 2, 3, 4, 5]
    caller.close()


def test_clocks_that_go_anywhere_open_each_wave_once_at_most(store_url):
    rng, jumping = random.Random(24), Jumping()
    caller = Clocked(store_url, clock=jumping.clock)
    series = make_series("kvue", every="day", waves=30, keys=("a", "b"), pairs_per_user=1)
    caller.begin(series)
    for _ in range(60):
        if rng.random() < 0.5:
            jumping.wall = NOW + rng.uniform(-2, 32) * DAY
            caller.tick()
        jumping.goes_on(rng.choice([1, 601, 3 * 3600.0, DAY]))
        caller.tick()
        opened(caller, series)
        now = caller.collector.clock
        number = series.series.number_at(datetime.fromtimestamp(now.now(), UTC))
        if not now.doubt and 1 <= number <= 30:
            assert caller.series(series)["wave"]["number"] == number
    caller.close()


def test_a_paused_series_opens_no_wave_and_its_open_one_goes_on(clocked):
    series = make_series(waves=5)
    token = clocked.begin(series)["device_token"]
    for _ in range(2):
        assert clocked.act(series, "pause").json == {"id": series.id, "state": "paused", "wave": 1}
    first = series.wave(1)
    assert clocked.send(first, wave_reports(first, 1), token=token) == ["accepted"]
    assert clocked.series(series)["opens_at"] is None
    clocked.at(WEEK + DAY)
    clocked.at(2 * WEEK + DAY)
    assert clocked.series(series)["wave"] is None
    assert states(clocked.waves(series)) == ["finished", "paused", "paused", "coming", "coming"]
    for _ in range(2):
        # The wave of this moment opens at once, whatever was written of it.
        assert clocked.act(series, "resume").json == {"id": series.id, "state": "running", "wave": 3}
    third = series.wave(3)
    assert clocked.send(third, wave_reports(third, 1), token=token) == ["accepted"]
    clocked.at(3 * WEEK)
    assert states(clocked.waves(series)) == ["finished", "paused", "late", "open", "coming"]
    acts = [act.act for act in clocked.collector.access.acts(0).acts]
    assert (acts.count("series-paused"), acts.count("series-resumed"), acts.count("wave-opened")) == (1, 1, 3)


@pytest.mark.parametrize("mechanism", ["kvue", "auto"])
def test_a_series_that_is_ended_closes_what_is_open(clocked, mechanism):
    series = make_series(mechanism, keys=tuple(f"app-{i}" for i in range(12)))
    token = clocked.begin(series)["device_token"]
    wave = series.wave(1)
    first = wave.first_round()
    assert clocked.send(wave, wave_reports(wave, 5, first), token=token) == ["accepted"] * 5
    for _ in range(2):
        assert clocked.act(series, "end").json == {"id": series.id, "state": "ended", "wave": None}
    assert clocked.send(wave, wave_reports(wave, 1, first), token=token) == ["round-closed"]
    assert states(clocked.waves(series)) == ["finished", "ended", "ended", "ended"]
    clocked.at(WEEK)
    assert clocked.series(series)["wave"] is None
    view = clocked("GET", f"/v1/campaigns/{wave.id}").json
    assert (view["state"], view["round"]) == ("finished", None)
    assert [act.act for act in clocked.collector.access.acts(0).acts].count("series-ended") == 1
    for verb in ("pause", "resume"):
        assert clocked.act(series, verb).code == "series-over"
    if mechanism == "kvue":
        assert release(clocked, series).headers["keyveil-state"] == "final"
    else:
        # Nothing is made up where rounds are missing.
        assert release(clocked, series, status=409).code == "no-waves"


def test_an_end_that_was_interrupted_is_finished_later(clocked, monkeypatch):
    series = make_series()
    clocked.begin(series)
    monkeypatch.setattr(clocked.collector.running, "finish", lambda *_, **__: 1 / 0)
    assert clocked.act(series, "end").code == "internal"
    assert clocked.waves(series)[0]["state"] == "open"
    monkeypatch.undo()
    clocked.tick()
    assert states(clocked.waves(series))[0] == "finished"


def test_rounds_of_a_wave_divide_its_days(clocked):
    keys = tuple(f"app-{i}" for i in range(12))
    series = make_series("auto", keys=keys, pairs_per_user=2, epsilon=3.0)
    token = clocked.begin(series, late=3600.0)["device_token"]
    wave = series.wave(1)
    n_rounds = len(wave.protocol().stages())
    assert n_rounds > 1
    ends = []
    while (opened := clocked("GET", f"/v1/campaigns/{wave.id}").json["round"]) is not None:
        asked = wave.read_round(opened)
        closes_at = clocked.series(series)["wave"]["closes_at"]
        ends.append(closes_at - NOW)
        assert clocked.send(wave, wave_reports(wave, 60, asked), token=token) == ["accepted"] * 60
        clocked.at(closes_at - NOW)
    assert ends == pytest.approx(
        [WEEK * number / n_rounds + (3600 if number == n_rounds else 0) for number in range(1, n_rounds + 1)]
    )
    answer = clocked("GET", f"/v1/campaigns/{wave.id}/release", token=clocked.admin)
    assert (answer.status, answer.headers["keyveil-state"]) == (200, "final")


def test_a_round_that_stays_empty_blocks_no_other_wave(clocked):
    series = make_series("ks-grr", pairs_per_user=2)
    token = clocked.begin(series, late=3600.0)["device_token"]
    first, second = series.wave(1), series.wave(2)
    for hour in range(7 * 24):
        clocked.at(hour * 3600)
        view = clocked.series(series)["wave"]
        # It takes reports all the time.
        assert (view["round"]["number"], view["number"]) == (1, 1)
        assert view["closes_at"] > clocked.now
    clocked.at(WEEK)
    assert clocked.series(series)["wave"]["id"] == second.id
    asked = second.first_round()
    assert clocked.send(second, wave_reports(second, 9, asked), token=token) == ["accepted"] * 9
    clocked.at(WEEK + 3600)
    assert states(clocked.waves(series)) == ["finished", "open", "coming", "coming"]
    refused = clocked("GET", f"/v1/campaigns/{first.id}/release", token=clocked.admin)
    assert refused.code == "round-empty"
    with clocked.collector.store.read() as tx:
        assert tx.due_rounds(clocked.now) == []


def test_keys_that_come_later_are_asked_from_the_next_wave_on(clocked):
    series = make_series(keys=("maps", "mail"), other=True, pairs_per_user=1)
    token = clocked.begin(series)["device_token"]
    path = f"/v1/series/{series.id}/keys"
    add = lambda *keys: clocked("POST", path, token=clocked.admin, json_body={"add": keys})  # noqa: E731
    assert add("chat", "maps").json == {"keys": [{"key": "chat", "wave": 2}]}
    assert add("chat").json == {"keys": [{"key": "chat", "wave": 2}]}
    assert clocked.series(series)["wave"]["id"] == series.wave(1).id
    first, second = series.wave(1), series.wave(2, ["chat"])
    assert clocked.send(first, wave_reports(first, 50), token=token) == ["accepted"] * 50
    clocked.at(WEEK)
    assert clocked.series(series)["wave"]["id"] == second.id
    assert second.whole_series.id == series.id
    assert clocked.send(second, wave_reports(second, 50), token=token) == ["accepted"] * 50
    assert [one["wave"] for one in add("feed").json["keys"]] == [2, 3]
    rows = release(clocked, series).json["rows"]
    assert [(row["wave"], row["key"]) for row in rows] == [
        *((1, key) for key in ("maps", "mail", "other")),
        *((2, key) for key in ("maps", "mail", "chat", "other")),
    ]
    for wrong in ({"add": []}, {"add": [3]}, {"add": "chat"}, {}):
        answer = clocked("POST", path, token=clocked.admin, json_body=wrong)
        assert (answer.status, answer.code) == (400, "bad-request")
    assert add("").code == "bad-campaign"
    assert add("x" * (1 << 20)).code in ("bad-campaign", "too-large")
    clocked.at(3 * WEEK)
    assert add("late").code == "series-over"


def test_a_token_for_a_series_is_good_for_its_waves_and_nothing_else(clocked):
    series, other = make_series(), make_series(name="another")
    token, elsewhere = (clocked.begin(one)["device_token"] for one in (series, other))
    path = f"/v1/series/{series.id}"
    analyst = clocked("POST", f"{path}/tokens", token=clocked.admin, json_body={"role": "analyst"}).json
    clocked.at(WEEK)
    for number in (1, 2):
        wave = series.wave(number)
        assert clocked.send(wave, wave_reports(wave, 1), token=token) == ["accepted"]
        assert clocked.send(wave, wave_reports(wave, 1), token=elsewhere).code == "other-campaign"
        assert clocked("GET", f"/v1/campaigns/{wave.id}/rounds", token=analyst["token"]).status == 200
    assert len(clocked("GET", "/v1/campaigns", token=analyst["token"]).json["campaigns"]) == 2
    listed = clocked("GET", "/v1/series", token=analyst["token"]).json["series"]
    assert [one["id"] for one in listed] == [series.id]
    theirs = other.wave(1)
    for where in (f"/v1/campaigns/{theirs.id}/rounds", f"/v1/series/{other.id}/waves"):
        assert clocked("GET", where, token=analyst["token"]).code == "other-campaign"
    # A token for one wave opens neither the series nor another wave.
    one = f"/v1/campaigns/{series.wave(1).id}/tokens"
    alone = clocked("POST", one, token=clocked.admin, json_body={"role": "analyst"}).json["token"]
    assert clocked("GET", f"/v1/campaigns/{series.wave(1).id}/rounds", token=alone).status == 200
    for where in (f"{path}/waves", f"/v1/campaigns/{series.wave(2).id}/rounds"):
        assert clocked("GET", where, token=alone).code == "other-campaign"
    # Once it is revoked it opens no wave.
    [device] = [
        one["id"]
        for one in clocked("GET", f"{path}/tokens", token=clocked.admin).json["tokens"]
        if one["role"] == "device"
    ]
    assert clocked("DELETE", f"{path}/tokens/{device}", token=clocked.admin).status == 204
    wave = series.wave(2)
    assert clocked.send(wave, wave_reports(wave, 1), token=token).code == "unknown-token"


def test_annotations_are_made_by_annotators_who_may_do_nothing_else(clocked):
    series = make_series()
    clocked.begin(series)
    path = f"/v1/series/{series.id}"
    said = {"role": "annotator", "label": "release robot"}
    made = clocked("POST", f"{path}/tokens", token=clocked.admin, json_body=said).json
    note = lambda body, token: clocked("POST", f"{path}/annotations", token=token, json_body=body)  # noqa: E731
    later = note({"at": NOW + DAY, "text": "2.4 released"}, made["token"])
    first = note({"at": NOW, "text": "2.3 released"}, clocked.admin)
    assert (later.status, later.json["token"]) == (201, made["id"])
    listed = clocked("GET", f"{path}/annotations", token=clocked.admin).json["annotations"]
    assert listed == [first.json, later.json]
    assert clocked("GET", f"{path}/annotations", token=made["token"]).code == "forbidden"
    for wrong in ({"at": -1, "text": "x"}, {"at": NOW, "text": ""}, {"at": NOW, "text": "two\nlines"}):
        assert note(wrong, made["token"]).code == "bad-request"
    one = f"{path}/annotations/{later.json['id']}"
    assert clocked("DELETE", one, token=made["token"]).status == 204
    assert clocked("DELETE", one, token=made["token"]).code == "unknown-annotation"
    other = make_series(name="another")
    clocked.begin(other)
    there = f"/v1/series/{other.id}/annotations/{first.json['id']}"
    assert clocked("DELETE", there, token=clocked.admin).code == "unknown-annotation"


HOSTILE = {
    "no series": {"series": None},
    "one wave": {"series": {"wave": 2}},
    "later keys": {"series": {"wave": 2, "first_keys": 1}},
    "over": {"series": {"start": "2001-01-01"}},
    "no such day": {"series": {"start": "2026-02-30"}},
    "no number": {"series": {"waves": "52"}},
    "too many": {"series": {"waves": 1001}},
    "more answers than waves": {"series": {"answers": 5}},
    "a wave of an hour": {"series": {"every": "hour"}},
    "a list": {"series": []},
    "another field": {"series": {"colour": "red"}},
    "the 31st of months": {"series": {"every": "month", "start": "2026-08-31"}},
    "ends before it ends": {"expires": "2026-06-20"},
    "nobody asks": {"owner": ""},
}


@pytest.mark.parametrize("wrong", HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_series_is_refused_and_nothing_is_kept(clocked, wrong):
    said = json.loads(make_series().canonical_json)
    changed = wrong.get("series", {})
    table = {**said["series"], **changed} if isinstance(changed, dict) else changed
    body = {"campaign": {**said, **wrong, "series": table}}
    answer = clocked("POST", "/v1/series", token=clocked.admin, json_body=body)
    assert (answer.status, answer.code) in (
        (422, "bad-campaign"),
        (422, "campaign-incomplete"),
    ), answer
    assert clocked("GET", "/v1/series", token=clocked.admin).json["series"] == []


@pytest.mark.parametrize(
    "terms",
    [{"close_at_count": 5}, {"close_after": 60.0}, {"late": 8 * DAY}, {"late": -1.0}, {"ids": "issued"}],
)
def test_terms_that_no_wave_has_are_refused(clocked, terms):
    assert clocked.begin(make_series(), status=400, **terms)["code"] == "bad-request"


def test_a_series_is_no_campaign_and_a_campaign_no_series(clocked):
    for said in (make_series(), make_series().wave(2)):
        body = {"campaign": json.loads(said.canonical_json)}
        answer = clocked("POST", "/v1/campaigns", token=clocked.admin, json_body=body)
        assert (answer.status, answer.code) == (422, "bad-campaign")
        assert "/v1/series" in answer.json["detail"]
    body = {"campaign": json.loads(make_question().canonical_json), "terms": {"late": 60.0}}
    assert clocked("POST", "/v1/campaigns", token=clocked.admin, json_body=body).code == "bad-request"


def test_issued_ids_and_open_uploads_work_in_waves(clocked):
    issued, opened = make_series("grr", ids="issued", pairs_per_user=1), make_series(name="open")
    token = clocked.begin(issued)["device_token"]
    assert clocked.begin(opened, uploads="open")["device_token"] is None
    wave = opened.wave(1)
    assert clocked.send(wave, wave_reports(wave, 1)) == ["accepted"]
    path = f"/v1/campaigns/{issued.wave(1).id}/ids?nonce={'ab' * 16}"
    assert len(clocked("POST", path, token=token).json["ids"]) == 1


def test_a_damaged_series_stops_itself_alone(store_url):
    clocked = Clocked(store_url)
    series, other = make_series(), make_series(name="another")
    for one in (series, other):
        clocked.begin(one)
    with clocked.collector.store.write() as tx:
        tx._run("update series set config = replace(config, 'kvue', 'kvu') where id = ?", (series.id,))
    admin = clocked.admin
    clocked.close()
    again = Clocked(store_url, now=NOW + WEEK)
    again.admin = admin
    again.tick()
    assert list(again.collector.damaged) == [series.id]
    assert again("GET", f"/v1/series/{series.id}").code == "campaign-damaged"
    assert again.series(other)["wave"]["number"] == 2
    listed = again("GET", "/v1/series", token=admin).json["series"]
    assert [one["state"] for one in listed] == ["damaged", "running"]
    # What it should have opened is on the health page, a minute later.
    again.at(WEEK + 61)
    assert again("GET", "/readyz").json["overdue"] == [series.id]
    again.close()


def test_two_collectors_open_each_wave_once(database):
    url = database.fresh()
    callers = [Clocked(url) for _ in range(2)]
    callers[1].admin = callers[0].admin
    series = [make_series(name=f"series {no}", waves=40, every="day") for no in range(3)]
    tokens = [callers[0].begin(one)["device_token"] for one in series]
    with ThreadPoolExecutor(8) as pool:
        for day in range(1, 30):
            for caller in callers:
                caller.now = NOW + day * DAY
            ticks = [pool.submit(callers[no % 2].collector.calendar.tick) for no in range(8)]
            for tick in ticks:
                tick.result()
    for one, token in zip(series, tokens, strict=True):
        lines = callers[1].waves(one)
        assert [line["campaign"] for line in lines[:30]] == [one.wave(no).id for no in range(1, 31)]
        last = one.wave(30)
        for caller in callers:
            assert caller.send(last, wave_reports(last, 1), token=token) == ["accepted"]
    acts = [act for act in callers[0].collector.access.acts(0).acts if act.act == "wave-opened"]
    assert len(acts) == len({act.campaign for act in acts}) == 3 * 30
    assert sum(caller.collector.calendar.opened for caller in callers) == 3 * 30
    for caller in callers:
        caller.close()


def test_a_collector_whose_clock_is_ahead_keeps_no_other_from_its_waves(database):
    url = database.fresh()
    right, ahead = Clocked(url), Clocked(url, now=NOW + 3 * WEEK)
    ahead.admin = right.admin
    series = make_series(waves=9)
    right.begin(series)
    for day in range(15):
        for caller in (ahead, right):
            caller.now = NOW + day * DAY + (3 * WEEK if caller is ahead else 0)
            caller.tick()
        if not day:
            path, more = f"/v1/series/{series.id}/keys", {"add": ["chat"]}
            added = ahead("POST", path, token=ahead.admin, json_body=more)
            assert added.json == {"keys": [{"key": "chat", "wave": 5}]}
        # Nor does it ask for keys before their wave.
        number = 1 + day // 7
        assert right.series(series)["wave"]["id"] == series.wave(number).id
    assert opened(right, series) == [1, 2, 3, 4, 5, 6]
    for caller in (right, ahead):
        caller.close()


def test_many_series_do_not_slow_the_tick(tmp_path):
    """A tick asks what is due, once; it is counted in statements, not in seconds."""
    clocked = Clocked(f"sqlite:///{tmp_path}/c.db")
    with clocked.collector.store.write() as tx:
        for no in range(1000):
            one = make_series(name=f"series {no}", keys=("a", "b"), pairs_per_user=1)
            tx.add_series(
                id=one.id, config=one.canonical_json, terms="{}", label="", now=NOW, due_at=NOW + WEEK
            )
    asked = []
    clocked.collector.calendar.tick()
    reading = clocked.collector.store.read
    clocked.collector.store.read = lambda: asked.append(1) or reading()
    for second in range(20):
        clocked.now = NOW + second + 1
        clocked.collector.calendar.tick()
    assert len(asked) == 20
    clocked.close()


# A clock on which a second is a day, the same for every process that is started with it.
FAST = """
import time
_real, _began = time.time, {began}
def _fast(*_): return {now} + 86400.0 * (_real() - _began)
time.time = time.clock_gettime = _fast
"""


# The process was away, or the series was not there yet: the first start takes some days.
GIVEN_UP = ("down", "before")


@pytest.mark.parametrize(
    "kills", [4, pytest.param(60, marks=[pytest.mark.nightly, pytest.mark.timeout(1200)])]
)
def test_killing_the_collector_at_boundaries_opens_no_wave_twice(tmp_path, kills):
    url, rng = f"sqlite:///{tmp_path}/c.db", random.Random(kills)
    before = FAST.format(began=time.time(), now=NOW)
    series = make_series(every="day", waves=1000, keys=("a", "b"), pairs_per_user=1)
    server = Process(url, before=before)
    status, _ = server.ask(
        "POST", "/v1/series", {"campaign": json.loads(series.canonical_json)}, token=server.admin
    )
    assert status == 201
    for _ in range(kills):
        time.sleep(rng.uniform(0.0, 2.5))
        server.kill()
        server = Process(url, port=server.port, admin=server.admin, before=before)
    time.sleep(2.5)
    server.kill()
    caller = Clocked(url, now=NOW)
    caller.admin = server.admin
    last = max(line["number"] for line in caller.waves(series) if line["campaign"])
    caller.at((last - 0.5) * DAY)
    lines = caller.waves(series)[:last]
    assert all(
        line["campaign"] == series.wave(line["number"]).id if line["campaign"] else line["why"] in GIVEN_UP
        for line in lines
    )
    assert lines[-1]["campaign"] is not None
    assert {line["state"] for line in lines[:-1]} <= {"finished", "missed"}
    ids = [line["campaign"] for line in lines if line["campaign"]]
    page, acts = 0, []
    while found := caller.collector.access.acts(page).acts:
        acts += [act.campaign for act in found if act.act == "wave-opened"]
        page = found[-1].no
    assert sorted(acts) == sorted(ids)
    assert len(ids) > kills
    print(f"\n{kills} kills: {last} waves, {len(ids)} opened, each once")
    caller.close()


def test_verify_recount_export_and_retention_take_a_wave_for_a_campaign(clocked):
    series = make_series()
    token = clocked.begin(series, drop_reports=True, replay_days=1.0)["device_token"]
    wave = series.wave(1)
    reports = wave_reports(wave, 20)
    assert clocked.send(wave, reports, token=token) == ["accepted"] * 20
    path = f"/v1/campaigns/{wave.id}/rounds/1"
    recount = clocked("POST", f"{path}/recount", token=clocked.admin).json
    assert (recount["agrees"], recount["stored_reports"], recount["difference"]) == (True, 20, "")
    assert len(clocked("GET", f"{path}/reports", token=clocked.admin).body) == sum(map(len, reports)) + 80
    found = verify(clocked.collector.store)
    assert (found.series, found.campaigns, found.reports, found.faults) == (1, 1, 20, [])
    clocked.at(2 * WEEK)
    before = release(clocked, series).json["rows"]
    clocked.collector.running.tidy()
    assert clocked("GET", f"{path}/reports", token=clocked.admin).code == "reports-dropped"
    assert release(clocked, series).json["rows"] == before
    with clocked.collector.store.write() as tx:
        tx.add_keys(1, ["from nowhere"], 1)
    said = f"series {series.id[:12]}: wave 1 is another campaign"
    assert verify(clocked.collector.store).faults[0] == said
