"""Make the pictures of pages that the documentation shows, from real images: python docs/screenshots.py.

A folder of 2,000 images of CIFAR-10 is encoded in three ways, and the page of `lookalike look` is photographed in
Chromium.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

FIGURES = Path(__file__).parent / "figures"
LOOKALIKE = [sys.executable, "-m", "lookalike"]
SEARCHED = "like?item=truck%2F44895.png&model=efficientnet-lite0&model=efficientnet-lite0-itq-64&model=phash"


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for command in (
            "data cifar10 --images photos --first 2000",
            "encode photos",
            "encode photos --model phash",
            "index photos-study --hasher ITQ --bits 64",
        ):
            subprocess.run([*LOOKALIKE, *command.split()], cwd=folder, check=True)
        command = [*LOOKALIKE, "look", "photos-study", "--port", "0", "--no-open", "--json"]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            try:
                photograph(json.loads(server.stdout.readline())["address"] + SEARCHED, FIGURES / "look.webp")
            finally:
                server.terminate()


def photograph(address: str, path: Path) -> None:
    """A page at the width of a desktop, as a small file."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.goto(address, wait_until="networkidle")
        page.evaluate("Promise.all([...document.images].map(image => image.decode()))")
        taken = path.with_suffix(".png")
        page.screenshot(path=taken)
        browser.close()
    Image.open(taken).convert("RGB").save(path, quality=82, method=6)
    taken.unlink()
    print(f"{path.relative_to(Path.cwd())}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
