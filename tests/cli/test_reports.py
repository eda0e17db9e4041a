"""perturb, tally, estimate and send, as processes: from a file of pairs to a release."""

import csv
import io
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from devices import Collector

from keyveil import Campaign
from keyveil.report import Envelope, to_frames
from keyveil.rounds import Round
from keyveil.simulate import insecure_generator, synthetic
from keyveil.simulate.laws import draw_tally
from keyveil.tally import Tally

KEYVEIL = Path(sys.executable).with_name("keyveil")

CAMPAIGN = """
name = "apps"
epsilon = 4.0
keys = ["maps", "mail", "=cmd()"]
value_range = [0, 60]
pairs_per_user = 2
mechanism = "{mechanism}"
"""


def keyveil(*arguments):
    return subprocess.run([KEYVEIL, *map(str, arguments)], capture_output=True, text=True)


def ok(*arguments):
    shown = keyveil(*arguments)
    assert shown.returncode == 0, shown.stderr
    assert "most frequent" in shown.stdout if arguments[0] == "estimate" else shown.stdout == ""
    return shown.stderr


@pytest.fixture
def campaign(tmp_path):
    path = tmp_path / "campaign.toml"
    path.write_text(CAMPAIGN.format(mechanism="pckv-ue"))
    return path


@pytest.fixture
def pairs(tmp_path):
    """Three thousand users: half hold maps at 45, a third mail at 15, some strangers, some nothing."""
    rows = ["user,key,value"]
    for user in range(3000):
        rows += [f"{user},maps,45"] * (user % 2 == 0) + [f"{user},mail,15"] * (user % 3 == 0)
        rows += [f"{user},chess,99"] * (user % 100 == 0)
        rows += [f"{user},,"] * (user % 2 == 1 and user % 3 != 0)
    path = tmp_path / "pairs.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize("mechanism", ["pckv-ue", "pckv-grr", "privkv-mle", "ue-sw", "bucket"])
def test_pairs_become_a_release(tmp_path, campaign, pairs, mechanism):
    campaign.write_text(CAMPAIGN.format(mechanism=mechanism))
    reports, tally, release = (tmp_path / name for name in ("reports.parquet", "tally.json", "release.json"))
    said = ok("perturb", campaign, pairs, "-o", reports)
    assert "30 pairs with keys that the campaign does not name were left out" in said
    assert "wrote 3000 reports" in said
    schema = pq.read_schema(reports)
    assert schema.field("report").type == pa.binary()
    loaded = Campaign.load(campaign)
    assert json.loads(schema.metadata[b"keyveil"]) == {"campaign": loaded.id, "round": 1}
    assert "3000 reports" in ok("tally", campaign, reports, "-o", tally)
    ok("estimate", campaign, tally, "-o", release)
    told = json.loads(release.read_text())
    assert told["metadata"]["users"] == 3000
    assert told["metadata"]["campaign"] == loaded.id
    if mechanism != "ue-sw":
        maps, mail, _ = told["rows"]
        for row, frequency in ((maps, 0.5), (mail, 1 / 3)):
            assert abs(row["frequency"] - frequency) < 6 * row["frequency_se"]


def test_rounds_of_an_older_protocol_are_followed_as_it_opened_them(tmp_path, campaign):
    many = json.dumps([f"app {no}" for no in range(100)])
    said = CAMPAIGN.format(mechanism="auto") + "users = 1000000\n"
    campaign.write_text(said.replace('["maps", "mail", "=cmd()"]', many).replace("4.0", "1.0"))
    asked = Campaign.load(campaign)
    people, rng = synthetic(users=900, keys=100), insecure_generator(1)
    older, history, files = asked.protocol("auto/1"), [], []
    stands = older.start(asked.id)
    while isinstance(stands, Round):
        tally = draw_tally(stands.mechanism, people, rng, question=stands.question, dither=stands.dither)
        files.append(tmp_path / f"{stands.number}.json")
        files[-1].write_text(tally.to_json())
        history.append((stands, tally))
        stands = older.next(history)
    release = tmp_path / "release.json"
    ok("estimate", campaign, *files, "-o", release, "--protocol", "auto/1")
    rows = json.loads(release.read_text())["rows"]
    assert [row["frequency_raw"] for row in rows] == pytest.approx(list(stands.raw.frequency))
    unknown = keyveil("estimate", campaign, *files, "-o", release, "--protocol", "auto/9")
    assert unknown.returncode
    assert "is continued as auto/1, auto/2, auto/3, auto/4, auto/5, auto/6 here" in unknown.stderr


def test_every_user_answers_once_in_a_random_order(tmp_path, campaign, pairs):
    out = tmp_path / "reports.parquet"
    ok("perturb", campaign, pairs, "-o", out)
    reports = pq.read_table(out)["report"].to_pylist()
    assert len({Envelope.from_bytes(report).report_id for report in reports}) == 3000
    assert len(set(map(len, reports))) == 1
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_reports_and_tallies_from_several_files_add_up_and_repeats_count_once(tmp_path, campaign, pairs):
    one, other, tally = tmp_path / "one.parquet", tmp_path / "other.parquet", tmp_path / "tally.json"
    for path in (one, other):
        ok("perturb", campaign, pairs, "-o", path)
    assert "left out 3000 reports whose id came before" in ok("tally", campaign, one, one, "-o", tally)
    assert Tally.from_json(tally.read_text()).n_reports == 3000
    ok("estimate", campaign, tally, other, "-o", tmp_path / "release.csv", "--post", "clip")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "release.csv").read_text())))
    assert [row["key"] for row in rows] == ["maps", "mail", "'=cmd()"]
    metadata = json.loads((tmp_path / "release.metadata.json").read_text())
    assert (metadata["users"], metadata["post"]) == (6000, ["clip"])
    for name in ("release.parquet", "release.arrow"):
        ok("estimate", campaign, one, "-o", tmp_path / name)
    table = pq.read_table(tmp_path / "release.parquet")
    assert table.num_rows == pa.ipc.open_file(tmp_path / "release.arrow").read_all().num_rows == 3
    assert json.loads(table.schema.metadata[b"keyveil"])["users"] == 3000


def test_a_stream_of_frames_is_a_file_of_reports_too(tmp_path, campaign, pairs):
    reports, frames = tmp_path / "reports.parquet", tmp_path / "reports.frames"
    ok("perturb", campaign, pairs, "-o", reports)
    frames.write_bytes(to_frames(pq.read_table(reports)["report"].to_pylist()))
    for source, out in ((reports, "one.json"), (frames, "other.json")):
        ok("tally", campaign, source, "-o", tmp_path / out)
    assert (tmp_path / "one.json").read_text() == (tmp_path / "other.json").read_text()


# --- send ---


@pytest.fixture
def collector(campaign):
    made = Collector()
    loaded = Campaign.load(campaign)
    made.campaign, made.round = loaded.canonical_json, loaded.device_config()
    made.address = f"{made.url}/v1/campaigns/{loaded.id}"
    yield made
    made.close()


def test_send_noises_uploads_and_retries(collector, pairs):
    collector.script = [503, (429, {"Retry-After": "0"})]
    said = ok("send", collector.address, pairs)
    assert "3000 reports accepted, 0 refused, 0 left" in said
    assert "answered 429; the reports wait; trying again" in said
    assert len(set(collector.received)) == len(collector.received) == 3000


def test_send_takes_reports_that_were_made_before(collector, campaign, pairs, tmp_path):
    reports = tmp_path / "reports.parquet"
    ok("perturb", campaign, pairs, "-o", reports)
    ok("send", collector.address, reports)
    assert Counter(collector.received) == Counter(pq.read_table(reports)["report"].to_pylist())


def test_a_send_that_was_cut_off_goes_on_and_nobody_answers_twice(collector, pairs):
    # The first is a question: whether this sender is welcome.
    collector.script = [200, 200, *[503] * 100]
    shown = keyveil("send", collector.address, pairs, "--patience", 0)
    assert shown.returncode == 1
    assert "2500 left" in shown.stderr
    assert "run this again" in shown.stderr
    first = set(collector.received)
    collector.script = []
    said = ok("send", collector.address, pairs)
    assert "going on with 2500 reports" in said
    assert "left out 3000 users that were sent before" in said
    assert first < set(collector.received)
    assert len(set(collector.received)) == 3000


@pytest.mark.parametrize(
    "again", ["the same file", "another file of the same people", "one person more", "a file of the reports"]
)
def test_nobody_is_asked_twice(collector, campaign, pairs, tmp_path, again):
    """U8: a second run doubled the population, silently."""
    new = 0
    if again == "a file of the reports":
        reports = tmp_path / "reports.parquet"
        ok("perturb", campaign, pairs, "-o", reports)
        pairs = reports
    ok("send", collector.address, pairs)
    first, what = list(collector.received), "reports" if "file of the reports" in again else "users"
    if again == "another file of the same people":
        rows = pairs.read_text().splitlines()
        pairs = tmp_path / "other.csv"
        pairs.write_text("\n".join([rows[0], *reversed(rows[1:])]))
    if again == "one person more":
        pairs.write_text(pairs.read_text() + "0a,maps,3\n")
        new = 1
    said = ok("send", collector.address, pairs)
    assert f"left out 3000 {what} that were sent before" in said
    assert "--spool" in said
    assert f"{new} reports accepted, 0 refused, 0 left" in said
    assert collector.received[:3000] == first
    assert len(set(collector.received)) == len(collector.received) == 3000 + new


def test_another_campaign_and_another_spool_ask_anew(collector, campaign, pairs, tmp_path):
    ok("send", collector.address, pairs)
    ok("send", collector.address, pairs, "--spool", tmp_path / "elsewhere")
    assert len(set(collector.received)) == 6000
    campaign.write_text(CAMPAIGN.format(mechanism="kvue"))
    other = Campaign.load(campaign)
    collector.campaign, collector.round = other.canonical_json, other.device_config()
    said = ok("send", f"{collector.url}/v1/campaigns/{other.id}", pairs)
    assert "sent before" not in said
    assert len(set(collector.received)) == 9000


def test_the_spool_tells_nobody_who_was_asked(collector, tmp_path):
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("user,key,value\nann.smith,maps,3\nbob.jones,mail,4\n")
    ok("send", collector.address, pairs)
    spool = tmp_path / "keyveil.spool"
    assert spool.stat().st_mode & 0o077 == 0
    assert not any(name in spool.read_bytes() for name in (b"ann", b"bob", b"smith", b"maps"))


def test_a_send_that_is_killed_anywhere_counts_everybody_once(collector, campaign, pairs):
    """Killed while it noises and while it sends, until it is through; then each has one report."""
    kills, delay, whole = 0, 0.6, None
    while whole != 0:
        child = subprocess.Popen(
            [KEYVEIL, "send", collector.address, str(pairs)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            child.communicate(timeout=delay)
        except subprocess.TimeoutExpired:
            kills += 1
            child.kill()
            child.communicate()
        whole, delay = child.returncode, delay + 0.15
    assert kills >= 1
    assert len(set(collector.received)) == 3000
    assert len({Envelope.from_bytes(report).report_id for report in collector.received}) == 3000


@pytest.mark.parametrize(
    ("status", "problem", "told"),
    [
        (403, {"detail": "reports are sent with a device's token"}, "keyveil token create device --campaign"),
        (401, {"detail": "No token like this was made here."}, "pass it as --token"),
        (
            404,
            {"detail": "No campaign has this id.", "remedy": "Check the id."},
            "404: No campaign has this id; Check",
        ),
        (409, {"title": "Another version"}, "409: Another version"),
        (410, {"detail": "Its expiry has passed."}, "takes no reports, 410: Its expiry has passed"),
    ],
)
def test_a_sender_that_is_not_welcome_stops_at_once_and_asks_nobody(collector, pairs, status, problem, told):
    """U1: a wrong token was silent for minutes; the collector's words were thrown away."""
    collector.script = [(status, {}, json.dumps(problem).encode())] * 5
    started = time.monotonic()
    shown = keyveil("send", collector.address, pairs)
    assert time.monotonic() - started < 10
    assert shown.returncode == 2
    assert told in shown.stderr
    assert shown.stderr.count("\n") == 1
    assert collector.posts == [(f"{collector.address.removeprefix(collector.url)}/reports", 0)]
    assert not pairs.with_name("keyveil.spool").exists()


def test_reports_that_are_refused_are_told_with_the_reason(collector, pairs):
    collector.script = [200, *[(410, {}, b'{"detail": "Its expiry has passed."}')] * 6]
    shown = keyveil("send", collector.address, pairs)
    assert shown.returncode == 1
    assert "0 reports accepted, 3000 refused, 0 left" in shown.stderr
    assert "of those that were refused, the collector says 410: Its expiry has passed" in shown.stderr


NOWHERE = f"http://127.0.0.1:9/v1/campaigns/{64 * 'a'}"
BAD = {
    "no campaign": (("perturb", "nowhere.toml", "PAIRS", "-o", "OUT"), "cannot read nowhere.toml"),
    "no pairs": (("perturb", "CAMPAIGN", "nowhere.csv", "-o", "OUT"), "found no file at nowhere.csv"),
    "no folder": (("perturb", "CAMPAIGN", "PAIRS", "-o", "nowhere/out.parquet"), "cannot write nowhere"),
    "several rounds": (("perturb", "ROUNDS", "PAIRS", "-o", "OUT"), "has several rounds"),
    "no reports": (("tally", "CAMPAIGN", "nowhere.parquet", "-o", "OUT"), "found no file at nowhere.parquet"),
    "no reports in it": (("tally", "CAMPAIGN", "PAIRS", "-o", "OUT"), "neither Parquet nor a stream"),
    "half a Parquet": (("tally", "CAMPAIGN", "HALF", "-o", "OUT"), "is not a readable Parquet file"),
    "a Parquet of pairs": (("tally", "CAMPAIGN", "TABLE", "-o", "OUT"), 'lacks the column "report"'),
    "another campaign": (("tally", "OTHER", "REPORTS", "-o", "OUT"), "this is campaign"),
    "another tally": (("estimate", "OTHER", "TALLY", "-o", "OUT.csv"), "do not add"),
    "no tally": (("estimate", "CAMPAIGN", "nowhere.json", "-o", "OUT.csv"), "cannot read nowhere.json"),
    "bad tally": (("estimate", "CAMPAIGN", "BADTALLY", "-o", "OUT.csv"), "whole numbers"),
    "unknown form": (("estimate", "CAMPAIGN", "TALLY", "-o", "OUT.xls"), "expected a release to end with"),
    "unknown post": (("estimate", "CAMPAIGN", "TALLY", "-o", "OUT.csv", "--post", "clop"), "did you mean"),
    "http": (("send", "http://example.org/v1/campaigns/ab", "PAIRS"), "https is required"),
    "no id": (("send", "https://example.org/", "PAIRS"), "expected https://HOST/v1/campaigns/ID"),
    "nobody there": (("send", NOWHERE, "PAIRS"), "no answer from 127.0.0.1:9"),
    "a name, nobody there": (("send", "apps", "PAIRS", "--url", NOWHERE[:18]), "to look it up failed"),
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The files that bad input is made of."""
    folder = tmp_path_factory.mktemp("made")
    files = {name: folder / name for name in ("CAMPAIGN", "OTHER", "ROUNDS")}
    files |= {"PAIRS": folder / "p.csv", "REPORTS": folder / "r.parquet"}
    files |= {"TALLY": folder / "t.json", "BADTALLY": folder / "b.json"}
    files["CAMPAIGN"].write_text(CAMPAIGN.format(mechanism="kvue"))
    files["OTHER"].write_text(CAMPAIGN.format(mechanism="privkv"))
    files["ROUNDS"].write_text(CAMPAIGN.format(mechanism="privkvm"))
    files["PAIRS"].write_text("user,key,value\n1,maps,3\n")
    ok("perturb", files["CAMPAIGN"], files["PAIRS"], "-o", files["REPORTS"])
    ok("tally", files["CAMPAIGN"], files["REPORTS"], "-o", files["TALLY"])
    files |= {"HALF": folder / "h.parquet", "TABLE": folder / "p.parquet"}
    files["HALF"].write_bytes(files["REPORTS"].read_bytes()[:100])
    pq.write_table(pa.table({"user": [1], "key": ["maps"], "value": [3.0]}), files["TABLE"])
    files["BADTALLY"].write_text(files["TALLY"].read_text().replace("1", "1.5"))
    return files


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_sentence_and_exit_2(case, made, tmp_path):
    arguments, message = BAD[case]
    out = str(tmp_path / "out")
    shown = keyveil(*(made.get(word, word.replace("OUT", out)) for word in arguments))
    assert shown.returncode == 2
    assert message in shown.stderr
    assert "Traceback" not in shown.stderr
    assert shown.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
