"""Clear segments in a collector: tallies add up to the whole, however reports came, and whatever happened."""

import json
import random
from contextlib import contextmanager

import pytest
from collecting import WHO, Caller, make_reports
from crossed import asking as crossed
from segmented import crowd_of, random_campaign

from keyveil.client import Reporter
from keyveil.collector.campaigns.verify import verify
from keyveil.collector.store import open_store
from keyveil.collector.store.cells import pack, unpack
from keyveil.numerics import two_sided_z
from keyveil.segments import Segments
from keyveil.tally.count import UNDECODED


def asking(seed, **changes):
    return random_campaign(seed, **{**WHO, "ids": "own", **changes})


@contextmanager
def opened(url):
    store = open_store(url)
    try:
        yield store
    finally:
        store.close()


def faults(url):
    with opened(url) as store:
        return verify(store).faults


@pytest.mark.timeout(400)
def test_of_100_random_campaigns_segments_add_up_to_the_whole_as_in_files(store_url):
    caller = Caller(store_url)
    # The shared store counts as the embedded one does, and answers more slowly.
    for seed in range(0, 100, 1 if store_url.startswith("sqlite") else 4):
        campaign, rng = asking(seed), random.Random(seed)
        crowd = crowd_of(campaign, 40, seed)
        caller.create(campaign, uploads="open")
        wrong = crowd.reports[0][:-1] + b"\xff"
        cut = rng.randrange(1, 39)
        assert caller.send(campaign, [wrong]) == ["not-canonical"]
        assert caller.send(campaign, crowd.reports[:cut]) == ["accepted"] * cut
        said = caller.send(campaign, [*crowd.reports[cut - 1 :], wrong])
        assert said == ["duplicate", *["accepted"] * (40 - cut), "duplicate"]
        found = caller.collector.readout.tally(campaign.id, 1)
        assert found == campaign.tally(crowd.reports)
        assert found.unsettled() == []
        path = f"/v1/campaigns/{campaign.id}/rounds/1"
        assert caller("GET", f"{path}/tally", token=caller.admin).json == json.loads(found.to_json())
        assert caller("POST", f"{path}/recount", token=caller.admin).json["agrees"]
    caller.close()
    assert faults(store_url) == []


@pytest.mark.parametrize("cohorts", [16, 4096])
def test_segments_are_there_again_after_a_crash(store_url, cohorts):
    """Hashed answers of few cohorts wait undecoded, in the segments as in the whole."""
    campaign = asking(0, mechanism="bucket", cohorts=cohorts, dither=16, keys=list("abcdefgh"))
    crowd = crowd_of(campaign, 90, 1)
    first = Caller(store_url)
    first.create(campaign, uploads="open")
    for start in range(0, 90, 30):
        assert first.send(campaign, crowd.reports[start : start + 30]) == ["accepted"] * 30
    first.crash()
    again = Caller(store_url)
    assert again.collector.readout.tally(campaign.id, 1) == campaign.tally(crowd.reports)
    again.close()
    assert faults(store_url) == []


def test_a_tally_whose_segments_do_not_add_up_is_found(store_url):
    """A segment's counts moved to another: every checksum is right, and the whole is as it was."""
    caller, campaign = Caller(store_url), asking(3)
    caller.create(campaign, uploads="open")
    caller.send(campaign, crowd_of(campaign, 40, 3).reports)
    caller.close_round(campaign, 1)
    tally = caller.collector.readout.tally(campaign.id, 1)
    caller.close()
    assert faults(store_url) == []
    first, second, *_ = tally.segments
    swapped = {first: tally.segments[second], second: tally.segments[first]}
    moved = pack(tally.with_segments({**tally.segments, **swapped}))
    with opened(store_url) as store, store.write() as tx:
        tx._run("update tallies set cells = ?", (moved,))
    assert ["or say something else" in fault for fault in faults(store_url)] == [True]


def test_what_is_stored_is_read_again():
    for seed in range(0, 100, 9):
        campaign = asking(seed)
        tally = campaign.tally(crowd_of(campaign, 30, seed).reports)
        assert unpack(pack(tally), question=tally.question, n_reports=30) == tally


def test_devices_that_say_nothing_are_others(caller):
    campaign = asking(2, segments=Segments(told="clear", attributes=(("platform", ("ios",)),)))
    caller.create(campaign, uploads="open")
    assert caller.send(campaign, make_reports(campaign, 5)) == ["accepted"] * 5
    tally = caller.collector.readout.tally(campaign.id, 1)
    assert list(tally.segments) == [(0, 0)]
    assert UNDECODED not in tally.cells


# --- what is read out ---


@pytest.fixture
def told(caller):
    """A campaign with segments and 300 reports, among them many of one platform."""
    segments = Segments(told="clear", attributes=(("platform", ("ios", "web")), ("country", ("de",))))
    campaign = asking(2, mechanism="bucket", segments=segments, keys=list("abcdef"), epsilon=4.0)
    caller.create(campaign, uploads="open")
    crowd = crowd_of(campaign, 300, 7)
    assert set(caller.send(campaign, crowd.reports)) == {"accepted"}
    return caller, campaign, crowd


def test_breakdowns_are_sent_by_columns(told):
    caller, campaign, crowd = told
    path = f"/v1/campaigns/{campaign.id}/breakdowns"
    said = caller("GET", path, token=caller.admin).json
    expected = campaign.breakdowns(campaign.tally(crowd.reports), post="none")
    assert said["is_open"]
    assert said["metadata"] == {**expected.metadata, "state": "interim"}
    assert said["keys"] == list("abcdef")
    assert [
        (each["attribute"], [one["value"] for one in each["segments"]]) for each in said["attributes"]
    ] == [
        ("country", ["de", "other"]),
        ("platform", ["ios", "web", "other"]),
    ]
    for each in said["attributes"]:
        for one in each["segments"]:
            release = expected.release(each["attribute"], one["value"])
            assert one["users"] == release.metadata["users"]
            assert one["columns"]["frequency"] == release.columns["frequency"].tolist()
            assert one["columns"]["mean_low"] == release.columns["mean_low"].tolist()
        assert sum(one["users"] for one in each["segments"]) == 300
    only = caller("GET", f"{path}?by=platform", token=caller.admin).json
    assert [each["attribute"] for each in only["attributes"]] == ["platform"]
    assert caller("GET", f"{path}?by=colour", token=caller.admin).code == "bad-request"
    assert caller("GET", path).code == "no-token"


@pytest.mark.parametrize("form", ["json", "csv", "parquet", "arrow"])
def test_a_release_by_segments_is_long(told, form):
    caller, campaign, crowd = told
    answer = caller(
        "GET", f"/v1/campaigns/{campaign.id}/release?format={form}&by=platform,country", token=caller.admin
    )
    assert (answer.status, answer.headers["keyveil-state"]) == (200, "open")
    found = campaign.breakdowns(campaign.tally(crowd.reports), by=["platform", "country"])
    if form == "csv":
        assert answer.body.decode() == found.to_csv()
    if form == "json":
        assert answer.json["rows"] == json.loads(found.to_json())["rows"]


@pytest.fixture
def hidden(caller):
    """A campaign whose answers hide labels, and 600 reports: two of three from ios, who all hold maps."""
    campaign = crossed(
        **WHO,
        ids="own",
        epsilon=6.0,
        keys=["maps", "mail"],
        segments={"told": "private", "platform": ["ios", "web"]},
    )
    caller.create(campaign, uploads="open")
    reports = [
        Reporter(campaign, segments={"platform": "ios" if n % 3 else "web"}).report(
            {"maps" if n % 3 else "mail": 30.0}
        )
        for n in range(600)
    ]
    assert set(caller.send(campaign, reports)) == {"accepted"}
    return caller, campaign, reports


def test_private_segments_are_sent_with_the_intervals_of_their_sizes(hidden):
    caller, campaign, reports = hidden
    path = f"/v1/campaigns/{campaign.id}"
    assert caller("GET", f"{path}/about", token=caller.admin).json["segments"] == ["platform"]
    expected = campaign.breakdowns(campaign.tally(reports), post="none")
    for state in ("interim", None):
        said = caller("GET", f"{path}/breakdowns?by=platform", token=caller.admin).json
        assert said["metadata"].get("state") == state
        assert said["metadata"]["told"] == "private"
        assert (said["keys"], said["names"], said["is_open"]) == (["maps", "mail"],) * 2 + (bool(state),)
        assert said["z_all"] == {"platform": pytest.approx(two_sided_z(1 - 0.05 / 6))}
        (platform,) = said["attributes"]
        assert [one["value"] for one in platform["segments"]] == ["ios", "web", "other"]
        for one, true in zip(platform["segments"], (2 / 3, 1 / 3, 0), strict=True):
            assert one["share"] == expected.metadata["segment_shares"][one["value"]]
            assert one["share"][1] < one["share"][0] < one["share"][2]
            # Six standard errors: a sound build fails in one of 10**9 runs.
            reach = 6 * (one["share"][2] - one["share"][0]) / two_sided_z()
            assert abs(one["share"][0] - true) < reach
            if one["users"]:
                release = expected.release("platform", one["value"])
                assert one["columns"]["frequency"] == release.columns["frequency"].tolist()
        assert platform["segments"][0]["users"] > platform["segments"][1]["users"] > 0
        if state:
            caller.close_round(campaign, 1)
    assert caller("GET", f"{path}/breakdowns?by=colour", token=caller.admin).code == "bad-request"


def test_a_release_of_private_segments_is_long_and_says_what_totals_cost(hidden):
    caller, campaign, reports = hidden
    path, found = f"/v1/campaigns/{campaign.id}/release", campaign.breakdowns(campaign.tally(reports))
    long = caller("GET", f"{path}?format=csv&by=platform", token=caller.admin)
    assert long.body.decode() == found.to_csv()
    (note,) = caller("GET", path, token=caller.admin).json["metadata"]["notes"]
    assert "sums over 3 segments, about 1.7 times as noisy as without" in note
    results = caller("GET", f"/v1/campaigns/{campaign.id}/results", token=caller.admin).json
    assert results["columns"]["key"] == ["maps", "mail"]
    assert results["z_all"] == pytest.approx(two_sided_z(1 - 0.05 / 2))


def test_without_reports_or_segments_there_is_nothing_to_break_down(caller):
    empty, plain = asking(2, name="empty"), asking(2, segments=None)
    for campaign in (empty, plain):
        caller.create(campaign, uploads="open")
    caller.send(plain, make_reports(plain, 3))
    path = "/v1/campaigns/{}/breakdowns"
    assert caller("GET", path.format(empty.id), token=caller.admin).code == "no-reports"
    assert caller("GET", path.format(plain.id), token=caller.admin).code == "bad-request"


def test_reports_with_labels_are_examined_and_segments_compared(told):
    caller, campaign, _ = told
    found = caller("POST", f"/v1/campaigns/{campaign.id}/rounds/1/examine", token=caller.admin).json
    assert (found["reports"], found["alarm"]) == (300, False)
    assert {each["what"].split('"')[1].split(" = ")[0] for each in found["segments"]} == {
        "country",
        "platform",
    }
    assert min(each["p"] for each in found["segments"]) > 1e-6


@pytest.mark.parametrize("mechanism", ["auto", "ks-grr"])
def test_labels_ride_along_in_every_round(caller, mechanism):
    segments = Segments(told="clear", attributes=(("platform", ("ios",)),))
    keys = [f"key {n}" for n in range(30)]
    campaign = asking(2, mechanism=mechanism, segments=segments, keys=keys, epsilon=4.0, pairs_per_user=2)
    caller.create(campaign, uploads="open")
    number, counted = 1, 0
    while True:
        asked = campaign.read_round(caller("GET", f"/v1/campaigns/{campaign.id}").json["round"])
        assert (asked.number, asked.labels) == (number, (1,))
        crowd = crowd_of(campaign, 400, number, asked)
        assert set(caller.send(campaign, crowd.reports)) == {"accepted"}
        tally = caller.collector.readout.tally(campaign.id, number)
        assert tally.unsettled() == []
        assert tally == campaign.tally(crowd.reports, asked)
        counted += tally.segments[0, 1].n_reports
        following = caller.close_round(campaign, number).json["next_round"]
        if following is None:
            break
        number = following
    assert number > 1
    said = caller("GET", f"/v1/campaigns/{campaign.id}/breakdowns", token=caller.admin).json
    assert not said["is_open"]
    (platform,) = said["attributes"]
    assert {one["value"]: one["users"] for one in platform["segments"]} == {
        "ios": counted,
        "other": 400 * number - counted,
    }
    assert all(len(one["columns"]["frequency"]) == 30 for one in platform["segments"])
    assert "taken to be as among all users" in said["metadata"]["notes"][1]


def test_other_segments_are_another_question(caller):
    campaign = asking(2, segments=Segments(told="clear", attributes=(("platform", ("ios",)),)))
    caller.create(campaign, uploads="open")
    body = {**json.loads(campaign.canonical_json), "segments": {"told": "clear", "platform": ["ios", "web"]}}
    said = caller("POST", f"/v1/campaigns/{campaign.id}/compare", token=caller.admin, json_body=body).json
    (change,) = said["changes"]
    assert (change["field"], change["reports_stay_usable"]) == ("segments", False)
    assert change["before"] == {"told": "clear", "platform": ["ios"]}
    assert "places of attributes and values" in change["why"]
