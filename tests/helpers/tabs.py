"""Tabs of a real browser in which experts judge, and the servers that they visit."""

from __future__ import annotations

import contextlib
import json
import logging
import random
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import uvicorn
from playwright.sync_api import Error

from helpers.panels import N_QUERIES, K
from lookalike.discovery.votes import Votes
from lookalike.judging.pages.app import expert_link, organiser_link
from lookalike.judging.pages.links import Keys
from lookalike.judging.pages.workers import Service
from lookalike.judging.store.store import Store
from lookalike.judging.store.types import Answer
from lookalike.study.study import Study
from lookalike.web.server import listen

WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
YES, NO, UNSURE = 1, 0, -1
GLANCE = 150  # ms that a pair must be on show before it takes an answer
KEYS = {"ArrowRight": YES, "k": YES, "ArrowLeft": NO, "j": NO, " ": UNSURE}
N_PAIRS = K * N_QUERIES
ANSWERABLE = "!document.querySelector('[data-act=unsure]').disabled"  # both images are there, or known to be missing
SEEN = f"performance.now() - visible > {GLANCE + 10}"
# From a key until the next pair has been painted; the two images together say which pair it is. Beside it, from a key
# that does nothing until a second frame: as long as this machine, with all else that it does, takes for the same.
STOPWATCH = """
    window.took = [];
    window.idle = [];
    window.pressed = {};
    window.pair = () => [...document.querySelectorAll("#stage:not([hidden]) .frame img")];
    window.named = () => pair().map((image) => image.src).join(" ");
    addEventListener("keydown", ({ key, timeStamp }) => {
        window.pressed[key] = performance.now();
        const after = (list) => () => list.push(performance.now() - timeStamp);
        if (key === "q") return requestAnimationFrame(() => requestAnimationFrame(after(window.idle)));
        const before = named();
        const look = () => {
            const whole = pair().length === 2 && pair().every((image) => image.complete && image.naturalWidth);
            if (named() === before || !whole) return requestAnimationFrame(look);
            requestAnimationFrame(after(window.took));
        };
        requestAnimationFrame(look);
    }, true);
"""


class Tab:
    """A page of the server, with everything the browser complains of."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.said: list[str] = []
        self.context = browser.new_context(**{"viewport": WIDE, **options})
        self.page = self._page()

    def _page(self) -> Any:
        page = self.context.new_page()
        page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("dialog", lambda dialog: self.said.append("a dialog"))
        page.add_init_script(
            "addEventListener('securitypolicyviolation', event => console.error('CSP', event.violatedDirective))"
        )
        page.add_init_script(STOPWATCH)
        return page

    def open(self, link: str) -> Tab:
        self.page.goto(link)
        return self

    def judge(self, link: str) -> Tab:
        self.open(link).begin()
        self.ready()
        return self

    def begin(self) -> None:
        """Close what is said at the first visit."""
        if self.page.is_visible("#keys"):
            self.page.evaluate("document.querySelector('#keys form button').click()")
            self.closed()

    def closed(self) -> None:
        """Wait until the page knows that the help is closed, which browsers say a little later."""
        until(self.page, "!help.open && hiddenSince === null")

    def another(self, address: str) -> Tab:
        """A second tab of the same browser."""
        twin = object.__new__(Tab)
        twin.said, twin.context = self.said, self.context
        twin.page = twin._page()
        return twin.judge(address)

    def ready(self) -> None:
        """Wait for a pair that takes an answer."""
        until(self.page, f"pair().length === 2 && {ANSWERABLE} && {SEEN}")

    def loaded(self) -> None:
        """Wait for all images that are loaded ahead: those there are when the connection is cut."""
        until(self.page, "tasks.length && [...pictures.values()].every(one => one.state === 'ready')")

    def press(self, *keys: str) -> None:
        """Keys, each once the pair before has gone."""
        for key in keys:
            if key != "u":  # of which there is something even after the last pair
                self.ready()
            before = self.shown()
            self.page.keyboard.press(key)
            self.next(before)

    def tap(self, *names: str) -> None:
        """Buttons by touch, each once the pair before has gone."""
        for name in names:
            self.ready()
            before = self.shown()
            self.page.tap(f"[data-act={name}]")
            self.next(before)

    def next(self, before: str) -> None:
        """Wait for another pair, whole, or for the words in its place."""
        there = f"{ANSWERABLE} || document.querySelector('#stage').hidden"
        until(self.page, f"named() !== {json.dumps(before)} && ({there})")

    def shown(self) -> str:
        """Which pair is on show."""
        return str(self.page.evaluate("named()"))

    def state(self) -> str:
        return str(self.page.inner_text("#state"))

    def saved(self) -> None:
        words = "document.querySelector('#state').textContent.includes('All answers saved')"
        until(self.page, f"{words} && Object.keys(localStorage).every(key => !key.startsWith('lookalike/'))")

    def alone(self) -> list[str]:
        """Complaints but for those of a connection that was cut."""
        return [line for line in self.said if "ERR_INTERNET_DISCONNECTED" not in line and "ERR_CONNECTION" not in line]


def until(page: Any, expression: str, seconds: float = 30) -> None:
    """Wait for something to be true; Playwright's own way of it would need `eval`, which the page forbids."""
    watch = f"""async () => {{
        for (const end = performance.now() + 1000; performance.now() < end;) {{
            if ({expression}) return true;
            await new Promise((go) => setTimeout(go, 10));
        }}
    }}"""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if page.evaluate(watch):
                return
        except Error as error:  # a page that is just now replaced
            if "context was destroyed" not in str(error) and "navigat" not in str(error):
                raise
            page.wait_for_timeout(20)
    raise AssertionError(f"never: {expression}")


@dataclass(frozen=True)
class Site:
    """Where a study is judged, and the links to it."""

    address: str
    organiser: str
    experts: dict[str, str]


class Failures(logging.Handler):
    """What a server says went wrong within."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(self.format(record))


@contextlib.contextmanager
def hosting(study: Study, *experts: str, **terms: Any) -> Iterator[Site]:
    """Serve a study from a thread, which is there at once; the process that the command starts takes a second."""
    keys, servers, failures = Keys.of(study.path), [], Failures()
    with listen("127.0.0.1", 0) as listening, pytest.MonkeyPatch.context() as patched:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with Store.open(None, study) as store:
            store.configure(**terms)
            links = {name: expert_link(keys, store.add_expert(name), address) for name in experts}
            site = Site(address, organiser_link(keys, store.organiser(), address), links)

        class Kept(uvicorn.Server):
            def __init__(self, settings: uvicorn.Config) -> None:
                super().__init__(settings)
                servers.append(self)

        patched.setattr(uvicorn, "Server", Kept)
        patched.setenv("LOOKALIKE_CACHE", str(study.path.parent / "cache"))
        logging.getLogger().addHandler(failures)
        thread = threading.Thread(target=Service(str(study.path)).run, args=(listening,))
        thread.start()
        try:
            yield site
        finally:
            while thread.is_alive():
                for server in servers:
                    server.should_exit = True
                thread.join(0.1)
            logging.getLogger().removeHandler(failures)
        assert failures.said == []


def keep(study: Study, expert: str, n: int, answer: int, seconds: float) -> None:
    """Let an expert judge the next pairs, without a browser."""
    with Store.open(None, study) as store:
        votes = [Answer(str(uuid.uuid4()), task.pair, answer, seconds) for task in store.claim(expert, n)]
        assert store.vote(expert, votes) == ["kept"] * n


def of(votes: Votes, expert: str) -> list[int]:
    """The answers of an expert, in the order in which they came."""
    return votes.answers[votes.experts == expert].tolist()  # type: ignore[no-any-return]


def check_pace(took: list[float], idle: list[float]) -> None:
    """Nine pairs of ten are there within 100 ms; where frames are late on this machine, within three times as many."""
    assert np.quantile(took, 0.9) < max(100, 3 * np.quantile(idle, 0.9)), (sorted(took), sorted(idle))


def middle(page: Any, selector: str) -> tuple[float, float]:
    box = page.locator(selector).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def lasting(seconds: float) -> str:
    return "a minute" if seconds < 90 else f"{int(seconds / 60 + 0.5)} minutes"


def free_port() -> str:
    """A port below those that connections get: one that asks for it while nobody listens must not become it."""
    how = random.SystemRandom()
    while True:
        port = how.randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return str(port)


def add(page: Any, name: str, days: str) -> None:
    page.fill("#new", name)
    page.fill(".add [name=days]", days)
    page.press("#new", "Enter")


def act(page: Any, name: str, label: str) -> None:
    """Do something to an expert, and say that one is sure."""
    row = page.locator("#links li", has=page.locator("b", has_text=name))
    row.locator("summary", has_text=label).click()
    row.locator("details[open] button").click()
