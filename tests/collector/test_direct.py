"""Small uploads go straight to the writer; what HTTP asks and what is refused stays the same."""

import json
import secrets
import socket
import time
from itertools import pairwise

import pytest
from collecting import Caller, make_question, make_reports
from serving import Process

from keyveil.report import to_frames


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Process(f"sqlite:///{tmp_path_factory.mktemp('direct')}/c.db", "--patience", "1")
    yield server
    server.stop()


@pytest.fixture
def asked(server):
    """A campaign that was met before, and its token."""
    campaign = make_question(name=secrets.token_hex(4))
    token = server.create(campaign)["device_token"]
    with Line(server) as line:
        assert line.ask(upload(campaign, token)) == (200, ["accepted"])
    return campaign, token


class Line:
    """One connection."""

    def __init__(self, server):
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def send(self, *parts):
        for part in parts:
            self.socket.sendall(part)
            if len(parts) > 1:
                time.sleep(0.05)

    def hear(self):
        """The status of an answer, and what it says of reports, or its code."""
        status = int(self.file.readline().split()[1])
        headers = {}
        while (line := self.file.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        said = json.loads(self.file.read(int(headers[b"content-length"])))
        self.headers = headers
        return status, said.get("reports", said.get("code"))

    def ask(self, *parts):
        self.send(*parts)
        return self.hear()


def upload(campaign, token, reports=None, *, head=""):
    body = to_frames(make_reports(campaign, 1) if reports is None else reports)
    said = f"POST {path_of(campaign)} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
    return f"{said}{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def path_of(campaign):
    return f"/v1/campaigns/{campaign.id}/reports"


def waiting_bytes(server):
    _, text = server.ask("GET", "/metrics", token=server.admin)
    return int(text.decode().split("\nkeyveil_waiting_bytes ")[1].split()[0])


def settled(server):
    ends = time.monotonic() + 5
    while waiting_bytes(server) and time.monotonic() < ends:
        time.sleep(0.02)
    return waiting_bytes(server) == 0


def test_a_connection_carries_upload_after_upload(server, asked):
    with Line(server) as line:
        for count in (1, 3, 2):
            reports = make_reports(asked[0], count)
            assert line.ask(upload(*asked, reports)) == (200, ["accepted"] * count)
            assert line.ask(upload(*asked, reports)) == (200, ["duplicate"] * count)
        assert line.ask(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")[0] == 200
        assert line.ask(upload(*asked)) == (200, ["accepted"])
    assert settled(server)


def test_a_body_in_pieces_is_one_upload(server, asked):
    whole = upload(*asked, make_reports(asked[0], 5))
    with Line(server) as line:
        cut = whole.index(b"\r\n\r\n")
        for places in ((cut + 4,), (cut + 20, cut + 60), (10, cut, len(whole) - 1)):
            whole = upload(*asked, make_reports(asked[0], 5))
            ends = [0, *places, len(whole)]
            parts = [whole[low:high] for low, high in pairwise(ends)]
            assert line.ask(*parts) == (200, ["accepted"] * 5)
    assert settled(server)


def test_requests_sent_at_once_are_answered_in_order(server, asked):
    batches = [make_reports(asked[0], count) for count in (1, 2, 3, 4)]
    noop = b"GET /v1/campaigns/none HTTP/1.1\r\nHost: x\r\n\r\n"
    with Line(server) as line:
        requests = [upload(*asked, batch) for batch in batches[:3]]
        line.send(b"".join([*requests[:2], noop, requests[2]]))
        heard = [line.hear() for _ in range(4)]
        assert heard == [
            (200, ["accepted"]),
            (200, ["accepted"] * 2),
            (404, "unknown-campaign"),
            (200, ["accepted"] * 3),
        ]
        assert line.ask(upload(*asked, batches[3])) == (200, ["accepted"] * 4)


def test_refusals_keep_the_connection_and_give_the_room_back(server, asked):
    campaign, token = asked
    with Line(server) as line:
        assert line.ask(upload(campaign, token, [b"short"])) == (200, ["wrong-length"])
        torn = to_frames(make_reports(campaign, 1))[:-1]
        head = upload(campaign, token, []).replace(b"Length: 0", b"Length: %d" % len(torn))
        assert line.ask(head + torn) == (400, "bad-batch")
        assert line.ask(upload(campaign, token[:-2] + "AA")) == (401, "unknown-token")
        foreign = upload(campaign, token, head="Content-Type: text/plain\r\n")
        assert line.ask(foreign) == (415, "unsupported-type")
        assert line.ask(upload(campaign, token)) == (200, ["accepted"])
    assert settled(server)


def test_a_revoked_token_opens_nothing_on_an_open_connection(server, asked):
    campaign, token = asked
    with Line(server) as line:
        assert line.ask(upload(campaign, token)) == (200, ["accepted"])
        path = f"/v1/campaigns/{campaign.id}/tokens/{token.split('-')[1]}"
        assert server.ask("DELETE", path, token=server.admin)[0] == 204
        assert line.ask(upload(campaign, token)) == (401, "unknown-token")


def test_the_same_header_again_is_held_to_the_rate_again(server, asked):
    campaign, _ = asked
    path = f"/v1/campaigns/{campaign.id}/tokens"
    _, made = server.ask("POST", path, {"role": "device", "rate": 2}, token=server.admin)
    token = json.loads(made)["token"]
    with Line(server) as line:
        heard = [line.ask(upload(campaign, token))[0] for _ in range(8)]
    assert heard[:2] == [200, 200]
    assert heard[-1] == 429


def test_a_round_that_is_over_says_so(server, asked):
    campaign, token = asked
    assert server.ask("POST", f"/v1/campaigns/{campaign.id}/rounds/1/close", token=server.admin)[0] == 200
    with Line(server) as line:
        assert line.ask(upload(campaign, token)) == (200, ["round-closed"])


def test_who_asks_to_close_is_answered_and_closed(server, asked):
    with Line(server) as line:
        assert line.ask(upload(*asked, head="Connection: close\r\n")) == (200, ["accepted"])
        assert line.file.read() == b""


def test_a_body_that_never_comes_is_given_up_and_takes_no_room(server, asked):
    whole = upload(*asked, make_reports(asked[0], 3))
    with Line(server) as gone, Line(server) as slow:
        gone.send(whole[:-10])
        slow.send(whole[:-10])
        time.sleep(0.1)
        # Charged for what has come, which is little, and not for long.
        assert 0 < waiting_bytes(server) < 2 * len(whole)
        gone.socket.close()
        assert slow.hear() == (400, "bad-request")
        assert slow.headers[b"connection"] == b"close"
    assert settled(server)
    with Line(server) as line:
        assert line.ask(upload(*asked)) == (200, ["accepted"])


def test_who_hangs_up_after_sending_is_counted_once(server, asked):
    campaign, token = asked
    reports = make_reports(campaign, 4)
    with Line(server) as line:
        line.send(upload(campaign, token, reports))
    assert settled(server)
    with Line(server) as line:
        assert line.ask(upload(campaign, token, reports)) == (200, ["duplicate"] * 4)


def test_what_goes_straight_and_what_does_not(tmp_path):
    caller = Caller(f"sqlite:///{tmp_path}/c.db")
    campaign, other = make_question(), make_question(name="other")
    token, _ = (caller.create(each)["device_token"] for each in (campaign, other))
    url, intake = path_of(campaign).encode(), caller.app.intake

    def admitted(url=url, token=token, **said):
        headers = {"authorization": f"Bearer {token}", "content-length": "90", **said}
        pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        return intake.admit_now(url, pairs, "127.0.0.1", most=1 << 16) is not None

    assert not admitted(), "a token that was never met must be looked up"
    caller.send(campaign, make_reports(campaign, 1), token=token)
    assert admitted()
    assert admitted(content_type="application/octet-stream")
    for unusual in (
        {"content_encoding": "gzip"},
        {"content_type": "application/json"},
        {"content_type": "text/plain"},
        {"content_length": "0"},
        {"content_length": "-5"},
        {"content_length": str(1 << 17)},
        {"token": token[:-2] + "AA"},
        {"url": path_of(other).encode()},
        {"url": url + b"?x=1"},
        {"url": url.replace(b"reports", b"rounds")},
    ):
        assert not admitted(**unusual), unusual
    caller.close()


OTHER_UVICORN = "import uvicorn; uvicorn.__version__ = '0.99.0'; "


def test_another_uvicorn_is_used_as_it_is(tmp_path):
    """The same answers by its own protocol, and a line in the log that says so."""
    server = Process(f"sqlite:///{tmp_path}/c.db", before=OTHER_UVICORN)
    campaign = make_question()
    token = server.create(campaign)["device_token"]
    reports = make_reports(campaign, 3)
    with Line(server) as line:
        assert line.ask(upload(campaign, token, reports)) == (200, ["accepted"] * 3)
        assert line.ask(upload(campaign, token, reports)) == (200, ["duplicate"] * 3)
        assert line.ask(upload(campaign, token[:-2] + "AA")) == (401, "unknown-token")
    server.stop()
    (said,) = [json.loads(line) for line in server.log if "not-direct" in line]
    assert said["why"] == "uvicorn 0.99.0 is installed, 0.54 is known"


@pytest.mark.parametrize(("table", "name"), [("_METHODS", "on_trailer"), ("_FIELDS", "place")])
def test_internals_that_are_gone_are_named(monkeypatch, table, name):
    from keyveil.collector.http import direct

    monkeypatch.setattr(direct, table, (*getattr(direct, table), name))
    assert direct.find_difference() == f"uvicorn's protocol lacks {name}"


@pytest.mark.parametrize(("n_reports", "times"), [(50, 1500), (500, 150)], ids=["direct", "not"])
def test_an_upload_leaves_with_its_answer(server, n_reports, times):
    """Bodies must not wait in memory for the collector of rubbish: here 75 MB would."""
    campaign = make_question(name=secrets.token_hex(4), keys=tuple(f"k{i}" for i in range(4000)))
    token = server.create(campaign)["device_token"]
    request = upload(campaign, token, make_reports(campaign, n_reports))
    with Line(server) as line:
        for _ in range(10):
            line.ask(request)
        before = server.memory()
        for _ in range(times):
            assert line.ask(request)[1][0] == "duplicate"
    assert server.memory() - before < 25 << 20


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
def test_an_upgrade_is_not_an_upload_of_nothing(server, asked, protocol):
    """A21: the fast path answered 200 and no status to an upload whose body it had not read."""
    with Line(server) as line:
        status, said = line.ask(upload(*asked, head=f"Connection: Upgrade\r\nUpgrade: {protocol}\r\n"))
    assert (status, said) == (200, ["accepted"]) or status >= 400, (status, said)


def test_two_authorizations_are_none(server, asked):
    """A21: of two Authorization headers one was believed, and nobody said which."""
    campaign, token = asked
    for more in ("other", token):
        with Line(server) as line:
            answer = line.ask(upload(campaign, token, head=f"Authorization: Bearer {more}\r\n"))
            assert answer == (400, "bad-request")
            line.send(
                f"GET /v1/campaigns HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.admin}\r\n"
                f"Authorization: Bearer {more}\r\n\r\n".encode()
            )
            assert line.hear() == (400, "bad-request")


def test_a_server_in_front_speaks_for_many(server, asked):
    """Who is refused behind it slows nobody else on its connection; whoever comes by themselves is slowed."""
    campaign, token = asked
    bad = upload(campaign, "kv-" + "0" * 16 + "-" + "A" * 43, head="X-Forwarded-For: 10.1.1.1, 10.2.2.2\r\n")
    with Line(server) as line:
        started = time.monotonic()
        for _ in range(400):
            assert line.ask(bad)[0] == 401
        # Alone, the last three hundred would have waited half a second, each.
        assert time.monotonic() - started < 20
        took = []
        for _ in range(5):
            started = time.monotonic()
            assert line.ask(upload(campaign, token)) == (200, ["accepted"])
            took.append(time.monotonic() - started)
        # Slowed, each would have waited half a second; a busy machine delays one or two.
        assert min(took) < 0.3
