"""What each page says where there is nothing, not enough, not allowed, or nobody."""

import json

from browsing import close_round, expect, new_token, send, visiting
from collecting import make_question, make_reports
from serving import Process

from keyveil.client import Reporter, fetch_round
from keyveil.report import to_frames


def test_no_campaign(browser, collector):
    with visiting(browser, collector.url, token=collector.admin) as visitor:
        assert "No campaign yet" in visitor.text()
        visitor.go("/glass")
        assert "No campaign to take part in" in visitor.text()
        visitor.go(f"/c/{'0' * 64}/results")
        assert "No such campaign" in visitor.text()
        assert "Check the id" in visitor.text()
        visitor.go("/c/short")
        assert "No such page" in visitor.text()


def test_no_report_and_one_report(browser, collector):
    campaign = make_question(name="few")
    token = collector.create(campaign)["device_token"]
    with visiting(browser, collector.url, token=collector.admin) as visitor:
        visitor.go(f"/c/{campaign.id}")
        assert "No report yet." in visitor.text()
        visitor.go(f"/c/{campaign.id}/results")
        assert "No report yet" in visitor.text()
        visitor.go(f"/c/{campaign.id}/health")
        assert "No report yet, so there is no result to move." in visitor.text()
        visitor.go(f"/c/{campaign.id}/compare")
        assert "Nothing to compare with" in visitor.text()
        send(collector, campaign, make_reports(campaign, 1), token)
        visitor.go(f"/c/{campaign.id}")
        assert "One report: it is noise" in visitor.text()
        visitor.go(f"/c/{campaign.id}/results")
        assert "One report tells nothing about anybody" in visitor.text()
        assert "0 of 40" in visitor.text()
        visitor.go(f"/c/{campaign.id}/health")
        assert "If some devices lie" in visitor.text()


def test_a_round_that_cannot_be_closed(browser, collector):
    campaign = make_question("privkvm", name="rounds", rounds=2)
    collector.create(campaign)
    with visiting(browser, collector.url, token=collector.admin) as visitor:
        page = visitor.go(f"/c/{campaign.id}")
        page.get_by_role("button", name="Close round 1").click()
        page.get_by_role("button", name="Close it").click()
        expect(page.get_by_text("The round has too few reports to go on")).to_be_visible()
        visitor.go(f"/c/{campaign.id}/results")
        assert "The campaign is not at its end" in visitor.text()
        assert "Close the open round" in visitor.text()
        visitor.go(f"/c/{campaign.id}/health")
        assert "The campaign is not at its end" in visitor.text()


def test_before_frequencies_are_told_the_page_says_which_round_will(browser, collector):
    itself = make_question("auto", name="by itself", pairs_per_user=3)
    several = make_question("privkvm", name="rounds", rounds=2)
    collector.create(itself)
    token = collector.create(several)["device_token"]
    with visiting(browser, collector.url, token=collector.admin) as visitor:
        sure = visitor.go(f"/c/{itself.id}").locator(".tile").nth(2)
        expect(sure).to_contain_text("in round 3")
        expect(sure).to_contain_text("collect: 1,000 reports to it would give ±")
        visitor.go(f"/c/{several.id}")
        expect(sure).to_contain_text("1,000 would give ±")
        asked = fetch_round(f"{collector.url}/v1/campaigns/{several.id}")[1]
        device = Reporter(several)
        send(collector, several, [device.report({"app 0": 30.0}, asked) for _ in range(300)], token)
        close_round(collector, several)
        expect(sure.locator("dd.big")).to_contain_text("±")
        expect(sure).to_contain_text("by round 1 alone")


def test_a_token_without_the_role(browser, collector):
    campaign, other = make_question(name="one"), make_question(name="other")
    device = collector.create(campaign)["device_token"]
    collector.create(other)
    analyst = new_token(collector, "analyst", campaign)
    with visiting(browser, collector.url, token=device) as visitor:
        assert "This token may not do that" in visitor.text()
        assert "Enter another token" in visitor.text()
        visitor.go(f"/c/{campaign.id}/results")
        assert "This token may not do that" in visitor.text()
        # The promise is for everybody.
        visitor.go(f"/c/{campaign.id}/privacy")
        assert "The promise holds" in visitor.text()
    with visiting(browser, collector.url, token=analyst) as visitor:
        assert visitor.page.locator("table.campaign-list tbody tr").count() == 1
        visitor.go(f"/c/{other.id}/results")
        assert "This token is for another campaign" in visitor.text()
        page = visitor.go(f"/c/{campaign.id}")
        page.get_by_role("button", name="Close round 1").click()
        page.get_by_role("button", name="Close it").click()
        expect(page.get_by_text("This token may not do that")).to_be_visible()
    with visiting(browser, collector.url, token=f"kv-{'0' * 16}-{'A' * 43}") as visitor:
        assert "This token is not known" in visitor.text()
    with visiting(browser, collector.url) as visitor:
        assert "Enter a token" in visitor.text()
        visitor.go(f"/c/{campaign.id}/results")
        assert "A token is needed" in visitor.text()
        visitor.go("/plan")
        assert "A token is needed" in visitor.text()


def test_a_token_is_kept_for_the_tab_and_out_of_the_address(browser, collector):
    with visiting(browser, collector.url, token=collector.admin) as visitor:
        page = visitor.page
        assert "token" not in page.url
        assert page.evaluate("[localStorage.length, document.cookie]") == [0, ""]
        assert page.evaluate("sessionStorage.getItem('keyveil-token')") == collector.admin
        other = visitor.context.new_page()
        other.goto(collector.url)
        expect(other.get_by_role("heading", name="Which keys, how much, how sure")).to_be_visible()
        page.locator("#who").click()
        page.get_by_role("button", name="Forget it").click()
        assert page.evaluate("sessionStorage.length") == 0


def test_a_collector_restarted_under_an_open_page(browser, tmp_path):
    store = f"sqlite:///{tmp_path}/restart.db"
    process = Process(store)
    campaign = make_question(name="lasting", pairs_per_user=1)
    token = process.create(campaign)["device_token"]
    send(process, campaign, make_reports(campaign, 20), token)
    with visiting(browser, process.url, token=process.admin) as visitor:
        page = visitor.go(f"/c/{campaign.id}")
        process.kill()
        expect(page.locator("#connection.lost")).to_contain_text("No answer from the collector")
        expect(page.locator(".tile").first).to_contain_text("20")
        visitor.go(f"/c/{campaign.id}/results")
        assert "The collector does not answer" in visitor.text()
        visitor.go(f"/c/{campaign.id}")
        again = Process(store, port=process.port, admin=process.admin)
        try:
            # Nobody has to reload.
            expect(page.locator(".tile").first).to_contain_text("20")
            expect(page.locator("#connection")).to_be_empty()
            send(again, campaign, make_reports(campaign, 5), token)
            expect(page.locator(".tile").first).to_contain_text("25")
        finally:
            again.kill()


def test_a_lost_connection_while_glass_sends(browser, furnished):
    campaign = furnished.campaigns["open"]
    with visiting(browser, furnished.url) as visitor:
        page = visitor.go(f"/glass/{campaign.id}")
        page.get_by_label("I agree").check()
        page.fill("#held-0", "1")
        visitor.context.set_offline(True)
        page.get_by_role("button", name="Noise it and send").click()
        expect(page.get_by_text("The report waits in this browser")).to_be_visible()
        visitor.context.set_offline(False)


def test_a_plan_that_nothing_reaches(browser, furnished):
    with visiting(browser, furnished.url, token=furnished.admin) as visitor:
        page = visitor.go("/plan?solve=users&error=0.0001&epsilon=0.05&keys=20000&pairs_per_user=60")
        expect(page.locator(".words .wrong")).to_contain_text("No number of users reaches an error")
        expect(page.get_by_role("heading", name="Mechanisms, best first")).to_be_hidden()
        page.get_by_role("button", name="Save the file").click()
        expect(page.get_by_text("Name the keys first, one a line.")).to_be_visible()
        page.fill("#d-keys", "a\nb")
        page.fill("#s-epsilon", "0")
        page.fill("#s-error", "0")
        page.get_by_role("button", name="Save the file").click()
        expect(page.get_by_text("There is no plan yet that a campaign could follow")).to_be_visible()


def test_a_campaign_that_lacks_something_is_refused_in_words(browser, furnished):
    with visiting(browser, furnished.url, token=furnished.admin) as visitor:
        page = visitor.go("/plan")
        page.wait_for_function("() => document.querySelector('#d-mechanism').options.length > 2")
        page.fill("#d-keys", "a\nb")
        page.evaluate(
            "() => document.querySelectorAll('.draft [required]').forEach((e) => (e.required = false))"
        )
        page.get_by_role("button", name="Create it here").click()
        expect(page.get_by_text("The campaign lacks who, why or until when")).to_be_visible()


def test_refused_reports_are_counted_by_reason(browser, collector):
    campaign = make_question(name="hostile")
    token = collector.create(campaign)["device_token"]
    report, short, late = make_reports(campaign, 3)
    send(collector, campaign, [report], token)
    for bad in (report, short[:-1], late[:17] + b"\x09\x00" + late[19:]):
        body = len(bad).to_bytes(4, "little") + bad
        collector.ask("POST", f"/v1/campaigns/{campaign.id}/reports", body, token=token)
    collector.ask("POST", f"/v1/campaigns/{campaign.id}/reports", b"\xff" * 9, token=token)
    close_round(collector, campaign)
    with visiting(browser, collector.url, token=collector.admin) as visitor:
        visitor.go(f"/c/{campaign.id}")
        text = visitor.text()
        assert "duplicate" in text
        assert "wrong-length" in text
        assert "wrong-round" in text
        visitor.go(f"/c/{campaign.id}/health")
        assert "bad-batch" in visitor.text()
        assert json.loads(collector.ask("GET", "/readyz")[1])["ready"]


def test_many_refusals_alarm_and_few_do_not(browser, collector):
    campaign, stranger = make_question(name="asked"), make_question(name="another")
    token = collector.create(campaign)["device_token"]
    reports, strange = make_reports(campaign, 1500), make_reports(stranger, 150)
    path = f"/v1/campaigns/{campaign.id}/reports"
    collector.ask("POST", path, to_frames([*reports, *strange[:5]]), token=token)
    analyst = new_token(collector, "analyst")
    alarm = "150 of 1,650 reports, 9 %, mostly wrong-campaign, the last"
    with visiting(browser, collector.url, token=analyst) as visitor:
        page = visitor.go(f"/c/{campaign.id}")
        expect(page.locator(".tile").first).to_contain_text("1,500")
        expect(page.get_by_text("Many reports are refused")).to_have_count(0)
        collector.ask("POST", path, to_frames(strange[5:]), token=token)
        expect(page.get_by_role("alert")).to_contain_text(alarm)
        page = visitor.go(f"/c/{campaign.id}/health")
        expect(page.get_by_role("alert")).to_contain_text(alarm)
        expect(page.get_by_role("alert")).to_contain_text("ship them this one")
        # Refused reports are not "requests refused: 0", and what an analyst may not read is not 0 either.
        expect(page.locator(".tile", has_text="Reports refused")).to_contain_text("150")
        expect(page.locator(".tile", has_text="Requests refused")).to_contain_text("Only administrators")


def test_a_collector_that_is_not_ready_says_why(browser, collector):
    campaign = make_question(name="asked")
    collector.create(campaign)
    said = {
        "ready": False,
        "store": "sqlite",
        "waiting_uploads": 7,
        "clock_doubt": 0.0,
        "failing": "the disk is full",
        "damaged": [],
    }
    with visiting(browser, collector.url, token=collector.admin) as visitor:
        visitor.page.route("**/readyz", lambda route: route.fulfill(status=503, json=said))
        page = visitor.go(f"/c/{campaign.id}/health")
        tile = page.locator(".tile").first
        expect(tile).to_contain_text("not ready")
        expect(tile).to_contain_text("the disk is full")
        assert "damaged" not in tile.inner_text()
        expect(page.locator(".tile").nth(1)).to_contain_text("7")
        # One that says nothing is not said to be whole.
        visitor.page.unroute("**/readyz")
        visitor.page.route("**/readyz", lambda route: route.fulfill(status=503, body="gateway"))
        expect(tile).to_contain_text("it does not say why")
