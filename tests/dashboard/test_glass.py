"""The visitor is a device: the JavaScript client in a real browser, its ledger in IndexedDB."""

import json
from dataclasses import replace

from browsing import ask, expect, visiting

from keyveil.cli.stage import glass_campaign, raised
from keyveil.segments import Segments


def with_ledger(script):
    return f"""async (name) => {{
      const {{ BrowserLedger }} = await import("/assets/keyveil.js");
      const ledger = new BrowserLedger(name);
      {script}
    }}"""


def test_truth_and_what_is_sent_stand_side_by_side_and_the_chart_moves(browser, furnished):
    campaign = furnished.campaigns["open"]
    before = reports(furnished, campaign)
    with visiting(browser, furnished.url, token=furnished.admin) as visitor:
        page = visitor.go(f"/glass/{campaign.id}")
        expect(page.locator(".glass-count")).to_have_text(f"{before:,}")
        send = page.get_by_role("button", name="Noise it and send")
        expect(send).to_be_disabled()
        page.fill("#held-0", "45")
        page.get_by_label("I agree").check()
        send.click()
        expect(page.get_by_text("The collector has it.")).to_be_visible()
        table = page.locator(".glass-grid table tbody tr")
        expect(table).to_have_count(10)
        expect(table.first).to_contain_text("45")
        expect(table.nth(1)).to_contain_text("not held")
        sent = page.locator(".bits code").inner_text().replace(" ", "")
        expect(page.locator(".glass-count")).to_have_text(f"{before + 1:,}")
        assert len(bytes.fromhex(sent)) == 38
        assert sent[2:34] == campaign.id[:32]

        # Asked again: the same bytes, no cost, nothing counted twice, whatever is held by then.
        send.click()
        expect(page.get_by_text("it cost nothing")).to_be_visible()
        assert page.locator(".bits code").inner_text().replace(" ", "") == sent
        # What was spent and said is in IndexedDB and outlives the page.
        page.reload()
        visitor.settled()
        expect(page.get_by_text("This browser has spent epsilon 2.00 of the 2 that")).to_be_visible()
        page.fill("#held-1", "10")
        send.click()
        expect(page.get_by_text("it cost nothing")).to_be_visible()
        assert page.locator(".bits code").inner_text().replace(" ", "") == sent
        # Who withdraws has spent what was spent, and answers no second time.
        page.get_by_label("I agree").uncheck()
        page.get_by_label("I agree").check()
        send.click()
        expect(page.get_by_text("It answers no round twice.")).to_be_visible()
        # Nobody makes people up where real ones are asked, whatever their token.
        expect(page.get_by_role("button", name="made-up people")).to_have_count(0)
    assert reports(furnished, campaign) == before + 1


def test_who_stops_is_told_what_that_does_and_what_it_cannot(browser, furnished):
    campaign = furnished.campaigns["open"]
    with visiting(browser, furnished.url) as visitor:
        page = visitor.go(f"/glass/{campaign.id}")
        stop = page.get_by_role("button", name="Stop taking part")
        expect(stop).to_be_disabled()
        expect(page.get_by_text("cannot be recalled")).to_be_visible()
        expect(page.get_by_text("Questions go to tests, who asks.")).to_be_visible()
        page.get_by_label("I agree").check()
        page.get_by_role("button", name="Noise it and send").click()
        expect(page.get_by_text("The collector has it.")).to_be_visible()
        stop.click()
        expect(page.get_by_text("You have stopped.")).to_be_visible()
        expect(page.get_by_label("I agree")).not_to_be_checked()
        expect(page.get_by_role("button", name="Noise it and send")).to_be_disabled()
        kept = ledger(
            visitor,
            "keyveil-glass",
            "return ledger.update((s) => [s.consent, s.queue.length, s.answers.map((a) => a.bytes)])",
        )
        assert kept == ["withdrawn", 0, [None]]


def test_people_are_made_up_in_a_demo_and_with_its_token_only(browser, tmp_path):
    campaign = glass_campaign()
    with raised(f"sqlite:///{tmp_path}/demo.db", 0) as stage:
        stage.create(campaign, uploads="open")
        button = "Let 50 made-up people answer too"
        with visiting(browser, stage.url) as stranger:
            page = stranger.go(f"/glass/{campaign.id}")
            expect(page.get_by_role("button", name="Noise it and send")).to_be_visible()
            expect(page.get_by_role("button", name=button)).to_have_count(0)
        with visiting(browser, stage.url, token=stage.token) as visitor:
            page = visitor.go(f"/glass/{campaign.id}")
            page.get_by_role("button", name=button).click()
            expect(page.locator(".glass-count")).to_have_text("50")


def test_what_is_said_in_the_clear_is_chosen_and_called_not_private(browser, tmp_path):
    segments = Segments(told="clear", attributes=(("platform", ("android", "ios")),))
    campaign = replace(glass_campaign(), segments=segments)
    with raised(f"sqlite:///{tmp_path}/demo.db", 0) as stage:
        stage.create(campaign, uploads="open")
        with visiting(browser, stage.url, token=stage.token) as visitor:
            page = visitor.go(f"/glass/{campaign.id}")
            expect(page.get_by_text("It is not private: whoever reads the report knows it.")).to_be_visible()
            expect(page.get_by_text("with what is chosen above, which is not noised")).to_be_visible()
            page.get_by_label("platform").select_option("ios")
            page.get_by_label("I agree").check()
            page.get_by_role("button", name="Noise it and send").click()
            expect(page.get_by_text("The collector has it.")).to_be_visible()
            expect(
                page.get_by_text("The report says in the clear, without noise: platform ios.")
            ).to_be_visible()
            sent = bytes.fromhex(page.locator(".bits code").inner_text().replace(" ", ""))
            assert len(sent) == campaign.first_round().report_bytes
            assert sent[-1] == 2


def reports(process, campaign):
    return ask(process, f"/v1/campaigns/{campaign.id}/progress")["reports"]


def test_a_visitor_without_a_token_can_take_part(browser, furnished):
    campaign = furnished.campaigns["open"]
    with visiting(browser, furnished.url) as visitor:
        page = visitor.go(f"/glass/{campaign.id}")
        page.fill("#held-3", "5")
        page.get_by_label("I agree").check()
        page.get_by_role("button", name="Noise it and send").click()
        expect(page.get_by_text("The collector has it.")).to_be_visible()
        expect(page.get_by_text("The chart is for those with an analyst's token")).to_be_visible()


def test_a_campaign_that_takes_no_reports_from_here_says_so(browser, furnished):
    with visiting(browser, furnished.url) as visitor:
        visitor.go(f"/glass/{furnished.campaigns['closed'].id}")
        assert "It is finished." in visitor.text()
        visitor.go(f"/glass/{furnished.campaigns['empty'].id}")
        assert "devices with a token only" in visitor.text()


def test_a_device_refuses_a_campaign_that_spends_more_than_it_says(browser, furnished):
    campaign = furnished.campaigns["open"]

    def lie(route):
        said = route.fetch().json()
        said["campaign"] = said["campaign"].replace('"epsilon":2.0', '"epsilon":1.0')
        route.fulfill(json=said)

    with visiting(browser, furnished.url) as visitor:
        visitor.page.route(f"**/v1/campaigns/{campaign.id}", lie)
        visitor.go(f"/glass/{campaign.id}")
        assert "Your device refuses this campaign" in visitor.text()


def ledger(visitor, name, script):
    return visitor.page.evaluate(with_ledger(script), name)


def test_the_browser_ledger_is_one_document_changed_in_one_transaction(browser, furnished):
    with visiting(browser, furnished.url) as visitor:
        # A fresh ledger has a secret of its own and is off.
        first = ledger(
            visitor,
            "t1",
            "return ledger.update((state) => [state.consent, state.secret.length, state.answers])",
        )
        assert first == ["unasked", 64, []]
        # What a change returns is returned, and kept.
        assert ledger(visitor, "t1", "return ledger.update((state) => (state.latest = 1.5))") == 1.5
        # A change that throws changes nothing.
        thrown = ledger(
            visitor,
            "t1",
            """try {
                 await ledger.update((state) => { state.latest = 99; throw new Error("no"); });
               } catch (error) { return error.message; }""",
        )
        assert thrown == "no"
        assert ledger(visitor, "t1", "return ledger.update((state) => state.latest)") == 1.5
        # Changes at once are one after the other: none is lost.
        total = ledger(
            visitor,
            "t1",
            """const once = () => ledger.update((state) => { state.latest += 1; });
               await Promise.all(Array.from({ length: 40 }, once));
               return ledger.update((state) => state.latest);""",
        )
        assert total == 41.5
        visitor.page.reload()
        visitor.settled()
        assert ledger(visitor, "t1", "return ledger.update((state) => state.latest)") == 41.5


def test_two_tabs_share_one_ledger(browser, furnished):
    with visiting(browser, furnished.url) as visitor:
        other = visitor.context.new_page()
        other.goto(furnished.url)
        add = """const once = () => ledger.update((state) => { state.latest += 1; });
                 await Promise.all(Array.from({ length: 25 }, once));"""
        # Both begin before either ends.
        start = f"(name) => {{ window.__done = ({with_ledger(add)})(name); }}"
        visitor.page.evaluate(start, "t2")
        other.evaluate(start, "t2")
        visitor.page.evaluate("() => window.__done")
        other.evaluate("() => window.__done")
        assert ledger(visitor, "t2", "return ledger.update((state) => state.latest)") == 50


def test_a_browser_ledger_that_cannot_be_believed_stops_all_reports(browser, furnished):
    campaign = furnished.campaigns["open"]
    with visiting(browser, furnished.url) as visitor:
        view = ask(furnished, f"/v1/campaigns/{campaign.id}")
        said = {**view["round"], "campaign": view["campaign"]}
        found = visitor.page.evaluate(
            """async (description) => {
              const { BrowserLedger, Device } = await import("/assets/keyveil.js");
              const ledger = new BrowserLedger("t3");
              const device = await Device.open(description, { url: location.origin, ledger });
              await device.enable();
              const first = await device.report({ "key a": 30 });
              const database = await new Promise((done) => {
                const opening = indexedDB.open("t3", 1);
                opening.onsuccess = () => done(opening.result);
              });
              const change = database.transaction("ledger", "readwrite");
              change.objectStore("ledger").put({ version: 1, queue: [], spent: { x: -1 } }, "state");
              await new Promise((done) => (change.oncomplete = done));
              database.close();
              const second = await device.report({ "key a": 30 });
              return [first.ok, second.ok, second.code];
            }""",
            json.loads(json.dumps(said)),
        )
        assert found == [True, False, "ledger-corrupt"]
