"""Judging in Chromium, from a server of its own: by keyboard, by touch, without a connection, without a link."""

from __future__ import annotations

import contextlib
import json
import logging
import random
import re
import shutil
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvicorn
from playwright.sync_api import Error

from helpers.pages import chromium
from helpers.panels import N_QUERIES, K, make_vases, serving
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
        if (key === "x") return requestAnimationFrame(() => requestAnimationFrame(after(window.idle)));
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


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("browser")
    make_vases(folder, side=240)
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def study(template: Path, tmp_path: Path) -> Study:
    shutil.copytree(template, tmp_path / "shop")
    return Study.open(tmp_path / "shop" / "study")


@pytest.fixture
def host(study: Study) -> Iterator[Callable[..., Site]]:
    """Servers of the study, until all pages are closed."""
    with contextlib.ExitStack() as stack:
        yield lambda *experts, **terms: stack.enter_context(hosting(study, *experts, **terms))


@pytest.fixture
def server(host: Callable[..., Site]) -> Site:
    return host("ann", "bob", "eve")


@pytest.fixture
def tabs(browser: Any, host: Callable[..., Site]) -> Iterator[Any]:
    """Pages, which are closed before a server is: what they ask for last is not to be cut off."""
    opened: list[Tab] = []

    def tab(**options: Any) -> Tab:
        opened.append(Tab(browser, **options))
        return opened[-1]

    yield tab
    for one in opened:
        one.context.close()
        assert one.alone() == []


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


def test_three_experts_judge_thirty_pairs_each_by_keyboard(tabs: Any, study: Study) -> None:
    rng = np.random.default_rng(0)
    with serving(study.path, ["ann", "bob", "eve"]) as server:
        experts = {name: tabs().judge(link) for name, link in server.experts.items()}
        pressed: dict[str, list[str]] = {name: [] for name in experts}
        for _ in range(30):
            for name, tab in experts.items():
                pressed[name].append(str(rng.choice(list(KEYS))))
                tab.press(pressed[name][-1])
            tab.page.keyboard.press("x")
        took = []
        for name, tab in experts.items():
            tab.saved()
            assert "30 of 60" in tab.page.inner_text("#own")
            until(tab.page, "took.length === 30")  # the last is painted a little after its key
            took += tab.page.evaluate("took")
            votes = study.votes()
            assert of(votes, name) == [KEYS[key] for key in pressed[name]]
        until(tab.page, "idle.length === 30")
        idle = tab.page.evaluate("idle")
        for tab in experts.values():
            tab.context.close()
            assert tab.said == []
    votes = study.votes()
    assert len(votes) == len(votes.last()) == 90
    assert (votes.seconds > 0).all()
    assert max(np.unique(votes.queries + "\n" + votes.items, return_counts=True)[1]) <= 3
    check_pace(took, idle)


def test_the_next_pair_is_there_within_100_ms(tabs: Any, server: Site) -> None:
    tab = tabs().judge(server.experts["ann"])
    for _ in range(30):
        tab.press("ArrowRight")  # faster than anybody judges
        tab.page.keyboard.press("x")
    until(tab.page, "took.length === 30 && idle.length === 30")  # which are pushed when the last is painted
    check_pace(*tab.page.evaluate("[took, idle]"))


def test_the_pair_fills_the_window(tabs: Any, server: Site) -> None:
    for options in ({}, {"color_scheme": "dark"}, {"viewport": PHONE, "is_mobile": True, "has_touch": True}):
        tab = tabs(**options).judge(server.experts["ann"])
        width, height = (tab.page.viewport_size[side] for side in ("width", "height"))
        boxes = [tab.page.locator(f"#{side}").bounding_box() for side in ("query", "item")]
        assert sum(box["width"] * box["height"] for box in boxes) > 0.68 * width * height
        assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert tab.page.evaluate("document.documentElement.scrollHeight <= innerHeight")
        beside = width > height
        assert (boxes[0]["x"] < boxes[1]["x"], boxes[0]["y"] < boxes[1]["y"]) == (beside, not beside)


def test_undo_later_and_cant_tell(tabs: Any, server: Site, study: Study) -> None:
    tab = tabs().judge(server.experts["ann"])
    first = tab.shown()
    tab.press("ArrowRight")
    second = tab.shown()
    tab.press("u")
    assert tab.shown() == first
    assert tab.page.get_attribute("[data-act=yes]", "aria-pressed") == "true"
    assert "1 of 60" in tab.page.inner_text("#own")
    tab.press("ArrowLeft")
    assert tab.shown() == second
    assert tab.page.get_attribute("[data-act=no]", "aria-pressed") == "false"
    tab.press("l")  # later
    assert second not in [tab.shown()]
    tab.press(" ")
    tab.saved()
    assert of(study.votes(), "ann") == [YES, NO, UNSURE]
    assert study.votes().last().answers.tolist() == [NO, UNSURE]
    tab.press("u", "u")  # the one before the last, which was put off
    assert tab.shown() == second
    tab.page.reload()
    tab.ready()
    before = tab.shown()
    tab.press("u")  # also after the page was loaded anew
    assert tab.shown() != before
    assert tab.page.get_attribute("[data-act=unsure]", "aria-pressed") == "true"
    tab.press("ArrowRight")
    tab.saved()
    assert of(study.votes(), "ann") == [YES, NO, UNSURE, YES]


def test_later_comes_last_and_then_that_was_all(tabs: Any, host: Callable[..., Site], study: Study) -> None:
    n_pairs = 24  # fetched in three portions
    tab = tabs().judge(host("ann", "bob", "eve", budget=n_pairs).experts["ann"])
    put_off = tab.shown()
    tab.press("l")
    for _ in range(n_pairs - 1):
        assert tab.shown() != put_off
        tab.press("k")
    tab.ready()  # where there was nothing else, the pair is fetched only now
    assert tab.shown() == put_off
    tab.page.keyboard.press("j")
    until(tab.page, "document.querySelector('#panel').innerText.includes('That was all, ann')")
    tab.saved()
    assert of(study.votes(), "ann") == [YES] * (n_pairs - 1) + [NO]
    assert len(study.votes().last()) == n_pairs
    assert f"{n_pairs} pairs are judged" in tab.page.inner_text("#panel")
    tab.page.keyboard.press("u")
    tab.ready()
    assert tab.shown() == put_off


SHOWN = """() => ["query", "item"].map(side => [side, document.getElementById(side)])
    .filter(([, image]) => getComputedStyle(image).visibility !== "hidden" && image.getClientRects().length)
    .map(([side, image]) => [side, JSON.stringify(image.getBoundingClientRect())])"""  # both sides at one moment


def test_flicker_shows_both_at_one_place_while_the_key_is_held(tabs: Any, server: Site) -> None:
    tab = tabs().judge(server.experts["ann"])
    page = tab.page
    page.keyboard.down("h")
    order, places = [], set()
    end = time.monotonic() + 30
    while len(order) < 4:  # one after the other, and again
        on = page.evaluate(SHOWN)
        assert len(on) == 1
        ((side, place),) = on
        order += [side] if order[-1:] != [side] else []
        places.add(place)
        assert time.monotonic() < end, order
        page.wait_for_timeout(30)
    assert len(places) == 1
    page.keyboard.up("h")
    assert page.is_visible("#query")
    assert page.is_visible("#item")
    page.mouse.move(*middle(page, "[data-act=flicker]"))
    page.mouse.down()
    assert page.evaluate("document.querySelector('#stage').classList.contains('flickering')")
    page.mouse.up()
    assert not page.evaluate("document.querySelector('#stage').classList.contains('flickering')")


def middle(page: Any, selector: str) -> tuple[float, float]:
    box = page.locator(selector).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_zoom_enlarges_both_at_the_same_place(tabs: Any, server: Site) -> None:
    tab = tabs().judge(server.experts["ann"])
    page = tab.page
    sizes = "pair().map(image => Math.round(image.getBoundingClientRect().width))"
    plain = page.evaluate(sizes)
    page.keyboard.press("z")
    until(page, f"{sizes}.every((width, at) => Math.abs(width - 3 * {json.dumps(plain)}[at]) <= 2)")
    box = page.locator("#query .frame").bounding_box()
    page.mouse.move(box["x"] + 0.25 * box["width"], box["y"] + 0.75 * box["height"])
    origins = page.evaluate("pair().map(image => getComputedStyle(image).transformOrigin)")
    for origin in origins:
        x, y = (float(part.removesuffix("px")) for part in origin.split())
        assert (x / box["width"], y / box["height"]) == pytest.approx((0.25, 0.75), abs=0.01)
    page.keyboard.press("z")
    until(page, f"JSON.stringify({sizes}) === {json.dumps(json.dumps(plain).replace(' ', ''))}")
    page.mouse.click(*middle(page, "#item .frame"))  # by a click too
    assert page.get_attribute("[data-act=zoom]", "aria-pressed") == "true"
    tab.press("ArrowRight")
    assert page.get_attribute("[data-act=zoom]", "aria-pressed") == "false"


def test_keys_do_nothing_while_typing_held_or_with_others(tabs: Any, server: Site, study: Study) -> None:
    tab = tabs().judge(server.experts["ann"])
    page, first = tab.page, tab.shown()
    page.evaluate("document.body.append(Object.assign(document.createElement('input'), { id: 'note' }))")
    page.evaluate("document.querySelector('#note').focus()")
    page.keyboard.type("jk lu z")
    assert page.input_value("#note") == "jk lu z"
    page.evaluate("document.querySelector('#note').remove()")
    for keys in ("Control+j", "Alt+ArrowRight", "Meta+k", "Enter", "x", "Tab"):
        page.keyboard.press(keys)
    page.keyboard.press("?")
    page.keyboard.press("ArrowRight")  # above everything are the keys
    page.keyboard.press("Escape")
    tab.closed()
    tab.ready()
    assert tab.shown() == first
    assert page.evaluate("location.pathname") == "/judge"
    page.evaluate("document.activeElement.blur()")
    for _ in range(3):
        page.keyboard.down("ArrowRight")  # the first is a press, the others repeats
        tab.ready()
    page.keyboard.up("ArrowRight")
    tab.saved()
    assert of(study.votes(), "ann") == [YES]


def test_a_button_that_was_clicked_is_not_pressed_again_by_the_space_bar(tabs: Any, server: Site, study: Study) -> None:
    tab = tabs().judge(server.experts["ann"])
    before = tab.shown()
    tab.page.click("[data-act=no]")
    tab.next(before)
    tab.press(" ")
    tab.saved()
    assert of(study.votes(), "ann") == [NO, UNSURE]


@pytest.mark.parametrize("way", ["keys", "clicks"])
def test_what_is_said_of_a_pair_before_it_can_be_seen_is_ignored(
    tabs: Any, server: Site, study: Study, way: str
) -> None:
    tab = tabs().judge(server.experts["ann"])
    # On a slow machine, fewer than five: what comes when the next pair has been on show for long enough would count.
    five = f"""([way, name]) => {{
        const target = way === "keys" ? document.body : document.querySelector(`[data-act=${{name}}]`);
        for (let n = 0; n < 5; n++) {{
            const key = {{ key: name === "later" ? "l" : "k", bubbles: true }};
            const event = way === "keys" ? new KeyboardEvent("keydown", key) : new MouseEvent("click", key);
            if (n === 0 || event.timeStamp - visible < {GLANCE - 1}) target.dispatchEvent(event);
        }}
    }}"""
    for n_seen in (1, 2, 3):
        before = tab.shown()
        tab.page.evaluate(five, [way, "yes"])
        tab.next(before)
        tab.ready()
        tab.saved()
        assert of(study.votes(), "ann") == [YES] * n_seen
    tab.page.evaluate(five, [way, "later"])
    tab.ready()
    until(tab.page, "!document.querySelector('#notice').innerText")
    tab.saved()
    with Store.open(None, study) as store:
        assert [row["later"] for row in store.status().experts] == [1, 0, 0]


GUIDE = "Look at the shape,\nnot at the <b>glaze</b>.\n\nSimilar are:\n- two jugs\n- {{ 7 * 7 }}\n"


def test_the_first_visit_says_what_is_asked(tabs: Any, study: Study, tmp_path: Path) -> None:
    (tmp_path / "guide.txt").write_text(GUIDE, encoding="utf-8")
    question = "Were the two made by <i>the same</i> potter, and " + "perhaps " * 15 + "in the same year?"
    with serving(study.path, ["ann"], "--question", question, "--guide", str(tmp_path / "guide.txt")) as server:
        tab = tabs().open(server.experts["ann"])
        page = tab.page
        assert page.inner_text("#keys h2") == question
        assert page.locator(".guide p").all_inner_texts() == [
            "Look at the shape, not at the <b>glaze</b>.", "Similar are:"
        ]  # fmt: skip
        assert page.locator(".guide li").all_inner_texts() == ["two jugs", "{{ 7 * 7 }}"]
        assert page.evaluate("document.activeElement.textContent") == "Begin"
        until(page, "complete && performance.now() - since > 1500")  # the pair is there, behind the guide
        page.keyboard.press("ArrowRight")  # no answer as yet
        page.keyboard.press("Enter")
        tab.closed()
        tab.ready()
        assert (page.inner_text("#question"), page.get_attribute("#question", "title")) == (question, question)
        line = page.locator("#question").bounding_box()
        assert line["height"] < 40
        assert line["width"] <= WIDE["width"]
        tab.press("k")
        tab.saved()
        assert of(study.votes(), "ann") == [YES]
        between = page.evaluate("pressed.k - pressed.Enter") / 1000
        assert study.votes().seconds[0] < between + 1  # the 1.5 s or more with the guide are not the pair's
        page.reload()
        tab.ready()
        assert not page.is_visible("#keys")
        page.click("#question")
        assert page.inner_text("#keys form button") == "Close"
        page.keyboard.press("Escape")
        with Store.open(None, study) as store:
            store.brief(guide="Look at the glaze.")
        page.reload()
        assert page.inner_text(".guide") == "Look at the glaze."
        assert page.inner_text("#keys form button") == "Begin"
        tab.context.close()


def test_the_help_names_keys_where_there_are_some_and_buttons_where_there_are_none(tabs: Any, server: Site) -> None:
    wide, phone = tabs(), tabs(viewport=PHONE, is_mobile=True, has_touch=True)
    for tab in (wide, phone):
        tab.open(server.experts["ann"])
    assert wide.page.inner_text("#keys h2") == "Do they look alike?"
    assert wide.page.locator("#keys kbd").evaluate_all("all => all.every(key => key.checkVisibility())")
    assert "hold it to see" not in wide.page.inner_text("#keys")
    words = phone.page.inner_text("#keys")
    assert not phone.page.locator("#keys kbd").evaluate_all("all => all.some(key => key.checkVisibility())")
    for name in ("Similar", "Not similar", "Can’t tell", "Undo", "Later", "Zoom", "Flicker"):
        assert name in words
        assert phone.page.locator(".answers button", has_text=re.compile(f"^\\s*{name}")).count() == 1
    assert " or " not in words.replace("or an image", "")
    for one in (wide.page.inner_text("#keys"), words):
        assert "no other expert sees yours; the organiser does" in one
        assert "unless others have judged it by then" in one
        assert "go on with the pairs that are here already" in one


def test_a_dozen_pairs_can_be_judged_without_a_connection(tabs: Any, server: Site, study: Study) -> None:
    tab = tabs().judge(server.experts["ann"])
    tab.loaded()
    assert tab.page.evaluate("tasks.length") == 12
    tab.context.set_offline(True)
    tab.press(*"kjkjkjkjkjk")
    tab.ready()
    tab.page.keyboard.press("j")
    until(tab.page, "document.querySelector('#panel').innerText.includes('No connection')")
    tab.context.set_offline(False)
    tab.saved()
    assert of(study.votes(), "ann") == [YES, NO] * 6


def lasting(seconds: float) -> str:
    return "a minute" if seconds < 90 else f"{int(seconds / 60 + 0.5)} minutes"


def test_what_is_left_is_said_to_be_at_most_where_others_may_judge_it(tabs: Any, host: Callable[..., Site]) -> None:
    tab = tabs().judge(host("ann", "bob", "eve", experts_per_pair=2).experts["ann"])
    tab.press(*"kjkjk")
    tab.saved()
    said = " ".join(tab.page.inner_text("#own").split())
    found = re.fullmatch(r"You 5 up to 55 left (\d+\.\d) s a pair, up to (.*)", said)
    assert found, said
    assert found[2] in {lasting(55 * (float(found[1]) + rounded)) for rounded in (-0.05, 0, 0.05)}
    assert "5 of 120" in tab.page.inner_text("#all")
    tab = tabs().judge(host("ann", experts_per_pair=3).experts["ann"])
    assert re.match(r"You 5 of 60 55 left", " ".join(tab.page.inner_text("#own").split()))


def test_nothing_of_the_header_is_cut_off_on_a_phone(tabs: Any, server: Site) -> None:
    tab = tabs(viewport=PHONE, is_mobile=True, has_touch=True).judge(server.experts["ann"])
    for width, height in ((844, 390), (667, 375), (390, 844), (360, 640), (320, 568)):
        tab.page.set_viewport_size({"width": width, "height": height})
        until(tab.page, f"document.documentElement.clientWidth === {width}")
        cut = tab.page.evaluate(
            """() => {
                document.querySelector("#own [data-count]").textContent = "128";
                document.querySelector("#left").textContent = "up to 132 left";
                const parts = [...document.querySelectorAll("#own p, #left, #state, .answers button:not(.question)")];
                const beyond = (part) => part.getBoundingClientRect().right > innerWidth;
                return parts.filter((part) => part.scrollWidth > part.clientWidth + 1 || beyond(part))
                    .map((part) => part.outerHTML);
            }"""
        )
        assert cut == [], width
        assert tab.page.evaluate("document.documentElement.scrollWidth") == width  # `innerWidth` would grow with it
        assert tab.page.evaluate("document.documentElement.scrollHeight <= innerHeight")


def test_a_phone_by_touch(tabs: Any, server: Site, study: Study) -> None:
    tab = tabs(viewport=PHONE, is_mobile=True, has_touch=True, device_scale_factor=2).judge(server.experts["eve"])
    page = tab.page
    for name, least in (("no", 44), ("unsure", 44), ("yes", 44), ("undo", 40), ("later", 40), ("flicker", 40)):
        box = page.locator(f"[data-act={name}]").bounding_box()
        assert min(box["width"], box["height"]) >= least, name
        assert box["y"] + box["height"] <= PHONE["height"]
    tab.tap("yes", "no", "unsure", "later", "yes", "undo")
    page.tap("#query .frame")
    assert page.get_attribute("[data-act=zoom]", "aria-pressed") == "true"
    tab.tap("no")
    tab.saved()
    assert of(study.votes(), "eve") == [YES, NO, UNSURE, YES, NO]


def test_ten_seconds_without_a_connection(tabs: Any, server: Site, study: Study) -> None:
    tab = tabs().judge(server.experts["ann"])
    tab.press("k")
    tab.saved()
    tab.loaded()
    tab.context.set_offline(True)
    tab.press("j", "k", " ")
    until(tab.page, "document.querySelector('#state').textContent === '3 answers wait to be sent'")
    assert tab.page.get_attribute("#state", "data-state") == "waiting"
    assert "4 of 60" in tab.page.inner_text("#own")
    tab.page.wait_for_timeout(10_000)
    assert tab.state() == "3 answers wait to be sent"
    assert of(study.votes(), "ann") == [YES]
    tab.page.keyboard.press("k")  # the images of the next pairs were there already
    until(tab.page, "document.querySelector('#state').textContent === '4 answers wait to be sent'")
    tab.context.set_offline(False)
    tab.saved()
    assert of(study.votes(), "ann") == [YES, NO, YES, UNSURE, YES]
    tab.ready()
    tab.press("j")
    tab.saved()
    assert len(study.votes().last()) == 6


def test_answers_outlast_a_closed_tab(tabs: Any, server: Site, study: Study) -> None:
    tab = tabs().judge(server.experts["ann"])
    tab.loaded()
    tab.context.set_offline(True)
    tab.press("j", "k")
    tab.page.close()
    tab.context.set_offline(False)
    assert len(study.votes()) == 0
    again = tab.another(f"{server.address}/judge")
    again.saved()
    assert of(study.votes(), "ann") == [NO, YES]


def free_port() -> str:
    """A port below those that connections get: one that asks for it while nobody listens must not become it."""
    how = random.SystemRandom()
    while True:
        port = how.randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return str(port)


def test_a_server_that_ends_and_starts_again(tabs: Any, study: Study) -> None:
    port = free_port()
    with serving(study.path, ["ann"], port=port) as first:
        tab = tabs().judge(first.experts["ann"])
        tab.press("k")
        tab.saved()
        tab.loaded()
    tab.press("j", "j")
    until(tab.page, "document.querySelector('#state').textContent === '2 answers wait to be sent'")
    with serving(study.path, ["ann"], port=port):
        tab.saved()
        tab.press("k")
        tab.saved()
        assert of(study.votes(), "ann") == [YES, NO, NO, YES]
        tab.context.close()


def test_an_answer_that_was_kept_but_not_acknowledged_counts_once(tabs: Any, server: Site, study: Study) -> None:
    tab = tabs().judge(server.experts["ann"])
    lost = []

    def lose(route: Any) -> None:
        route.fetch()  # the server has it
        lost.append(route)
        route.abort("connectionreset") if len(lost) < 3 else route.continue_()

    tab.page.route("**/api/votes", lose)
    tab.press("k")
    tab.saved()
    assert len(lost) == 3
    assert of(study.votes(), "ann") == [YES]
    tab.said[:] = [line for line in tab.said if "ERR_CONNECTION_RESET" not in line]


def test_two_tabs_of_one_expert(tabs: Any, server: Site, study: Study) -> None:
    one = tabs().judge(server.experts["ann"])
    two = one.another(f"{server.address}/judge")
    first = one.shown()
    assert two.shown() == first
    one.press("k")
    two.next(first)
    for tab, other in ((two, one), (one, two)) * 2:
        before = other.shown()
        assert tab.shown() == before
        tab.press("j")
        other.next(before)
    one.saved()
    two.saved()
    votes = study.votes()
    assert of(votes, "ann") == [YES, NO, NO, NO, NO]
    assert len(votes.last()) == 5


def test_an_image_that_is_missing_is_said_to_be_and_can_be_skipped(
    tabs: Any, host: Callable[..., Site], study: Study
) -> None:
    photos = study.path.parent / "photos"
    for name in ("vase-001.png", "vase-005.png", "vase-009.png"):
        (photos / name).unlink()
    server = host("ann")
    tab = tabs().open(server.experts["ann"])
    tab.begin()
    page, n_done = tab.page, "Number.parseInt(document.querySelector('#own [data-count]').textContent)"
    for n_before in range(N_PAIRS):  # up to a pair with a missing image
        until(page, f"{n_done} === {n_before} && {ANSWERABLE} && {SEEN}")
        if page.locator(".lost").count():
            break
        page.keyboard.press("k")
    assert "This image cannot be shown" in page.inner_text(".lost >> nth=0")
    assert page.is_disabled("[data-act=yes]")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(n_done) == n_before
    tab.saved()
    assert of(study.votes(), "ann") == [YES] * n_before
    page.keyboard.press("l")
    until(page, ANSWERABLE)
    tab.saved()
    organiser = tabs().open(server.organiser)
    assert not re.search(r"Missing images\s+0", organiser.page.inner_text("#missing"))
    assert "vase-0" in organiser.page.inner_text("#missing table")
    tab.said[:] = [line for line in tab.said if "404" not in line]  # the browser's own words for it


def test_a_revoked_link_ends_the_page_in_words_and_loses_nothing(tabs: Any, server: Site, study: Study) -> None:
    tab, organiser = tabs().judge(server.experts["bob"]), tabs().open(server.organiser)
    tab.press("k")
    tab.saved()
    tab.loaded()
    act(organiser.page, "bob", "Revoke")
    until(organiser.page, "document.querySelector('#links').innerText.includes('revoked')")
    tab.page.keyboard.press("j")
    until(tab.page, "document.querySelector('#panel').innerText.includes('This link no longer works')")
    said = tab.page.inner_text("#panel")
    assert "taken back" in said
    assert "One answer waits in this browser" in said
    assert tab.page.is_disabled("[data-act=yes]")
    assert of(study.votes(), "bob") == [YES]
    refused = tabs()
    refused.open(server.experts["bob"])
    assert "taken back" in refused.page.inner_text("main")
    act(organiser.page, "bob", "New link")
    until(organiser.page, "!document.querySelector('#links').innerText.includes('revoked')")
    tab.judge(organiser.page.input_value('[aria-label="Link of bob"]'))
    tab.saved()
    assert of(study.votes(), "bob") == [YES, NO]
    for one in (tab, refused):
        one.said[:] = [line for line in one.said if "401" not in line]


def add(page: Any, name: str, days: str) -> None:
    page.fill("#new", name)
    page.fill(".add [name=days]", days)
    page.press("#new", "Enter")


def act(page: Any, name: str, label: str) -> None:
    """Do something to an expert, and say that one is sure."""
    row = page.locator("#links li", has=page.locator("b", has_text=name))
    row.locator("summary", has_text=label).click()
    row.locator("details[open] button").click()


def test_the_organisers_page(tabs: Any, server: Site, study: Study, tmp_path: Path) -> None:
    for name, answer in (("ann", YES), ("bob", NO)):
        keep(study, name, 12, answer, seconds=2.5)
    for options in ({}, {"viewport": PHONE, "is_mobile": True, "color_scheme": "dark"}):
        organiser = tabs(**options).open(server.organiser)
        page = organiser.page
        assert page.evaluate("location.pathname") == "/organise"
        assert "13.3\u00a0%" in page.inner_text(".cards")
        assert "24 of 180 answers" in page.inner_text(".cards")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.locator(".pairs li").count() == 12
        page.evaluate("document.querySelectorAll('.pairs img').forEach(image => { image.loading = 'eager'; })")
        until(page, "[...document.querySelectorAll('.pairs img')].every(image => image.complete && image.naturalWidth)")
    with page.expect_download() as download:
        page.click('[href="/organise/export.csv"]')
    download.value.save_as(tmp_path / "votes.csv")
    assert Votes.read(tmp_path / "votes.csv").digest == study.votes().digest
    page.fill("#new", "<b>zoe</b>")
    page.click(".add button")
    until(page, "document.querySelector('#links').innerText.includes('<b>zoe</b>')")
    page.fill("#new", "ann")
    page.click(".add button")
    until(page, "document.querySelector('#notice').innerText.includes('already')")
    organiser.said[:] = [line for line in organiser.said if "422" not in line]


def test_what_the_organiser_does_is_said_where_it_was_done(tabs: Any, server: Site) -> None:
    organiser = tabs(permissions=["clipboard-read", "clipboard-write"]).open(server.organiser)
    page = organiser.page
    notice = "document.querySelector('#notice').innerText"
    page.locator("#links").scroll_into_view_if_needed()
    page.fill("#new", "ann")
    page.click(".add button")
    until(page, f"{notice}.includes('already')")
    assert [line for line in organiser.said if "422" not in line] == []
    organiser.said.clear()
    page.evaluate("document.querySelector('#new').style.color = 'red'")  # as extensions of browsers do
    at = page.evaluate("scrollY")
    steps = {
        "dora was added": lambda: add(page, "dora", days="14"),
        "dora has a new link": lambda: act(page, "dora", "New link"),
        "The link of dora was revoked": lambda: act(page, "dora", "Revoke"),
    }  # fmt: skip
    links = []
    for words, do in steps.items():
        do()
        until(page, f"{notice}.startsWith({json.dumps(words)})")
        assert "already" not in page.inner_text("#notice")
        until(page, "document.querySelector('#experts').innerText.includes('dora')")
        assert page.locator("#links .changed b >> nth=0").inner_text() == "dora"
        assert page.locator("#links .changed").count() == 1
        assert at > 0
        assert page.evaluate("scrollY") >= at
        assert page.evaluate("document.querySelector('.changed').getBoundingClientRect().bottom <= innerHeight")
        focused = page.evaluate(
            "[document.activeElement.textContent, Boolean(document.activeElement.closest('.changed'))]"
        )
        if "revoked" in words:
            assert focused == ["New link", True]
        else:
            assert focused == ["Copy", True]
            page.keyboard.press("Enter")
            until(page, "document.activeElement.textContent === 'Copied'")
            links.append(page.evaluate("navigator.clipboard.readText()"))
        chip = page.inner_text("#links .changed .chip")
        assert re.match(
            {3: "works until", 2: "works, no end", 1: "revoked"}[len(steps) - list(steps).index(words)], chip
        )
    assert len({*links, *server.experts.values()}) == 5
    page.click("#notice button")
    assert page.inner_text("#notice") == ""
    assert organiser.said == []


@pytest.mark.parametrize("width", [320, 390, 844, 1000, 1280])
def test_tables_of_the_organiser_are_never_cut(tabs: Any, server: Site, study: Study, width: int) -> None:
    keep(study, "ann", 2, YES, seconds=0.3)
    page = tabs(viewport={"width": width, "height": 800}).open(server.organiser).page
    parts = "[...document.querySelectorAll('html, .scroll, .scroll td, .bar nav')]"
    cut = f"{parts}.filter(one => one.scrollWidth > one.clientWidth).map(one => one.outerHTML.slice(0, 200))"
    assert page.evaluate(cut) == []
    for label in ("New link", "Revoke"):
        page.click(f"#links li:nth-child(2) summary:text-is('{label}')")
        box = page.locator("#links details[open] form").bounding_box()
        assert box["x"] >= 0
        assert box["width"] >= 240
        assert box["x"] + box["width"] <= width
    assert "quick" in page.inner_text("#experts tbody tr >> nth=0")
    assert "quick" not in page.inner_text("#experts tbody tr >> nth=1")


def test_what_the_server_refuses_is_said_in_words_and_blocks_nothing(tabs: Any, server: Site, study: Study) -> None:
    tab = tabs().judge(server.experts["ann"])
    page = tab.page
    refusals = [(507, "The disk of the server is full."), (503, "The database cannot be reached at this moment.")]

    def refuse(route: Any) -> None:
        if not refusals:
            return route.continue_()  # type: ignore[no-any-return]
        status, words = refusals[0]
        return route.fulfill(status=status, json={"problem": words})  # type: ignore[no-any-return]

    page.route("**/api/votes", refuse)
    for waiting, (_, words) in enumerate(list(refusals), 1):
        tab.press("k")
        until(page, f"document.querySelector('#notice').innerText.includes({json.dumps(words)})")
        until(page, f"document.querySelector('#state').textContent.startsWith('{waiting} answer')")
        if len(refusals) > 1:
            refusals.pop(0)
    refusals.clear()
    tab.press("j")
    tab.saved()
    until(page, "!document.querySelector('#notice').innerText")
    assert of(study.votes(), "ann") == [YES, YES, NO]
    page.unroute("**/api/votes")

    def enough(route: Any) -> None:
        answer = route.fetch().json()
        for vote in answer["votes"]:
            vote |= {"status": "enough", "words": "Enough others had judged the pair meanwhile."}
        route.fulfill(json=answer)

    page.route("**/api/votes", enough)
    tab.press("k")
    until(page, "document.querySelector('#notice').innerText.includes('Enough others had judged the pair')")
    tab.press("k")
    tab.saved()
    tab.said[:] = [line for line in tab.said if not re.search("50[37]", line)]


def test_what_is_damaged_in_the_browser_does_not_hold_up_the_rest(tabs: Any, server: Site, study: Study) -> None:
    tab = tabs().judge(server.experts["ann"])
    tab.loaded()
    tab.context.set_offline(True)
    tab.press("k", "j")
    tab.page.evaluate(
        """() => {
            const key = Object.keys(localStorage).find((name) => name.startsWith("lookalike/"));
            const entry = JSON.parse(localStorage.getItem(key));
            const [folder, box] = key.split("/");
            const wrong = { ...entry, client: "no-uuid", answer: 7 };
            localStorage.setItem(`${folder}/${box}/no-uuid`, JSON.stringify(wrong));
            localStorage.setItem(`${folder}/${box}/torn`, "{");
            localStorage.setItem("of another page", "stays");
        }"""
    )
    tab.context.set_offline(False)
    tab.saved()
    assert of(study.votes(), "ann") == [YES, NO]
    assert tab.page.evaluate("localStorage.getItem('of another page')") == "stays"
    tab.said[:] = [line for line in tab.said if "422" not in line]
