"""From a plan to a release, in a real browser: what a product manager does."""

import csv
import io
import json
import threading
import time

from browsing import ask, expect, new_token, send, visiting
from collecting import drawn_tally, make_question, say
from msgspec import to_builtins

from keyveil import Campaign
from keyveil.client import Reporter
from keyveil.dashboard.results import make_results

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
          const { frequency_down: liars_down, frequency_up: liars_up } = found.hostile;
          return { ...found.columns, low: [...found.low], high: [...found.high], liars_down, liars_up };
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
        down, up = (model[f"liars_{way}"][model["key"].index(row["key"])] for way in ("down", "up"))
        # Both ways, which are not alike; the export has the larger.
        assert max(down, up) == float(row["frequency_hostile"])
        moved = f"{MINUS}{100 * down:.{digits}f} / +{100 * up:.{digits}f}"
        assert cells.locator("td").nth(3).inner_text() == moved


def test_two_campaigns_are_compared(browser, collector):
    older, newer = (
        make_question("pckv-ue", name=name, keys=("maps", "mail", "chess"), pairs_per_user=1, epsilon=4.0)
        for name in ("last week", "this week")
    )
    for campaign, held in ((older, {"maps": 30.0}), (newer, {"mail": 30.0})):
        made = collector.create(campaign)
        device = Reporter(campaign)
        send(collector, campaign, [device.report(held) for _ in range(400)], made["device_token"])
    with visiting(browser, collector.url, token=collector.admin) as visitor:
        page = visitor.go(f"/c/{newer.id}/compare")
        expect(page.get_by_text("Choose the campaign to compare with.")).to_be_visible()
        seen = []
        # Whichever page asks, a change is the newer campaign less the older one.
        for here, there in ((newer, older), (older, newer)):
            visitor.go(f"/c/{here.id}/compare")
            page.select_option("#with", there.id)
            expect(page.get_by_text("of 3 keys differ.")).to_be_visible()
            rows = {
                row.split("\t")[0]: row for row in page.locator("table.keys tbody").inner_text().splitlines()
            }
            assert "fewer" in rows["maps"]
            assert MINUS in rows["maps"].split("\t")[3]
            assert "more" in rows["mail"]
            assert rows["mail"].split("\t")[3].startswith("+")
            heads = page.locator("table.keys thead th").all_inner_texts()
            assert heads[1].startswith("last week, ")
            assert heads[2].startswith("this week, ")
            answer = page.locator(".answer").inner_text()
            assert answer.index("last week") < answer.index("\u2192") < answer.index("this week")
            assert f"maps {MINUS}" in answer
            assert "mail +" in answer
            seen.append((answer, rows))
        assert seen[0] == seen[1]
        link = page.url
        page.select_option("#only", "differ")
        expect(page.locator("table.keys tbody tr", has_text="maps")).to_be_visible()
        # The address leads back to the same view.
        page.goto(link)
        visitor.settled()
        expect(page.get_by_text("of 3 keys differ.")).to_be_visible()
        expect(page.locator("#with")).to_have_value(newer.id)


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


def test_the_draft_follows_the_plan_until_a_person_changes_it(browser, collector):
    """Best for frequencies is what tells no means: whoever then wants means must not create that unasked."""

    def saved():
        with page.expect_download() as download:
            page.get_by_role("button", name="Save the file").click()
        return Campaign.from_fields(json.loads(download.value.path().read_text()))

    def best():
        return page.locator("tr.best code").inner_text()

    with visiting(browser, collector.url, token=new_token(collector, "operator")) as visitor:
        page = visitor.go("/plan")
        page.fill("#d-name", "drafted")
        page.fill("#d-owner", "tests")
        page.fill("#d-purpose", "see what is drafted")
        page.fill("#d-keys", "\n".join(f"app {number}" for number in range(60)))
        page.locator("#d-keys").blur()
        visitor.settled()
        expect(page.locator("form.draft")).to_contain_text("tells no means")
        assert saved().rho == 1.0
        page.select_option("#want", "mean")
        expect(page.locator(".words li").first).to_contain_text("% of the value range")
        visitor.settled()
        expect(page.locator("form.draft")).not_to_contain_text("tells no means")
        drafted = saved()
        assert (drafted.mechanism, drafted.rho) == (best(), None)
        # One unit for the error of a mean: slider, sentence and ranking.
        said = page.locator(".words li").first.inner_text().removeprefix("The error will be about ")
        assert said == f"{page.locator('#n-error').input_value()} % of the value range."
        assert page.locator("#s-error").get_attribute("aria-valuetext") == said.removesuffix(".")
        assert said.startswith(page.locator("tr.best td").nth(2).inner_text() + " %")
        # What a person chose stays, whatever the plan says next.
        page.select_option("#d-mechanism", "kvue")
        page.select_option("#want", "frequency")
        expect(page.locator(".words li").first).to_contain_text("% points")
        visitor.settled()
        assert saved().mechanism == "kvue"


def test_the_answer_comes_first_and_is_what_ranks_allow(browser, furnished):
    campaign = furnished.campaigns["closed"]
    results = ask(furnished, f"/v1/campaigns/{campaign.id}/results")
    names, best, worst = results["columns"]["key"], results["rank_best"], results["rank_worst"]

    def links(line):
        return set(strip.locator("p", has_text=line).locator("a").all_inner_texts())

    with visiting(browser, furnished.url, token=furnished.admin) as visitor:
        page = visitor.go(f"/c/{campaign.id}/results")
        strip = page.locator(".answer-strip")
        for k in (1, 3, 7):
            page.fill("#k", str(k))
            surely = {name for name, rank in zip(names, worst, strict=True) if rank <= k}
            possibly = {name for name, rank in zip(names, best, strict=True) if rank <= k} - surely
            expect(strip).to_contain_text(
                "Surely the most used" if k == 1 else f"Surely among the {k} most used"
            )
            assert links("Surely") == surely
            if possibly:
                assert links("Cannot be excluded") == possibly
                expect(strip).to_contain_text("would settle it")
            else:
                expect(strip).to_contain_text("That settles it")
            assert page.evaluate("() => location.hash").endswith(f"k={k}")
        page.reload()
        visitor.settled()
        expect(page.locator("#k")).to_have_value("7")


def test_the_reports_that_would_settle_it_do(browser, furnished):
    """As many more as are said, with the same estimates, leave nothing open; a tenth fewer do."""
    campaign = make_question(pairs_per_user=1, epsilon=4.0)
    release = campaign.estimate(drawn_tally(campaign, users=600))
    results = to_builtins(make_results(campaign, release, is_open=False), str_keys=True)
    script = """async ([results, k, factor]) => {
      const { Found } = await import("/assets/found.js");
      const { zOfAll } = await import("/assets/format.js");
      const found = new Found(results, "drawn", "none");
      const { more, possibly } = found.topOf(k);
      const se = found.columns.frequency_se.map((one) => one / Math.sqrt(1 + (factor * more) / found.users));
      const z = zOfAll((found.n * (found.n - 1)) / 2);
      const open = [...found.order].slice(0, k).some((inside) => [...found.order].slice(k).some((outside) =>
        found.raw[inside] - found.raw[outside] < z * (se[inside] + se[outside]) * (1 - 1e-9)));
      return [more === Infinity ? null : more, possibly.length, open];
    }"""
    settled = 0
    with visiting(browser, furnished.url, token=furnished.admin) as visitor:
        for k in range(1, 9):
            more, n_open, is_open = visitor.page.evaluate(script, [results, k, 1])
            if n_open == 0 or more is None:
                continue
            assert not is_open
            settled += 1
            assert more <= 1 or visitor.page.evaluate(script, [results, k, 0.9])[2]
    assert settled >= 3


def test_no_mean_is_shown_outside_its_interval(browser, furnished):
    """With few reports unbiased means lie anywhere; what people see is what its interval allows."""
    seen, n_beyond = 0, 0
    with visiting(browser, furnished.url, token=furnished.admin) as visitor:
        for campaign in (furnished.campaigns["open"], furnished.campaigns["closed"]):
            results = ask(furnished, f"/v1/campaigns/{campaign.id}/results")
            columns = (results["columns"][each] for each in ("mean", "mean_low", "mean_high"))
            n_beyond += sum(
                mean is not None and not low <= mean <= high for mean, low, high in zip(*columns, strict=True)
            )
            page = visitor.go(f"/c/{campaign.id}/results")
            heads = page.locator("table.keys thead th").all_inner_texts()
            at = next(place for place, head in enumerate(heads) if head.startswith("Mean"))
            for row in page.locator("table.keys tbody tr").all():
                cells = [cell.replace(MINUS, "-") for cell in row.locator("th, td").all_inner_texts()]
                mean, interval = cells[at : at + 2]
                ends = results["value_range"] if "anywhere" in interval else interval.split(" to ")
                if mean != "?":
                    assert float(ends[0]) <= float(mean) <= float(ends[1]), cells
                    seen += 1
    assert seen
    assert n_beyond, "no mean was estimated beyond its interval, so this shows nothing"


def test_the_chart_follows_what_is_looked_for(browser, furnished):
    campaign = furnished.campaigns["closed"]
    with visiting(browser, furnished.url, token=furnished.admin) as visitor:
        page = visitor.go(f"/c/{campaign.id}/results")
        labels = page.locator(".top-chart svg").first.locator("[data-part*='y-axis tick label'] text")
        expect(labels.first).to_have_text("key a")
        page.fill("#q", "key h")
        expect(labels).to_have_count(1)
        expect(labels.first).to_have_text("key h")
        # Whoever points at a mark reads its numbers.
        said = page.locator(".top-chart title").first.text_content()
        assert said.startswith("key h: ")
        assert "95 %: " in said
        page.fill("#q", "no such key")
        expect(page.locator(".top-chart svg")).to_have_count(0)
        page.fill("#q", "")
        page.fill("#top", "2")
        expect(labels).to_have_count(2)
        page.select_option("#size", "20")
        with page.expect_download() as saved:
            page.get_by_role("button", name="CSV").click()
        assert saved.value.suggested_filename == "closed.csv"


def test_any_page_of_many_keys_is_one_step_away(browser, collector):
    campaign = make_question("bucket", name="many", keys=tuple(f"key {place:04}" for place in range(300)))
    token = collector.create(campaign)["device_token"]
    send(collector, campaign, [Reporter(campaign).report({"key 0001": 3.0}) for _ in range(50)], token)
    with visiting(browser, collector.url, token=collector.admin, size=(390, 844)) as visitor:
        page = visitor.go(f"/c/{campaign.id}/results?size=20&sort=key")
        page.fill("#page", "12")
        page.press("#page", "Enter")
        first = page.locator("table.keys tbody tr").first
        expect(first).to_contain_text("key 0220")
        assert "page=12" in page.url
        # On a phone the key stays where the rest of its row is scrolled to.
        box = page.get_by_role("region", name="Every key")
        box.evaluate("(element) => { element.scrollLeft = 300 }")
        assert first.locator("th").bounding_box()["x"] >= box.bounding_box()["x"] - 1
        visitor.fits()
