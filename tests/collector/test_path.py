"""From devices over real HTTP to a release, and the same release from the exported reports."""

import json
import os
import threading
import time
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from collecting import Caller, make_question, make_reports
from serving import Process

from keyveil.campaign import Campaign
from keyveil.cli.app import keyveil
from keyveil.client import Reporter
from keyveil.client.transport import send, with_token
from keyveil.protocols import Outcome, Round, replay
from keyveil.release import release_outcome
from keyveil.report import read_frames


def run(*args, server=None, **named):
    env = {} if server is None else {"KEYVEIL_URL": server.url, "KEYVEIL_TOKEN": server.admin}
    return CliRunner().invoke(keyveil, [str(arg) for arg in args], env=env, **named)


@pytest.fixture
def server(tmp_path):
    made = Process(f"sqlite:///{tmp_path}/c.db")
    yield made
    made.stop()


@pytest.mark.parametrize(
    ("mechanism", "changes"),
    [("privkvm", {"rounds": 3, "pairs_per_user": 1}), ("ks-grr", {"pairs_per_user": 2})],
)
def test_rounds_over_http_equal_the_offline_count(server, mechanism, changes):
    campaign = make_question(mechanism, epsilon=4.0, **changes)
    url = f"{server.url}/v1/campaigns/{campaign.id}/reports"
    exchange = with_token(server.create(campaign)["device_token"])
    protocol, tallies = campaign.protocol(), []
    asked = protocol.start(campaign.id)
    places = [Fraction(i, 5000) for i in range(5000)]
    rng = np.random.default_rng(5)
    holdings = [
        {
            campaign.keys[int(k)]: float(v)
            for k, v in zip(rng.zipf(1.5, 2) % 40, rng.uniform(0, 60, 2), strict=True)
        }
        for _ in range(5000)
    ]
    while isinstance(asked, Round):
        device = Reporter(campaign)
        low, high = asked.group
        reports = [
            device.report(held, asked)
            for held, place in zip(holdings, places, strict=True)
            if low <= place < high
        ]
        parts = [reports[i::8] for i in range(8)]
        counted = []

        def upload(part, counted=counted):
            for start in range(0, len(part), 50):
                settled = send(url, part[start : start + 50], timeout=30, exchange=exchange)
                counted.extend(settled.counts)

        threads = [threading.Thread(target=upload, args=(part,)) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert counted == [True] * len(reports)
        status, body = server.ask(
            "POST", f"/v1/campaigns/{campaign.id}/rounds/{asked.number}/close", token=server.admin
        )
        assert status == 200, body
        tallies.append(campaign.tally(reports, asked))
        status, body = server.ask(
            "GET", f"/v1/campaigns/{campaign.id}/rounds/{asked.number}/tally", token=server.admin
        )
        assert body.decode() == tallies[-1].to_json()
        asked = replay(protocol, campaign.id, tallies)
    assert isinstance(asked, Outcome)
    assert len(tallies) == 3
    status, body = server.ask("GET", f"/v1/campaigns/{campaign.id}/release", token=server.admin)
    assert body.decode() == release_outcome(campaign, protocol, asked).to_json()


def test_anyone_with_the_reports_recomputes_the_release(server, tmp_path):
    file = tmp_path / "campaign.toml"
    file.write_text(
        'name = "apps"\nepsilon = 2.0\nkeys = ["maps", "mail", "=cmd"]\nvalue_range = [0, 60]\n'
        'pairs_per_user = 2\nmechanism = "pckv-ue"\nowner = "o"\npurpose = "p"\nexpires = "2099-01-01"\n'
    )
    pairs = tmp_path / "pairs.csv"
    pairs.write_text(
        "user,key,value\n" + "".join(f"u{i},{'maps' if i % 3 else 'mail'},{i % 60}\n" for i in range(400))
    )
    made = run("campaign", "create", file, "--json", server=server)
    assert made.exit_code == 0, made.output
    said = json.loads(made.stdout)
    sent = CliRunner().invoke(
        keyveil,
        ["send", f"{server.url}/v1/campaigns/{said['id']}", str(pairs)],
        env={"KEYVEIL_TOKEN": said["device_token"]},
    )
    assert sent.exit_code == 0, sent.output
    assert "400 reports accepted, 0 refused, 0 left" in sent.output
    assert run("campaign", "close", said["id"], server=server).output.startswith("round 1 has 400 reports")
    for export in ("reports.parquet", "reports.kv"):
        assert run("campaign", "export", said["id"], 1, "-o", tmp_path / export, server=server).exit_code == 0
        assert run("tally", file, tmp_path / export, "-o", tmp_path / "tally.json").exit_code == 0
        for form in ("json", "csv"):
            ours, theirs = tmp_path / f"ours.{form}", tmp_path / f"theirs.{form}"
            assert run("estimate", file, tmp_path / "tally.json", "-o", ours).exit_code == 0
            assert run("campaign", "release", said["id"], "-o", theirs, server=server).exit_code == 0
            assert ours.read_text().strip() == theirs.read_text().strip()
    assert run("campaign", "recount", said["id"], 1, server=server).output.startswith(
        "400 stored, 400 in the tally"
    )
    assert run("campaign", "examine", said["id"], 1, server=server).output.startswith(
        "400 reports are too few"
    )
    listed = json.loads(run("campaign", "list", "--json", server=server).stdout)
    assert [(line["name"], line["state"], line["reports"]) for line in listed] == [("apps", "finished", 400)]
    assert "apps" in run("campaign", "show", said["id"], server=server).output
    assert "apps" in run("campaign", "list", server=server).output
    assert run("campaign", "label", said["id"], "our apps", server=server).exit_code == 0
    assert "nothing changed" in run("campaign", "compare", said["id"], file, server=server).output
    assert run("backup", "-o", tmp_path / "backup.db", server=server).exit_code == 0
    token = run("token", "create", "analyst", "--campaign", said["id"], server=server).stdout.strip()
    named = run("token", "list", "--campaign", said["id"], server=server).output.splitlines()
    assert token.split("-")[1] in named[-1]
    assert run("token", "revoke", token.split("-")[1], "--campaign", said["id"], server=server).exit_code == 0
    refused = CliRunner().invoke(
        keyveil, ["campaign", "list"], env={"KEYVEIL_URL": server.url, "KEYVEIL_TOKEN": token}
    )
    assert refused.exit_code != 0


def test_every_form_says_the_same(tmp_path):
    caller = Caller(f"sqlite:///{tmp_path}/c.db")
    campaign = make_question("ue-sw", keys=("a", "b", "c"), bins=8, pairs_per_user=2)
    token = caller.create(campaign)["device_token"]
    reports = make_reports(campaign, 200)
    caller.send(campaign, reports, token=token)
    path = f"/v1/campaigns/{campaign.id}/release"
    answer = caller("GET", path, token=caller.admin)
    assert answer.headers["keyveil-state"] == "open"
    said = answer.json
    assert said["metadata"]["epsilon_exact"] <= campaign.epsilon
    assert {"frequency_low", "frequency_high", "mean_low", "mean_high"} <= set(said["rows"][0])
    tables = [
        pq.read_table(pa.BufferReader(caller("GET", f"{path}?format=parquet", token=caller.admin).body)),
        pa.ipc.open_file(
            pa.BufferReader(caller("GET", f"{path}?format=arrow", token=caller.admin).body)
        ).read_all(),
    ]
    for table in tables:
        assert table.to_pylist() == said["rows"]
        assert json.loads(table.schema.metadata[b"keyveil"]) == said["metadata"]
    assert caller("GET", f"{path}?format=xml", token=caller.admin).code == "bad-request"
    assert caller("GET", f"{path}?post=magic", token=caller.admin).code == "unknown-step"
    export = caller("GET", f"/v1/campaigns/{campaign.id}/rounds/1/reports", token=caller.admin)
    assert list(read_frames(export.body)) == reports
    caller.close()


def test_another_estimator_reads_the_same_reports(tmp_path):
    caller = Caller(f"sqlite:///{tmp_path}/c.db")
    campaign = make_question("privkv", pairs_per_user=1)
    token = caller.create(campaign)["device_token"]
    reports = make_reports(campaign, 300)
    caller.send(campaign, reports, token=token)
    path = f"/v1/campaigns/{campaign.id}/release?post=published"
    for estimator in ("privkv-mle", "privkv-em"):
        said = caller("GET", f"{path}&estimator={estimator}", token=caller.admin).json
        other = make_question(estimator, pairs_per_user=1)
        offline = other.protocol().next([(campaign.first_round(), campaign.tally(reports))])
        frequencies = [row["frequency"] for row in said["rows"]]
        np.testing.assert_array_equal(frequencies, offline.published.frequency)
        assert said["metadata"]["estimator"] == estimator
        assert said["metadata"]["epsilon_exact"] <= campaign.epsilon
    for odd in ("pckv-ue", "privkvm", "auto", "nonsense"):
        answer = caller("GET", f"{path}&estimator={odd}", token=caller.admin)
        assert answer.code == "unknown-step", odd
    caller.close()


def test_operations_say_what_there_is(server):
    campaign = make_question()
    server.create(campaign)
    assert json.loads(server.ask("GET", "/readyz")[1]) == {
        "ready": True,
        "store": "sqlite",
        "waiting_uploads": 0,
        "clock_doubt": 0.0,
        "failing": "",
        "damaged": [],
        "overdue": [],
    }
    metrics = server.ask("GET", "/metrics", token=server.admin)[1].decode()
    for name in ("keyveil_reports_total", "keyveil_waiting_uploads", "keyveil_commit_seconds_bucket"):
        assert name in metrics
    assert server.ask("GET", "/nowhere")[0] == 404
    assert server.ask("PUT", "/v1/campaigns")[0] == 405
    for line in server.log:
        assert set(json.loads(line)) >= {"at", "event"}


def test_a_campaign_is_named_as_people_name_it(tmp_path, server):
    """U17: only 64 hexadecimal digits did; a name was asked whether `keyveil serve` is running."""
    apps, twins = make_question(name="our apps"), [make_question(name="twin", epsilon=e) for e in (1.0, 2.0)]
    for campaign in (apps, *twins):
        token = server.create(campaign)["device_token"]
    file = tmp_path / "apps.json"
    file.write_text(apps.canonical_json)
    for name in (apps.id, apps.id[:9], apps.id[:9].upper(), "our apps", str(file)):
        assert "our apps" in run("campaign", "show", name, server=server).output
        assert run("token", "list", "--campaign", name, server=server).exit_code == 0
    assert run("campaign", "label", apps.id, "the apps", server=server).exit_code == 0
    assert "our apps" in run("campaign", "show", "the apps", server=server).output
    both = run("campaign", "show", "twin", server=server).exception
    assert all(f"{campaign.id[:12]} (twin)" in str(both) for campaign in twins)
    for unknown in ("nobody's", "zz", "", "a b/c?d", "\x1b[2J"):
        refusal = str(run("campaign", "show", unknown, server=server).exception)
        assert "no campaign is called" in refusal
        assert "is `keyveil serve` running?" not in refusal
        assert refusal.isprintable()
    refusal = run("campaign", "show", "0" * 64, server=server).exception
    assert "unknown-campaign" in str(refusal)
    # A device's token looks nothing up; one for all campaigns in the environment does, beside it.
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("user,key,value\n1,app-1,3\n")
    options = ["--url", server.url, "--token", token]
    alone = CliRunner().invoke(keyveil, ["send", twins[1].id[:9], str(pairs), *options])
    assert "is no whole id, and to look it up failed" in str(alone.exception)
    # Another collector than that of KEYVEIL_URL is not shown the token of KEYVEIL_TOKEN.
    elsewhere = CliRunner().invoke(
        keyveil,
        ["send", f"{server.url}/v1/campaigns/twin", str(pairs), "--token", "kv-none"],
        env={"KEYVEIL_TOKEN": server.admin, "KEYVEIL_URL": "http://127.0.0.1:1"},
    )
    assert "unknown-token" in str(elsewhere.exception)
    both = {"KEYVEIL_TOKEN": server.admin}
    sent = CliRunner().invoke(keyveil, ["send", twins[1].id[:9], str(pairs), *options], env=both)
    assert "1 reports accepted" in sent.output


@pytest.mark.parametrize("who", ["admin", "nobody", "another campaign's"])
def test_send_with_a_wrong_token_ends_at_once_in_the_collectors_words(tmp_path, server, who):
    """U1: with the admin's token in KEYVEIL_TOKEN, as the README had it, it was silent for eight minutes."""
    campaign, other = make_question(), make_question(name="other")
    server.create(campaign)
    tokens = {
        "admin": server.admin,
        "nobody": "kv-none",
        "another campaign's": server.create(other)["device_token"],
    }
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("user,key,value\n1,app-1,3\n")
    started = time.monotonic()
    address = f"{server.url}/v1/campaigns/{campaign.id}"
    refused = CliRunner().invoke(keyveil, ["send", address, str(pairs)], env={"KEYVEIL_TOKEN": tokens[who]})
    assert time.monotonic() - started < 5
    words = {
        "admin": "403: reports are sent with a device's token",
        "nobody": "401: No token like this was made here, or it was revoked",
        "another campaign's": "403: A token opens one campaign, and this is not it",
    }
    assert refused.exit_code != 0
    assert words[who] in str(refused.exception)
    assert f"keyveil token create device --campaign {campaign.id[:12]}" in str(refused.exception)
    assert not (tmp_path / "keyveil.spool").exists()


def test_what_cannot_start_says_why(tmp_path, server):
    for args, words in (
        (("serve", "--store", "mysql://x/y"), "expected sqlite:///FILE"),
        (("serve", "--store", f"sqlite:///{tmp_path}/c.db", "--port", "0"), "another collector"),
        (("serve", "--port", str(server.port), "--store", f"sqlite:///{tmp_path}/d.db"), "cannot listen"),
        (("campaign", "list", "--url", "http://127.0.0.1:1"), "is `keyveil serve` running?"),
        (("campaign", "list", "--url", "http://example.org"), "https is required"),
    ):
        result = CliRunner().invoke(keyveil, list(args))
        assert result.exit_code != 0
        assert words in str(result.exception) + result.output, (args, result.output, result.exception)
    assert not os.path.exists(tmp_path / "d.db")


def test_the_config_that_is_served_has_the_campaigns_hash(server):
    import hashlib

    campaign = make_question()
    server.create(campaign)
    said = json.loads(server.ask("GET", f"/v1/campaigns/{campaign.id}")[1])
    assert hashlib.sha256(said["campaign"].encode()).hexdigest() == campaign.id
    assert said["round"] == campaign.first_round().fields()
    assert Campaign.from_description({**said["round"], "campaign": said["campaign"]})[0] == campaign


@pytest.mark.parametrize(
    ("mechanism", "changes", "least"),
    [
        ("privkvm", {}, 2),
        ("auto", {}, 2),
        ("auto", {"want": "distribution"}, 2),
        ("auto", {"want": "frequency", "pairs_per_user": 1}, 1),
    ],
)
def test_send_answers_round_after_round(server, tmp_path, mechanism, changes, least):
    campaign = make_question(mechanism, **({"epsilon": 4.0, "pairs_per_user": 2} | changes))
    token = server.create(campaign)["device_token"]
    pairs = tmp_path / "pairs.csv"
    rows = (
        f"u{i},{campaign.keys[i % 7]},{i % 60}\nu{i},{campaign.keys[7 + i % 3]},{i % 50}\n"
        for i in range(3000)
    )
    pairs.write_text("user,key,value\n" + "".join(rows))
    answered, closed = 0, 0
    for _ in range(8):
        view = json.loads(server.ask("GET", f"/v1/campaigns/{campaign.id}")[1])
        if view["round"] is None:
            break
        sent = CliRunner().invoke(
            keyveil,
            ["send", f"{server.url}/v1/campaigns/{campaign.id}", str(pairs)],
            env={"KEYVEIL_TOKEN": token},
        )
        assert sent.exit_code == 0, sent.output
        assert "0 refused, 0 left" in sent.output
        answered += int(sent.output.split(" reports accepted")[0].split()[-1])
        path = f"/v1/campaigns/{campaign.id}/rounds/{view['round']['number']}/close"
        assert server.ask("POST", path, token=server.admin)[0] == 200
        closed += 1
    release = json.loads(server.ask("GET", f"/v1/campaigns/{campaign.id}/release", token=server.admin)[1])
    # Everybody answers every round of PrivKVM, and one of `auto`.
    assert answered == {"privkvm": 3000 * closed, "auto": 3000}[mechanism]
    assert closed >= least
    assert release["rows"][0]["frequency_low"] <= release["rows"][0]["frequency_high"]
    # Signs tell how values are spread, too, where they are told.
    signs = mechanism == "auto" and changes.get("want") != "frequency"
    assert ("bins" in release["rows"][0]) == signs
    means = [row["mean"] for row in release["rows"] if row["mean"] is not None]
    # PrivKVM's are biased by design: none lies inside an interval.
    assert (means == []) == (mechanism == "privkvm" or changes.get("want") == "frequency")
