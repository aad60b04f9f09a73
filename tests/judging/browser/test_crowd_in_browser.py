"""Practice, the guide with pictures and the open link in a real browser, by keyboard and by touch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from helpers.tabs import PHONE, Site, until
from lookalike.judging.pages.links import Keys
from lookalike.judging.pages.sessions import open_link
from lookalike.judging.store.crowd import member_of, open_crowd
from lookalike.judging.store.gates import CrowdTerms
from lookalike.judging.store.practice import Practice, PracticePair, set_practice
from lookalike.judging.store.store import Store
from lookalike.study.study import Study

PRACTICE = Practice(
    (
        PracticePair("vase-000.png", "vase-001.png", 1, "The same form, and the same bands."),
        PracticePair("vase-000.png", "vase-040.png", 0, "Another form: <b>look</b> at the neck."),
    ),
    1.0,
)
GUIDE = "# Forms\n\n![the query](item:vase-000.png) ![alike](item:vase-001.png)\n\nThe **form** counts."
SHOWN = "document.querySelector('#say button:not([disabled])') && performance.now() - ready > 170"
TOLD = "document.querySelector('#feedback').offsetParent !== null"


def right_answers(name: str, number: int) -> list[int]:
    return [pair.answer for pair in PRACTICE.in_order(name, number)]


def test_practice_by_keyboard_then_the_pairs(tabs: Any, host: Callable[..., Site], study: Study) -> None:
    site = host("ann", "bob", budget=3, experts_per_pair=1)
    with Store.open(None, study) as store:
        set_practice(store, PRACTICE)
        store.brief(guide=GUIDE)
    tab = tabs().open(site.experts["ann"])
    page, keys = tab.page, {1: "ArrowRight", 0: "j", -1: " "}
    assert page.url.endswith("/practice")
    assert "First, some practice" in page.inner_text("#keys")
    page.keyboard.press("Enter")
    for place, right in enumerate(right_answers("ann", 1)):
        until(page, SHOWN)
        assert page.inner_text("#where") == f"Practice, {place + 1} of 2"
        page.keyboard.press(keys[-1] if place == 0 else keys[right])
        until(page, TOLD)
        said = page.inner_text("#feedback")
        assert ("Not quite" in said) == (place == 0)
        assert ("The same form" if right else "Another form: <b>look</b>") in said
        page.keyboard.press("g")  # the guide, at any time
        until(page, "document.querySelector('#guide').open")
        until(page, "[...document.querySelectorAll('#guide img')].every(image => image.naturalWidth)")
        assert page.locator("#guide figcaption").all_inner_texts() == ["the query", "alike"]
        boxes = [box.bounding_box() for box in page.locator("#guide figure").all()]
        assert boxes[0]["y"] == boxes[1]["y"]  # side by side
        page.keyboard.press("g")
        until(page, "!document.querySelector('#guide').open")
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("Enter")
    until(page, "document.querySelector('#again')")
    assert "1 of 2 right" in page.inner_text("#panel")
    assert "organiser sees this" in page.inner_text("#panel")
    page.keyboard.press("Enter")  # again, in another order or the same
    for right in right_answers("ann", 2):
        until(page, SHOWN)
        page.keyboard.press(keys[right])
        until(page, TOLD)
        assert "Right" in page.inner_text("#feedback")
        page.keyboard.press("Enter")
    until(page, "location.pathname === '/judge' && document.querySelector('#keys[open]')")
    assert len(study.votes()) == 0
    tab.begin()
    tab.press("ArrowRight")
    page.keyboard.press("g")
    until(page, "document.querySelector('#guide').open && hiddenSince !== null")  # the time is not the pair's
    assert page.locator("#guide img").count() == 2
    page.keyboard.press("Escape")
    until(page, "hiddenSince === null")
    tab.press("ArrowLeft")
    tab.saved()
    assert len(study.votes()) == 2


def test_the_open_link_by_touch_until_the_code(tabs: Any, host: Callable[..., Site], study: Study) -> None:
    site = host("ann", experts_per_pair=2)
    with Store.open(None, study) as store:
        set_practice(store, PRACTICE)
        open_crowd(store, CrowdTerms("C0DE-4711", pairs_each=3))
    link = open_link(Keys.of(study.path), 1, site.address)
    tab = tabs(viewport=PHONE, is_mobile=True, has_touch=True, color_scheme="dark").open(f"{link}?PROLIFIC_PID=5f1a")
    page = tab.page
    assert "5f1a" in page.inner_text("main")
    page.tap("main button")
    until(page, "location.pathname === '/practice' && document.querySelector('#keys[open]')")
    page.tap("#keys form button")
    for right in right_answers("crowd-0001", 1):
        until(page, SHOWN)
        page.tap(f"[data-answer='{right}']")
        until(page, TOLD)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.tap("#on")
    until(page, "location.pathname === '/judge' && document.querySelector('#keys[open]')")
    tab.begin()
    assert page.is_hidden("#all")
    for name in ("yes", "no", "unsure"):
        tab.ready()
        before = tab.shown()
        page.tap(f"[data-act={name}]")
        if name != "unsure":
            tab.next(before)
    until(page, "location.pathname === '/end'")
    assert page.input_value(".code input") == "C0DE-4711"
    page.tap("[data-copy]")
    until(page, "document.querySelector('[data-copy]').textContent === 'Copied'")
    assert sorted(study.votes().answers.tolist()) == [-1, 0, 1]
    with Store.open(None, study) as store:
        member = member_of(store, "crowd-0001")
    assert member is not None
    assert (member.participant, member.completed is not None) == ("5f1a", True)
    page.goto(link)  # opened again in the same browser: the same person
    until(page, "location.pathname === '/end'")
    organiser = tabs().open(site.organiser)
    assert "1 of at most 100" in organiser.page.inner_text("#crowd")
    organiser.page.locator("#crowd tbody summary").click()
    organiser.page.locator("#crowd tbody form button").click()
    until(organiser.page, "document.querySelector('#crowd tbody .chip').textContent === 'revoked'")
