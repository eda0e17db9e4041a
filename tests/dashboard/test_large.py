"""26,744 keys: what is sent, and how fast it can be used."""

import pytest
from browsing import send, visiting
from collecting import make_question
from serving import Process

from keyveil.client import Reporter

KEYS = 26_744
HEAVIEST = 1_500_000


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    process = Process(f"sqlite:///{tmp_path_factory.mktemp('large')}/large.db")
    process.campaign = make_question(
        "pckv-grr",
        name="films",
        keys=tuple(f"Film number {place}, The ({1900 + place % 120})" for place in range(KEYS)),
        value_range=(0.5, 5.0),
        pairs_per_user=1,
        epsilon=8.0,
    )
    token = process.create(process.campaign)["device_token"]
    device = Reporter(process.campaign)
    people = ({process.campaign.keys[int(40 * (at % 97) ** 2 / 97)]: 1.0 + at % 4} for at in range(6000))
    send(process, process.campaign, [device.report(held) for held in people], token)
    yield process
    process.kill()


def open_results(browser, large):
    """A visit to the results, from an empty cache; milliseconds until keys were shown, and bytes."""
    with visiting(browser, large.url) as visitor:
        page = visitor.page
        page.evaluate("token => sessionStorage.setItem('keyveil-token', token)", large.admin)
        page.goto("about:blank")
        session = visitor.context.new_cdp_session(page)
        session.send("Network.clearBrowserCache")
        page.goto(f"{large.url}/#/c/{large.campaign.id}/results")
        page.wait_for_selector("table.keys tbody tr")
        ready = page.evaluate(
            """() => {
                 const [shown] = performance.getEntriesByName("keys shown");
                 return shown.startTime + shown.duration;
               }"""
        )
        weight = page.evaluate(
            """() => ["navigation", "resource"].flatMap((kind) => performance.getEntriesByType(kind))
                 .reduce((sum, one) => sum + one.transferSize, 0)"""
        )
        yield page, ready, weight


SORT_AND_SEARCH = """() => {
  const took = {};
  const measure = (name, work) => {
    const started = performance.now();
    work();
    document.body.offsetHeight;
    took[name] = performance.now() - started;
  };
  for (const name of ["key", "frequency", "mean", "may", "liars", "rank"]) {
    measure(`sort by ${name}`, () => document.querySelector(`[data-sort="${name}"]`).click());
    measure(`sort back by ${name}`, () => document.querySelector(`[data-sort="${name}"]`).click());
  }
  const field = document.querySelector("#q");
  for (const wanted of ["9", "99", "number 99", "nothing like it", ""]) {
    measure(`search ${wanted}`, () => { field.value = wanted; field.dispatchEvent(new Event("input")); });
  }
  return took;
}"""


def test_a_page_of_26744_keys_is_light_and_complete(browser, large):
    for page, _, weight in open_results(browser, large):
        print(f"{weight} bytes")
        assert weight < HEAVIEST
        assert "26,744 keys; 1 to 50 shown." in page.locator("main").inner_text()
        took = page.evaluate(SORT_AND_SEARCH)
        assert len(took) == 17
        page.fill("#q", "number 26743,")
        assert page.locator("table.keys tbody tr").count() == 1


@pytest.mark.nightly
def test_26744_keys_are_interactive_at_once(browser, large):
    """Of each thing the best of five: a shared machine may be busy, the page is not."""
    loads, best = [], {}
    for _ in range(5):
        for page, ready, _ in open_results(browser, large):
            loads.append(ready)
            for what, took in page.evaluate(SORT_AND_SEARCH).items():
                best[what] = min(took, best.get(what, took))
    slowest = max(best, key=best.get)
    print(f"interactive after {min(loads):.0f} ms; slowest: {slowest}, {best[slowest]:.0f} ms")
    assert min(loads) < 1500
    assert best[slowest] < 100
