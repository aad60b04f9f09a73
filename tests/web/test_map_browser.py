"""The map and the basket in Chromium, from a server of its own: lasso, box, keys, touch, other tabs, CSV.

Coordinates of items come from the page itself; what is selected is compared with the geometry done here.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from helpers.pages import chromium
from lookalike.datasets import load
from lookalike.study.encode import encode_folder
from lookalike.study.map import make_map
from lookalike.study.study import Study
from lookalike.study.tags import read_tags
from web.test_look_browser import PHONE, Tab, cells, serving, until

N = 300
READY = "document.querySelector('#map')?.dataset.ready === 'yes'"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("digits")
    digits = load("digits")
    for number in range(N):
        path = folder / "photos" / str(digits.labels[number]) / f"{number:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((digits.pixels([number])[0].reshape(8, 8) * 255).astype(np.uint8)).save(path)
    encode_folder(folder / "photos", folder / "study", model="pixels")
    made = Study.open(folder / "study")
    make_map(made, "pixels")
    return made


@pytest.fixture(scope="module")
def address(study: Study) -> Iterator[str]:
    with serving(study, study.path.parent / "cache") as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def tab(browser: Any, address: str) -> Iterator[Tab]:
    opened = Tab(browser, address)
    yield opened
    assert opened.close() == []


def on_map(tab: Tab, path: str = "/map") -> Any:
    page = tab.open(path)
    until(page, READY)
    until(page, "document.querySelector('#map').view().loading === 0")
    return page


def seen(page: Any) -> dict[str, tuple[float, float]]:
    """Where each item is, from the corner of the canvas."""
    return {name: (x, y) for name, x, y in page.evaluate("document.querySelector('#map').view().points")}


def picked(page: Any) -> list[str]:
    key = page.get_attribute("#basket", "data-study")
    held = page.evaluate("key => JSON.parse(localStorage.getItem(`lookalike-basket ${key}`) ?? '[]')", key)
    return sorted(held)


def drag(page: Any, *points: tuple[float, float]) -> None:
    box = page.locator(".stage canvas").bounding_box()
    page.mouse.move(box["x"] + points[0][0], box["y"] + points[0][1])
    page.mouse.down()
    for x, y in points[1:]:
        page.mouse.move(box["x"] + x, box["y"] + y, steps=4)
    page.mouse.up()


def test_lasso_box_and_keys_select_what_they_should(tab: Tab) -> None:
    page = on_map(tab)
    places = seen(page)
    assert len(places) == N
    box = page.locator(".stage canvas").bounding_box()
    w, h = box["width"], box["height"]
    page.click("[data-mode=lasso]")
    drag(page, (w * 0.5, 2), (w - 2, h * 0.5), (w * 0.5, h - 2))  # a triangle
    wide = {name: (h / 2 - 2) * (1 - (x - w / 2) / (w / 2 - 2)) for name, (x, _) in places.items()}
    inside = {name for name, (x, y) in places.items() if x > w * 0.5 and abs(y - h / 2) < wide[name]}
    assert len(inside) > 20
    assert len(inside.symmetric_difference(picked(page))) <= 2  # on the line itself
    assert f"{len(picked(page))} selected" in page.inner_text("#basket")
    before = set(picked(page))
    page.click("[data-mode=box]")
    page.keyboard.down("Alt")
    drag(page, (w * 0.5, 1), (w - 1, h * 0.5))
    page.keyboard.up("Alt")
    assert {name for name in before if places[name][1] > h * 0.5 + 1} <= set(picked(page)) < before
    page.click("[data-part=clear]")
    assert picked(page) == []
    page.focus(".stage canvas")
    page.keyboard.press("m")
    page.keyboard.press("ArrowRight")
    first = page.inner_text(".tip b")
    page.keyboard.press("x")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    assert first in picked(page)
    assert len(picked(page)) == 2
    page.keyboard.press("a")
    assert len(picked(page)) == N
    page.keyboard.press("Enter")
    page.wait_for_selector(".answer")
    page.go_back()
    until(page, READY)
    assert "300 selected" in page.inner_text("#basket")
    page.click("[data-part=clear]")


def test_zoom_pan_and_legend(tab: Tab) -> None:
    page = on_map(tab)
    before = seen(page)
    page.locator(".stage canvas").hover(position={"x": 400, "y": 200})
    page.mouse.wheel(0, -240)
    until(page, "(({ scale, fit }) => scale > 1.3 * fit)(document.querySelector('#map').view())")
    page.click("[data-zoom=fit]")
    drag(page, (300, 200), (360, 230))
    after = seen(page)
    assert all(abs(after[name][0] - x - 60) < 1 and abs(after[name][1] - y - 30) < 1 for name, (x, y) in before.items())
    page.click(".legend button >> nth=3")
    until(page, "document.querySelector('#map').view().items <= 31")
    assert page.eval_on_selector_all(".legend [aria-pressed=true]", "all => all.length") == 1
    page.click("[data-all]")
    assert {name.split("/")[0] for name in picked(page)} == {"3"}
    page.click("[data-part=clear]")
    inside = on_map(tab, "/map?is.category=7")
    assert "of 300" in inside.inner_text("h1")
    assert inside.evaluate("document.querySelector('#map').view().items") < 40


def test_the_basket_by_keys_to_tags_and_csv(tab: Tab, study: Study) -> None:
    page = tab.open("/")
    names = cells(page)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("x")
    for _ in range(3):
        page.keyboard.press("Shift+ArrowRight")
    assert picked(page) == sorted(names[:4])
    page.keyboard.press("Shift+ArrowLeft")
    assert picked(page) == sorted(names[:3])
    page.hover(".grid li:nth-child(6)")
    page.click(".grid li:nth-child(6) .check")
    page.click(".grid li:nth-child(8) .card", modifiers=["Shift"])
    assert picked(page) == sorted([*names[:3], *names[5:8]])
    beside = page.context.new_page()
    beside.goto(tab.address)
    assert "6 selected" in beside.inner_text("#basket")
    beside.keyboard.press("ArrowRight")
    beside.keyboard.press("x")
    until(page, "document.querySelector('#basket').innerText.includes('5 selected')")
    beside.keyboard.press("x")
    until(page, "document.querySelector('#basket').innerText.includes('6 selected')")
    page.keyboard.press("b")
    page.keyboard.type("<b>=nice</b>")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('#notice').innerText.includes('6 items got the tag')")
    assert sorted(read_tags(study).ids("<b>=nice</b>")) == picked(page)
    page.reload()
    assert "6 selected" in page.inner_text("#basket")
    page.focus("[data-part=export]")
    page.keyboard.press("Enter")
    with page.expect_download() as downloading:
        page.keyboard.press("Enter")  # the first choice is CSV
    rows = list(csv.DictReader(io.StringIO(Path(downloading.value.path()).read_text())))
    assert sorted(row["id"] for row in rows) == picked(page)
    assert {row["study_tags"] for row in rows} == {"<b>=nice</b>"}
    page.select_option("select[name=tag]", "<b>=nice</b>")
    until(page, "document.querySelector('h1').textContent.includes('6 of 300')")
    assert sorted(cells(page)) == picked(page)
    page.click("[data-part=export]")
    page.click("[data-export=queries]")
    page.wait_for_selector("#replace[open]")
    assert "300 queries now" in page.inner_text("#replace-words")
    page.keyboard.press("Escape")
    assert len(Study.open(study.path).queries) == N
    page.click("[data-part=clear]")


def test_a_finger_selects_on_grid_and_map(browser: Any, address: str) -> None:
    opened = Tab(browser, address, viewport=PHONE, has_touch=True, is_mobile=True, color_scheme="dark")
    page = opened.open("/")
    page.tap(".grid li:nth-child(2) .check")
    assert len(picked(page)) == 1
    on_map(opened)
    places = seen(page)
    box = page.locator(".stage canvas").bounding_box()
    page.locator(".stage canvas").scroll_into_view_if_needed()
    box = page.locator(".stage canvas").bounding_box()
    middle = min(places.values(), key=lambda at: abs(at[0] - box["width"] / 2) + abs(at[1] - 150))
    page.touchscreen.tap(box["x"] + middle[0], box["y"] + middle[1])
    page.wait_for_selector(".tip.held button")
    page.tap(".tip button")
    assert len(picked(page)) == 2
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.tap("[data-part=clear]")
    assert opened.close() == []
