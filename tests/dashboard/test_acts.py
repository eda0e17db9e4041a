"""The log of acts: who did what and when, newest first, for whoever may read it and for nobody else."""

import pytest
from browsing import ask, close_round, expect, new_token, visiting
from collecting import make_question
from hostile_names import NAMES
from serving import Process

# More than are shown at once.
MANY = 110


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    """A collector on which much was done."""
    process = Process(f"sqlite:///{tmp_path_factory.mktemp('acts')}/acts.db")
    process.campaigns = [make_question(name=name, epsilon=4.0) for name in ("plain", NAMES[3], NAMES[7])]
    for campaign in process.campaigns:
        process.create(campaign)
    plain, hostile, _ = process.campaigns
    process.ask("POST", f"/v1/campaigns/{hostile.id}/label", {"label": NAMES[5][:200]}, token=process.admin)
    for _ in range(MANY):
        new_token(process, "device", plain)
    status, said = process.ask(
        "POST", "/v1/tokens", {"role": "operator", "label": "Ada"}, token=process.admin
    )
    assert status == 201, said
    close_round(process, plain)
    yield process
    process.kill()


def rows_of(page):
    return page.locator("table.acts tbody tr")


def test_every_act_is_there_newest_first_and_dated(browser, logged):
    acts = ask(logged, "/v1/acts")["acts"]
    with visiting(browser, logged.url, token=logged.admin) as visitor:
        page = visitor.page
        page.get_by_role("link", name="Log", exact=True).click()
        expect(page.get_by_role("heading", name="Log of acts")).to_be_visible()
        visitor.settled()
        expect(rows_of(page)).to_have_count(100)
        assert f"{len(acts)} of {len(acts)} acts; the newest 100 shown." in visitor.text()
        page.get_by_role("button", name="Show 100 more").click()
        expect(rows_of(page)).to_have_count(len(acts))
        expect(page.get_by_role("button", name="Show 100 more")).to_have_count(0)
        shown = rows_of(page).locator("td:nth-child(2)").all_inner_texts()
        assert shown == [act["act"].replace("-", " ") for act in reversed(acts)]
        # When and by whom, of the newest.
        first = rows_of(page).first
        closed = page.evaluate(
            "at => new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short' })"
            ".format(new Date(1000 * at))",
            acts[-1]["at"],
        )
        assert first.locator("th").inner_text() == closed
        expect(first).to_contain_text("round closed")
        expect(first).to_contain_text(acts[-1]["token"])
        expect(first.get_by_role("link", name="plain")).to_have_attribute(
            "href", f"#/c/{logged.campaigns[0].id}"
        )
        expect(page.locator("table.acts")).to_contain_text("the collector itself")


def test_acts_are_found_by_act_and_by_text(browser, logged):
    with visiting(browser, logged.url, token=logged.admin) as visitor:
        page = visitor.go("/acts")
        page.locator("#act").select_option("campaign-created")
        expect(rows_of(page)).to_have_count(3)
        expect(rows_of(page).last).to_contain_text("uploads token")
        page.locator("#search").fill("plain")
        expect(rows_of(page)).to_have_count(1)
        visitor.page.reload()
        visitor.settled()
        expect(rows_of(page)).to_have_count(1)
        page.locator("#act").select_option("all")
        page.locator("#search").fill("round closed")
        expect(rows_of(page)).to_have_count(1)
        page.locator("#search").fill("nothing like it")
        expect(page.get_by_text("None fits.")).to_be_visible()


def test_what_is_done_meanwhile_comes_by_itself(browser, logged):
    with visiting(browser, logged.url, token=logged.admin) as visitor:
        page = visitor.go("/acts")
        new_token(logged, "monitor")
        expect(rows_of(page).first).to_contain_text("monitor")


@pytest.mark.parametrize("role", ["analyst", "operator", "monitor"])
def test_nobody_else_is_offered_the_log(browser, logged, role):
    with visiting(browser, logged.url, token=new_token(logged, role)) as visitor:
        with visitor.page.expect_response(lambda answer: "/v1/acts" in answer.url):
            visitor.page.reload()
        visitor.settled()
        visitor.go("/plan")
        expect(visitor.page.locator("#nav")).not_to_contain_text("Log")
        visitor.go("/acts")
        assert "What to do" in visitor.text()
        assert visitor.page.locator("table.acts").count() == 0


def test_whoever_changes_the_token_is_asked_anew(browser, logged):
    with visiting(browser, logged.url, token=logged.admin) as visitor:
        page = visitor.page
        expect(page.get_by_role("link", name="Log", exact=True)).to_be_visible()
        page.locator("#who").click()
        page.get_by_role("button", name="Forget it").click()
        expect(page.get_by_role("link", name="Log", exact=True)).to_have_count(0)


@pytest.mark.parametrize(("theme", "width"), [("light", 320), ("dark", 768), ("light", 1280)])
def test_the_log_is_for_everybody(browser, logged, theme, width):
    with visiting(browser, logged.url, token=logged.admin, theme=theme, size=(width, 800)) as visitor:
        visitor.go("/acts")
        expect(visitor.page.get_by_role("link", name="Log", exact=True)).to_be_visible()
        visitor.fits("acts")
        assert not visitor.serious_faults()
