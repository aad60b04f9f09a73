"""Pages for tests: read as a parser reads them, and opened in a browser."""

import contextlib
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

PATIENCE = 120_000  # ms: machines are shared
HOSTILE = "<img src=x onerror=alert(1)></script><!-- {{data}} 'q' \"d\""


class Reader(HTMLParser):
    """Every element with its attributes and the text inside."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self.inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self.inside = tag

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        (self.scripts if self.inside in ("script", "style") else self.words).append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    with sync_playwright() as tool:
        path = shutil.which("chromium")
        opened = tool.chromium.launch(executable_path=path, args=["--no-sandbox"], timeout=PATIENCE)
        yield opened
        opened.close()


class Opened:
    """A page as a browser shows it, from a file, with everything it complains of or asks for."""

    def __init__(self, browser, path: Path, content: str, **options) -> None:
        path.write_text(content, encoding="utf-8")
        self.said: list[str] = []
        self.asked: list[str] = []
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        context.set_default_timeout(PATIENCE)
        self.page = context.new_page()
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append("a dialog"))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-drawn]", timeout=PATIENCE)
        self.url = path.as_uri()

    def check(self) -> None:
        assert self.said == []
        assert [url for url in self.asked if url != self.url and not url.startswith("data:")] == []
        plots = self.page.eval_on_selector_all(
            ".chart:not([hidden]) > [data-plot]",
            "all => all.map(plot => [plot.dataset.plot, "
            "plot.querySelectorAll('svg [class*=mark-]:not([class*=role-axis]) path[d]').length, "
            "plot.querySelector('svg')?.getBoundingClientRect().width ?? 0])",
        )
        assert plots
        assert [plot for plot in plots if plot[1] < 1 or plot[2] < 80] == []


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened
