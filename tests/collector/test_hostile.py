"""Bodies, names and requests that mean no good: refused in words, nothing counted, never a fault."""

import json
import random
import re
import socket
import time

import pytest
from collecting import Caller, fast_folder, make_question, make_reports
from hostile_bodies import mutated
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from requests import Request
from serving import Process

from keyveil.collector.http.endpoints import ENDPOINTS
from keyveil.collector.http.openapi import document
from keyveil.report import to_frames

NAMES = (
    "=1+1",
    "@SUM(A1)",
    "-2",
    "+3",
    "\tx",
    "\rx",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'; drop table reports; --",
    "../../etc/passwd",
    "\x00",
    "\x1b[2J",
    "\u202egnp.exe",
    "{{7*7}}",
    "%s%n",
    "a,b\nc",
    "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
    "x" * 5000,
)


@pytest.fixture
def quick(tmp_path):
    import shutil

    folder = fast_folder(tmp_path)
    caller = Caller(f"sqlite:///{folder}/c.db")
    yield caller
    caller.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("count", [10_000])
def test_malformed_bodies_are_no_fault_and_count_nothing(quick, count):
    campaign = make_question("privkv", pairs_per_user=1)
    token = quick.create(campaign)["device_token"]
    rng = random.Random(7)
    path = f"/v1/campaigns/{campaign.id}/reports"
    sent = make_reports(campaign, 5)
    assert quick.send(campaign, sent, token=token) == ["accepted"] * 5
    plain = to_frames(sent)
    text = json.dumps(
        {"reports": ["aGk=", {"version": 1, "campaign": campaign.tag.hex(), "round": 1}]}
    ).encode()
    accepted = 0
    for step in range(count):
        kind = "application/json" if step % 4 == 0 else "application/octet-stream"
        body = (
            rng.randbytes(rng.randrange(200))
            if step % 10 == 1
            else mutated(rng, text if step % 4 == 0 else plain)
        )
        headers = [("content-type", kind)]
        if step % 17 == 0:
            headers.append(("content-encoding", rng.choice(["gzip", "deflate", "identity", "br"])))
        answer = quick("POST", path, body, token=token, headers=headers)
        assert answer.status in (200, 400, 413, 415), answer
        if answer.status == 200:
            # A flipped bit of an id makes a new report, which is one; everything else is refused.
            accepted += answer.json["reports"].count("accepted")
        else:
            assert answer.headers["content-type"] == "application/problem+json"
            assert set(answer.json) == {"type", "title", "status", "code", "detail", "meaning", "remedy"}
    assert quick.collector.readout.tally(campaign.id, 1).n_reports == 5 + accepted
    assert quick.collector.reports.recount(campaign.id, 1).agrees


def test_a_body_of_300_mb_is_refused_before_1_mb_is_read(tmp_path):
    server = Process(f"sqlite:///{tmp_path}/c.db")
    campaign = make_question()
    token = server.create(campaign)["device_token"]
    head = (
        f"POST /v1/campaigns/{campaign.id}/reports HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
    )
    for length in (f"Content-Length: {300 << 20}\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n"):
        with socket.socket() as client:
            # Small buffers, so that what was sent is nearly what was read.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
            client.settimeout(10)
            client.connect(("127.0.0.1", server.port))
            client.sendall((head + length).encode())
            if "chunked" in length:
                client.sendall(b"%x\r\n" % (300 << 20))
            sent, answer = 0, b""
            client.setblocking(False)
            ends = time.monotonic() + 10
            while time.monotonic() < ends and sent < 300 << 20:
                try:
                    sent += client.send(bytes(1 << 16))
                except BlockingIOError:
                    time.sleep(0.01)
                except OSError:
                    break
                try:
                    part = client.recv(1 << 16)
                    answer += part
                    if b"too-large" in answer or not part:
                        break
                except BlockingIOError:
                    pass
                except OSError:
                    break
            if "chunked" in length:
                # Nothing was claimed: what was sent is half a megabyte that was read, and buffers on the way.
                assert sent < 8 << 20
            else:
                assert sent < 4 << 20, sent
                assert b"413" in answer.split(b"\r\n")[0]
    with open(f"/proc/{server.child.pid}/status") as status:
        assert int(status.read().split("VmHWM:")[1].split()[0]) < 400 << 10
    assert server.ask("GET", "/healthz")[0] == 200
    server.stop()


def test_claimed_bodies_are_not_read_at_all(quick):
    """Where the length is claimed, not one byte of the body is taken from the server."""
    campaign = make_question()
    token = quick.create(campaign)["device_token"]
    reads = []

    async def ask():
        async def receive():
            reads.append(1)
            return {"type": "http.request", "body": bytes(1 << 16), "more_body": True}

        said = []

        async def send(message):
            said.append(message)

        headers = [
            (b"authorization", f"Bearer {token}".encode()),
            (b"content-length", str(300 << 20).encode()),
        ]
        scope = {
            "type": "http",
            "method": "POST",
            "path": f"/v1/campaigns/{campaign.id}/reports",
            "query_string": b"",
            "headers": headers,
        }
        await quick.app(scope, receive, send)
        return said[0]["status"]

    assert quick.loop.run_until_complete(ask()) == 413
    assert reads == []


def test_a_body_of_no_claimed_length_is_refused_before_a_megabyte_is_read(quick):
    campaign = make_question()
    token = quick.create(campaign)["device_token"]
    read, said = [], []

    async def receive():
        read.append(1 << 16)
        return {"type": "http.request", "body": bytes(1 << 16), "more_body": True}

    async def send(message):
        said.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": f"/v1/campaigns/{campaign.id}/reports",
        "query_string": b"",
        "headers": [(b"authorization", f"Bearer {token}".encode()), (b"transfer-encoding", b"chunked")],
    }
    quick.loop.run_until_complete(quick.app(scope, receive, send))
    assert said[0]["status"] == 413
    assert sum(read) < 10**6
    assert b"without Content-Length" in said[1]["body"]


def test_hostile_names_are_text_everywhere(quick):
    campaign = make_question(
        "privkv", keys=NAMES, pairs_per_user=1, name=NAMES[6], owner=NAMES[7], purpose=NAMES[8]
    )
    token = quick.create(campaign)["device_token"]
    assert quick.send(campaign, make_reports(campaign, 10), token=token) == ["accepted"] * 10
    view = quick("GET", f"/v1/campaigns/{campaign.id}")
    assert json.loads(view.json["campaign"])["keys"] == list(NAMES)
    assert view.headers["content-type"] == "application/json"
    release = f"/v1/campaigns/{campaign.id}/release"
    rows = quick("GET", release, token=quick.admin).json["rows"]
    assert [row["key"] for row in rows] == list(NAMES)
    import csv
    import io

    text = quick("GET", f"{release}?format=csv", token=quick.admin).body.decode()
    keys = [row["key"] for row in csv.DictReader(io.StringIO(text, newline=""))]
    for key, name in zip(keys, NAMES, strict=True):
        assert not key.startswith(("=", "+", "-", "@", "\t", "\r"))
        assert key in (name, f"'{name}")
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(quick("GET", f"{release}?format=parquet", token=quick.admin).body))
    assert table.column("key").to_pylist() == list(NAMES)
    for page in ("/docs", "/errors"):
        answer = quick("GET", page)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert b"<script" not in answer.body
        assert b"http://" not in answer.body
        assert b"https://" not in answer.body


def test_text_that_is_none_is_refused(quick):
    fields = json.loads(make_question().canonical_json)
    for field, value in (
        ("name", "\ud800"),
        ("keys", ["\udfff"]),
        ("epsilon", 1e999),
        ("keys", [1, 2]),
        ("pairs_per_user", 10**30),
        ("bins", -1),
        ("value_range", [0, 1e308, 2]),
        ("rounds", True),
        ("expires", "next week"),
        ("mechanism", "privkv'; --"),
        ("extra", 1),
    ):
        answer = quick("POST", "/v1/campaigns", token=quick.admin, json_body={**fields, field: value})
        assert answer.status in (400, 422), (field, answer)
    for label in ("a\nb", "\x00", "x" * 300, 5, None):
        answer = quick(
            "POST", "/v1/campaigns", token=quick.admin, json_body={"campaign": fields, "label": label}
        )
        assert answer.status == 400, label
    deep = b"[" * 100_000
    answer = quick(
        "POST", "/v1/campaigns", deep, token=quick.admin, headers=[("content-type", "application/json")]
    )
    assert answer.status == 400
    assert quick("GET", "/v1/campaigns", token=quick.admin).json == {"campaigns": []}


@pytest.mark.parametrize(
    "examples", [12, pytest.param(300, marks=[pytest.mark.nightly, pytest.mark.timeout(3600)])]
)
def test_schemathesis_finds_no_fault(quick, examples):
    import schemathesis

    schema = schemathesis.openapi.from_dict(document(ENDPOINTS))
    campaign = make_question()
    quick.create(campaign)
    statuses = set()

    for result in schema.get_all_operations():
        _ask_at_random(quick, campaign, result.ok(), examples, statuses)
    assert {200, 401} <= statuses
    assert quick.collector.readout.tally(campaign.id, 1).n_reports == 0


def _ask_at_random(caller, campaign, operation, examples, statuses):
    import schemathesis

    modes = schemathesis.GenerationMode

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def ask(data):
        mode = data.draw(st.sampled_from([modes.POSITIVE, modes.NEGATIVE]))
        case = data.draw(operation.as_strategy(generation_mode=mode))
        said = case.as_transport_kwargs(base_url="http://x")
        prepared = Request(
            said["method"],
            said["url"],
            params=said.get("params"),
            headers={str(k): str(v) for k, v in (said.get("headers") or {}).items() if str(v).isprintable()},
            json=said.get("json"),
            data=said.get("data"),
        ).prepare()
        path = prepared.path_url
        if data.draw(st.booleans()):
            # Half of the requests reach a campaign that exists.
            path = re.sub(r"/v1/campaigns/[^/?]+", f"/v1/campaigns/{campaign.id}", path)
        headers = [
            (name.lower(), value)
            for name, value in prepared.headers.items()
            if name.lower() not in ("authorization", "content-length") and value.isascii()
        ]
        body = prepared.body or b""
        answer = caller(
            prepared.method,
            path,
            body.encode() if isinstance(body, str) else body,
            token=caller.admin if data.draw(st.booleans()) else None,
            headers=headers,
        )
        statuses.add(answer.status)
        assert answer.status < 500, answer
        if answer.status >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
        documented = operation.definition.raw["responses"]
        assert str(answer.status) in documented or answer.status in (404, 405), (answer, operation.path)

    ask()
