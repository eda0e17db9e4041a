"""The demo: a real collector, real devices, and nothing left behind."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

MAIN = "from keyveil.cli import main; main()"
ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/#token=(kv-[\w-]+)")


# Who is started in the background may have been told to ignore it.
INTERRUPTIBLE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE + MAIN, "demo", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def is_listening(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def gone_within(seconds, port):
    ends = time.monotonic() + seconds
    while is_listening(port) and time.monotonic() < ends:
        time.sleep(0.1)
    return not is_listening(port)


def test_the_demo_runs_to_its_end():
    process = start("--users", 1200, "--once", "--port", 0)
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    assert err == ""
    assert "messages" in out
    assert "1,200 devices reported over HTTP" in out
    assert "epsilon = 3" in out
    assert "token" not in out


def test_the_demo_shows_the_table_twice_at_one_central_epsilon():
    process = start("--relay", "--users", 4000, "--once", "--port", 0)
    out, err = process.communicate(timeout=150)
    assert process.returncode == 0, err
    assert err == ""
    assert "Without a relay: the 15 most used of 50 apps" in out
    assert "Through a relay: the 15 most used of 50 apps" in out
    assert "Both tables cost a person epsilon 1 towards the collector" in out
    assert "the smallest: 4,000 reports" in out
    assert int(re.search(r"are (\d+) times shorter", out)[1]) >= 2
    assert "token" not in out


def test_the_demo_leaves_the_dashboard_open_until_it_is_told_to_stop():
    process = start("--users", 300, "--port", 0)
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("Ctrl-C"):
            break
    port, token = ADDRESS.search("".join(lines)).groups()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as page:
        assert b"keyveil" in page.read()
        assert "default-src 'self'" in page.headers["content-security-policy"]
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/campaigns")
    request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request) as answer:
        said = answer.read().decode()
    for name in ("minutes per app", "a week later", "how long", "pieces of fruit"):
        assert name in said
    id = re.search(r"to=/s/([0-9a-f]{64})", "".join(lines))[1]
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/series/{id}/trend")
    request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request) as answer:
        trend = json.load(answer)
    # Devices were asked by the calendar: a wave a week, the last of them now, and none was missed.
    assert [wave["state"] for wave in trend["waves"]] == ["finished"] * 11 + ["open"]
    assert [wave["reports"] > 0 for wave in trend["waves"]] == [True] * 12
    assert [note["text"][:3] for note in trend["annotations"]] == ["2.3"]
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert gone_within(10, int(port))


def test_a_demo_that_is_killed_leaves_no_collector():
    process = start("--users", 100_000, "--port", 0)
    port = int(ADDRESS.search(process.stdout.readline())[1])
    assert is_listening(port)
    process.kill()
    process.communicate(timeout=60)
    assert gone_within(20, port)


def test_a_port_that_is_taken_is_said_in_one_sentence():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        process = start("--users", 10, "--once", "--port", port)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert out == ""
    assert err == f"keyveil: cannot listen on 127.0.0.1:{port}: Address already in use\n"
