"""Pairs of keys on Results: every number the collector's, told by pointing and by keyboard alike."""

import pytest
from browsing import ask, expect, new_token, send, visiting
from collecting import WHO
from crossed import asking
from hostile_names import NAMES
from serving import Process

from keyveil.client import Reporter

KEYS = ["maps", NAMES[3], "chess", NAMES[7]]


@pytest.fixture(scope="module")
def paired(tmp_path_factory):
    """Half of the people hold maps and the hostile key, the others chess; nobody the fourth.

    A lift of 2 lies seven standard errors from 1.
    """
    process = Process(f"sqlite:///{tmp_path_factory.mktemp('pairs')}/pairs.db")
    process.campaign = campaign = asking(
        **WHO, name="together", ids="own", epsilon=10.0, keys=KEYS, pairs="all", names=["Maps", *KEYS[1:]]
    )
    token = process.create(campaign)["device_token"]
    device = Reporter(campaign)
    both, other = {KEYS[0]: 60.0, KEYS[1]: 0.0}, {"chess": 30.0}
    send(process, campaign, [device.report(other if n % 2 else both) for n in range(8000)], token)
    yield process
    process.kill()


def see(visitor, process, query="?view=pairs"):
    page = visitor.go(f"/c/{process.campaign.id}/results{query}")
    expect(page.locator("table.lifts")).to_be_visible()
    return page


def rows_of(process):
    return ask(process, f"/v1/campaigns/{process.campaign.id}/pairs")["rows"]


def test_every_cell_and_line_is_the_collectors(browser, paired):
    rows = rows_of(paired)
    with visiting(browser, paired.url, token=new_token(paired, "analyst")) as visitor:
        page = visitor.go(f"/c/{paired.campaign.id}/results")
        page.get_by_label("Look at").select_option("pairs")
        expect(page.locator("table.lifts")).to_be_visible()
        assert "view=pairs" in page.url
        cells = page.locator("table.lifts button")
        # Both sides of the diagonal.
        expect(cells).to_have_count(2 * len(rows))
        for place, row in enumerate(rows):
            line = page.locator(f"table.every-pair tr[data-pair='{place}']")
            number = line.locator("td").nth(0).inner_text().removesuffix(" %")
            digits = len(number.partition(".")[2])
            assert float(number.replace("\u2212", "-")) == pytest.approx(
                100 * row["both"], abs=0.51 * 10**-digits
            )
            lift = "?" if row["lift"] is None else f"{row['lift']:.2f}"
            high = row["lift_high"]
            ends = f"{row['lift_low']:.2f} " + ("or more" if high is None else f"to {high:.2f}")
            ends = "anything" if row["lift"] is None else ends
            assert line.locator("td").nth(2).inner_text() == lift
            assert line.locator("td").nth(3).inner_text() == ends
            assert line.locator("td").nth(4).inner_text() == (row["surely"] or "may be chance")
            words = f"lift {lift}, 95 %: {ends};"
            same = page.locator(f'table.lifts button[title*="{words}"]')
            assert same.count() >= 2
            kind = {"": "noise", "more often than by chance": "shade-3", "less often than by chance": "rarer"}
            assert kind[row["surely"]] in same.first.locator("..").get_attribute("class")
        assert rows[0]["surely"] == "more often than by chance"
        first = page.locator(".answer-strip li").first.inner_text()
        assert first.startswith("Maps & ")
        assert f"{rows[0]['lift']:.2f} times" in first
        assert "of 100 tables of keys that are held by chance at most 5 would list one" in visitor.text()


def test_a_pair_is_told_by_pointing_and_by_keyboard(browser, paired):
    row = rows_of(paired)[0]
    with visiting(browser, paired.url, token=paired.admin) as visitor:
        page = see(visitor, paired)
        said, cells = page.locator(".said"), page.locator("table.lifts button")
        # One stop of the tab key, from which arrows lead on, past the diagonal.
        assert page.locator("table.lifts button[tabindex='0']").count() == 1
        cells.first.focus()
        expect(said).to_have_text(cells.first.get_attribute("title"))
        page.keyboard.press("ArrowRight")
        expect(cells.nth(1)).to_be_focused()
        expect(said).to_have_text(cells.nth(1).get_attribute("title"))
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("ArrowUp")
        expect(cells.nth(1)).to_be_focused()
        cells.nth(2).hover()
        expect(said).to_have_text(cells.nth(2).get_attribute("title"))
        cells.first.focus()
        page.keyboard.press("Enter")
        table = page.get_by_role("region", name="One pair of keys")
        expect(table.locator("tbody tr").nth(3)).to_contain_text(f"{row['lift']:.2f}")
        expect(page.locator(".one-pair h2")).to_be_focused()
        expect(table.locator("tbody tr")).to_have_count(8)
        page.locator("#which").select_option("sure")
        page.locator("#q").fill("chess")
        for each in page.locator("table.every-pair tbody th").all():
            assert "chess" in each.inner_text()
        page.reload()
        visitor.settled()
        expect(page.locator(".one-pair h2")).to_contain_text("Maps & ")
        page.get_by_label("Look at").select_option("")
        expect(page.get_by_role("heading", name="Every key", exact=True)).to_be_visible()


@pytest.mark.parametrize(("theme", "width"), [("light", 320), ("dark", 768), ("light", 1280)])
def test_pairs_are_for_everybody(browser, paired, theme, width):
    with visiting(browser, paired.url, token=paired.admin, theme=theme, size=(width, 800)) as visitor:
        see(visitor, paired, "?view=pairs&pair=0")
        visitor.fits("pairs")
        assert not visitor.serious_faults()
        measured, faults = visitor.marks()
        assert measured > 3
        assert not faults, faults[:3]
