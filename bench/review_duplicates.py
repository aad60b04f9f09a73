"""How fast can duplicates be reviewed? A scripted expert on the page Duplicates, 200 pairs, in Chromium.

Three in four decisions keep A, one in ten keeps B, the others say that it is no duplicate. Two clocks: the time until
the next pair is there with both its images, and the time until a decision is on disk. In the end all files that were
dropped are moved and put back, and every byte is compared.

    python bench/review_duplicates.py [pairs]
"""

import hashlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from lookalike.study.duplicate_decisions import DecisionLog
from lookalike.study.encode import encode_folder

READY = (
    "[...document.querySelectorAll('.frame')].every(frame => !frame.classList.contains('loading') && "
    "frame.firstChild?.complete && frame.firstChild.naturalWidth)"
)
NAMES = "[...document.querySelectorAll('#stage .path')].map(one => one.textContent).join('\\n')"


def write_photos(folder: Path, pairs: int) -> None:
    """Photographs of 1,600 × 1,200 pixels, and of each a smaller one."""
    folder.mkdir(parents=True)
    for number in range(pairs):
        blocks = np.random.default_rng(number).integers(0, 256, (9, 12, 3), np.uint8)
        photo = Image.fromarray(blocks).resize((1600, 1200), Image.Resampling.BICUBIC)
        photo.save(folder / f"IMG_{number:04}.jpg", quality=90)
        photo.resize((800, 600)).save(folder / f"IMG_{number:04}_small.jpg", quality=80)


def hashes(*folders: Path) -> list[str]:
    """The contents of all files of some folders."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return sorted(hashlib.sha256(path.read_bytes()).hexdigest() for path in files)


def wait(page: Any, expression: str) -> None:
    """Wait until something is true; the page's policy forbids Playwright's own way."""
    while not page.evaluate(expression):
        page.wait_for_timeout(4)


def review(page: Any, pairs: int) -> tuple[list[float], float]:
    """Seconds from each key to the next pair with its images, and seconds in all until everything is on disk."""
    rng, steps = np.random.default_rng(0), []
    began = time.perf_counter()
    for number in range(pairs):
        before = page.evaluate(NAMES)
        page.wait_for_timeout(125)  # what comes sooner after a pair is taken for an answer to the one before
        key = rng.choice(["ArrowLeft", "ArrowRight", "n"], p=[0.75, 0.1, 0.15])
        start = time.perf_counter()
        page.keyboard.press(str(key))
        if number + 1 < pairs:
            wait(page, f"({NAMES}) !== {json.dumps(before)} && {READY}")
        steps.append(time.perf_counter() - start)
    wait(page, "document.querySelector('#panel h1')?.textContent.startsWith('All pairs')")
    return steps, time.perf_counter() - began


def main(pairs: int) -> None:
    """Make a study, serve it, review it, act on it and undo that."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory(prefix="lookalike-") as place:
        photos, study = Path(place) / "photos", Path(place) / "study"
        write_photos(photos, pairs)
        encode_folder(photos, study, model="colour")
        before = hashes(photos)
        command = [sys.executable, "-m", "lookalike", "look", str(study), "--port", "0", "--json", "--no-open"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as tool:
            assert server.stdout is not None
            address = json.loads(server.stdout.readline())["address"]
            browser = tool.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1280, "height": 860})
            page.goto(f"{address}duplicates?model=colour&near=0.999")
            wait(page, f"!document.querySelector('#stage').hidden && {READY}")
            steps, seconds = review(page, pairs)
            decisions = DecisionLog(study).read()
            page.keyboard.press("m")
            wait(page, "document.querySelector('#plan-apply').textContent.startsWith('Move')")
            wait(page, "!document.querySelector('#plan-apply').disabled")
            page.click("#plan-apply")
            wait(page, "document.querySelectorAll('#plan-done li').length === 1")
            moved = len(list((Path(place) / "photos-copies").rglob("*.jpg")))
            assert hashes(photos, Path(place) / "photos-copies") == before
            page.click("#plan-done button")
            wait(page, "document.querySelector('#plan-done').hidden")
            assert hashes(photos) == before
            browser.close()
            server.send_signal(signal.SIGINT)
    print(f"{pairs} pairs in {seconds:.1f} s, {seconds / pairs:.3f} s a pair, of which 0.125 s is the expert's")
    middle, late = np.percentile(steps, [50, 95])
    print(f"from a key to the next pair with its images: median {middle * 1e3:.0f} ms, 95 % within {late * 1e3:.0f} ms")
    print(f"on disk: {len(decisions.live)} decisions; {moved} files moved and put back, all bytes as before")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
