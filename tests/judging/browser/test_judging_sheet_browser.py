"""Sheets of candidates in a real browser: by keyboard, by touch, without a connection, with images that are missing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.panels import make_vases
from helpers.tabs import NO, PHONE, UNSURE, YES, Site, Tab, check_pace, middle, of, until
from lookalike.judging.store.sheets import count_votes_on_sheets, set_layout
from lookalike.judging.store.store import Store
from lookalike.study.study import Study

N = 10  # candidates of each query
SHORT = PHONE | {"height": 700}  # so that some candidates are out of view
SHEET = "sheet && complete && performance.now() - visible > 520 && !document.querySelector('#confirm').disabled"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sheets")
    study = make_vases(folder, side=240, k=N)
    with Store.open(None, study) as store:
        set_layout(store, "sheet")
    return folder


def judge(tab: Tab, link: str) -> Any:
    tab.open(link).begin()
    until(tab.page, SHEET)
    return tab.page


def levels(page: Any) -> str:
    """What is said of each candidate: l(ow), m(id), h(igh) or u(nsure)."""
    return "".join(page.evaluate("[...document.querySelectorAll('.cell')].map(cell => cell.dataset.level[0])"))


def confirm(page: Any) -> None:
    """Confirm a sheet by its key, and wait for the next one."""
    until(page, SHEET)
    before = page.evaluate("JSON.stringify(sheet.tasks.map(task => task.pair))")
    page.keyboard.press("Enter")
    until(page, f"JSON.stringify(sheet?.tasks.map(task => task.pair)) !== '{before}'")


def test_sheets_by_keyboard(tabs: Any, server: Site, study: Study) -> None:
    tab = tabs()
    page = judge(tab, server.experts["ann"])
    assert page.locator(".cell").count() == N
    assert page.evaluate("document.activeElement === cells.get(shown)")
    first = page.evaluate("sheet.tasks.map(task => task.pair)")
    columns = page.evaluate("columns")
    page.keyboard.press("Space")  # the first candidate
    page.keyboard.press("ArrowDown")  # the first of the second row
    page.keyboard.press("t")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    page.keyboard.press("Space")  # taken back
    page.keyboard.press("ArrowRight")
    page.keyboard.press("k")  # and goes on
    page.keyboard.press("k")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("j")
    expected = ["l"] * N
    expected[0], expected[columns], expected[columns + 2] = "h", "u", "h"
    assert levels(page) == "".join(expected)
    assert page.inner_text("#confirm small") == f"2 similar, {N - 3} not similar, 1 can’t tell"
    label = page.locator(".cell").nth(columns).get_attribute("aria-label")
    assert label == f"Candidate {columns + 1} of {N}: Can’t tell"
    page.keyboard.press("Control+Enter")
    page.evaluate("dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', repeat: true }))")
    assert page.evaluate("sheet.tasks.map(task => task.pair)") == first
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")  # a double press must not answer the next sheet
    until(page, SHEET)
    tab.saved()
    answers = [{"l": NO, "h": YES, "u": UNSURE}[one] for one in expected]
    assert of(study.votes(), "ann") == answers
    seconds = study.votes().seconds
    assert len(set(seconds.tolist())) == 1  # each has its share
    assert 0.05 < seconds[0] * N < 120
    with Store.open(None, study) as store:
        assert count_votes_on_sheets(store) == N

    page.keyboard.press("1")  # of the second sheet: set, not lifted
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    second = page.evaluate("sheet.tasks.map(task => task.pair)")
    page.keyboard.press("u")
    until(page, f"sheet.before.size === {N} && {SHEET}")
    assert page.evaluate("sheet.tasks.map(task => task.pair)") == first
    assert levels(page) == "".join(expected)
    page.keyboard.press("Space")
    confirm(page)
    assert page.evaluate("sheet.tasks.map(task => task.pair)") == second
    assert levels(page) == "lh" + "l" * (N - 2)  # as it was left
    tab.saved()
    assert of(study.votes(), "ann") == [*answers, NO]  # what was not changed is not sent again

    until(page, SHEET)
    page.keyboard.press("l")
    until(page, f"sheet.tasks.length === {N - 1}")
    page.keyboard.press("u")
    until(page, f"sheet.tasks.length === {N} && shown === sheet.tasks[0]")
    page.keyboard.press("l")
    confirm(page)
    tab.saved()
    with Store.open(None, study) as store:
        assert [row["later"] for row in store.status().experts] == [1, 0, 0]
    assert len(study.votes()) == N + 1 + N - 1
    page.reload()
    until(page, SHEET)
    page.keyboard.press("u")  # also after the page was loaded anew
    until(page, f"sheet.before.size === {N - 1}")


def test_a_candidate_beside_the_query_and_the_help(tabs: Any, server: Site) -> None:
    page = judge(tabs(), server.experts["ann"])
    page.keyboard.press("ArrowRight")
    page.keyboard.press("z")
    large = (
        "document.querySelector('#item img')?.src.includes('/picture/item/')"  # the small one stands in for it at first
    )
    until(page, f"{large} && document.querySelector('#item img').naturalWidth > 0")
    boxes = [page.locator(f"#{side}").bounding_box() for side in ("query", "item")]
    assert boxes[0]["width"] == pytest.approx(boxes[1]["width"], abs=2)
    assert boxes[0]["width"] > 580
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    assert page.inner_text("#item figcaption") == f"Candidate 3 of {N}: Similar"
    page.keyboard.press("Enter")  # back, and nothing is confirmed
    until(page, "!document.querySelector('#stage').classList.contains('close')")
    assert levels(page) == "llh" + "l" * (N - 3)
    page.mouse.move(*middle(page, ".cell:nth-child(5)"))
    page.mouse.down()
    until(page, "document.querySelector('#stage').classList.contains('close')")  # held
    page.mouse.up()
    page.keyboard.press("Escape")
    assert levels(page) == "llh" + "l" * (N - 3)
    page.click(".cell:nth-child(5)")
    assert levels(page) == "llhlh" + "l" * (N - 5)
    page.keyboard.press("?")
    words = page.inner_text("#keys")
    assert "count as “Not similar”" in words
    assert "1 not similar, 2 similar" in words
    assert page.locator("#keys kbd").evaluate_all("all => all.every(key => key.checkVisibility())")


def test_a_sheet_is_not_confirmed_before_its_images_are_there(tabs: Any, server: Site, study: Study) -> None:
    tab = tabs()
    waiting: list[Any] = []
    tab.page.route("**/picture/tile/*", lambda route: waiting.append(route) if not waiting else route.continue_())
    tab.open(server.experts["ann"]).begin()
    until(tab.page, f"sheet && cells.size === {N} && document.querySelectorAll('.cell img').length >= {N - 1}")
    tab.page.wait_for_timeout(600)
    assert tab.page.is_disabled("#confirm")
    tab.page.keyboard.press("Enter")
    tab.page.keyboard.press("Space")
    assert levels(tab.page) == "l" * N
    waiting[0].continue_()
    until(tab.page, SHEET)
    tab.saved()
    assert len(study.votes()) == 0
    confirm(tab.page)
    tab.saved()
    assert of(study.votes(), "ann") == [NO] * N


def test_a_missing_image_is_never_called_not_alike(tabs: Any, host: Callable[..., Site], study: Study) -> None:
    gone, query = study.pool().pairs[0][1], study.pool().pairs[N][0]  # of the first sheet, and of the second
    for name in (gone, query):
        (study.path.parent / "photos" / name).unlink()
    tab = tabs()
    page = judge(tab, host("ann").experts["ann"])
    for _ in range(2):
        until(page, SHEET)
        for cell in page.locator(".cell:has(.lost)").all():
            assert "cannot be shown" in cell.get_attribute("aria-label")
            cell.click()  # does not lift it
        confirm(page)
    tab.saved()
    votes = study.votes()
    assert len(votes) == 2 * N
    lost = [pair for pair in votes.pairs if pair[1] in (gone, query) or pair[0] in (gone, query)]
    unsure = [pair for pair, answer in zip(votes.pairs, votes.answers.tolist(), strict=True) if answer == UNSURE]
    assert sorted(unsure) == sorted(lost)
    assert len(lost) >= N + 1
    with Store.open(None, study) as store:
        told = {row["query"] if row["side"] == "query" else row["item"] for row in store.status().missing}
    assert told == {gone, query}
    tab.said[:] = [line for line in tab.said if "404" not in line]


def test_sheets_without_a_connection_and_in_two_tabs(tabs: Any, server: Site, study: Study) -> None:
    tab = tabs()
    page = judge(tab, server.experts["ann"])
    until(page, f"tasks.length === {2 * N} && [...pictures.values()].every(one => one.state === 'ready')")
    tab.context.set_offline(True)
    page.keyboard.press("Space")
    confirm(page)
    until(page, SHEET)
    page.keyboard.press("Enter")
    until(page, "document.querySelector('#panel').innerText.includes('No connection')")
    assert f"{2 * N} answers wait" in tab.state()
    tab.context.set_offline(False)
    tab.saved()
    assert of(study.votes(), "ann") == [YES] + [NO] * (2 * N - 1)
    until(page, SHEET)
    other = tab.context.new_page()  # the same sheet in a second tab goes when it is confirmed in the first
    other.goto(page.url)
    until(other, SHEET)
    assert other.evaluate("sheet.tasks.map(task => task.pair)") == page.evaluate("sheet.tasks.map(task => task.pair)")
    shown = other.evaluate("sheet.tasks[0].pair")
    page.bring_to_front()
    confirm(page)
    until(other, f"sheet && sheet.tasks[0].pair !== {shown}")
    tab.saved()
    assert len(study.votes()) == len(study.votes().last()) == 3 * N


def test_sheets_on_a_phone_by_touch(tabs: Any, server: Site, study: Study) -> None:
    tab = tabs(viewport=SHORT, is_mobile=True, has_touch=True, device_scale_factor=2)
    page = judge(tab, server.experts["eve"])
    box, top = page.locator("#confirm").bounding_box(), page.locator("#query").bounding_box()
    assert box["height"] >= 44
    assert SHORT["height"] - 100 < box["y"] + box["height"] <= SHORT["height"]
    assert top["height"] < 0.3 * SHORT["height"]
    assert page.evaluate("columns") in (2, 3)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert min(page.locator(".cell").first.bounding_box().values()) >= 0
    page.tap(".cell:nth-child(2)")
    page.tap(".cell:nth-child(4)")
    page.tap("[data-act=unsure]")  # of the one that was touched last
    assert levels(page) == "lhlu" + "l" * (N - 4)
    before = page.evaluate("sheet.tasks.map(task => task.pair)")
    assert "more below" in page.inner_text("#confirm")
    page.tap("#confirm")  # shows those that were not in view
    until(page, "document.querySelector('#confirm').innerText.startsWith('Confirm')")
    assert page.locator("#query").bounding_box() == top  # it stays
    assert page.evaluate("sheet.tasks.map(task => task.pair)") == before
    x, y = middle(page, ".cell:last-child")
    touch = tab.context.new_cdp_session(page)
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
    until(page, "document.querySelector('#stage').classList.contains('close')")
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.wait_for_timeout(100)
    page.tap("#item .frame")  # a tap marks here too
    assert page.inner_text("#item figcaption") == f"Candidate {N} of {N}: Similar"
    page.tap(".shut")
    assert levels(page) == "lhlu" + "l" * (N - 5) + "h"
    page.tap("#confirm")
    until(page, f"sheet?.tasks[0].pair !== {before[0]} && {SHEET}")
    tab.saved()
    assert of(study.votes(), "eve") == [NO, YES, NO, UNSURE, *[NO] * (N - 5), YES]
    page.tap("[data-act=undo]")
    until(page, f"sheet.tasks[0].pair === {before[0]} && {SHEET}")
    for width, height in ((844, 390), (360, 640), (320, 568)):
        page.set_viewport_size({"width": width, "height": height})
        until(page, f"document.documentElement.clientWidth === {width}")
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate("document.documentElement.scrollHeight <= innerHeight")
        assert page.locator(".cell").first.bounding_box()["width"] >= 90


def test_any_number_of_steps(tabs: Any, server: Site) -> None:
    tab = tabs()
    steps = ["Not alike", "Related", "Alike", "The same"]

    def with_steps(route: Any) -> None:
        answer = route.fetch()
        text = re.sub(r'data-steps="[^"]*"', f"data-steps='{json.dumps(steps)}'", answer.text())
        assert "Related" in text
        route.fulfill(response=answer, body=text)

    tab.open(server.experts["ann"])
    tab.page.route("**/judge", with_steps)
    page = judge(tab, f"{server.address}/judge")
    for taps, level in enumerate("lmmhl"):
        assert levels(page)[0] == level, taps
        page.keyboard.press("Space")
    page.keyboard.press("4")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("3")
    page.keyboard.press("5")  # no such step
    page.keyboard.press("ArrowRight")
    page.keyboard.press("0")
    assert page.inner_text("#confirm small") == f"1 the same, 1 alike, {N - 3} not alike, 1 can’t tell"
    tab.context.set_offline(True)
    confirm(page)
    assert page.evaluate("waiting().map(vote => vote.answer)") == [3, 2, -1, *[0] * (N - 3)]


def test_the_next_sheet_is_there_within_100_ms(tabs: Any, server: Site) -> None:
    tab = tabs()
    page = judge(tab, server.experts["ann"])
    took = []
    for _ in range(8):
        page.evaluate("delete stage.dataset.took")
        confirm(page)
        until(page, "stage.dataset.took")
        took.append(float(page.evaluate("stage.dataset.took")))
        page.keyboard.press("q")
    until(page, "idle.length === 8")
    check_pace(took, page.evaluate("idle"))
