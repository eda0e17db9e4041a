"""Rounds follow from their tallies, are closed once, and end where the offline count ends."""

import asyncio
import json
import time

import pytest
from click.testing import CliRunner
from collecting import NOW, SEVERAL, Caller, answers, make_question, make_reports

from keyveil.cli.app import keyveil
from keyveil.protocols import Outcome, Round, replay
from keyveil.release import release_outcome
from keyveil.report import to_frames


@pytest.mark.parametrize("mechanism", SEVERAL)
def test_every_protocol_runs_to_its_end(store_url, mechanism):
    caller = Caller(store_url)
    campaign = make_question(mechanism, epsilon=3.0, **SEVERAL[mechanism])
    token = caller.create(campaign)["device_token"]
    protocol, tallies = campaign.protocol(), []
    asked = protocol.start(campaign.id)
    while isinstance(asked, Round):
        view = caller("GET", f"/v1/campaigns/{campaign.id}").json
        # What devices read is the round that the protocol gives offline.
        assert view["round"] == asked.fields()
        reports = answers(campaign, asked, 60)
        assert caller.send(campaign, reports, token=token) == ["accepted"] * 60
        assert caller("GET", f"/v1/campaigns/{campaign.id}/release", token=caller.admin).code == "rounds-left"
        closed = caller.close_round(campaign, asked.number)
        assert closed.status == 200, closed
        late = answers(campaign, asked, 1)
        assert caller.send(campaign, [*late, reports[0]], token=token) == ["round-closed", "duplicate"]
        tallies.append(campaign.tally(reports, asked))
        asked = replay(protocol, campaign.id, tallies)
        # A collector that starts anew finds the same round.
        caller.close()
        admin = caller.admin
        caller = Caller(store_url)
        caller.admin = admin
    assert isinstance(asked, Outcome)
    answer = caller("GET", f"/v1/campaigns/{campaign.id}/release?post=published", token=caller.admin)
    offline = release_outcome(campaign, protocol, asked, post="published").to_json()
    assert answer.body.decode() == offline
    assert answer.headers["keyveil-state"] == "final"
    for number, tally in enumerate(tallies, 1):
        assert caller.collector.readout.tally(campaign.id, number) == tally
    caller.close()


@pytest.mark.parametrize("mechanism", SEVERAL)
def test_exports_of_all_rounds_are_estimated_as_the_collector_did(tmp_path, mechanism):
    """A20: `keyveil estimate` knew campaigns of one round alone."""
    caller = Caller(f"sqlite:///{tmp_path}/c.db")
    campaign = make_question(mechanism, epsilon=3.0, **SEVERAL[mechanism])
    token = caller.create(campaign)["device_token"]
    path, files = f"/v1/campaigns/{campaign.id}", [tmp_path / "campaign.json"]
    files[0].write_text(campaign.canonical_json)
    while (opened := caller("GET", path).json["round"]) is not None:
        asked = campaign.read_round(opened)
        assert caller.send(campaign, answers(campaign, asked, 60), token=token) == ["accepted"] * 60
        assert caller.close_round(campaign, asked.number).status == 200
        # Reports in either form, or the tally: one of the three.
        form = ["reports?format=parquet", "reports?format=frames", "tally"][asked.number % 3]
        name = form.replace("reports?format=", "").replace("tally", "json")
        files.append(tmp_path / f"round-{asked.number}.{name}")
        files[-1].write_bytes(caller("GET", f"{path}/rounds/{asked.number}/{form}", token=caller.admin).body)
    release = caller("GET", f"{path}/release?post=published", token=caller.admin).json
    caller.close()
    out = tmp_path / "release.json"
    run = lambda sources: CliRunner().invoke(  # noqa: E731
        keyveil, ["estimate", *map(str, sources), "-o", str(out), "--post", "published"]
    )
    # In whatever order they are named.
    done = run([files[0], *reversed(files[1:])])
    assert done.exit_code == 0, done.output
    assert json.loads(out.read_text()) == release
    if campaign.has_several_rounds and len(files) > 2:
        assert f"of round {len(files) - 1}" in str(run(files[:-1]).exception)


def test_two_operators_who_close_at_once_hear_the_same(caller):
    campaign = make_question("privkvm", rounds=3, pairs_per_user=1)
    token = caller.create(campaign)["device_token"]
    first = campaign.protocol().start(campaign.id)
    caller.send(campaign, answers(campaign, first, 40), token=token)

    async def both():
        path = f"/v1/campaigns/{campaign.id}/rounds/1/close"
        return await asyncio.gather(*(caller.ask("POST", path, token=caller.admin) for _ in range(8)))

    said = [answer.json for answer in caller.loop.run_until_complete(both())]
    assert all(one == said[0] for one in said)
    assert said[0]["next_round"] == 2
    acts = [act.act for act in caller.collector.access.acts(0).acts]
    assert acts.count("round-closed") == 1
    assert len(caller.collector.running.list(campaign.id).rounds) == 2


def test_two_processes_who_close_at_once_hear_the_same(database):
    url = database.fresh()
    one, two = Caller(url), Caller(url)
    two.admin = one.admin
    campaign = make_question("privkvm", rounds=3, pairs_per_user=1)
    token = one.create(campaign)["device_token"]
    first = campaign.protocol().start(campaign.id)
    for caller in (one, two):
        assert caller.send(campaign, answers(campaign, first, 30), token=token) == ["accepted"] * 30
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        calls = [
            pool.submit(caller.collector.running.close, "operator", campaign.id, 1)
            for caller in (one, two, one, two)
        ]
        said = [call.result() for call in calls]
    assert all(closed == said[0] for closed in said)
    # The process that did not close it takes reports to the new round, and refuses the old.
    second = replay(campaign.protocol(), campaign.id, [one.collector.readout.tally(campaign.id, 1)])
    for caller in (one, two):
        assert caller.send(campaign, answers(campaign, second, 5), token=token) == ["accepted"] * 5
        assert caller.send(campaign, answers(campaign, first, 1), token=token) == ["round-closed"]
    assert one.collector.readout.tally(campaign.id, 2).n_reports == 10
    one.close()
    two.close()


def test_a_round_ends_by_count(caller):
    campaign = make_question("privkvm", rounds=2, pairs_per_user=1)
    token = caller.create(campaign, close_at_count=20)["device_token"]
    first = campaign.protocol().start(campaign.id)
    assert caller.send(campaign, answers(campaign, first, 25), token=token) == [
        *["accepted"] * 20,
        *["round-closed"] * 5,
    ]
    for _ in range(100):
        if (caller("GET", f"/v1/campaigns/{campaign.id}").json["round"] or {"number": 1})["number"] == 2:
            break
        time.sleep(0.05)
    assert caller.collector.running.list(campaign.id).rounds[0].why == "by count"
    assert caller.send(campaign, answers(campaign, first, 1), token=token) == ["round-closed"]


def test_a_round_ends_by_time_even_if_nobody_looks(store_url):
    now = [NOW]
    caller = Caller(store_url, clock=lambda: now[0])
    campaign = make_question()
    token = caller.create(campaign, close_after=60)["device_token"]
    from collecting import make_reports

    assert caller.send(campaign, make_reports(campaign, 2), token=token) == ["accepted"] * 2
    now[0] += 61
    assert caller.send(campaign, make_reports(campaign, 1), token=token) == ["round-closed"]
    caller.collector.running.tick()
    view = caller("GET", f"/v1/campaigns/{campaign.id}").json
    assert (view["state"], view["round"]) == ("finished", None)
    assert caller.collector.running.list(campaign.id).rounds[0].why == "by time"
    caller.close()


def test_an_empty_round_that_the_next_needs_stays_open(caller):
    campaign = make_question("ks-grr")
    token = caller.create(campaign)["device_token"]
    assert caller.close_round(campaign, 1).code == "round-empty"
    first = campaign.protocol().start(campaign.id)
    assert caller.send(campaign, answers(campaign, first, 3), token=token) == ["accepted"] * 3
    for number in (0, 2, 70000):
        assert caller.close_round(campaign, number).code == "unknown-round"


def test_reports_are_dropped_if_asked_and_ids_stay(store_url):
    now = [NOW]
    caller = Caller(store_url, clock=lambda: now[0])
    campaign = make_question()
    token = caller.create(campaign, drop_reports=True, replay_days=7)["device_token"]
    from collecting import make_reports

    reports = make_reports(campaign, 4)
    caller.send(campaign, reports, token=token)
    caller.close_round(campaign, 1)
    before = caller("GET", f"/v1/campaigns/{campaign.id}/release", token=caller.admin).body
    caller.collector.running.tidy()
    export = f"/v1/campaigns/{campaign.id}/rounds/1/reports"
    assert caller("GET", export, token=caller.admin).code == "reports-dropped"
    assert caller("GET", f"/v1/campaigns/{campaign.id}/release", token=caller.admin).body == before
    assert caller.send(campaign, reports[:1], token=token) == ["duplicate"]
    now[0] += 8 * 86400
    caller.collector.running.tidy()
    # Beyond the window it is no longer known, and still not counted.
    assert caller.send(campaign, reports[:1], token=token) == ["round-closed"]
    assert caller.collector.readout.tally(campaign.id, 1).n_reports == 4
    caller.close()


def test_reports_sent_one_by_one_and_at_once_give_one_tally(caller):
    campaign = make_question("ks-grr", pairs_per_user=2)
    token = caller.create(campaign)["device_token"]
    first = campaign.protocol().start(campaign.id)
    reports = answers(campaign, first, 30)
    for report in reports[:10]:
        assert caller.send(campaign, [report], token=token) == ["accepted"]
    caller.send(campaign, reports[5:], token=token)
    assert caller.collector.readout.tally(campaign.id, 1) == campaign.tally(reports, first)
    export = caller("GET", f"/v1/campaigns/{campaign.id}/rounds/1/reports", token=caller.admin).body
    assert export == to_frames(reports)


def test_a_count_that_was_reached_while_closing_failed_closes_later(caller, monkeypatch):
    campaign = make_question()
    token = caller.create(campaign, close_at_count=3)["device_token"]
    from collecting import make_reports

    def fail(*_, **__):
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr(caller.collector.running, "stop_intake", fail)
        assert caller.send(campaign, make_reports(campaign, 4), token=token) == [
            *["accepted"] * 3,
            "round-closed",
        ]
        # The writer lives on.
        assert caller.send(campaign, make_reports(campaign, 1), token=token) == ["round-closed"]
    caller.collector.running.tidy()
    # A writer may have come to it just after it was mended; then another thread finishes the campaign.
    for _ in range(100):
        if caller("GET", f"/v1/campaigns/{campaign.id}").json["state"] == "finished":
            break
        time.sleep(0.05)
    assert caller("GET", f"/v1/campaigns/{campaign.id}").json["state"] == "finished"


def test_one_upload_that_fails_does_not_fail_its_neighbours(caller, monkeypatch):
    from collecting import make_reports

    from keyveil.collector.writing import commit

    campaign = make_question()
    token = caller.create(campaign)["device_token"]
    reports = make_reports(campaign, 6)
    real = commit.judge

    def fragile(asked, block, **how):
        if reports[3] in block.reports(range(len(block))):
            raise RuntimeError("something nobody thought of")
        return real(asked, block, **how)

    monkeypatch.setattr(commit, "judge", fragile)

    async def all_at_once():
        path = f"/v1/campaigns/{campaign.id}/reports"
        calls = [caller.ask("POST", path, to_frames([report]), token=token) for report in reports]
        return await asyncio.gather(*calls)

    answers_ = caller.loop.run_until_complete(all_at_once())
    assert [answer.status for answer in answers_] == [200, 200, 200, 500, 200, 200]
    assert caller.collector.readout.tally(campaign.id, 1).n_reports == 5


@pytest.mark.parametrize("sizes", [(7, 7, 7), (20,), (1,) * 12])
def test_a_round_closed_by_count_has_exactly_so_many(caller, sizes):
    campaign = make_question()
    token = caller.create(campaign, close_at_count=10)["device_token"]
    reports, statuses = make_reports(campaign, sum(sizes)), []
    left = list(reports)
    for size in sizes:
        part, left = left[:size], left[size:]
        statuses += caller.send(campaign, part, token=token)
    # In the order in which they came.
    assert statuses == ["accepted"] * 10 + ["round-closed"] * (sum(sizes) - 10)
    assert caller.collector.readout.tally(campaign.id, 1).n_reports == 10
    assert caller.collector.readout.tally(campaign.id, 1) == campaign.tally(reports[:10])
    # What did not fit is not known; what did is.
    again = caller.send(campaign, reports, token=token)
    assert again == ["duplicate"] * 10 + ["round-closed"] * (sum(sizes) - 10)


def test_what_is_known_takes_no_room(caller):
    campaign = make_question()
    token = caller.create(campaign, close_at_count=10)["device_token"]
    reports = make_reports(campaign, 12)
    assert caller.send(campaign, reports[:6], token=token) == ["accepted"] * 6
    answer = caller.send(campaign, [*reports[:6], *reports[4:], reports[11]], token=token)
    assert answer == ["duplicate"] * 8 + ["accepted"] * 4 + ["round-closed"] * 3


def test_collectors_that_race_to_the_count_stop_at_it(database):
    """Two collectors, whose groups overshoot: the round has as many as it should."""
    import threading

    url, campaign = database.fresh(), make_question()
    callers = [Caller(url), Caller(url)]
    token = callers[0].create(campaign, close_at_count=300)["device_token"]
    reports = [make_reports(campaign, 250) for _ in callers]
    accepted = [0, 0]

    def send(place):
        for at in range(0, 250, 25):
            statuses = callers[place].send(campaign, reports[place][at : at + 25], token=token)
            assert set(statuses) <= {"accepted", "round-closed"}
            accepted[place] += statuses.count("accepted")

    threads = [threading.Thread(target=send, args=(place,)) for place in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(accepted) == 300
    assert min(accepted) > 0
    found = callers[0].collector.reports.recount(campaign.id, 1)
    assert (found.agrees, found.tally_reports) == (True, 300)
    for caller in callers:
        caller.close()
