"""Both themes, a narrow phone, a keyboard, a screen reader, paper: every page for everybody."""

import pytest
from browsing import expect, visiting

DESK, PHONE = (1280, 900), (360, 740)


def every_page(process):
    closed, open_ = process.campaigns["closed"].id, process.campaigns["open"].id
    values, rounds, empty = (process.campaigns[name].id for name in ("values", "rounds", "empty"))
    return {
        "campaigns": "/",
        "plan": "/plan",
        "acts": "/acts",
        "glass": f"/glass/{open_}",
        "progress": f"/c/{open_}",
        "rounds": f"/c/{rounds}",
        "results": f"/c/{closed}/results",
        "spread": f"/c/{values}/results",
        "key": f"/c/{values}/keys/0",
        "key of no results": f"/c/{empty}/keys/0",
        "no results": f"/c/{empty}/results",
        "rounds left": f"/c/{rounds}/results",
        "compare": f"/c/{closed}/compare?with={open_}",
        "privacy": f"/c/{closed}/privacy",
        "privacy of rounds": f"/c/{rounds}/privacy",
        "health": f"/c/{closed}/health",
        "nowhere": "/nowhere",
    }


@pytest.mark.parametrize(
    ("theme", "size"),
    [
        pytest.param("light", DESK, id="light-desk"),
        pytest.param("dark", PHONE, id="dark-phone"),
        pytest.param("dark", DESK, id="dark-desk", marks=pytest.mark.nightly),
        pytest.param("light", PHONE, id="light-phone", marks=pytest.mark.nightly),
    ],
)
def test_every_page_is_accessible_and_fits(browser, furnished, theme, size):
    found = {}
    with visiting(browser, furnished.url, token=furnished.admin, theme=theme, size=size) as visitor:
        for name, path in every_page(furnished).items():
            page = visitor.go(path)
            if name == "plan":
                expect(page.locator(".curve svg").first).to_be_visible()
            page.wait_for_timeout(150)
            visitor.fits(name)
            if faults := visitor.serious_faults():
                found[name] = faults
        assert page.locator("html").evaluate("html => getComputedStyle(html).backgroundColor") == (
            "rgb(15, 19, 24)" if theme == "dark" else "rgb(247, 248, 250)"
        )
    assert not found, found


def test_the_theme_can_be_chosen_and_is_remembered(browser, furnished):
    with visiting(browser, furnished.url, theme="light") as visitor:
        page = visitor.page
        ground = "html => getComputedStyle(html).backgroundColor"
        page.get_by_role("button", name="Use the dark theme").click()
        assert page.locator("html").evaluate(ground) == "rgb(15, 19, 24)"
        page.reload()
        visitor.settled()
        assert page.locator("html").evaluate(ground) == "rgb(15, 19, 24)"
        page.get_by_role("button", name="Use the light theme").click()
        assert page.locator("html").evaluate(ground) == "rgb(247, 248, 250)"


def press_until(page, wanted, most=80):
    """Tab until something has the focus whose text or label is wanted."""
    for _ in range(most):
        page.keyboard.press("Tab")
        said = page.evaluate(
            "() => { const here = document.activeElement;"
            " return here.getAttribute('aria-label') || here.innerText || here.id || ''; }"
        )
        if wanted in said:
            return
    raise AssertionError(f"{wanted} was not reached by keyboard")


def test_keyboard_alone_is_enough(browser, furnished):
    with visiting(browser, furnished.url) as visitor:
        page = visitor.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.innerText") == "Skip to content"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        press_until(page, "Enter a token")
        page.keyboard.press("Enter")
        page.wait_for_selector("dialog[open]")
        page.keyboard.type("not a token")
        page.keyboard.press("Enter")
        expect(page.get_by_text("This is no token")).to_be_visible()
        page.keyboard.press("Control+A")
        page.keyboard.type(furnished.admin)
        page.keyboard.press("Enter")
        page.wait_for_selector("table.campaign-list")
        press_until(page, "closed")
        page.keyboard.press("Enter")
        page.wait_for_selector(".tabs")
        visitor.settled()
        press_until(page, "Results")
        page.keyboard.press("Enter")
        page.wait_for_selector("table.keys tbody tr")
        press_until(page, "Mean")
        page.keyboard.press("Enter")
        expect(page.locator("th[aria-sort=descending]")).to_contain_text("Mean")
        # The focus stays on the heading that was pressed.
        assert "Mean" in page.evaluate("document.activeElement.innerText")
        page.keyboard.press("Enter")
        expect(page.locator("th[aria-sort=ascending]")).to_contain_text("Mean")
        # A dialog gives the focus back when it is left by Escape.
        page.locator("#who").focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Escape")
        assert page.evaluate("document.activeElement.id") == "who"


def test_moving_on_tells_a_screen_reader_where(browser, furnished):
    with visiting(browser, furnished.url, token=furnished.admin) as visitor:
        visitor.go(f"/c/{furnished.campaigns['closed'].id}/privacy")
        visitor.page.wait_for_function("() => document.activeElement.tagName === 'H1'")
        assert visitor.page.locator("#say").inner_text() == "Privacy shown"
        assert "closed" in visitor.page.title()


def test_paper_has_the_numbers_and_no_buttons(browser, furnished):
    with visiting(browser, furnished.url, token=furnished.admin, theme="dark") as visitor:
        page = visitor.go(f"/c/{furnished.campaigns['closed'].id}/results")
        page.emulate_media(media="print")
        expect(page.locator("table.keys")).to_be_visible()
        for hidden in (".top", ".tabs", ".exports", "footer"):
            expect(page.locator(hidden).first).to_be_hidden()
        assert (
            page.locator("html").evaluate("html => getComputedStyle(html).backgroundColor")
            == "rgb(255, 255, 255)"
        )
