"""The page of a study in Chromium, from a server of its own: pictures, keys, addresses, phones and the dark."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Error

from helpers.pages import chromium
from helpers.shops import make_hostile, make_shop
from lookalike.study.finder import Finder
from lookalike.study.study import Study

HAT = "/like?item=hat/p01-0.png"
WIDE, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}
PICTURES = (
    "[...document.images].filter(one => one.checkVisibility() && one.getBoundingClientRect().top < innerHeight "
    "&& one.getBoundingClientRect().bottom > 0)"
)


@contextlib.contextmanager
def serving(study: Study, cache: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "lookalike", "look", str(study.path), "--port", "0", "--json", "--no-open"]
    environment = {**os.environ, "LOOKALIKE_CACHE": str(cache)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as server:
        assert server.stdout is not None
        try:
            yield json.loads(server.stdout.readline())["address"].rstrip("/")
        finally:  # or a test that fails would wait for it for ever
            server.send_signal(signal.SIGINT)
        out, err = server.communicate(timeout=60)
        assert (server.returncode, out) == (0, "")
        assert "Traceback" not in err


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return make_shop(tmp_path_factory.mktemp("browser"))


@pytest.fixture(scope="module")
def address(study: Study) -> Iterator[str]:
    with serving(study, study.path.parent / "cache") as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


class Tab:
    """A page of the server, with everything the browser complains of."""

    def __init__(self, browser: Any, address: str, **options: Any) -> None:
        self.address, self.said = address, []
        self.scripts = options.get("java_script_enabled", True)
        self.context = browser.new_context(**{"viewport": WIDE, "base_url": address, **options})
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append("a dialog"))
        self.page.on("request", self._asked)
        self.page.add_init_script(
            "addEventListener('securitypolicyviolation', event => console.error('CSP', event.violatedDirective))"
        )

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.address, "blob:", "data:")):
            self.said.append(f"asked for {request.url}")

    def open(self, path: str) -> Any:
        self.page.goto(path)
        if self.scripts:  # nobody presses a key before there is something to see
            self.page.evaluate("new Promise(go => requestAnimationFrame(() => requestAnimationFrame(go)))")
        return self.page

    def close(self) -> list[str]:
        """What the browser has complained of, once all pictures are there that can be seen."""
        until(self.page, f"{PICTURES}.every(one => one.complete)")
        self.context.close()
        return self.said

    def state(self) -> dict[str, str]:
        return {name: values[-1] for name, values in parse_qs(urlsplit(self.page.url).query).items()}

    def focused(self) -> str:
        """The item that is chosen."""
        return str(self.page.evaluate("document.activeElement.title"))


@pytest.fixture
def tab(browser: Any, address: str) -> Iterator[Tab]:
    opened = Tab(browser, address)
    yield opened
    assert opened.close() == []


def until(page: Any, expression: str) -> None:
    """Wait for something to be true; Playwright's own way of it would need `eval`, which the page forbids."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with contextlib.suppress(Error):  # a page that is just now replaced
            if page.evaluate(expression):
                return
        page.wait_for_timeout(20)
    raise AssertionError(f"never: {expression}")


def cells(page: Any) -> list[str]:
    return page.eval_on_selector_all("[data-cell]", "all => all.map(cell => cell.title)")  # type: ignore[no-any-return]


def drop(page: Any, body: bytes, name: str, *, padding: int = 0) -> None:
    """Drop a file on the page, as a hand would: over it first, then let go; padding: zeros at its end."""
    held = page.evaluate_handle(
        """([body, name, padding]) => {
            const held = new DataTransfer();
            const bytes = Uint8Array.from(atob(body), (letter) => letter.charCodeAt(0));
            held.items.add(new File([bytes, new Uint8Array(padding)], name));
            return held;
        }""",
        [base64.b64encode(body).decode(), name, padding],
    )
    for event in ("dragenter", "dragover"):
        page.dispatch_event("main", event, {"dataTransfer": held})
    assert page.is_visible("#drop")
    page.dispatch_event("main", "drop", {"dataTransfer": held})
    assert not page.is_visible("#drop")


def test_the_grid_and_a_click(tab: Tab, study: Study) -> None:
    page = tab.open("/?model=pixels")
    assert page.inner_text("h1") == "72 items"
    until(page, f"{PICTURES}.filter(one => one.complete && one.naturalWidth && one.closest('.grid')).length > 10")
    wanted = cells(page)[4]
    page.click(".grid li:nth-child(5) a")
    page.wait_for_selector(".answer")
    assert tab.state() == {"item": wanted, "model": "pixels"}
    assert page.inner_text(".about h1") == wanted
    item = study.catalogue.ids.tolist().index(wanted)
    assert cells(page) == study.catalogue.ids[Finder(study, "pixels").like_item(item, 24).items].tolist()
    assert "24 items found" in page.inner_text("#said")
    assert page.evaluate("performance.getEntriesByType('navigation').length") == 1  # htmx, not a new page
    assert "Like" in page.title()


def test_lost_pictures_say_so(tab: Tab) -> None:
    page = tab.open("/?q=p04-3")
    until(page, "document.querySelector('.grid img').naturalWidth > 0")
    assert "image/svg" in page.evaluate(
        "fetch(document.querySelector('.grid img').src).then(a => a.headers.get('content-type'))"
    )


def test_back_forward_and_reload_keep_the_state(tab: Tab) -> None:
    page = tab.open("/")
    page.select_option("select[name='is.category']", "hat")
    until(page, "document.querySelector('h1').textContent.includes('24 of 72')")
    assert tab.state() == {"is.category": "hat"}
    page.click("[data-model='3']")
    until(page, "location.search.includes('model')")
    hats = cells(page)
    page.click(".grid li:nth-child(2) a")
    page.wait_for_selector(".answer")
    first = tab.state()
    found = cells(page)
    page.click(".hits [data-cell] >> nth=3")
    until(page, f"document.querySelector('.about h1').textContent === {json.dumps(found[3])}")
    page.go_back()
    until(page, f"document.querySelector('.about h1').textContent === {json.dumps(first['item'])}")
    assert (tab.state(), cells(page)) == (first, found)
    page.go_back()
    page.wait_for_selector(".grid")
    assert (tab.state(), cells(page)) == ({"is.category": "hat", "model": first["model"]}, hats)
    page.go_forward()
    page.wait_for_selector(".answer")
    assert (tab.state(), cells(page)) == (first, found)
    page.reload()
    assert (tab.state(), cells(page)) == (first, found)
    again = Tab(page.context.browser, tab.address)
    assert cells(again.open(page.url)) == found  # the address is all there is to it
    assert again.close() == []


def test_typing_finds_ids_and_keys_rest_meanwhile(tab: Tab) -> None:
    page = tab.open("/")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "q"
    page.keyboard.type("p0l", delay=20)
    page.keyboard.press("Backspace")
    page.keyboard.type("1", delay=20)
    until(page, "document.querySelector('h1').textContent.startsWith('6 of')")
    assert page.input_value("#q") == "p01"
    assert page.evaluate("document.activeElement.id") == "q"
    assert tab.state() == {"q": "p01"}
    page.keyboard.press("2")
    page.keyboard.press("?")
    assert page.input_value("#q") == "p012?"
    assert not page.is_visible("#keys")
    until(page, "document.querySelector('h1').textContent.startsWith('0 of')")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") != "q"


@pytest.mark.parametrize("keys", ["ArrowRight ArrowDown ArrowLeft ArrowUp", "l j h k"])
def test_keys_move_through_the_grid_open_and_go_back(tab: Tab, keys: str) -> None:
    right, down, left, up = keys.split()
    page = tab.open("/")
    names = cells(page)
    columns = page.evaluate("getComputedStyle(document.querySelector('.grid')).gridTemplateColumns.split(' ').length")
    page.keyboard.press(right)
    assert tab.focused() == names[0]
    page.keyboard.press(right)
    page.keyboard.press(down)
    assert tab.focused() == names[1 + columns]
    page.keyboard.press(left)
    assert tab.focused() == names[columns]
    page.keyboard.press(left)
    assert tab.focused() == names[columns - 1]  # the end of the row before
    page.keyboard.press(up)
    page.keyboard.press(down)
    page.keyboard.press(up)
    assert names.index(tab.focused()) < 2 * columns
    chosen = tab.focused()
    page.keyboard.press("Enter")
    page.wait_for_selector(".answer")
    assert tab.state()["item"] == chosen
    found = cells(page)
    page.keyboard.press(right)
    assert tab.focused() == found[0]
    page.keyboard.press("Enter")
    until(page, f"document.querySelector('.about h1').textContent === {json.dumps(found[0])}")
    page.keyboard.press("Backspace")
    until(page, f"document.querySelector('.about h1').textContent === {json.dumps(chosen)}")
    page.keyboard.press("Escape")
    page.wait_for_selector(".grid")
    assert tab.focused() == chosen  # where one was before
    page.keyboard.press("n")
    until(page, "location.search === '?page=2'")
    page.keyboard.press("p")
    until(page, "location.search === ''")


def test_without_a_page_before_escape_leads_to_the_catalogue(tab: Tab) -> None:
    page = tab.open("/like?item=hat/p01-0.png&is.category=hat")
    page.keyboard.press("Escape")
    page.wait_for_selector(".grid")
    assert tab.state() == {"is.category": "hat"}


def test_digits_switch_models_and_with_shift_put_them_side_by_side(tab: Tab) -> None:
    page = tab.open("/like?item=hat/p01-0.png&model=coarse")
    assert page.inner_text(".answer h2") == "coarse"
    page.keyboard.press("3")
    until(page, "document.querySelector('.answer h2').textContent === 'pixels'")
    page.keyboard.press("Shift+Digit2")
    page.wait_for_selector(".like.n2")
    page.keyboard.press("Shift+Digit1")
    page.wait_for_selector(".like.n3")
    assert page.eval_on_selector_all(".answer h2", "all => all.map(one => one.textContent)") == [
        "pixels",
        "phash",
        "coarse",
    ]
    tops = page.eval_on_selector_all(".answer", "all => all.map(one => one.getBoundingClientRect().top)")
    assert max(tops) - min(tops) < 1
    page.hover(".answer [data-cell] >> nth=0")
    twins = page.eval_on_selector_all(".twin", "all => new Set(all.map(one => one.title)).size")
    assert twins == 1
    page.keyboard.press("Shift+Digit3")
    page.wait_for_selector(".like.n2")
    assert parse_qs(urlsplit(page.url).query)["model"] == ["phash", "coarse"]
    page.keyboard.press("9")
    page.wait_for_timeout(200)
    assert parse_qs(urlsplit(page.url).query)["model"] == ["phash", "coarse"]


def test_keys_are_explained_and_pictures_shown_in_full(tab: Tab) -> None:
    page = tab.open("/like?item=hat/p01-0.png&model=pixels")
    page.keyboard.press("?")
    assert page.is_visible("#keys")
    page.keyboard.press("3")
    page.keyboard.press("Escape")
    page.wait_for_selector("#keys", state="hidden")
    assert page.is_visible(".answer")  # that Escape was the dialog's
    page.keyboard.press("z")
    page.wait_for_selector("#large img")
    assert "/views/" in page.get_attribute("#large img", "src")
    page.keyboard.press("Escape")
    page.wait_for_selector("#large", state="hidden")
    page.click(".whole")
    page.wait_for_selector("#large img")
    page.click("#large img")
    page.wait_for_selector("#large", state="hidden")
    page.click(".ask")
    assert page.is_visible("#keys")


def test_tie_groups_are_boxed(tab: Tab, study: Study) -> None:
    page = tab.open("/like?item=hat/p01-0.png&model=coarse&k=12")
    looks = Finder(study, "coarse").like_item(study.catalogue.ids.tolist().index("hat/p01-0.png"), 12)
    boxes = page.eval_on_selector_all(
        ".group",
        """all => all.map(box => {
            const outer = box.getBoundingClientRect();
            const inside = [...box.querySelectorAll('.picture')].every((one) => {
                const { left, right, top, bottom } = one.getBoundingClientRect();
                return left >= outer.left && right <= outer.right && top >= outer.top && bottom <= outer.bottom;
            });
            const drawn = getComputedStyle(box).borderTopColor !== 'rgba(0, 0, 0, 0)';
            return [box.querySelectorAll('.picture').length, inside, drawn];
        })""",
    )
    sizes = [int((looks.groups == group).sum()) for group in range(looks.groups[-1] + 1)]
    boxed = [size > 1 or (n == len(sizes) - 1 and looks.more > 0) for n, size in enumerate(sizes)]
    assert boxes == [[size, True, tied] for size, tied in zip(sizes, boxed, strict=True)]
    assert f"and {looks.more} more as near" in page.inner_text(".group:last-child")


def test_a_dropped_picture_is_searched_for_and_its_address_finds_it_again(tab: Tab, study: Study) -> None:
    page = tab.open("/?model=phash&is.category=bag")
    drop(page, (study.path.parent / "photos" / "bag/p03-2.png").read_bytes(), "mine.png")
    page.wait_for_selector(".answer")
    assert page.inner_text(".about h1") == "mine.png"
    assert cells(page)[0] == "bag/p03-2.png"
    state = tab.state()
    assert set(state) == {"picture", "model", "is.category"}
    until(page, "document.querySelector('.whole img').naturalWidth > 0")
    page.reload()
    assert page.inner_text(".about h1") == "mine.png"
    page.click(".hits [data-cell] >> nth=0")
    until(page, "document.querySelector('.about h1').textContent === 'bag/p03-2.png'")
    page.go_back()
    until(page, "document.querySelector('.about h1').textContent === 'mine.png'")
    assert tab.state() == state


def test_a_chosen_picture_is_searched_for(tab: Tab, study: Study) -> None:
    page = tab.open("/like?item=hat/p01-0.png&model=pixels")
    page.set_input_files("#picture", study.path.parent / "photos" / "shoe/p02-2.png")
    until(page, "document.querySelector('.about h1').textContent === 'p02-2.png'")
    assert cells(page)[0] == "shoe/p02-2.png"


def test_what_is_no_picture_is_refused_in_place(browser: Any, address: str) -> None:
    tab = Tab(browser, address)
    page = tab.open("/?model=phash")
    before = page.url
    drop(page, b"not a picture", "<i>notes.txt")
    page.wait_for_selector("#problem, #notice p")
    assert "<i>notes.txt" in page.inner_text("#notice")
    assert "is not an image" in page.inner_text("#notice")
    assert (page.url, len(cells(page))) == (before, 60)
    page.click("#notice button")
    assert not page.is_visible("#notice")
    drop(page, b"", "large.png", padding=33_000_000)
    assert "at most 32" in page.inner_text("#notice")
    page.click(".grid a >> nth=0")
    page.wait_for_selector(".answer")
    assert not page.is_visible("#notice")
    assert [line for line in tab.close() if "422" not in line] == []  # which the browser itself notes


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/", f"{HAT}&model=coarse", f"{HAT}&model=phash&model=pixels", "/nowhere"])
def test_it_fits_a_phone_in_the_light_and_in_the_dark(browser: Any, address: str, path: str, scheme: str) -> None:
    tab = Tab(
        browser, address, viewport=PHONE, color_scheme=scheme, is_mobile=True, has_touch=True, device_scale_factor=2
    )
    page = tab.open(path)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert page.evaluate("visualViewport.width") == PHONE["width"]
    ink, paper = page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    light = {name: sum(map(int, re.findall(r"\d+", colour)[:3])) for name, colour in (("ink", ink), ("paper", paper))}
    assert (light["ink"] > light["paper"]) == (scheme == "dark")
    assert abs(light["ink"] - light["paper"]) > 500
    if path == "/":
        page.tap(".grid a >> nth=1")
        page.wait_for_selector(".answer")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert [line for line in tab.close() if path != "/nowhere" or "404" not in line] == []


def test_it_works_without_scripts(browser: Any, address: str, study: Study) -> None:
    tab = Tab(browser, address, java_script_enabled=False)
    page = tab.open("/")
    page.select_option("select[name='is.category']", "bag")
    page.click(".filters .plainly")
    assert "24 of 72 items" in page.inner_text("h1")
    page.click("[data-model='3']")
    page.click(".grid a >> nth=0")
    assert page.inner_text(".answer h2") == "pixels"
    page.click("[data-beside='2']")
    assert page.locator(".answer h2").all_inner_texts() == ["pixels", "phash"]
    page.set_input_files("#picture", study.path.parent / "photos" / "bag/p03-2.png")
    page.click(".bring .plainly")
    assert page.inner_text(".about h1") == "p03-2.png"
    assert page.request.get(page.get_attribute(".whole", "href")).headers["content-type"] == "image/jpeg"
    assert tab.close() == []


def test_hostile_names_are_text_in_a_browser(browser: Any, tmp_path: Path) -> None:
    study = make_hostile(tmp_path)
    with serving(study, tmp_path / "cache") as address:
        tab = Tab(browser, address)
        page = tab.open("/?order=listed")
        assert cells(page)[0] == study.catalogue.ids[0]
        for place in range(len(study.catalogue)):
            page.click(f".grid a >> nth={place}")
            page.wait_for_selector(".answer")
            assert " ".join(page.inner_text(".about h1").split()) == " ".join(str(study.catalogue.ids[place]).split())
            assert len(cells(page)) == len(study.catalogue) - 1
            page.go_back()
            page.wait_for_selector(".grid")
        assert tab.close() == []


def test_a_server_that_is_gone_is_noticed(browser: Any, study: Study, tmp_path: Path) -> None:
    with serving(study, tmp_path) as address:
        tab = Tab(browser, address)
        page = tab.open("/")
    page.click(".grid a >> nth=0")
    page.wait_for_selector("#notice p")
    assert "is it still running" in page.inner_text("#notice")
    tab.context.close()
