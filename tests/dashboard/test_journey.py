"""From a plan to a release, in a real browser: what a product manager does."""

import csv
import io
import json
import threading
import time

from browsing import ask, expect, new_token, send, visiting
from collecting import make_question, say

from keyveil import Campaign
from keyveil.client import Reporter

# The page writes the sign of a number as people print it.
MINUS = "\N{MINUS SIGN}"


def draft(page, *, name, keys, mechanism="pckv-ue"):
    page.fill("#d-name", name)
    page.fill("#d-owner", "tests")
    page.fill("#d-purpose", "see the whole path")
    page.fill("#d-keys", "\n".join(keys))
    page.locator("#d-keys").blur()
    page.wait_for_function("() => document.querySelector('#d-mechanism').options.length > 2")
    page.wait_for_timeout(400)
    page.select_option("#d-mechanism", mechanism)
    page.fill("#d-high", "60")


def test_a_campaign_from_plan_to_release(browser, collector):
    operator = new_token(collector, "operator")
    keys = ["maps", "mail", "chess", "bank"]
    with visiting(browser, collector.url, token=operator) as visitor:
        page = visitor.page
        expect(page.get_by_role("heading", name="No campaign yet")).to_be_visible()
        page.get_by_role("link", name="Plan a campaign").click()
        expect(page.locator(".words li").first).to_contain_text("The error will be about")
        # Solve for another number, and move a slider: the words follow.
        page.get_by_label("solve for People who answer").check()
        expect(page.locator(".words li").first).to_contain_text("It takes")
        before = page.locator(".words li").first.inner_text()
        page.locator("#s-error").focus()
        for _ in range(30):
            page.keyboard.press("ArrowLeft")
        expect(page.locator(".words li").first).not_to_have_text(before)
        assert "solve=users" in page.url
        page.get_by_label("solve for Error").check()
        draft(page, name="from the plan page", keys=keys)
        with page.expect_download() as saved:
            page.get_by_role("button", name="Save the file").click()
        fields = json.loads(saved.value.path().read_text())
        assert Campaign.from_fields(fields).keys == tuple(keys)
        page.select_option("#d-mechanism", "bucket")
        with page.expect_download() as saved:
            page.get_by_role("button", name="Save the file").click()
        # The plan's best for frequencies ties signs: the file carries the dial.
        best = Campaign.from_fields(json.loads(saved.value.path().read_text()))
        assert (best.rho, best.build().rho) == (1.0, 1)
        page.select_option("#d-mechanism", "pckv-ue")
        page.get_by_role("button", name="Create it here").click()
        expect(page.get_by_role("heading", name="Created")).to_be_visible()
        token = page.locator(".made code.long").inner_text()
        page.get_by_role("link", name="Go to from the plan page").click()
        visitor.settled()
        expect(page.get_by_text("No report yet.")).to_be_visible()

        # What was created is what was planned last; the file was saved a moment before.
        made = ask(collector, f"/v1/campaigns/{page.url.rpartition('/')[2]}")
        campaign = Campaign.from_said(json.loads(made["campaign"]))
        assert campaign.keys == tuple(keys)
        counted, sure = page.locator(".tile").nth(0), page.locator(".tile").nth(2)
        sender = threading.Thread(target=report_slowly, args=(collector, campaign, token))
        sender.start()
        seen, wide = set(), []
        while sender.is_alive():
            seen.add(counted.locator("dd.big").inner_text())
            wide.append(sure.locator("dd.big").inner_text())
            page.wait_for_timeout(150)
        sender.join()
        expect(counted.locator("dd.big")).to_have_text("2,000")
        assert len(seen) >= 3, f"progress was not live: {seen}"
        widths = [float(text[1:-2]) for text in wide if text.startswith("±")]
        assert widths == sorted(widths, reverse=True)
        assert widths[0] > widths[-1]
        page.fill("#target", "1")
        expect(page.locator(".tile").nth(3)).to_contain_text("for ±1 %")
        assert "target=1" in page.url

        page.get_by_role("button", name="Close round 1").click()
        page.get_by_role("button", name="Close it").click()
        expect(page.locator(".tile").nth(3)).to_contain_text("done")
        page.get_by_role("link", name="See the results").click()
        visitor.settled()
        shown_equals_exported(visitor, collector, campaign)


def report_slowly(collector, campaign, token):
    device = Reporter(campaign)
    for part in range(8):
        held = {"maps": 40.0} if part % 2 else {"mail": 10.0}
        send(collector, campaign, [device.report(held) for _ in range(250)], token)
        time.sleep(0.8)


def shown_equals_exported(visitor, collector, campaign):
    """Every number of the page's model is the export's, and every cell is that number, rounded."""
    page = visitor.page
    with page.expect_download() as saved:
        page.get_by_role("button", name="CSV").click()
    rows = list(csv.DictReader(io.StringIO(saved.value.path().read_text())))
    model = page.evaluate(
        """async (id) => {
          const { Found } = await import("/assets/found.js");
          const found = await Found.fetch(id, "none");
          return { ...found.columns, low: [...found.low], high: [...found.high] };
        }""",
        campaign.id,
    )
    assert model["key"] == [row["key"] for row in rows]
    columns = ("frequency", "frequency_se", "mean", "mean_se", "mean_low", "mean_high")
    for name in (*columns, "frequency_hostile", "mean_hostile"):
        assert model[name] == [float(row[name]) if row[name] else None for row in rows], name
    assert model["low"] == [float(row["frequency_low"]) for row in rows]
    assert model["high"] == [float(row["frequency_high"]) for row in rows]
    release = ask(collector, f"/v1/campaigns/{campaign.id}/release?post=none")
    assert [row["frequency"] for row in release["rows"]] == model["frequency"]
    for row in rows:
        cells = page.locator("table.keys tbody tr", has=page.get_by_text(row["key"], exact=True))
        text = cells.locator("td").nth(1).inner_text().replace(MINUS, "-").removesuffix(" %")
        digits = len(text.partition(".")[2])
        assert text.removeprefix("-") == f"{abs(100 * float(row['frequency'])):.{digits}f}"
        moved = f"± {100 * float(row['frequency_hostile']):.{digits}f} %"
        assert cells.locator("td").nth(3).inner_text() == moved


def test_two_campaigns_are_compared(browser, collector):
    this, that = (
        make_question("pckv-ue", name=name, keys=("maps", "mail", "chess"), pairs_per_user=1, epsilon=4.0)
        for name in ("this week", "next week")
    )
    for campaign, held in ((this, {"maps": 30.0}), (that, {"mail": 30.0})):
        made = collector.create(campaign)
        device = Reporter(campaign)
        send(collector, campaign, [device.report(held) for _ in range(400)], made["device_token"])
    with visiting(browser, collector.url, token=collector.admin) as visitor:
        page = visitor.go(f"/c/{this.id}/compare")
        expect(page.get_by_text("Choose the campaign to compare with.")).to_be_visible()
        page.select_option("#with", that.id)
        expect(page.get_by_text("of 3 keys differ.")).to_be_visible()
        rows = {row.split("\t")[0]: row for row in page.locator("table.keys tbody").inner_text().splitlines()}
        assert "fewer" in rows["maps"]
        assert "more" in rows["mail"]
        link = page.url
        page.select_option("#only", "differ")
        expect(page.locator("table.keys tbody tr", has_text="maps")).to_be_visible()
        # The address leads back to the same view.
        page.goto(link)
        visitor.settled()
        expect(page.get_by_text("of 3 keys differ.")).to_be_visible()
        expect(page.locator("#with")).to_have_value(that.id)


def test_results_can_be_searched_sorted_filtered_and_linked_to(browser, furnished):
    campaign = furnished.campaigns["closed"]
    with visiting(browser, furnished.url, token=furnished.admin) as visitor:
        page = visitor.go(f"/c/{campaign.id}/results")
        rows = page.locator("table.keys tbody tr")
        expect(rows).to_have_count(10)
        expect(rows.first).to_contain_text("key a")
        expect(page.locator("table.keys tbody tr.noise").first).to_be_visible()
        page.fill("#q", "key c")
        expect(rows).to_have_count(1)
        page.fill("#q", "")
        page.get_by_role("button", name="Key", exact=True).click()
        page.get_by_role("button", name="Key", exact=True).click()
        expect(rows.first).to_contain_text("key j")
        clear = page.evaluate(
            """async (id) => {
              const found = await (await import("/assets/found.js")).Found.fetch(id, "none");
              return [...found.order].filter((code) => !found.isNoise(code)).length;
            }""",
            campaign.id,
        )
        page.select_option("#which", "clear")
        expect(rows).to_have_count(clear)
        page.select_option("#which", "all")
        page.fill("#top", "3")
        expect(rows).to_have_count(3)
        link = page.url
        assert "sort=key" in link
        assert "top=3" in link
        page.reload()
        visitor.settled()
        expect(rows).to_have_count(3)
        expect(page.locator("th[aria-sort=descending]")).to_contain_text("Key")
        page.select_option("#post", "clip")
        page.wait_for_function("() => location.hash.includes('post=clip')")
        visitor.settled()
        assert MINUS not in page.locator("table.keys tbody tr td:nth-child(3)").first.inner_text()
        page = visitor.go(f"/c/{furnished.campaigns['values'].id}/results")
        expect(page.get_by_role("heading", name="How values are spread")).to_be_visible()
        assert page.locator(".multiples svg").count() >= 1


def test_what_liars_could_do_is_shown_as_the_collector_says(browser, furnished):
    campaign = furnished.campaigns["closed"]
    with visiting(browser, furnished.url, token=furnished.admin) as visitor:
        page = visitor.go(f"/c/{campaign.id}/health?liars=5")
        table = page.locator("[aria-label='What liars could do'] tbody")
        said = ask(furnished, f"/v1/campaigns/{campaign.id}/hostile?per_mille=50")
        for row, place in zip(table.locator("tr").all(), range(10), strict=True):
            cells = [text.replace(MINUS, "-") for text in row.locator("th, td").all_inner_texts()]
            assert cells[0] == campaign.keys[said["codes"][place]]
            for cell, unit, what in ((3, 100, "frequency"), (6, 1, "mean")):
                shown = [text.removesuffix(" %") for text in cells[cell].split(" to ")]
                for text, end in zip(shown, ("low", "high"), strict=True):
                    digits = len(text.partition(".")[2])
                    assert float(text) == round(unit * said[f"{what}_{end}"][place], digits)
        before = table.inner_text()
        page.locator("#share").fill("10")
        expect(table).not_to_have_text(before)
        assert "liars=10" in page.url


def test_the_noise_is_tested_when_somebody_asks(browser, collector):
    campaign = make_question("kvue", keys=tuple(f"<b>{i}" for i in range(8)))
    token = collector.create(campaign)["device_token"]
    device = Reporter(campaign)

    def press(visitor):
        page = visitor.go(f"/c/{campaign.id}/health")
        page.get_by_role("button", name="Test the reports").click()
        return page

    with visiting(browser, collector.url, token=collector.admin) as visitor:
        expect(press(visitor).get_by_text("0 reports are too few to tell.")).to_be_visible()
        send(collector, campaign, [device.report({}) for _ in range(1500)], token)
        expect(press(visitor).get_by_text("No attack that can be seen.")).to_be_visible()
        send(collector, campaign, [say(campaign, 3 * 5 + 1) for _ in range(500)], token)
        page = press(visitor)
        expect(page.get_by_text("This is not honest noise.")).to_be_visible()
        expect(page.locator(".trouble")).to_contain_text(
            "2,000 reports, 5 tests; honest devices look as odd never"
        )
        expect(page.locator(".trouble bdi")).to_have_text("<b>5")


def test_the_normal_law_of_the_page_is_pythons(browser, furnished):
    from statistics import NormalDist

    with visiting(browser, furnished.url) as visitor:
        for p in (1e-9, 1e-4, 0.02, 0.3, 0.5, 0.8, 0.975, 0.999999):
            found = visitor.page.evaluate(
                "async (p) => (await import('/assets/format.js')).normalQuantile(p)", p
            )
            assert abs(found - NormalDist().inv_cdf(p)) < 1e-7
