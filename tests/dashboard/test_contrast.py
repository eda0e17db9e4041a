"""Every mark that carries a number stands out from what is behind it by 3 to 1, measured in the page."""

import pytest
from browsing import expect, visiting


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_marks_stand_out(browser, furnished, theme):
    closed = furnished.campaigns["closed"].id
    pages = {
        "results": f"/c/{closed}/results",
        "compare": f"/c/{closed}/compare?with={furnished.campaigns['open'].id}",
        "values": f"/c/{furnished.campaigns['values'].id}/results",
        "key": f"/c/{closed}/keys/0",
        "plan": "/plan",
    }
    with visiting(browser, furnished.url, token=furnished.admin, theme=theme) as visitor:
        for name, path in pages.items():
            page = visitor.go(path)
            if name == "plan":
                expect(page.locator("p.price")).to_be_visible()
            page.wait_for_timeout(300)
            measured, faults = visitor.marks()
            assert measured > 3, name
            assert not faults, (name, len(faults), faults[:3])
