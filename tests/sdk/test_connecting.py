"""Both languages believe the same answers of a collector, and give the same codes for all others."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from collecting import make_question
from javascript import FOLDER, run_node

from keyveil.client import Reporter
from keyveil.errors import KeyveilError

CONNECT = f"""
  import {{ Device, MemoryLedger }} from {json.dumps((FOLDER / "node.js").as_uri())};
  const codes = [];
  for (const url of JSON.parse(process.argv[1])[0]) {{
    const options = {{ ledger: new MemoryLedger(), token: "kv-1" }};
    const device = await Device.connect(url, options).catch((refused) => refused);
    codes.push(device instanceof Device ? "done" : device.code);
  }}
  console.log(JSON.stringify(codes));
"""
CAMPAIGN = make_question()
TEXT = CAMPAIGN.canonical_json
ROUND = {**CAMPAIGN.device_config(), "campaign": CAMPAIGN.id}
OTHER = make_question(name="another")
VIEW = {"campaign": TEXT, "round": ROUND, "ids": "own"}


def without(view, name):
    return {key: value for key, value in view.items() if key != name}


# What a collector answers, and what a device makes of it: a view, or a status and a body.
ANSWERS = {
    "as it should be": (VIEW, "done"),
    "the text once more, in the round": ({**VIEW, "round": CAMPAIGN.device_config()}, "done"),
    "more than is known": ({**VIEW, "news": 1}, "done"),
    "no round is open": ({**VIEW, "round": None}, "waiting"),
    "no word of a round": (without(VIEW, "round"), "waiting"),
    "a round that is none": ({**VIEW, "round": 1}, "bad-description"),
    "a list for a round": ({**VIEW, "round": [ROUND]}, "bad-description"),
    "a round with more": ({**VIEW, "round": {**ROUND, "more": 1}}, "bad-description"),
    "a round with less": ({**VIEW, "round": without(ROUND, "keys")}, "bad-description"),
    "a round of tomorrow": ({**VIEW, "round": {**ROUND, "format": "keyveil-round/4"}}, "unknown-version"),
    "an unknown mechanism": (
        {**VIEW, "round": {**ROUND, "mechanism": {"id": "magic", "epsilon": "1"}}},
        "unknown-mechanism",
    ),
    "a round of another campaign": ({**VIEW, "round": {**ROUND, "campaign": OTHER.id}}, "other-campaign"),
    "a round with another's text": ({**VIEW, "round": OTHER.device_config()}, "other-campaign"),
    "another campaign": (
        {"campaign": OTHER.canonical_json, "round": {**OTHER.device_config(), "campaign": OTHER.id}},
        "other-campaign",
    ),
    "another campaign, without a round": (
        {"campaign": OTHER.canonical_json, "round": None},
        "other-campaign",
    ),
    "no campaign": (without(VIEW, "campaign"), "bad-description"),
    "a campaign that is no text": ({**VIEW, "campaign": json.loads(TEXT)}, "bad-description"),
    "a campaign that is no campaign": ({**VIEW, "campaign": "{}"}, "bad-description"),
    "a campaign in other letters": ({**VIEW, "campaign": f" {TEXT}"}, "bad-description"),
    "a list": ([VIEW], "bad-description"),
    "nothing": (None, "bad-description"),
    "no JSON": ((200, b"{"), "bad-description"),
    "too much": ((200, b'"' + b"x" * (4 << 20) + b'"'), "bad-description"),
    "no token": ((401, b"{}"), "token-refused"),
    "another token": ((403, b"{}"), "token-refused"),
    "a fault": ((500, b"{}"), "waiting"),
    "busy": ((503, b"{}"), "waiting"),
    "elsewhere": ((302, b""), "waiting"),
}
NAMES = list(ANSWERS)


class Handler(BaseHTTPRequestHandler):
    """A collector that answers as the first part of the path says."""

    def do_GET(self):
        answer, _ = ANSWERS[NAMES[int(self.path.split("/")[1])]]
        status, body = answer if isinstance(answer, tuple) else (200, json.dumps(answer).encode())
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Location", "/0/v1/campaigns/x")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def addresses():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    yield [f"{base}/{place}/v1/campaigns/{CAMPAIGN.id}" for place in range(len(NAMES))]
    server.shutdown()
    server.server_close()


def connected(url):
    try:
        Reporter.connect(url, token="kv-1")
    except KeyveilError as error:
        return error.code
    return "done"


def test_both_languages_believe_the_same_answers(addresses):
    wanted = {name: code for name, (_, code) in ANSWERS.items()}
    assert dict(zip(NAMES, run_node(CONNECT, addresses), strict=True)) == wanted
    assert {name: connected(url) for name, url in zip(NAMES, addresses, strict=True)} == wanted
