"""`keyveil relay` and `keyveil sealing-key` as operators meet them: real processes, real refusals."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from collecting import answers, make_question
from relaying import relayed
from serving import Process

from keyveil.report import to_frames
from keyveil.sealing import SealingKey

KEYVEIL = Path(sys.executable).with_name("keyveil")


def keyveil(*arguments, **env):
    return subprocess.run(
        [KEYVEIL, *map(str, arguments)], capture_output=True, text=True, env={**os.environ, **env}
    )


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("relay")
    collector = Process(f"sqlite:///{folder}/c.db")
    campaign = relayed(make_question)
    collector.create(campaign)
    said = keyveil("token", "create", "relay", KEYVEIL_URL=collector.url, KEYVEIL_TOKEN=collector.admin)
    options = ("--to", collector.url, "--token", said.stdout.strip(), "--refresh", "0.2")
    relay = Process(f"sqlite:///{folder}/r.db", *options, command="relay")
    yield collector, relay, campaign
    relay.stop(40)
    collector.stop()


def test_operators_see_who_waits_and_end_a_round(pair):
    _, relay, campaign = pair
    env = {"KEYVEIL_RELAY": relay.url, "KEYVEIL_RELAY_TOKEN": relay.admin}
    [key] = json.loads(relay.ask("GET", "/v1/keys")[1])["keys"]
    public = SealingKey(bytes.fromhex(key["public"]))
    sealed = [public.seal(report, campaign=campaign.id, round=1) for report in answers(campaign, None, 14)]
    assert relay.ask("POST", f"/v1/campaigns/{campaign.id}/sealed", to_frames(sealed))[0] == 200
    [waiting] = json.loads(keyveil("relay", "status", "--json", **env).stdout)["rounds"]
    assert (waiting["waiting"], waiting["batch"], waiting["batches"]) == (14, 10, [])
    ended = keyveil("relay", "end", campaign.id, 1, **env)
    assert ended.returncode == 0, ended.stderr
    assert campaign.id[:12] in ended.stdout
    assert "over" in ended.stdout
    [over] = json.loads(keyveil("relay", "status", "--json", **env).stdout)["rounds"]
    assert (over["waiting"], over["batches"], over["discarded"]) == (0, [14], 0)
    refused = keyveil("relay", "end", campaign.id, 7, **env)
    assert (refused.returncode, "unknown-round" in refused.stderr) == (2, True)


def test_keys_are_listed_made_and_retired(pair):
    collector, _, _ = pair
    env = {"KEYVEIL_URL": collector.url, "KEYVEIL_TOKEN": collector.admin}
    [first] = keyveil("sealing-key", "list", **env).stdout.splitlines()
    made = keyveil("sealing-key", "create", **env).stdout.splitlines()
    assert len(made) == 2
    assert made[1] == first
    assert keyveil("sealing-key", "retire", first.split()[0], **env).returncode == 0
    assert keyveil("sealing-key", "list", **env).stdout.splitlines() == made[:1]
    refused = keyveil("sealing-key", "retire", made[0].split()[0], **env)
    assert (refused.returncode, "key-in-use" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "--to"),
        (("--to", "ftp://example.org"), "https is required"),
        (("--to", "http://example.org"), "https is required"),
        (("--to", "https://example.org", "--store", "postgresql://host/db"), "sqlite:///FILE"),
        (("--to", "https://example.org", "--refresh", "0"), "--refresh"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(tmp_path, options, said):
    store = () if "--store" in options else ("--store", f"sqlite:///{tmp_path}/r.db")
    shown = keyveil("relay", "--port", 0, *store, *options)
    assert shown.returncode == 2, shown
    assert said in shown.stderr
    assert "Traceback" not in shown.stderr
