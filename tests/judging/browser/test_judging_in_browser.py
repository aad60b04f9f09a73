"""Judging in a real browser: keys, clicks, touch, zoom and help."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.panels import serving
from helpers.tabs import GLANCE, KEYS, NO, PHONE, UNSURE, WIDE, YES, Site, check_pace, lasting, middle, of, until
from lookalike.judging.store.store import Store
from lookalike.study.study import Study


def test_three_experts_judge_thirty_pairs_each_by_keyboard(tabs: Any, study: Study) -> None:
    rng = np.random.default_rng(0)
    with serving(study.path, ["ann", "bob", "eve"]) as server:
        experts = {name: tabs().judge(link) for name, link in server.experts.items()}
        pressed: dict[str, list[str]] = {name: [] for name in experts}
        for _ in range(30):
            for name, tab in experts.items():
                pressed[name].append(str(rng.choice(list(KEYS))))
                tab.press(pressed[name][-1])
            tab.page.keyboard.press("q")
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
        tab.page.keyboard.press("q")
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
