"""kill -9 at any moment under senders that retry: every acknowledged report is counted, and counted once.

In a glass campaign every report owns a bucket (`sending`), so that nothing can hide in a sum.
"""

import http.client
import json
import random
import threading
import time

import pytest
from collecting import answers, make_question
from sending import Senders, check, hear, refill
from serving import Process

from keyveil.protocols import replay
from keyveil.report import to_frames
from keyveil.tally import Tally


@pytest.mark.parametrize(
    ("kills", "least"),
    [(5, 1000), pytest.param(100, 150_000, marks=[pytest.mark.nightly, pytest.mark.timeout(3600)])],
)
def test_killing_the_collector_loses_and_doubles_nothing(tmp_path, kills, least):
    url, rng = f"sqlite:///{tmp_path}/c.db", random.Random(kills)
    server = Process(url)
    senders = Senders([server.port], kills)
    refill(server, senders)
    senders.start()
    for _ in range(kills):
        refill(server, senders)
        time.sleep(rng.uniform(0.05, 1.5 if kills > 5 else 0.6))
        server.kill()
        server = Process(url, port=server.port, admin=server.admin)
    hear(least, server, senders)
    senders.stop()
    acknowledged, lost, doubled = check(server, senders)
    print(
        f"\n{kills} kills: {acknowledged} acknowledged, {lost} lost, {doubled} doubled, "
        f"{senders.replays} replayed"
    )
    server.stop()
    assert (lost, doubled) == (0, 0)


@pytest.mark.parametrize(
    ("kills", "of_database", "least"),
    [(3, 1, 500), pytest.param(50, 10, 50_000, marks=[pytest.mark.nightly, pytest.mark.timeout(3600)])],
)
def test_killing_collectors_and_the_database_loses_and_doubles_nothing(database, kills, of_database, least):
    url, rng = database.fresh(), random.Random(kills)
    first = Process(url)
    servers = [first, Process(url, admin=first.admin)]
    senders = Senders([server.port for server in servers], kills)
    refill(first, senders)
    senders.start()
    every = kills // of_database
    for step in range(kills):
        refill(servers[(step + 1) % 2], senders)
        time.sleep(rng.uniform(0.05, 1.5 if kills > 5 else 0.6))
        if step % every == every - 1:
            database.kill()
            time.sleep(rng.uniform(0, 0.3))
            database.start()
            wait_ready(servers)
        else:
            victim = step % 2
            servers[victim].kill()
            servers[victim] = Process(url, port=servers[victim].port, admin=first.admin)
    hear(least, servers[0], senders)
    senders.stop()
    acknowledged, lost, doubled = check(servers[0], senders)
    print(
        f"\n{kills} kills, {of_database} of the database: {acknowledged} acknowledged, {lost} lost, "
        f"{doubled} doubled, {senders.replays} replayed, {senders.refused} asked to wait"
    )
    for server in servers:
        server.stop()
    assert (lost, doubled) == (0, 0)


def wait_ready(servers):
    for server in servers:
        for _ in range(200):
            if server.ask("GET", "/readyz")[0] == 200:
                break
            time.sleep(0.05)


def test_sigterm_under_load_ends_soon_and_loses_nothing(tmp_path):
    url = f"sqlite:///{tmp_path}/c.db"
    server = Process(url)
    senders = Senders([server.port], 1)
    refill(server, senders)
    senders.start()
    hear(100, server, senders)
    seconds = server.stop()
    assert seconds < 10
    assert server.child.returncode == 0
    again = Process(url, port=server.port, admin=server.admin)
    time.sleep(0.3)
    senders.stop()
    acknowledged, lost, doubled = check(again, senders)
    again.stop()
    print(f"\nstopped in {seconds:.2f} s: {acknowledged} acknowledged, {lost} lost, {doubled} doubled")
    assert (lost, doubled) == (0, 0)
    assert acknowledged >= 100


# --- between two rounds ---


def described(process, campaign, *, patience=30):
    """What the collector says of a campaign, once it is between no rounds."""
    ends = time.monotonic() + patience
    while time.monotonic() < ends:
        said = json.loads(process.ask("GET", f"/v1/campaigns/{campaign.id}")[1])
        if said["round"] is not None or said["state"] != "open":
            return said
        time.sleep(0.05)
    raise AssertionError("the campaign did not go on")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", [3, pytest.param(30, marks=pytest.mark.nightly)])
def test_a_collector_killed_while_it_closes_rounds_goes_on_as_if_nothing_had_been(tmp_path, kills):
    """SIGKILL at any moment of a close: the round is open, or the next one is; the end is the same."""
    store, rng = f"sqlite:///{tmp_path}/collector.db", random.Random(9)
    campaign = make_question("auto", epsilon=3.0, users=2000)
    process, tallies, dealt = Process(store), [], 0
    token = process.create(campaign)["device_token"]
    while (said := described(process, campaign))["round"] is not None:
        asked = campaign.read_round(said["round"])
        path = f"/v1/campaigns/{campaign.id}"
        status, _ = process.ask(
            "POST", f"{path}/reports", to_frames(answers(campaign, asked, 60)), token=token
        )
        assert status == 200
        counted = json.loads(
            process.ask("GET", f"{path}/rounds/{asked.number}/tally", token=process.admin)[1]
        )
        tallies.append(Tally.from_json(json.dumps(counted)))
        for _ in range(kills // 3 if dealt < kills else 0):
            closing = threading.Thread(
                target=close_quietly, args=(process, f"{path}/rounds/{asked.number}/close")
            )
            closing.start()
            time.sleep(rng.uniform(0.0, 0.12))
            process.kill()
            closing.join()
            dealt += 1
            process = Process(store, admin=process.admin)
            now = described(process, campaign)["round"]
            if now is None or now["number"] != asked.number:
                break
        else:
            status, why = process.ask("POST", f"{path}/rounds/{asked.number}/close", token=process.admin)
            assert status == 200, why
    release = json.loads(process.ask("GET", f"/v1/campaigns/{campaign.id}/release", token=process.admin)[1])
    process.stop()
    outcome = replay(campaign.protocol(), campaign.id, tallies)
    assert release["metadata"]["users"] == outcome.raw.n_reports
    assert [row["frequency_se"] for row in release["rows"]] == pytest.approx(
        outcome.raw.frequency_se.tolist()
    )
    assert dealt >= min(kills, 2)


def close_quietly(process, path):
    """A close whose answer a kill may cut off."""
    try:
        process.ask("POST", path, token=process.admin)
    except (OSError, http.client.HTTPException):
        """Cut off."""
