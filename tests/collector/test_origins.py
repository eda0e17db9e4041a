"""Pages of other origins: those that were named may be devices, and nothing else; by default none may."""

import json
import socket

import pytest
from click.testing import CliRunner
from collecting import Caller, make_question, make_reports, make_series
from serving import Process

from keyveil.cli.app import keyveil
from keyveil.collector.http.endpoints import ENDPOINTS
from keyveil.collector.http.intake import FRUITLESS
from keyveil.collector.http.origins import CrossOrigin
from keyveil.collector.settings import read_origin
from keyveil.report import to_frames

PAGE, STRANGER = "https://app.example", "https://evil.example"
ALLOW, VARY = "access-control-allow-origin", "vary"
ROUTES = {
    ("GET", "/v1/campaigns/{campaign}"),
    ("POST", "/v1/campaigns/{campaign}/ids"),
    ("POST", "/v1/campaigns/{campaign}/reports"),
    ("GET", "/v1/keys"),
    ("GET", "/v1/series/{series}"),
}


def preflight(method, origin=PAGE):
    return [
        ("origin", origin),
        ("access-control-request-method", method),
        ("access-control-request-headers", "authorization,content-type"),
    ]


@pytest.fixture(scope="module")
def caller(tmp_path_factory):
    caller = Caller(f"sqlite:///{tmp_path_factory.mktemp('origins')}/c.db")
    caller.campaign = make_question(ids="issued")
    caller.series = make_series(waves=100)
    body = json.dumps({"campaign": json.loads(caller.series.canonical_json)}).encode()
    assert caller("POST", "/v1/series", body, token=caller.admin).status == 201
    caller.token = caller.create(caller.campaign)["device_token"]
    yield caller
    caller.close()


@pytest.fixture
def opened(caller, monkeypatch):
    """The same collector, for whatever origins."""

    def open_to(*origins):
        plain = caller.app if not isinstance(caller.app, CrossOrigin) else caller.app._application
        monkeypatch.setattr(caller, "app", CrossOrigin(plain, ENDPOINTS, origins))
        return caller

    return open_to


def path_of(caller, route):
    return route.replace("{campaign}", caller.campaign.id).replace("{series}", caller.series.id)


def test_only_what_devices_ask_for_is_for_pages():
    assert {(endpoint.method, endpoint.path) for endpoint in ENDPOINTS if endpoint.is_for_pages} == ROUTES


@pytest.mark.parametrize(("method", "route"), sorted(ROUTES))
def test_a_preflight_of_a_named_origin_is_answered(opened, method, route):
    caller = opened(PAGE, "https://other.example")
    answer = caller("OPTIONS", path_of(caller, route), headers=preflight(method))
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers == {
        ALLOW: PAGE,
        VARY: "Origin",
        "access-control-expose-headers": "Retry-After",
        "access-control-allow-methods": method,
        "access-control-allow-headers": "Authorization, Content-Type",
        "access-control-max-age": "7200",
    }


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: f"{endpoint.method} {endpoint.path}")
def test_no_other_route_speaks_to_pages(opened, endpoint):
    caller = opened(PAGE)
    path = path_of(caller, endpoint.path).replace("{round}", "1").replace("{token}", "0" * 16)
    path = path.replace("{key}", "0" * 16).replace("{annotation}", "1")
    asked = caller(endpoint.method, path, headers=[("origin", PAGE)])
    first = caller("OPTIONS", path, headers=preflight(endpoint.method))
    assert (ALLOW in asked.headers) == endpoint.is_for_pages
    # The address of a campaign is asked for by GET, whatever else a table says of it.
    assert (first.status == 204) == any(path_of(caller, route) == path for _, route in ROUTES)


def test_strangers_hear_what_they_heard_before(opened):
    caller = opened(PAGE)
    path = path_of(caller, "/v1/campaigns/{campaign}")
    answer = caller("OPTIONS", path, headers=preflight("GET", STRANGER))
    assert (answer.status, answer.code) == (405, "wrong-method")
    for origin in (STRANGER, "null", f"{PAGE}.evil.example", PAGE.upper(), ""):
        asked = caller("GET", path, headers=[("origin", origin)])
        assert asked.status == 200
        assert ALLOW not in asked.headers
        # What a cache keeps for one page is not another's.
        assert asked.headers[VARY] == "Origin"
    assert caller("OPTIONS", path, headers=[("origin", PAGE)]).status == 405


def test_who_only_ever_asks_first_is_not_listened_to_for_a_while(opened):
    """A preflight names nobody and brings nothing: the server slows down an address that sends many."""
    app, said = opened(PAGE).app, []
    headers = [(name.encode(), value.encode()) for name, value in preflight("GET")]
    scope = {"type": "http", "method": "OPTIONS", "path": "/v1/campaigns/x", "headers": headers}

    async def send(message):
        said.append(message.get("status"))

    opened(PAGE).loop.run_until_complete(app(scope, None, send))
    assert said == [204, None]
    assert FRUITLESS in scope


def test_refusals_are_shown_to_the_page(opened):
    caller = opened(PAGE)
    reports, ids = (path_of(caller, f"/v1/campaigns/{{campaign}}/{name}") for name in ("reports", "ids"))
    for path, token, code in (
        (reports, None, "no-token"),
        (reports, caller.admin, "forbidden"),
        (ids, "kv-wrong", "unknown-token"),
        (f"/v1/campaigns/{'0' * 64}", None, "unknown-campaign"),
    ):
        method = "GET" if code == "unknown-campaign" else "POST"
        answer = caller(method, path, token=token, headers=[("origin", PAGE)])
        assert (answer.code, answer.headers[ALLOW]) == (code, PAGE)


def test_a_star_lets_every_page_in(opened):
    caller = opened("*")
    path = path_of(caller, "/v1/campaigns/{campaign}")
    for origin in (PAGE, STRANGER, "null"):
        assert caller("GET", path, headers=[("origin", origin)]).headers[ALLOW] == "*"
        assert caller("OPTIONS", path, headers=preflight("GET", origin)).headers[ALLOW] == "*"
    # No answer of ours is ever for cookies.
    assert not any("credentials" in name for name in caller("GET", path).headers)


# --- the process: uploads that are answered outside ASGI ---


def heard(collector, campaign, token, *, origin=PAGE, body=None):
    """The status, the headers and the body of an upload's answer, as bytes on a connection."""
    body = to_frames(make_reports(campaign, 1)) if body is None else body
    said = f"POST /v1/campaigns/{campaign.id}/reports HTTP/1.1\r\nHost: x\r\nOrigin: {origin}\r\n"
    said += f"Authorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", collector.port), timeout=10) as line:
        file = line.makefile("rb")
        answers = []
        # The first takes the ASGI route, for its token was not met; the second is answered straight.
        for _ in range(2):
            line.sendall(said.encode() + body)
            status = int(file.readline().split()[1])
            lines = iter(lambda: file.readline().strip().decode(), "")
            headers = {
                name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)
            }
            answers.append((status, headers, json.loads(file.read(int(headers["content-length"])))))
        return answers


@pytest.mark.parametrize("protocol", ["direct", "auto"])
def test_uploads_name_the_origin_on_the_straight_way_too(tmp_path, protocol):
    """Also where uvicorn is another one and every upload goes through ASGI."""
    seen = "import keyveil.collector.http.direct as d; d._SEEN = 'none'; "
    collector = Process(
        f"sqlite:///{tmp_path}/c.db",
        "--allow-origin",
        PAGE,
        "--allow-origin",
        "http://localhost:3000",
        before=seen if protocol == "auto" else "",
    )
    try:
        campaign = make_question()
        token = collector.create(campaign)["device_token"]
        for status, headers, said in heard(collector, campaign, token):
            assert (status, headers[ALLOW], headers[VARY]) == (200, PAGE, "Origin")
            assert headers["access-control-expose-headers"] == "Retry-After"
            assert said["reports"] in (["accepted"], ["duplicate"])
        for status, headers, said in heard(collector, campaign, token, body=b"\xff\xff"):
            assert (status, said["code"], headers[ALLOW]) == (400, "bad-batch", PAGE)
        for status, headers, _ in heard(collector, campaign, token, origin=STRANGER):
            assert (status, ALLOW in headers, headers[VARY]) == (200, False, "Origin")
        assert any("not-direct" in line for line in collector.log) == (protocol == "auto")
    finally:
        collector.kill()


def test_without_the_option_no_answer_says_anything_of_origins(tmp_path):
    collector = Process(f"sqlite:///{tmp_path}/c.db")
    try:
        campaign = make_question()
        token = collector.create(campaign)["device_token"]
        for status, headers, _ in heard(collector, campaign, token):
            assert status == 200
            assert not {ALLOW, VARY} & set(headers)
        status, _ = collector.ask("OPTIONS", f"/v1/campaigns/{campaign.id}", headers=dict(preflight("GET")))
        assert status == 405
    finally:
        collector.kill()


# --- the option ---


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("https://app.example", "https://app.example"),
        ("https://App.Example:443/", "https://app.example"),
        ("http://localhost:3000", "http://localhost:3000"),
        ("http://[::1]:80", "http://[::1]"),
        ("https://xn--mnchen-3ya.example:8443", "https://xn--mnchen-3ya.example:8443"),
        ("*", "*"),
    ],
)
def test_origins_are_written_as_browsers_write_them(text, origin):
    assert read_origin(text) == origin


@pytest.mark.parametrize(
    "text",
    [
        "app.example",
        "https://app.example/page",
        "https://user@app.example",
        "https://*.example",
        "https://münchen.example",
        "https://app.example?x",
        "https://app.example:port",
        "ftp://app.example",
        "file:///page.html",
        "null",
        "https://",
        "",
        "**",
    ],
)
def test_what_is_no_origin_is_a_mistake_of_the_operator(text, tmp_path):
    done = CliRunner().invoke(
        keyveil, ["serve", "--store", f"sqlite:///{tmp_path}/c.db", "--allow-origin", text]
    )
    assert done.exit_code == 2
    assert "expected an origin such as https://app.example" in done.output
    assert not (tmp_path / "c.db").exists()
