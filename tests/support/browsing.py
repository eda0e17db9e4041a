"""A real browser at the dashboard, and what must never happen in it."""

import json
import shutil
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from parts import lacking
from playwright.sync_api import expect, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
AXE = Path(__file__).parent.parent / "dashboard" / "axe" / "axe.min.js"
# Set before any script of the page: what breaks its policy, and what a hostile name would call.
WATCH = """
  window.__violations = [];
  window.__ran = [];
  addEventListener("securitypolicyviolation", (event) =>
    window.__violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
  window.alert = window.hostile = (what) => window.__ran.push(String(what));
"""
# Milliseconds: long, because a busy machine is no fault; what works does not wait.
_PATIENCE = 30_000
expect.set_options(timeout=_PATIENCE)
# Everything drawn inside figures and tables that says a number; gridlines and frames say none.
MARKS = ".mark .reach, .mark .point, svg.plot rect, svg.plot line, svg.plot circle, svg.plot path"
MEASURE = """([selector]) => {
  const channel = (x) => (x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) =>
    0.2126 * channel(r / 255) + 0.7152 * channel(g / 255) + 0.0722 * channel(b / 255);
  const read = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const [r, g, b, alpha = 1] = read(getComputedStyle(at).backgroundColor);
      if (alpha > 0) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const faults = [];
  let measured = 0;
  for (const mark of document.querySelectorAll(selector)) {
    const box = mark.getBBox();
    if (mark.closest("[data-part*=grid], [data-part*=axis]") || box.width + box.height === 0) continue;
    if (mark.tagName === "rect" && box.width * box.height === 0) continue;
    const style = getComputedStyle(mark);
    const opacity = (name) => Number(style[name] || 1) * Number(style.opacity || 1);
    const inks = [["fill", "fillOpacity"], ["stroke", "strokeOpacity"]]
      .filter(([name]) => style[name] !== "none")
      .map(([name, how]) => [read(style[name]), opacity(how)]);
    const ground = behind(mark.closest("svg").parentElement);
    const contrast = ([ink, alpha]) => {
      const mixed = ink.slice(0, 3).map((c, at) => alpha * c + (1 - alpha) * ground[at]);
      const [high, low] = [light(mixed), light(ground)].sort((a, b) => b - a);
      return (high + 0.05) / (low + 0.05);
    };
    if (!inks.length) continue;
    measured += 1;
    const best = Math.max(...inks.map(contrast));
    if (best < 3) faults.push([mark.outerHTML.slice(0, 120), best]);
  }
  return [measured, faults];
}"""
# The connection may be lost on purpose; a browser says so on its console.
EXPECTED = ("Failed to load resource", "net::ERR_")


def find_chromium():
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@contextmanager
def launched():
    """Chromium, or a test that says what is missing."""
    program = find_chromium()
    if program is None:
        lacking("no Chromium; see scripts/find_chromium.sh")
    with sync_playwright() as playwright:
        # As root there is no sandbox; in a container /dev/shm is small.
        made = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield made
        made.close()


class Visitor:
    """One tab, logged in or not; `check` says that nothing went wrong unseen."""

    def __init__(self, browser, url, *, token=None, size=(1280, 900), theme="light"):
        self.url, self.token = url, token
        self.context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=theme, accept_downloads=True
        )
        self.context.set_default_timeout(_PATIENCE)
        self.context.add_init_script(WATCH)
        self.page = self.context.new_page()
        self.faults = []
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.page.on("dialog", self._dialog)
        self.page.on("console", self._console)
        self.page.goto(f"{url}/#token={token}" if token else f"{url}/")
        self.settled()

    def _dialog(self, dialog):
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _console(self, message):
        if message.type == "error" and not any(part in message.text for part in EXPECTED):
            self.faults.append(f"console: {message.text}")

    def go(self, path):
        self.page.evaluate("path => { location.hash = path }", path)
        self.settled()
        return self.page

    def settled(self):
        self.page.wait_for_function("() => document.querySelector('main:not([aria-busy]) h1')")

    def check(self):
        broken = self.page.evaluate("[...window.__violations, ...window.__ran]") + self.faults
        assert not broken, broken[:5]

    def fits(self, where=""):
        """Nothing is wider than the window; wide tables scroll inside their own box."""
        wide, window = self.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide <= window, f"{where}: {wide} wide in a window of {window}"

    def serious_faults(self):
        """What axe-core finds that keeps people out."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found = self.page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        return [
            (fault["id"], fault["impact"], [node["target"] for node in fault["nodes"]][:3])
            for fault in found["violations"]
            if fault["impact"] in ("serious", "critical")
        ]

    def marks(self):
        """How many marks were measured, and those that stand out by less than 3 to 1."""
        return self.page.evaluate(MEASURE, [MARKS])

    def text(self):
        return self.page.locator("main").inner_text()

    def close(self):
        self.context.close()


@contextmanager
def visiting(browser, url, **options):
    """A visitor whose visit went well to its end."""
    visitor = Visitor(browser, url, **options)
    try:
        yield visitor
        visitor.check()
    finally:
        visitor.close()


def ask(process, path, token=None):
    """JSON from the collector."""
    request = urllib.request.Request(process.url + path)
    request.add_header("Authorization", f"Bearer {token or process.admin}")
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def send(process, campaign, reports, token):
    """Upload reports as a device does; all must be accepted."""
    from keyveil.client import transport

    url = f"{process.url}/v1/campaigns/{campaign.id}/reports"
    exchange = transport.exchange if token is None else transport.with_token(token)
    for start in range(0, len(reports), 2000):
        assert all(transport.send(url, reports[start : start + 2000], timeout=30, exchange=exchange).counts)


def new_token(process, role, campaign=None):
    path = "/v1/tokens" if campaign is None else f"/v1/campaigns/{campaign.id}/tokens"
    status, said = process.ask("POST", path, {"role": role}, token=process.admin)
    assert status == 201, said
    return json.loads(said)["token"]


def close_round(process, campaign, number=1):
    status, said = process.ask(
        "POST", f"/v1/campaigns/{campaign.id}/rounds/{number}/close", token=process.admin
    )
    assert status == 200, said


__all__ = ["Visitor", "ask", "close_round", "expect", "launched", "new_token", "send", "visiting"]
