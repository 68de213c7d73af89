"""A picture of a report's attention explorer, as it stands in the README: `python docs/screenshot.py report.html picture.png`.

It needs Chromium, and playwright from the extra `dev`.
"""

import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

WIDTH, HEIGHT = 1280, 770
FEW_COLOURS = 200  # a picture of so many colours is a third as large


def main(report: Path, picture: Path) -> None:
    """Take the picture in the light theme: the words and the maps."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(
            viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light", device_scale_factor=1.5
        )
        page.goto(report.resolve().as_uri())
        page.locator(".explorer[aria-busy=false]").wait_for()
        page.evaluate("document.documentElement.style.scrollBehavior = 'auto'")
        page.evaluate("window.scrollTo(0, document.getElementById('explorer').offsetTop - 24)")
        page.screenshot(path=picture)
        browser.close()
    Image.open(picture).convert("RGB").quantize(FEW_COLOURS, dither=Image.Dither.NONE).save(picture, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
