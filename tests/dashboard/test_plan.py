"""The plan page: what is typed is what is planned, and what epsilon buys stands beside what it costs."""

import re
from math import exp

import pytest
from browsing import expect, visiting


def see(visitor, path="/plan"):
    page = visitor.go(path)
    expect(page.locator("p.price")).to_be_visible()
    return page


def guess(epsilon):
    return f"{100 / (1 + exp(-epsilon)):.1f} %"


def test_every_number_can_be_typed(browser, furnished):
    with visiting(browser, furnished.url, token=furnished.admin) as visitor:
        page = see(visitor)
        for name, typed in (
            ("users", "123457"),
            ("keys", "321"),
            ("epsilon", "0.77"),
            ("pairs_per_user", "5"),
        ):
            with page.expect_response(lambda answer: answer.url.endswith("/v1/plan")) as said:
                page.locator(f"#n-{name}").fill(typed)
            assert said.value.request.post_data_json[name] == float(typed)
            assert page.locator(f"#s-{name}").get_attribute("aria-valuetext").replace(",", "") == typed
        with page.expect_response(lambda answer: answer.url.endswith("/v1/plan")) as said:
            page.locator("#n-skew").fill("0")
        assert said.value.request.post_data_json["skew"] == 0
        expect(page.get_by_text("all keys alike")).to_be_visible()
        # An error is typed in the unit that stands beside it.
        page.get_by_label("solve for People who answer").check()
        with page.expect_response(lambda answer: answer.url.endswith("/v1/plan")) as said:
            page.locator("#n-error").fill("2.5")
        assert said.value.request.post_data_json["error"] == pytest.approx(0.025)
        # What is solved for is not typed.
        assert page.locator("#n-users").get_attribute("readonly") is not None
        assert page.locator("#n-users").input_value() == str(int(said.value.json()["solved"]["users"]))


def test_what_cannot_be_is_not_planned_and_does_not_stay(browser, furnished):
    with visiting(browser, furnished.url, token=furnished.admin) as visitor:
        page = see(visitor)
        for typed in ("0", "-3", "99", ""):
            page.locator("#n-epsilon").fill(typed)
            page.locator("#n-epsilon").blur()
            assert page.locator("#n-epsilon").input_value() == "1"
        page.locator("#n-keys").fill("1e9")
        page.locator("#n-keys").blur()
        assert page.locator("#n-keys").input_value() == "100"


@pytest.mark.parametrize(("theme", "width"), [("light", 320), ("dark", 768)])
def test_error_and_guess_stand_against_epsilon(browser, furnished, theme, width):
    with visiting(browser, furnished.url, token=furnished.admin, theme=theme, size=(width, 800)) as visitor:
        page = visitor.page
        with page.expect_response(lambda answer: answer.url.endswith("/v1/plan")) as answer:
            visitor.go("/plan?epsilon=2&users=50000")
        expect(page.locator("p.price")).to_be_visible()
        found = answer.value.json()
        error = float(f"{100 * found['plan']['error']:.3g}")
        assert page.locator("p.price").inner_text() == (
            f"At epsilon 2 the error is {error:g} % points, and a guess about a person right at most "
            f"{guess(2)} of the time; 50 % before."
        )
        # Every point says its numbers, those of the answer.
        chart = page.locator("section", has=page.locator("p.price")).locator("svg.plot")
        titles = chart.locator("title").all_text_contents()
        assert len(titles) == 2 * len(found["epsilons"]) == 18
        for title, each in zip(titles, found["epsilons"], strict=False):
            numbers = re.findall(r"[\d.]+(?= % )", title)
            assert float(numbers[0]) == pytest.approx(100 * each["error"], rel=0.005)
            assert guess(each["epsilon"]) in title or "over 99.9 %" in title
            assert each["label"] in title
        visitor.fits("plan")
        assert not visitor.serious_faults()


def test_a_series_costs_all_its_answers_and_a_relay_has_no_such_curve(browser, furnished):
    with visiting(browser, furnished.url, token=furnished.admin) as visitor:
        page = see(visitor, "/plan?every=week&waves=20&answers=3&users=1000000")
        expect(page.locator("p.price")).to_contain_text(
            f"{guess(3)} of the time after all 3 answers; 50 % before."
        )
        page.locator("#relay").check()
        expect(page.locator("p.price")).to_have_count(0)
        expect(page.get_by_role("heading", name="What epsilon buys")).to_be_hidden()
