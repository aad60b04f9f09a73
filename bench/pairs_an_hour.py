"""How many pairs an hour? A scripted expert in a real browser, with pairs one after the other and with sheets.

The floor is the page's own: milliseconds from the key to the next pair or sheet, painted with all its images, when a
key comes as soon as the page takes one and the next images are loaded. The expert of the model looks at each candidate
for 0.4 s and takes 0.2 s for each key (the average of skilled typists, Card, Moran and Newell 1983). With pairs, each
answer is a key. With sheets, the expert goes by arrow keys to each candidate that is alike, the shortest way, presses
K, which marks it and goes to the next, and at last Enter. The model knows nothing of tired eyes, of hands that miss a
key, or of answers that differ by layout.

    python bench/pairs_an_hour.py                           shares of 10, 50 and 85 % alike, 96 pairs each
    python bench/pairs_an_hour.py --pairs 240 --sheet-size 24
"""

import argparse
import contextlib
import datetime
import importlib.metadata
import json
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from judging import make_study, spread

READY = {  # the page takes a key
    "pairs": "shown && complete && performance.now() - visible > GLANCE + 10",
    "sheet": "sheet && complete && performance.now() - visible > BREATH + 10 && !unseen().length",
}
LOADED = "!few() && [...pictures.values()].every((one) => one.state === 'ready')"  # what comes next
SHOWN = "complete && (typeof sheet === 'undefined' ? shown : sheet)"
SIDE = 800  # pixels of an image

clock = time.perf_counter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=96, help="that are judged in each run")
    parser.add_argument("--sheet-size", type=int, default=12)
    parser.add_argument("--look", type=float, default=0.4, help="seconds for a candidate")
    parser.add_argument("--press", type=float, default=0.2, help="seconds for a key")
    parser.add_argument("--alike", type=float, nargs="+", default=[0.1, 0.5, 0.85], help="shares of pairs that are")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    packages = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("playwright", "uvicorn"))
    print(f"{datetime.datetime.now(datetime.UTC):%d %B %Y}; {platform.machine()}; {packages}", end="; ")
    with sync_playwright() as tool, contextlib.closing(browser_of(tool)) as browser:
        print(f"Chromium {browser.version}", flush=True)
        runs = {layout: Run(browser, layout, options) for layout in READY}
        print(f"\n{'floor of the page, ms':28}{'p50':>9}{'p90':>9}{'max':>9}")
        for layout, run in runs.items():
            took = spread([ms / 1000 for ms in run.floor()])
            name = {"pairs": "next pair", "sheet": f"next sheet of {options.sheet_size}"}[layout]
            print(f"{name:28}{took['p50']:9.0f}{took['p90']:9.0f}{took['max']:9.0f}", flush=True)
        print(f"\n{'pairs an hour':16}{'pairs':>9}{'sheets':>9}{'sheets : pairs':>16}{'keys a pair':>13}")
        for share in options.alike:
            (one, _), (many, keys) = (run.model(share) for run in runs.values())
            print(f"{share:5.0%} alike{one:14,.0f}{many:9,.0f}{many / one:16.2f}{keys:13.2f}", flush=True)


def browser_of(tool: Any) -> Any:
    return tool.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])


class Run:
    """An expert with one layout."""

    def __init__(self, browser: Any, layout: str, options: argparse.Namespace) -> None:
        self.browser, self.layout, self.options = browser, layout, options

    @contextlib.contextmanager
    def page(self) -> Iterator[Any]:
        """The page of an expert, with the first pair or sheet on show and the next ones loaded."""
        with tempfile.TemporaryDirectory() as folder:
            n_pairs = self.options.pairs + 4 * self.options.sheet_size
            study = make_study(Path(folder), n_pairs, SIDE)
            more = [] if self.layout == "pairs" else ["--sheet-size", str(self.options.sheet_size)]
            with served(study.path, "--layout", self.layout, *more) as link:
                context = self.browser.new_context(viewport={"width": 1280, "height": 800})
                page = context.new_page()
                page.goto(link)
                page.click("#keys form button")
                until(page, f"{READY[self.layout]} && {LOADED}")
                yield page
                until(page, "!waiting().length")
                context.close()

    def floor(self) -> list[float]:
        """Milliseconds from each key to what comes next."""
        took = []
        with self.page() as page:
            each = 1 if self.layout == "pairs" else self.options.sheet_size
            for _ in range(self.options.pairs // each):
                until(page, f"{READY[self.layout]} && {LOADED}")
                page.evaluate("delete stage.dataset.took")
                page.keyboard.press("k" if self.layout == "pairs" else "Enter")
                until(page, "stage.dataset.took")
                took.append(float(page.evaluate("stage.dataset.took")))
        return took

    def model(self, share: float) -> tuple[float, float]:
        """Pairs an hour, and keys for each, of an expert who finds this share of all candidates alike."""
        how, judged, keys = random.Random(self.options.seed), 0, 0
        with self.page() as page:
            begun = clock()
            while judged < self.options.pairs:
                if self.layout == "pairs":
                    time.sleep(self.options.look)
                    keys += self._press(page, "k" if how.random() < share else "j")
                    judged += 1
                else:
                    n = page.evaluate("sheet.tasks.length")
                    keys += self._sheet(page, [place for place in range(n) if how.random() < share], n)
                    judged += n
                until(page, SHOWN)
            seconds = clock() - begun
        return 3600 * judged / seconds, keys / judged

    def _sheet(self, page: Any, alike: list[int], n: int) -> int:
        """Look at all candidates of a sheet in turn, mark those that are alike, and confirm; how many keys."""
        columns, at, keys = page.evaluate("columns"), 0, 0
        for place in range(n):
            time.sleep(self.options.look)
            if place in alike:
                for key in way(at, place, columns):
                    keys += self._press(page, key)
                at, keys = min(place + 1, n - 1), keys + self._press(page, "k")
        return keys + self._press(page, "Enter")

    def _press(self, page: Any, key: str) -> int:
        time.sleep(self.options.press)
        page.keyboard.press(key)
        return 1


def way(start: int, end: int, columns: int) -> list[str]:
    """The arrow keys from one candidate to a later one, as few as possible.

    >>> way(0, 5, 4), way(3, 4, 4)
    (['ArrowDown', 'ArrowRight'], ['ArrowRight'])
    """
    best = ["ArrowRight"] * (end - start)
    rows = end // columns - start // columns
    across = end % columns - start % columns
    by_rows = ["ArrowDown"] * rows + ["ArrowRight" if across > 0 else "ArrowLeft"] * abs(across)
    return min(best, by_rows, key=len)


@contextlib.contextmanager
def served(study: Path, *options: str) -> Iterator[str]:
    """The link of an expert, while a study is served."""
    command = [sys.executable, "-m", "lookalike", "judge", str(study), "--expert", "ann", "--experts-per-pair", "1"]
    with subprocess.Popen(
        [*command, "--port", "0", "--json", *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["experts"]["ann"]
        finally:
            process.send_signal(signal.SIGINT)


def until(page: Any, expression: str) -> None:
    """Wait for something to be true; Playwright's own way of it would need `eval`, which the page forbids."""
    script = f"""async () => {{
        for (const end = performance.now() + 30_000; performance.now() < end;) {{
            if ({expression}) return true;
            await new Promise((go) => setTimeout(go, 4));
        }}
        return false;
    }}"""
    if not page.evaluate(script):
        raise SystemExit(f"never, in 30 seconds: {expression}")


if __name__ == "__main__":
    main()
