"""How a key's values are spread: what the release says of it, and what the pages show."""

import pytest
from browsing import ask, close_round, expect, send, visiting
from collecting import make_question

from keyveil.client import Reporter

# Of four flat shapes one is at times taken for another by chance, all of them never.
KEYS = ("peaked", *(f"flat {place}" for place in range(1, 5)), *(f"none {place}" for place in range(60)))
PEAKED, FLATS = 0, range(1, 5)
MINUS = "\N{MINUS SIGN}"


def answered(collector, mechanism, *, keys=KEYS, reports=6_000):
    """A closed campaign: half of all hold the first key at 15 to 18, others one of four at any value."""
    campaign = make_question(
        mechanism, name=mechanism, keys=keys, value_range=(0.0, 60.0), pairs_per_user=1, epsilon=5.0
    )
    token = collector.create(campaign)["device_token"]
    device = Reporter(campaign)
    held = (
        {keys[FLATS[at // 2 % 4]]: 60.0 * at / reports} if at % 2 else {keys[PEAKED]: 15.0 + at // 2 % 4}
        for at in range(reports)
    )
    send(collector, campaign, [device.report(each) for each in held], token)
    close_round(collector, campaign)
    return campaign


def flat_key(rows):
    """A key whose shape is flat, and is not taken for another."""
    return next(place for place in FLATS if rows[place]["shape"] == "unknown")


def tile(page, title):
    """The number of a tile, and the ends of its interval, as shown; and digits behind the point."""
    box = page.locator(".tile", has=page.get_by_text(title, exact=True))
    number, interval = (box.locator(f"dd.{kind}").inner_text() for kind in ("big", "muted"))
    low, high = interval.removeprefix("95 %: ").split(" to ")
    return [float(text.replace(MINUS, "-")) for text in (number, low, high)], len(number.partition(".")[2])


@pytest.fixture(scope="module")
def spread(tmp_path_factory):
    """A collector with a campaign that tells shapes, and one whose method tells none."""
    from serving import Process

    process = Process(f"sqlite:///{tmp_path_factory.mktemp('spread')}/spread.db")
    process.campaigns = {
        "bucket": answered(process, "bucket"),
        "privkv": answered(process, "privkv", keys=KEYS[:6], reports=1_000),
    }
    yield process
    process.kill()


def test_small_multiples_have_bands_and_say_where_the_shape_is_unknown(browser, spread):
    campaign = spread.campaigns["bucket"]
    name = KEYS[flat_key(ask(spread, f"/v1/campaigns/{campaign.id}/release")["rows"])]
    with visiting(browser, spread.url, token=spread.admin) as visitor:
        page = visitor.go(f"/c/{campaign.id}/results")
        figures = page.locator(".multiples figure")
        expect(figures).to_have_count(12)
        expect(
            page.get_by_text("95 % bands, each of which holds for all shares of a key together")
        ).to_be_visible()
        peaked = figures.filter(has=page.get_by_text("peaked", exact=True))
        flat = figures.filter(has=page.get_by_text(name, exact=True))
        expect(peaked.get_by_role("img")).to_have_accessible_name(
            "Distribution of the values of peaked, with a 95 % band"
        )
        expect(flat.get_by_role("img")).to_have_accessible_name(
            f"Distribution of the values of {name}, with a 95 % band; its shape is unknown"
        )
        expect(peaked.get_by_text("Shape unknown")).to_have_count(0)
        expect(flat.get_by_text("Shape unknown")).to_be_visible()
        assert peaked.locator("g.band line").count() == peaked.locator("rect").count() == 17
        widths = [float(bar.get_attribute("width")) + 1 for bar in peaked.locator("rect").all()]
        assert widths[0] == pytest.approx(widths[1] / 2)
        assert widths[-1] == pytest.approx(widths[1] / 2)
        # Nothing is drawn above the figure, however wide a band is.
        highest = page.locator(".multiples g.band line").evaluate_all(
            "lines => Math.min(...lines.flatMap(({ y1, y2 }) => [y1.baseVal.value, y2.baseVal.value]))"
        )
        assert highest >= 8


def test_a_keys_page_has_the_numbers_of_the_release(browser, spread):
    campaign = spread.campaigns["bucket"]
    rows = ask(spread, f"/v1/campaigns/{campaign.id}/release?post=none")["rows"]
    with visiting(browser, spread.url, token=spread.admin) as visitor:
        page = visitor.go(f"/c/{campaign.id}/results")
        page.locator("table.keys").get_by_role("link", name="peaked").click()
        expect(page.get_by_role("heading", name="peaked")).to_be_visible()
        expect(page.get_by_role("heading", name="How its values are spread")).to_be_visible()
        row = rows[PEAKED]
        assert row["shape"] == "known"
        expect(page.get_by_text("Shape unknown")).to_have_count(0)
        for title, name in (("Mean", "mean"), ("Median", "median")):
            shown, digits = tile(page, title)
            assert shown == [round(row[end], digits) for end in (name, f"{name}_low", f"{name}_high")]
        shown, digits = tile(page, "Standard deviation")
        ends = ("variance", "variance_low", "variance_high")
        assert shown == [round(max(row[end], 0) ** 0.5, digits) for end in ends]
        figure = page.locator("figure.spread")
        expect(figure.locator("g.band line")).to_have_count(17)
        expect(figure.locator("g.median line")).to_have_count(1)
        page.get_by_text("The shares in numbers").click()
        cells = [
            each.inner_text() for each in page.locator("details tbody tr").nth(4).locator("th, td").all()
        ]
        share, low, high = (100 * row[name][4] for name in ("bins", "bins_low", "bins_high"))
        assert cells == ["15.0", f"{share:.1f} %", f"{low:.1f} % to {high:.1f} %"]
        assert not visitor.serious_faults()

        page = visitor.go(f"/c/{campaign.id}/keys/{flat_key(rows)}")
        expect(page.get_by_text("Shape unknown: it may be flat.")).to_be_visible()
        expect(page.locator("figure.spread svg")).to_be_visible()


def test_a_key_that_is_not_drawn_has_its_median_all_the_same(browser, spread):
    campaign = spread.campaigns["bucket"]
    drawn = ask(spread, f"/v1/campaigns/{campaign.id}/results")["distribution"]
    other = next(place for place in range(len(KEYS)) if str(place) not in drawn)
    with visiting(browser, spread.url, token=spread.admin) as visitor:
        page = visitor.go(f"/c/{campaign.id}/keys/{other}")
        expect(page.locator(".tile", has_text="Median")).to_contain_text("95 %")
        expect(page.get_by_text("It is drawn for the 60 most frequent keys only.")).to_be_visible()
        expect(page.locator("figure.spread")).to_have_count(0)
        page = visitor.go(f"/c/{campaign.id}/keys/{len(KEYS)}")
        expect(page.get_by_role("heading", name="The campaign has no such key")).to_be_visible()


def test_the_table_has_medians_and_sorts_by_them(browser, spread):
    campaign = spread.campaigns["bucket"]
    rows = ask(spread, f"/v1/campaigns/{campaign.id}/release?post=none")["rows"]
    with visiting(browser, spread.url, token=spread.admin) as visitor:
        page = visitor.go(f"/c/{campaign.id}/results")
        cells = page.locator("table.keys tbody tr", has=page.get_by_text("peaked", exact=True)).locator("td")
        row = rows[PEAKED]
        assert [cells.nth(-2).inner_text(), cells.nth(-1).inner_text()] == [
            f"{row['median']:.1f}",
            f"{row['median_low']:.1f} to {row['median_high']:.1f}",
        ]
        page.fill("#top", "2")
        page.get_by_role("button", name="Median", exact=True).click()
        expect(page.locator("th[aria-sort=descending]")).to_contain_text("Median")
        expect(page.locator("table.keys tbody tr").first).to_contain_text("flat")
        page.locator("[data-sort=median-width]").click()
        expect(page.locator("table.keys tbody tr").first).to_contain_text("peaked")


def test_shares_without_a_band_are_bars_alone(browser, spread):
    """Outcomes that were stored before intervals were made have neither them nor the columns."""
    campaign = spread.campaigns["bucket"]

    def aged(route):
        answer = route.fetch()
        said = answer.json()
        for name in (
            "median",
            "median_low",
            "median_high",
            "variance",
            "variance_low",
            "variance_high",
            "shape",
        ):
            del said["columns"][name]
        said["distribution"] = {
            place: {"shares": each["shares"], "low": None, "high": None}
            for place, each in said["distribution"].items()
        }
        route.fulfill(response=answer, json=said)

    with visiting(browser, spread.url, token=spread.admin) as visitor:
        visitor.page.route("**/results?*", aged)
        page = visitor.go(f"/c/{campaign.id}/results")
        expect(page.locator(".multiples figure")).to_have_count(12)
        assert page.locator(".multiples rect").count() == 12 * 17
        page = visitor.go(f"/c/{campaign.id}/keys/{PEAKED}")
        expect(page.locator("figure.spread rect")).to_have_count(17)
        expect(page.locator("g.band, g.median")).to_have_count(0)
        for missing in ("Median", "Standard deviation", "band", "Shape unknown"):
            assert missing not in visitor.text()


def test_what_is_not_known_of_a_key_is_not_shown_as_a_number(browser, spread):
    campaign = spread.campaigns["bucket"]
    rows = ask(spread, f"/v1/campaigns/{campaign.id}/release?post=none")["rows"]

    def is_unknown(row):
        return (
            row["mean"] is not None
            and not 0 <= row["mean"] <= 60
            and row["mean_high"] - row["mean_low"] == 60
        )

    place = next(place for place, row in enumerate(rows) if is_unknown(row))
    with visiting(browser, spread.url, token=spread.admin) as visitor:
        page = visitor.go(f"/c/{campaign.id}/keys/{place}")
        box = page.locator(".tile", has=page.get_by_text("Mean", exact=True))
        assert box.locator("dd").all_inner_texts() == ["?", "95 %: anywhere"]


def test_a_method_that_tells_no_shapes_shows_none(browser, spread):
    campaign = spread.campaigns["privkv"]
    with visiting(browser, spread.url, token=spread.admin) as visitor:
        page = visitor.go(f"/c/{campaign.id}/results")
        expect(page.locator("table.keys tbody tr")).to_have_count(6)
        assert "Median" not in page.locator("table.keys thead").inner_text()
        assert "How values are spread" not in visitor.text()
        page = visitor.go(f"/c/{campaign.id}/keys/{PEAKED}")
        expect(page.locator(".tile", has_text="Mean")).to_contain_text("95 %")
        for missing in ("Median", "Standard deviation", "How its values are spread", "Shape unknown"):
            assert missing not in visitor.text()
