"""Two hundred hostile names on every page and in every export: text, all of it."""

import csv
import io

import pytest
from browsing import expect, new_token, send, visiting
from collecting import make_question
from hostile_names import NAMES

from keyveil.client import Reporter

FORMULA = ("=", "+", "-", "@", "\t", "\r")


@pytest.fixture(scope="module")
def haunted(tmp_path_factory):
    """Three campaigns whose names, keys, owners and purposes are hostile, with reports."""
    from serving import Process

    process = Process(f"sqlite:///{tmp_path_factory.mktemp('haunted')}/haunted.db")
    process.campaigns = []
    for number, mechanism in enumerate(("pckv-ue", "pckv-ue", "ue-sw")):
        campaign = make_question(
            mechanism,
            name=NAMES[number],
            keys=tuple(NAMES) if mechanism == "pckv-ue" else tuple(NAMES[:24]),
            owner=NAMES[number + 5],
            purpose=NAMES[number + 10],
            pairs_per_user=1,
            epsilon=4.0,
            bins=8 if mechanism == "ue-sw" else None,
        )
        token = process.create(campaign, uploads="open" if number == 0 else "token")["device_token"]
        device = Reporter(campaign)
        held = [NAMES[place] for place in range(0, 24, 1 + number)]
        reports = [device.report({held[at % len(held)]: 30.0}) for at in range(500)]
        send(process, campaign, reports, token)
        process.ask(
            "POST",
            f"/v1/campaigns/{campaign.id}/label",
            {"label": NAMES[number + 20][:200]},
            token=process.admin,
        )
        process.campaigns.append(campaign)
    # A megabyte, and what cannot be seen, as the names of campaigns themselves.
    for name in (NAMES[-1], "\u202egnp.exe\u200b", "=cmd()"):
        process.create(make_question(name=name))
    yield process
    process.kill()


def pages(process):
    one, two, spread = (campaign.id for campaign in process.campaigns)
    return (
        "/",
        f"/c/{one}",
        f"/c/{one}/results?size=500",
        f"/c/{one}/results?size=500&sort=key",
        f"/c/{spread}/results",
        *(f"/c/{spread}/keys/{place}" for place in (0, 11, 23)),
        f"/c/{one}/keys/{len(NAMES) - 1}",
        f"/c/{one}/compare?with={two}",
        f"/c/{one}/privacy",
        f"/c/{one}/health",
        f"/glass/{one}",
        "/plan",
    )


@pytest.mark.parametrize(
    "size",
    [pytest.param((360, 740), id="phone"), pytest.param((1280, 900), id="desk", marks=pytest.mark.nightly)],
)
def test_no_name_runs_or_breaks_a_page(browser, haunted, size):
    with visiting(browser, haunted.url, token=new_token(haunted, "operator"), size=size) as visitor:
        for path in pages(haunted):
            page = visitor.go(path)
            page.wait_for_timeout(150)
            visitor.fits(path)
            assert "fault" not in page.locator("main h1").first.inner_text(), path
            # Nothing that a name holds became an element.
            assert (
                page.locator(
                    "main :is(script, iframe, img, object, embed, base, link, meta, video, marquee)"
                ).count()
                == 0
            )
            assert page.locator("main [onclick], main [onerror], main [onload]").count() == 0
        page = visitor.go(f"/c/{haunted.campaigns[0].id}/results?size=500")
        expect(page.locator("table.keys tbody tr")).to_have_count(200)
        shown = page.locator("table.keys tbody th .name").all_inner_texts()
        assert all(text.strip() for text in shown), "a key without a visible name"
        assert all(len(text) < 1000 for text in shown)
        assert any("<script>" in text for text in shown)
        assert any("1,048,576 characters" in text for text in shown)
        # A name that turns the direction of text is shown with that character named.
        assert any("\u27e8202E\u27e9gnp.exe" in text for text in shown)
        page.fill("#q", "<script>")
        page.wait_for_timeout(100)
        assert page.locator("table.keys tbody tr").count() >= 1


def test_glass_takes_hostile_keys(browser, haunted):
    with visiting(browser, haunted.url, token=haunted.admin) as visitor:
        # No device reads a key of a megabyte.
        campaign = make_question(keys=tuple(NAMES[:-1]), name=NAMES[0], owner=NAMES[5], purpose=NAMES[10])
        haunted.create(campaign, uploads="open")
        page = visitor.go(f"/glass/{campaign.id}")
        page.fill("#held-0", "30")
        page.get_by_label("I agree").check()
        page.get_by_role("button", name="Noise it and send").click()
        expect(page.get_by_text("The collector has it.")).to_be_visible()


def test_exports_hold_the_names_as_text(browser, haunted):
    with visiting(browser, haunted.url, token=haunted.admin) as visitor:
        page = visitor.go(f"/c/{haunted.campaigns[0].id}/results")
        files = {}
        for form in ("csv", "json", "parquet", "arrow"):
            with page.expect_download() as saved:
                page.locator(f"[data-format={form}]").click()
            files[form] = saved.value.path().read_bytes()
        csv.field_size_limit(1 << 22)
        keys = [row[0] for row in csv.reader(io.StringIO(files["csv"].decode(), newline=""))][1:]
        assert len(keys) == 200
        assert not [key for key in keys if key.startswith(FORMULA)]
        import json

        import pyarrow as pa
        import pyarrow.parquet

        assert [row["key"] for row in json.loads(files["json"])["rows"]] == NAMES
        assert pyarrow.parquet.read_table(io.BytesIO(files["parquet"])).column("key").to_pylist() == NAMES
        assert pa.ipc.open_file(files["arrow"]).read_all().column("key").to_pylist() == NAMES


def test_hostile_names_from_the_plan_page(browser, haunted):
    with visiting(browser, haunted.url, token=haunted.admin) as visitor:
        page = visitor.go("/plan")
        page.wait_for_function("() => document.querySelector('#d-mechanism').options.length > 2")
        page.fill("#d-name", NAMES[2])
        page.fill("#d-owner", NAMES[3])
        page.fill("#d-purpose", NAMES[4])
        page.fill("#d-keys", "\n".join(name for name in NAMES[:60] if "\n" not in name))
        page.get_by_role("button", name="Create it here").click()
        expect(page.get_by_role("heading", name="Created")).to_be_visible()
        page.locator(".made a").click()
        visitor.settled()
        assert NAMES[2] in page.locator("h1").inner_text()
