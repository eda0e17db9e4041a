"""A page of one origin reports to a collector of another, in a real browser; unless named, it may not."""

import json
import subprocess
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest
from browsing import ask, expect, launched
from collecting import make_question
from javascript import FOLDER, find_node, find_tool
from relaying import relayed
from serving import Process

# What somebody's page does; the bundle's exports are the page's global `app`.
APP = """
  import { Device } from "keyveil";
  import { seal } from "keyveil/sealed";
  export let device;
  export const through = async (url, relay) => {
    device = await Device.connect(url, { relay: { ...relay, seal } }).catch((error) => error);
    return device.code ?? "connected";
  };
  export const connect = async (url, token) => {
    device = await Device.connect(url, { token }).catch((error) => error);
    return device.code ?? "connected";
  };
  export const report = async (held) => {
    await device.enable();
    const submitted = await device.submit(held);
    return submitted.ok ? device.upload() : submitted;
  };
  export const read = async (url, init) => {
    const answer = await fetch(url, init).catch((error) => error);
    return answer instanceof Error ? answer.name : [answer.status, await answer.json()];
  };
"""
PAGE = '<!doctype html><meta charset="utf-8"><title>app</title><script src="/made/app.cjs"></script>'


class Quiet(SimpleHTTPRequestHandler):
    extensions_map = {".cjs": "text/javascript", ".js": "text/javascript", ".html": "text/html"}  # noqa: RUF012

    def log_message(self, *_):
        pass


class Site(NamedTuple):
    folder: Path
    named: str
    stranger: str


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Somebody's site, under two origins: a page and its bundle, and the modules for one without a build."""
    folder = tmp_path_factory.mktemp("site")
    for name in ("keyveil.js", "src"):
        (folder / name).symlink_to(FOLDER / name)
    (folder / "node_modules").mkdir()
    (folder / "node_modules" / "keyveil").symlink_to(FOLDER)
    (folder / "app.js").write_text(APP, encoding="utf-8")
    (folder / "index.html").write_text(PAGE, encoding="utf-8")
    find_tool("esbuild")
    bundle = [find_node(), str(Path(__file__).parent / "bundle.js"), "esbuild", "page", str(folder)]
    subprocess.run(bundle, check=True, capture_output=True)
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) for _ in range(2)]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Site(folder, *(f"http://localhost:{server.server_port}" for server in servers))
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def browser():
    with launched() as made:
        yield made


@pytest.fixture
def visit(browser):
    """A page of an origin, opened by somebody who was never there before."""
    contexts = []

    def visited(origin, name="index.html"):
        contexts.append(browser.new_context())
        page = contexts[-1].new_page()
        page.goto(f"{origin}/{name}")
        return page

    yield visited
    for context in contexts:
        context.close()


class Question:
    """A campaign of a collector: its address and token, and how many reports it has."""

    def __init__(self, collector, name):
        self.collector, self.campaign = collector, make_question("kvue", ids="issued", name=name)
        self.token = collector.create(self.campaign)["device_token"]
        self.url = f"{collector.url}/v1/campaigns/{self.campaign.id}"
        self.held = {self.campaign.keys[0]: 3}

    def reports(self):
        rounds = ask(self.collector, f"/v1/campaigns/{self.campaign.id}/rounds")["rounds"]
        return rounds[0]["reports"]

    def reports_in_time(self, wanted):
        for _ in range(200):
            if self.reports() == wanted:
                break
            time.sleep(0.05)
        return self.reports()


@pytest.fixture(scope="module")
def collector(site, tmp_path_factory):
    """Open to the first of the two origins."""
    store = f"sqlite:///{tmp_path_factory.mktemp('collector')}/c.db"
    made = Process(store, "--allow-origin", site.named)
    yield made
    made.kill()


def test_a_page_of_another_origin_reports_and_is_counted_once(site, collector, visit):
    """U2: the campaign, an id and the report; each with a token, so that the browser asks first."""
    question = Question(collector, "from elsewhere")
    page = visit(site.named)
    assert (
        page.evaluate("([url, token]) => app.connect(url, token)", [question.url, question.token])
        == "connected"
    )
    sent = page.evaluate("held => app.report(held)", question.held)
    assert sent == {"ok": True, "code": "done", "sent": 1, "refused": []}
    assert question.reports() == 1
    # The ledger is the browser's: another visit says the same once more.
    page.reload()
    page.evaluate("([url, token]) => app.connect(url, token)", [question.url, question.token])
    assert page.evaluate("held => app.report(held)", question.held)["sent"] == 1
    assert question.reports() == 1


def test_a_refusal_is_shown_to_the_page_in_the_collectors_words(site, collector, visit):
    question = Question(collector, "in words")
    page = visit(site.named)
    init = {"method": "POST", "headers": {"authorization": f"Bearer {collector.admin}"}}
    status, said = page.evaluate("([url, init]) => app.read(url, init)", [f"{question.url}/reports", init])
    assert (status, said["code"]) == (403, "forbidden")
    assert said["detail"] == "reports are sent with a device's token"
    # The device tells the same, where its own token is not taken.
    page.evaluate("([url, token]) => app.connect(url, token)", [question.url, "kv-another"])
    refused = page.evaluate("held => app.report(held)", question.held)
    assert (refused["code"], refused["detail"][:4]) == ("no-id", "401:")
    assert "Ask the campaign's operator for another" in refused["detail"]


def test_the_browser_refuses_a_page_that_was_not_named(site, collector, visit):
    question = Question(collector, "not from there")
    page = visit(site.stranger)
    assert (
        page.evaluate("([url, token]) => app.connect(url, token)", [question.url, question.token])
        == "waiting"
    )
    assert page.evaluate("url => app.read(url)", question.url) == "TypeError"
    # Nothing but a device's routes is for pages, whoever they are.
    assert visit(site.named).evaluate("url => app.read(url)", f"{question.url}/privacy") == "TypeError"


def test_without_the_option_the_browser_refuses_every_page(site, visit, tmp_path):
    closed = Process(f"sqlite:///{tmp_path}/c.db")
    try:
        question = Question(closed, "nobody")
        said = []
        page = visit(site.named)
        page.on("console", lambda message: said.append(message.text))
        asked = [question.url, question.token]
        assert page.evaluate("([url, token]) => app.connect(url, token)", asked) == "waiting"
        assert any("CORS policy" in text for text in said), json.dumps(said)
        assert question.reports() == 0
    finally:
        closed.kill()


@pytest.mark.parametrize("way", ["location.href = '/elsewhere'", "window.close()"])
def test_what_waits_leaves_with_the_page(site, collector, visit, way):
    """Without the listener nothing leaves; with it the report is counted after the page is gone."""
    question = Question(collector, f"left by {way}")
    for is_listening, counted in ((False, 0), (True, 1)):
        opener = visit(site.named)
        with opener.context.expect_page() as opened:
            opener.evaluate("() => void window.open('/index.html')")
        page = opened.value
        page.wait_for_function("() => 'app' in window")
        page.evaluate("([url, token]) => app.connect(url, token)", [question.url, question.token])
        leave = "app.device.uploadOnHide();" if is_listening else ""
        page.evaluate(
            f"""held => app.device.enable()
              .then(() => {{ {leave} return app.device.submit(held); }})
              .then(() => {{ {way}; }})""",
            question.held,
        )
        assert question.reports_in_time(counted) == counted


def test_the_page_of_the_documentation_works_as_it_is_written(site, collector, visit):
    """Without a build, on an open campaign; only the address in it is another."""
    campaign = make_question(name="an example", keys=("maps", "mail"))
    collector.create(campaign, uploads="open")
    text = (FOLDER / "example.html").read_text(encoding="utf-8")
    address = "https://collect.example.org/v1/campaigns/ID"
    assert address in text
    text = text.replace(address, f"{collector.url}/v1/campaigns/{campaign.id}")
    (site.folder / "example.html").write_text(text, encoding="utf-8")
    page = visit(site.named, "example.html")
    page.get_by_role("button", name="Done").click()
    expect(page.get_by_role("status")).to_contain_text("Reporting is off until enable() is called")
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Maps").click()
    page.get_by_role("button", name="Done").click()
    expect(page.get_by_role("status")).to_contain_text("True here: maps 1.")
    rounds = ask(collector, f"/v1/campaigns/{campaign.id}/rounds")["rounds"]
    assert [one["reports"] for one in rounds] == [1]


@pytest.fixture(scope="module")
def relay(site, collector, tmp_path_factory):
    """Of the collector, and open to the same origin."""
    _, said = collector.ask("POST", "/v1/tokens", {"role": "relay"}, token=collector.admin)
    token = json.loads(said)["token"]
    options = ("--to", collector.url, "--token", token, "--refresh", "0.2", "--allow-origin", site.named)
    store = f"sqlite:///{tmp_path_factory.mktemp('relay')}/r.db"
    made = Process(store, *options, command="relay")
    yield made
    made.kill()


def key_at(relay):
    """The collector's key, once the relay lists it."""
    for _ in range(200):
        if keys := json.loads(relay.ask("GET", "/v1/keys")[1])["keys"]:
            break
        time.sleep(0.05)
    return keys[0]["public"]


def waiting_at(relay, campaign, wanted):
    """How many sealed reports of a campaign wait at the relay."""
    for _ in range(200):
        rounds = json.loads(relay.ask("GET", "/v1/relay", token=relay.admin)[1])["rounds"]
        found = sum(one["waiting"] for one in rounds if one["campaign"] == campaign.id)
        if found == wanted:
            break
        time.sleep(0.05)
    return found


def test_pages_seal_their_reports_and_the_collector_counts_them(site, collector, relay, visit):
    """By a browser's own X25519. One page asks for keys and uploads; one has the key, and is left."""
    campaign = relayed(make_question, name="sealed by pages", batch=2)
    collector.create(campaign, uploads="open")
    path, held, key = f"/v1/campaigns/{campaign.id}", {campaign.keys[0]: 3}, key_at(relay)
    asking = visit(site.named)
    where = [f"{collector.url}{path}", {"url": relay.url}]
    assert asking.evaluate("([url, relay]) => app.through(url, relay)", where) == "connected"
    sent = asking.evaluate("held => app.report(held)", held)
    assert sent == {"ok": True, "code": "done", "sent": 1, "refused": []}
    assert asking.evaluate("() => app.device.status()")["route"] == "relay"
    assert waiting_at(relay, campaign, 1) == 1

    opener = visit(site.named)
    with opener.context.expect_page() as opened:
        opener.evaluate("() => void window.open('/index.html')")
    page = opened.value
    page.wait_for_function("() => 'app' in window")
    where = [f"{relay.url}{path}", {"url": relay.url, "key": key}]
    assert page.evaluate("([url, relay]) => app.through(url, relay)", where) == "connected"
    page.evaluate(
        """held => app.device.enable()
          .then(() => { app.device.uploadOnHide(); return app.device.submit(held); })
          .then(() => { window.close(); })""",
        held,
    )
    assert waiting_at(relay, campaign, 2) == 2

    # A page that names no relay keeps its report, also when it is left.
    alone = visit(site.named)
    alone.evaluate("url => app.connect(url)", f"{collector.url}{path}")
    assert alone.evaluate("held => app.report(held)", held)["code"] == "relay-required"

    assert relay.ask("POST", f"{path}/rounds/1/end", token=relay.admin)[0] == 200
    for _ in range(200):
        reports = ask(collector, f"{path}/rounds")["rounds"][0]["reports"]
        if reports == 2:
            break
        time.sleep(0.05)
    assert reports == 2
