"""The page Duplicates in Chromium: pairs by keys and by touch, lost connections, the move and its undo."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.copied_photos import copied_study, drawn
from helpers.pages import chromium
from helpers.photos import contents
from lookalike.study.duplicate_decisions import DecisionLog
from lookalike.study.encode import encode_folder
from lookalike.study.study import Study
from web.test_look_browser import PHONE, Tab, serving, until

HOSTILE = "<b>&amp; 'q' \"d\" {{x}}.png"
NEAR = "/duplicates?model=colour&near=0.9"
PAUSE = 140  # ms: a decision about a pair that was on show for less is taken for one about the pair before


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("review")
    study = copied_study(folder, 6)
    photos = folder / "photos"
    drawn(50).save(photos / HOSTILE)
    shutil.copy(photos / HOSTILE, photos / f"zz-{HOSTILE}")
    encode_folder(photos, study.path, model="colour")
    return Study.open(study.path)


@pytest.fixture(scope="module")
def address(study: Study) -> Iterator[str]:
    with serving(study, study.path.parent / "cache") as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def fresh(study: Study) -> Study:
    DecisionLog(study.path).path.unlink(missing_ok=True)
    return study


def opened(tab: Tab, path: str) -> Any:
    page = tab.open(path)
    until(page, "!document.querySelector('#stage').hidden && document.querySelectorAll('.frame img').length === 2")
    page.wait_for_timeout(PAUSE)
    return page


def shown(page: Any) -> list[str]:
    return page.eval_on_selector_all("#stage .name", "all => all.map(one => one.textContent)")  # type: ignore[no-any-return]


def press(page: Any, key: str) -> None:
    page.keyboard.press(key)
    page.wait_for_timeout(PAUSE)


def saved(page: Any, left: int) -> None:
    until(page, f"document.querySelector('#state span').textContent.startsWith('{left} left')")


def test_by_keys_from_the_first_pair_to_the_undo_of_the_move(browser: Any, address: str, fresh: Study) -> None:
    photos = fresh.path.parent / "photos"
    before = contents(photos)
    tab = Tab(browser, address, permissions=["clipboard-read", "clipboard-write"])
    page = opened(tab, "/duplicates")
    assert shown(page) == [HOSTILE, f"zz-{HOSTILE}"]
    saved(page, 7)
    press(page, "ArrowLeft")  # keep A
    press(page, "ArrowRight")  # keep B
    press(page, "n")
    saved(page, 4)
    first = shown(page)
    press(page, "s")
    assert shown(page) != first
    press(page, "u")  # the last decision, not the skip
    saved(page, 5)
    assert shown(page) == ["holiday-by-the-sea-001.png", "zz-copy-001.png"]
    press(page, "p")
    path = page.inner_text("#a .path")
    assert path == str(photos / "holiday-by-the-sea-001.png")
    page.click("#a .copy")
    assert page.evaluate("navigator.clipboard.readText()") == path
    press(page, "z")
    assert page.eval_on_selector("#stage", "one => one.classList.contains('zoomed')")
    page.keyboard.down("h")
    assert page.eval_on_selector("#stage", "one => one.classList.contains('flickering')")
    visible = "[...document.querySelectorAll('.pane')].filter(one => one.checkVisibility({visibilityProperty: true}))"
    assert page.evaluate(f"{visible}.length") == 1
    page.keyboard.up("h")
    assert not page.eval_on_selector("#stage", "one => one.classList.contains('flickering')")
    live = DecisionLog(fresh.path).read().dropped
    assert {name: each.first for name, each in live.items()} == {
        f"zz-{HOSTILE}": HOSTILE, "holiday-by-the-sea-000.png": "sub/zz-copy-000.png"}  # fmt: skip
    press(page, "m")
    until(page, "document.querySelector('#plan-apply').textContent === 'Move 2 files'")
    assert contents(photos) == before
    page.click("#plan-apply")
    until(page, "document.querySelector('#plan-done').innerText.includes('2 files moved')")
    copies = fresh.path.parent / "photos-copies"
    assert contents(photos) | contents(copies) == before
    assert len(contents(copies)) == 2
    page.click("#plan-done button")
    until(page, "document.querySelector('#plan-apply').textContent === 'Move 2 files'")
    assert contents(photos) == before
    shutil.rmtree(copies)
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert page.is_visible("#keys")
    assert tab.close() == []


def test_decisions_wait_for_the_connection_and_the_review_ends(browser: Any, address: str, fresh: Study) -> None:
    tab = Tab(browser, address)
    page = opened(tab, NEAR)
    saved(page, 6)
    page.route("**/duplicates/decide", lambda route: route.abort())
    press(page, "ArrowLeft")
    press(page, "b")
    until(page, "document.querySelector('#state').innerText.includes('2 not saved')")
    page.unroute("**/duplicates/decide")
    saved(page, 5)  # B has two copies now: the small one, whose other copy nobody has compared with it
    assert len(DecisionLog(fresh.path).read().dropped) == 2
    press(page, "s")
    for _ in range(4):
        press(page, "d")
    until(page, "document.querySelector('#panel h1').textContent === '1 skipped'")
    page.click("text=Review the skipped ones")
    until(page, "!document.querySelector('#stage').hidden")
    page.wait_for_timeout(PAUSE)
    press(page, "n")
    until(page, "document.querySelector('#panel h1').textContent.startsWith('All pairs')")
    page.reload()
    until(page, "document.querySelector('#panel h1').textContent.startsWith('All pairs')")  # never asked again
    press(page, "u")
    saved(page, 1)
    allowed = "Failed to load resource: net::ERR_FAILED"
    assert [said for said in tab.close() if allowed not in said] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_by_touch(browser: Any, address: str, fresh: Study, scheme: str, tmp_path: Path) -> None:
    tab = Tab(browser, address, viewport=PHONE, has_touch=True, is_mobile=True, color_scheme=scheme)
    page = opened(tab, NEAR)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    boxes = page.eval_on_selector_all(".say button", "all => all.map(one => one.getBoundingClientRect().toJSON())")
    assert min(min(box["width"], box["height"]) for box in boxes) >= 44
    assert max(box["bottom"] for box in boxes) <= PHONE["height"]
    panes = page.eval_on_selector_all(".frame", "all => all.map(one => one.getBoundingClientRect().toJSON())")
    assert min(box["height"] for box in panes) > 120
    page.tap("[data-act=keep-b]")
    page.wait_for_timeout(PAUSE)
    page.tap("[data-act=apart]")
    saved(page, 5)
    page.wait_for_timeout(PAUSE)
    page.tap("[data-act=undo]")
    saved(page, 6)
    page.tap("#a .frame")
    assert page.eval_on_selector("#stage", "one => one.classList.contains('zoomed')")
    page.tap("[data-act=plan]")
    until(page, "document.querySelector('#plan-apply').textContent === 'Move 1 file'")
    assert tab.close() == []
