"""Take the README's pictures from the real dashboard: a demo is run, and a browser looks at it.

python scripts/screenshots.py [FOLDER]

Pictures are reduced to a palette, so that a clone stays small. Needs the `dev` extra and Chromium.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from keyveil.cli import demo
from keyveil.cli.stage import Stage, app_campaign, glass_campaign, raised
from keyveil.simulate.apps import app_minutes

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "images"
USERS = 20_000
COLOURS = 200
DESK, TALL, PHONE = (1180, 820), (1180, 1090), (390, 844)


def main() -> None:
    """Run the demo, look at it, keep the pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    program = next(found for name in ("chromium", "chromium-browser") if (found := shutil.which(name)))
    with tempfile.TemporaryDirectory() as store, raised(f"sqlite:///{store}/demo.db", 0) as stage:
        demo._collect(stage, app_campaign(), app_minutes(USERS))
        demo._beside(stage, USERS)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            main_id, glass_id = app_campaign().id, glass_campaign().id
            take(browser, stage, f"/c/{main_id}/results", folder / "results.png", size=TALL)
            take(browser, stage, f"/c/{main_id}/privacy", folder / "privacy.png")
            take(browser, stage, "/plan", folder / "plan-dark.png", theme="dark")
            take(browser, stage, f"/glass/{glass_id}", folder / "glass.png", size=TALL, act=be_a_device)
            take(browser, stage, f"/c/{main_id}/results", folder / "phone.png", size=PHONE)
            browser.close()


def be_a_device(page: Page) -> None:
    """Hold two kinds of fruit, agree, send, and let others answer too."""
    page.fill("#held-0", "7")
    page.fill("#held-2", "9")
    page.get_by_label("I agree").check()
    page.get_by_role("button", name="Noise it and send").click()
    page.get_by_text("The collector has it.").wait_for()
    page.get_by_role("button", name="made-up people").click()
    page.get_by_text("Rings: before").wait_for()


def take(
    browser: Browser,
    stage: Stage,
    path: str,
    out: Path,
    *,
    size: tuple[int, int] = DESK,
    theme: str = "light",
    act: object = None,
) -> None:
    """One picture of the first screen."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if theme == "dark" else "light",
    )
    page = context.new_page()
    page.goto(stage.dashboard(path))
    page.wait_for_selector("main:not([aria-busy]) h1")
    if callable(act):
        act(page)
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(1200)
    shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    shot.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(out, optimize=True)
    print(f"{out.name}: {out.stat().st_size // 1024} KB")
    context.close()


if __name__ == "__main__":
    main()
