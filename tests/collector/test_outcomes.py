"""What a finished campaign found is stored; what follows a round is worked out outside of transactions."""

import base64
import dataclasses
import gzip
import json
import sqlite3
import time

import numpy as np
import psycopg
import pytest
from collecting import SEVERAL, Caller, answers, make_question

from keyveil.campaign import Campaign
from keyveil.collector.campaigns.outcomes import what_follows
from keyveil.collector.store.base import OutcomeRow
from keyveil.collector.store.outcomes import pack_outcome, unpack_outcome
from keyveil.errors import StoreError
from keyveil.release import release_found
from keyveil.rounds import Round
from old_stores import FOLDER

ONE_ROUND = {
    "pckv-ue": {},
    "kvue": {"pairs_per_user": 1},
    "privkv-mle": {"pairs_per_user": 1},
    "privkvm-star": {"pairs_per_user": 1},
    "ue-sw": {},
    "bucket": {"rho": 1.0},
    "oue": {"pairs_per_user": 1},
    "oue-harmony": {},
}


def make_campaign(mechanism, changes):
    return make_question(mechanism, epsilon=3.0, **changes)


def run_offline(campaign, count=80):
    """What a campaign finds from some reports to each round."""
    history, asked = [], campaign.first_round()
    while isinstance(asked, Round):
        history.append((asked, campaign.tally(answers(campaign, asked, count), asked)))
        asked = what_follows(campaign, history)
    return asked


def same(one, other):
    """Whether two values are equal bit for bit, NaN included."""
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if dataclasses.is_dataclass(one):
        names = [field.name for field in dataclasses.fields(one)]
        return type(one) is type(other) and all(same(getattr(one, n), getattr(other, n)) for n in names)
    if isinstance(one, tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return repr(float(one)) == repr(float(other)) if isinstance(one, float) else one == other


@pytest.mark.parametrize(("mechanism", "changes"), [*ONE_ROUND.items(), *SEVERAL.items()])
def test_an_outcome_comes_back_bit_for_bit(mechanism, changes):
    campaign = make_campaign(mechanism, changes)
    found = run_offline(campaign)
    again = unpack_outcome(pack_outcome(found), campaign=campaign.id)
    assert same(found, again)
    for post in ("none", "published", "clip"):
        one, other = (
            release_found(campaign, each.outcome, epsilon_exact=each.epsilon_exact, post=post)
            for each in (found, again)
        )
        assert one.to_json() == other.to_json()
        assert {name: column.tobytes() for name, column in one.hostile_shift(0.2).items()} == {
            name: column.tobytes() for name, column in other.hostile_shift(0.2).items()
        }


@pytest.mark.parametrize(("version", "count"), [(1, 7), (2, 7)])
def test_outcomes_that_were_stored_stay_readable(version, count):
    """Bodies that a past version wrote (scripts/old_stores.py outcomes), and the releases it made of them."""
    said = json.loads(gzip.decompress((FOLDER / f"outcomes-{version}.json.gz").read_bytes()))
    assert len(said) == count
    for one in said.values():
        campaign = Campaign.from_said(json.loads(one["config"]))
        row = OutcomeRow(version=version, body=base64.b64decode(one["body"]))
        found = unpack_outcome(row, campaign=campaign.id)
        release = json.loads(
            release_found(
                campaign, found.outcome, epsilon_exact=found.epsilon_exact, post="published"
            ).to_json()
        )
        assert release["metadata"] == one["release"]["metadata"]
        for row_, expected in zip(release["rows"], one["release"]["rows"], strict=True):
            assert row_.pop("bins", []) == pytest.approx(expected.pop("bins", []), abs=1e-12, nan_ok=True)
            assert row_ == pytest.approx(expected, abs=1e-12)


def test_a_changed_byte_and_another_format_are_refused():
    stored = pack_outcome(run_offline(make_campaign("kvue", {"pairs_per_user": 1})))
    for place in range(0, len(stored.body), 97):
        body = bytearray(stored.body)
        body[place] ^= 1
        with pytest.raises(StoreError, match="damaged"):
            unpack_outcome(OutcomeRow(version=1, body=bytes(body)), campaign="c")
    with pytest.raises(StoreError, match="format 5, this keyveil reads formats up to 4; install"):
        unpack_outcome(OutcomeRow(version=5, body=stored.body), campaign="c")


def finish(caller, campaign):
    """Drive a campaign to its end."""
    token = caller.create(campaign)["device_token"]
    while (opened := caller("GET", f"/v1/campaigns/{campaign.id}").json["round"]) is not None:
        asked = campaign.read_round(opened)
        assert set(caller.send(campaign, answers(campaign, asked, 60), token=token)) == {"accepted"}
        assert caller.close_round(campaign, asked.number).status == 200


def refuse(*_, **__):
    raise AssertionError("estimated again")


def reopen(caller, url):
    admin = caller.admin
    caller.close()
    caller = Caller(url)
    caller.admin = admin
    return caller


@pytest.mark.parametrize("mechanism", ["pckv-ue", "auto"])
def test_a_release_of_a_finished_campaign_estimates_nothing(store_url, monkeypatch, mechanism):
    caller = Caller(store_url)
    campaign = make_campaign(mechanism, SEVERAL.get(mechanism, {}))
    finish(caller, campaign)
    paths = [
        f"/v1/campaigns/{campaign.id}/{what}"
        for what in (
            "release",
            "release?post=published",
            "results",
            "hostile?per_mille=100",
            "release?format=csv",
        )
    ]
    before = [caller("GET", path, token=caller.admin) for path in paths]
    assert [answer.status for answer in before] == [200] * len(paths)
    caller = reopen(caller, store_url)
    monkeypatch.setattr(type(campaign.protocol()), "next", refuse)
    after = [caller("GET", path, token=caller.admin) for path in paths]
    assert [answer.body for answer in after] == [answer.body for answer in before]
    # Another estimator is another matter.
    if mechanism == "auto":
        answer = caller("GET", f"{paths[0]}?estimator=pckv-ue", token=caller.admin)
        assert answer.status != 200
    caller.close()


def test_a_finished_campaign_without_an_outcome_gets_one_at_its_first_release(store_url, monkeypatch):
    caller = Caller(store_url)
    campaign = make_campaign("auto", SEVERAL["auto"])
    finish(caller, campaign)
    path = f"/v1/campaigns/{campaign.id}/release"
    before = caller("GET", path, token=caller.admin).body
    with caller.collector.store.write() as tx:
        tx._run("delete from outcomes")
    caller = reopen(caller, store_url)
    assert caller("GET", path, token=caller.admin).body == before
    caller = reopen(caller, store_url)
    monkeypatch.setattr(type(campaign.protocol()), "next", refuse)
    assert caller("GET", path, token=caller.admin).body == before
    caller.close()


def in_transaction(store):
    """Whether anybody has a transaction open, of any kind on PostgreSQL and one that writes on SQLite."""
    if store.kind == "sqlite":
        return store._writer.in_transaction
    question = (
        "select count(*) from pg_stat_activity where datname = current_database() "
        "and xact_start is not null and pid <> pg_backend_pid() and application_name = 'keyveil'"
    )
    with psycopg.connect(store._url) as connection:
        return connection.execute(question).fetchone() != (0,)


@pytest.mark.parametrize("mechanism", ["pckv-ue", "auto", "ks-grr"])
def test_no_transaction_is_open_while_what_follows_is_worked_out(store_url, monkeypatch, mechanism):
    caller = Caller(store_url)
    campaign = make_campaign(mechanism, SEVERAL.get(mechanism, {}))
    kind = type(campaign.protocol())
    real, seen = kind.next, []

    def watched(*args):
        seen.append(in_transaction(caller.collector.store))
        return real(*args)

    monkeypatch.setattr(kind, "next", watched)
    finish(caller, campaign)
    assert seen
    assert not any(seen)
    caller.close()


class Killed(BaseException):
    """The process ends here."""


def interrupt(caller, campaign, monkeypatch):
    """Close the first round, and end between the two transactions."""
    token = caller.create(campaign)["device_token"]
    first = campaign.first_round()
    reports = answers(campaign, first, 60)
    assert caller.send(campaign, reports, token=token) == ["accepted"] * 60

    def kill(*_):
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("keyveil.collector.campaigns.running.what_follows", kill)
        with pytest.raises(Killed):
            caller.collector.running.close("operator", campaign.id, 1)
    view = caller("GET", f"/v1/campaigns/{campaign.id}").json
    assert (view["state"], view["round"]) == ("open", None)
    assert caller.send(campaign, [*answers(campaign, first, 1), reports[0]], token=token) == [
        "round-closed",
        "duplicate",
    ]


def stands(caller, campaign):
    rounds = caller.collector.running.list(campaign.id).rounds
    state = caller("GET", f"/v1/campaigns/{campaign.id}").json["state"]
    return state, [each.number for each in rounds]


AFTER = {"pckv-ue": ("finished", [1]), "auto": ("open", [1, 2])}


@pytest.mark.parametrize("mechanism", AFTER)
def test_a_kill_between_both_transactions_is_made_up_for_at_the_next_start(store_url, monkeypatch, mechanism):
    caller = Caller(store_url)
    campaign = make_campaign(mechanism, SEVERAL.get(mechanism, {}))
    interrupt(caller, campaign, monkeypatch)
    admin = caller.admin
    caller.crash()
    caller = Caller(store_url)
    caller.admin = admin
    for _ in range(200):
        if stands(caller, campaign) == AFTER[mechanism]:
            break
        time.sleep(0.05)
    assert stands(caller, campaign) == AFTER[mechanism]
    caller.close()


@pytest.mark.parametrize("mechanism", AFTER)
def test_the_clock_goes_on_where_somebody_was_interrupted(caller, monkeypatch, mechanism):
    campaign = make_campaign(mechanism, SEVERAL.get(mechanism, {}))
    interrupt(caller, campaign, monkeypatch)
    caller.collector.running.tick()
    assert stands(caller, campaign) == AFTER[mechanism]


def test_several_processes_go_on_once(database, monkeypatch):
    from concurrent.futures import ThreadPoolExecutor

    url = database.fresh()
    callers = [Caller(url) for _ in range(3)]
    campaign = make_campaign("auto", SEVERAL["auto"])
    interrupt(callers[0], campaign, monkeypatch)
    with ThreadPoolExecutor(6) as pool:
        for call in [pool.submit(caller.collector.running.resume) for caller in callers * 2]:
            call.result()
    assert stands(callers[2], campaign) == AFTER["auto"]
    assert all("fault" not in caller.out.getvalue() for caller in callers)
    for caller in callers:
        caller.close()


def test_a_campaign_that_cannot_go_on_stops_no_other(store_url, monkeypatch):
    now = [1.8e9]
    caller = Caller(store_url, clock=lambda: now[0])
    one, other = (make_question(name=name) for name in ("one", "other"))
    for campaign in (one, other):
        caller.create(campaign, close_after=60)
    now[0] += 61
    real = what_follows

    def fragile(campaign, history):
        if campaign.id == one.id:
            raise RuntimeError("something nobody thought of")
        return real(campaign, history)

    with monkeypatch.context() as patched:
        patched.setattr("keyveil.collector.campaigns.running.what_follows", fragile)
        caller.collector.running.tick()
        assert stands(caller, one)[0] == "open"
        assert stands(caller, other)[0] == "finished"
        faults = caller.out.getvalue().count('"fault"')
        # It is not tried every second.
        caller.collector.running.tick()
        assert caller.out.getvalue().count('"fault"') == faults
    now[0] += 61
    caller.collector.running.tick()
    assert stands(caller, one)[0] == "finished"
    caller.close()


def test_uploads_to_other_campaigns_go_on_while_a_round_is_followed(caller, monkeypatch):
    """On the embedded store too: the writer is not the one who works out what follows."""
    import threading

    counted, other = make_question(name="counted"), make_question(name="other")
    tokens = [caller.create(counted, close_at_count=10)["device_token"], caller.create(other)["device_token"]]
    first = counted.first_round()
    real, going, go = what_follows, threading.Event(), threading.Event()

    def slow(*args):
        going.set()
        assert go.wait(30)
        return real(*args)

    monkeypatch.setattr("keyveil.collector.campaigns.running.what_follows", slow)
    assert caller.send(counted, answers(counted, first, 10), token=tokens[0]) == ["accepted"] * 10
    assert going.wait(10)
    assert caller.send(other, answers(other, other.first_round(), 5), token=tokens[1]) == ["accepted"] * 5
    assert caller.send(counted, answers(counted, first, 1), token=tokens[0]) == ["round-closed"]
    go.set()
    for _ in range(200):
        if stands(caller, counted)[0] == "finished":
            break
        time.sleep(0.05)
    assert stands(caller, counted)[0] == "finished"


def test_a_damaged_outcome_is_named(tmp_path):
    url = f"sqlite:///{tmp_path}/c.db"
    caller = Caller(url)
    campaign = make_question("kvue")
    finish(caller, campaign)
    admin = caller.admin
    caller.close()
    with sqlite3.connect(tmp_path / "c.db") as file:
        file.execute("update outcomes set body = zeroblob(length(body))")
    caller = Caller(url)
    answer = caller("GET", f"/v1/campaigns/{campaign.id}/release", token=admin)
    assert answer.code == "campaign-damaged"
    assert json.loads(answer.body)["status"] == 503
    caller.close()
