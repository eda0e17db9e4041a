"""Take the README's pictures from the real dashboard: a demo is run, and a browser looks at it.

python scripts/screenshots.py [FOLDER]
python scripts/screenshots.py --all FOLDER      every page and state, both themes, desk and phone: to look at

Pictures are reduced to a palette, so that a clone stays small. Needs the `dev` extra and Chromium.
"""

from __future__ import annotations

import argparse
import io
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from keyveil.campaign import Campaign
from keyveil.cli import demo
from keyveil.cli.stage import Stage, app_campaign, fruit_eaters, glass_campaign, raised, spread_campaign
from keyveil.cli.weeks import STEP_AFTER, walk_through, weekly_campaign
from keyveil.client import Reporter, fetch_round
from keyveil.client.transport import send, with_token
from keyveil.simulate.apps import app_minutes

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "images"
USERS = 20_000
COLOURS = 200
DESK, TALL, PHONE = (1180, 820), (1180, 1200), (390, 844)
SIZES = {"desk": (1366, 850), "phone": PHONE}
Act = Callable[[Page], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """A page, who looks at it, and what is done there first."""

    name: str
    path: str
    size: tuple[int, int] = DESK
    theme: str = "light"
    act: Act | None = None
    token: str | None = None
    """None for nobody's."""
    is_whole: bool = False
    """The whole page rather than the first screen."""


def main() -> None:
    """Run the demo, look at it, keep the pictures."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    asked.add_argument("--all", action="store_true")
    given = asked.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    program = next(found for name in ("chromium", "chromium-browser") if (found := shutil.which(name)))
    with (
        tempfile.TemporaryDirectory() as store,
        raised(f"sqlite:///{store}/demo.db", 0, back=demo.BACK) as stage,
    ):
        walk_through(stage, USERS, lambda _: None)
        demo._collect(stage, app_campaign(), app_minutes(USERS))
        demo._beside(stage, USERS)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            for shot in every_page(stage) if given.all else of_the_readme(stage):
                take(browser, stage, shot, given.folder / f"{shot.name}.png")
            browser.close()


def of_the_readme(stage: Stage) -> Iterator[Shot]:
    """Six first screens."""
    results, privacy = (f"/c/{app_campaign().id}/{page}" for page in ("results", "privacy"))
    glass = f"/glass/{glass_campaign().id}"
    token = stage.token
    yield Shot(name="results", path=results, size=TALL, token=token)
    yield Shot(name="privacy", path=privacy, token=token)
    yield Shot(name="plan-dark", path="/plan", theme="dark", token=token)
    yield Shot(name="glass", path=glass, size=TALL, act=be_a_device, token=token)
    yield Shot(name="trend", path=f"/s/{weekly_campaign().id}", size=TALL, token=token)
    yield Shot(name="phone", path=results, size=PHONE, token=token)


def every_page(stage: Stage) -> Iterator[Shot]:
    """Every page, in every state that a person may meet it in."""
    device = furnish(stage)
    pages = list(pages_for(stage.token, device))
    for kind, size in SIZES.items():
        for theme in ("light", "dark"):
            for name, path, token, act in pages:
                yield Shot(
                    name=f"{name}-{theme}-{kind}",
                    path=path,
                    size=size,
                    theme=theme,
                    act=act,
                    token=token,
                    is_whole=True,
                )


def furnish(stage: Stage) -> str:
    """More campaigns: of several rounds in each state, and one that nobody answered; a device's token."""
    for name in ("rounds, at the first", "rounds, at the second"):
        answer_first_round(stage, of_rounds(name))
    stage.close_round(of_rounds("rounds, at the second"))
    stage.create(of_rounds("auto"))
    device = stage.create(of_rounds("nobody yet"))
    assert device is not None
    return device


def answer_first_round(stage: Stage, campaign: Campaign) -> None:
    """Create a campaign, and let some devices answer the round that it opens with."""
    token = stage.create(campaign)
    assert token is not None
    url = f"{stage.url}/v1/campaigns/{campaign.id}"
    device, asked = Reporter(campaign), fetch_round(url)[1]
    reports = [device.report(held, asked) for held in fruit_eaters(1500)]
    send(f"{url}/reports", reports, timeout=30, exchange=with_token(token))


def of_rounds(name: str) -> Campaign:
    """A question about fruit; in several rounds where its name says so."""
    several = {"auto": ("auto", None), "nobody yet": ("pckv-ue", None)}
    mechanism, rounds = several.get(name, ("privkvm", 3))
    fruit = glass_campaign()
    return Campaign(
        name=name,
        epsilon=3.0,
        keys=fruit.keys,
        value_range=fruit.value_range,
        pairs_per_user=2,
        mechanism=mechanism,
        rounds=rounds,
        owner="the demo",
        purpose="be looked at",
        expires=fruit.expires,
    )


def pages_for(token: str, device: str) -> Iterator[tuple[str, str, str | None, Act | None]]:
    """Name, address, whose token, and what is done first."""
    main, spread, fruit = app_campaign().id, spread_campaign().id, glass_campaign().id
    earlier = app_campaign("minutes per app, a week later", "have something to compare with").id
    yield "campaigns", "/", token, None
    yield "progress-closed", f"/c/{main}", token, None
    yield "progress-running", f"/c/{fruit}?target=1", token, None
    yield "progress-nobody", f"/c/{of_rounds('nobody yet').id}", token, None
    yield "progress-first-round", f"/c/{of_rounds('rounds, at the first').id}", token, None
    yield "progress-second-round", f"/c/{of_rounds('rounds, at the second').id}", token, None
    yield "progress-auto", f"/c/{of_rounds('auto').id}", token, None
    yield "progress-lost", f"/c/{fruit}", token, lose_the_connection
    yield "results", f"/c/{main}/results?size=20", token, None
    yield "results-spread", f"/c/{spread}/results", token, None
    yield "results-nobody", f"/c/{of_rounds('nobody yet').id}/results", token, None
    yield "results-rounds-left", f"/c/{of_rounds('rounds, at the first').id}/results", token, None
    yield "results-paper", f"/c/{main}/results?size=20", token, print_it
    yield "compare", f"/c/{main}/compare?with={earlier}", token, None
    yield "compare-none", f"/c/{main}/compare", token, None
    yield "privacy", f"/c/{main}/privacy", token, None
    yield "privacy-rounds", f"/c/{of_rounds('rounds, at the first').id}/privacy", token, None
    yield "health", f"/c/{main}/health", token, None
    yield "plan", "/plan", token, None
    yield "plan-distribution", "/plan?solve=users&want=distribution", token, None
    yield "plan-out-of-reach", "/plan?solve=users&error=0.0001&epsilon=0.05&keys=20000", token, None
    yield "glass", f"/glass/{fruit}", token, be_a_device
    yield "glass-first-sight", f"/glass/{fruit}", None, None
    weekly, waves = weekly_campaign(), f"/s/{weekly_campaign().id}"
    yield "series", waves, token, None
    yield "series-since", f"{waves}?since={STEP_AFTER + 1}&keys=0.8", token, None
    yield "series-means", f"{waves}?what=mean", token, None
    yield "series-waves", f"{waves}/waves", token, None
    yield "series-privacy", f"{waves}/privacy", token, None
    yield "series-key", f"/c/{weekly.wave(STEP_AFTER + 1).id}/keys/8", token, None
    yield "campaigns-waves", "/?waves=each", token, None
    yield "plan-series", "/plan?every=week&waves=26&answers=2", token, None
    yield "welcome", "/", None, None
    yield "no-token", f"/c/{main}/results", None, None
    yield "wrong-role", f"/c/{main}/results", device, None
    yield "no-campaign", f"/c/{'0' * 64}/results", token, None
    yield "no-page", "/nowhere", token, None
    yield "token-dialog", "/", token, lambda page: page.locator("#who").click()
    yield "docs", "", None, lambda page: page.goto(page.url.partition("#")[0] + "docs")
    yield "errors", "", None, lambda page: page.goto(page.url.partition("#")[0] + "errors")


def be_a_device(page: Page) -> None:
    """Hold two kinds of fruit, agree, send, and let others answer too."""
    page.fill("#held-0", "7")
    page.fill("#held-2", "9")
    page.get_by_label("I agree").check()
    page.get_by_role("button", name="Noise it and send").click()
    page.get_by_text("The collector has it.").wait_for()
    page.get_by_role("button", name="made-up people").click()
    page.get_by_text("Rings: before").wait_for()


def lose_the_connection(page: Page) -> None:
    """As in a tunnel."""
    page.context.set_offline(True)
    page.locator("#connection.lost").wait_for()


def print_it(page: Page) -> None:
    """As on paper."""
    page.emulate_media(media="print")


def take(browser: Browser, stage: Stage, shot: Shot, out: Path) -> None:
    """One picture."""
    context = browser.new_context(
        viewport={"width": shot.size[0], "height": shot.size[1]},
        color_scheme="dark" if shot.theme == "dark" else "light",
    )
    if shot.token is not None:
        context.add_init_script(f"sessionStorage.setItem('keyveil-token', '{shot.token}')")
    page = context.new_page()
    page.goto(f"{stage.url}/#{shot.path}")
    page.wait_for_selector("main:not([aria-busy]) h1")
    if shot.act is not None:
        shot.act(page)
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(1200)
    seen = Image.open(io.BytesIO(page.screenshot(full_page=shot.is_whole))).convert("RGB")
    seen.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(out, optimize=True)
    print(f"{out.name}: {out.stat().st_size // 1024} KB")
    context.close()


if __name__ == "__main__":
    main()
