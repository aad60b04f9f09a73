"""Words, chips and names in Chromium, by keyboard and by touch, on a desk and on a phone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from helpers.pages import chromium
from helpers.word_pairs import make_words_study
from web.test_look_browser import PHONE, Tab, serving, until

RED_THREE = "red/three-0003.png"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    study = make_words_study(tmp_path_factory.mktemp("words-browser"), 120)
    with serving(study, study.path.parent / "cache") as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


def items(page: Any) -> list[str]:
    return [str(name) for name in page.eval_on_selector_all("[data-cell]", "all => all.map(one => one.title)")]


def labels(page: Any) -> list[str]:
    return [re.sub(r"\s+", " ", text).strip() for text in page.locator(".part > span").all_inner_texts()]


def test_by_keyboard(browser: Any, address: str) -> None:
    tab = Tab(browser, address)
    page = tab.page
    page.goto(address)
    page.keyboard.press("/")  # names, as one types
    page.keyboard.type("THREE-00")
    page.wait_for_url("**/?q=THREE-00")
    assert all("three-00" in name for name in items(page))
    assert "by file name" in page.inner_text("#summary")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")  # looks
    assert page.is_visible("#by-hint")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Control+a")
    page.keyboard.type("three")
    page.wait_for_timeout(500)
    assert "words" not in page.url  # looks wait for Enter
    page.keyboard.press("Enter")
    page.wait_for_url("**/like?words=three*")
    assert labels(page) == ["words three"]
    page.focus("#more")
    page.keyboard.type("red")
    page.keyboard.press("Enter")
    page.wait_for_selector(".part:nth-child(2)")
    page.focus("#more")
    page.keyboard.type("blue")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # without
    page.wait_for_selector(".part.minus")
    assert labels(page) == ["words three", "words red", "without blue"]
    assert all(name.startswith("red/three") for name in items(page)[:3])
    page.focus(".part:nth-child(2) .remove")
    page.keyboard.press("Delete")
    until(page, "document.querySelectorAll('.part').length === 2")
    assert labels(page) == ["words three", "without blue"]
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Remove without blue"
    page.keyboard.press("Backspace")
    until(page, "document.querySelectorAll('.part').length === 1")
    page.go_back()
    until(page, "document.querySelectorAll('.part').length === 2")
    page.fill("#q", "− red")
    page.press("#q", "Enter")
    page.wait_for_selector("#notice p")
    assert "begin with what to find" in page.inner_text("#notice")
    assert len(labels(page)) == 2  # the page stays
    assert [line for line in tab.said if "422" not in line] == []
    tab.context.close()


def test_by_touch_on_a_phone_in_the_dark(browser: Any, address: str) -> None:
    tab = Tab(browser, address, viewport=PHONE, has_touch=True, color_scheme="dark")
    page = tab.page
    page.goto(f"{address}/like?item={RED_THREE}")
    page.tap("#more")
    page.keyboard.type("red")
    page.tap(".refine button[value='-']")
    page.wait_for_selector(".part.minus")
    assert labels(page) == [f"picture {RED_THREE}", "without red"]
    page.fill("#more", "<b>blue</b>")
    page.tap(".refine button[value='+']")
    page.wait_for_selector(".part:nth-child(3)")
    assert labels(page)[2] == "words <b>blue</b>"
    box = page.locator(".part .remove").last.bounding_box()
    assert min(box["width"], box["height"]) >= 44
    page.tap(".part:nth-child(3) .remove")
    until(page, "document.querySelectorAll('.part').length === 2")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.tap(".by label:first-of-type")
    page.fill("#q", "zero")
    page.wait_for_url("**/?q=zero*")
    assert all("zero" in name for name in items(page))
    assert tab.said == []
    tab.context.close()


def test_without_scripts(browser: Any, address: str) -> None:
    tab = Tab(browser, address, java_script_enabled=False)
    page = tab.page
    page.goto(address)
    page.check(".by input[value=looks]", force=True)
    page.fill("#q", "three")
    page.click(".search .plainly")
    assert labels(page) == ["words three"]
    page.fill("#more", "red")
    page.click(".refine button[value='-']")
    assert labels(page) == ["words three", "without red"]
    page.click(".part:nth-child(2) .remove")
    assert labels(page) == ["words three"]
    tab.context.close()
