"""Notes, flags and verdicts in a real browser, by keyboard and by touch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from helpers.pages import HOSTILE
from helpers.tabs import NO, PHONE, UNSURE, YES, Site, Tab, keep, of, until
from lookalike.judging.store.remarks import all_notes, all_verdicts
from lookalike.judging.store.store import Store
from lookalike.study.study import Study

OPEN, CLOSED = "document.querySelector('#remark').open", "!document.querySelector('#remark').open"

IMAGES = "[...document.querySelectorAll('#stage img')]"
SHOWN = f"{IMAGES}.map((image) => image.alt).join(' ')"


def kept(study: Study) -> list[tuple[str, str, str]]:
    """The notes on disk, by expert, kind and text."""
    with Store.open(None, study) as store:
        return [(note.expert, note.kind, note.text) for note in all_notes(store)]


def test_notes_and_flags_by_keyboard(tabs: Any, server: Site, study: Study) -> None:
    tab = tabs().judge(server.experts["ann"])
    page, keyboard = tab.page, tab.page.keyboard
    first = tab.shown()
    keyboard.press("c")
    until(page, OPEN)
    assert page.evaluate("document.activeElement.id") == "remark-text"
    assert page.is_disabled("[data-remark=send]")
    keyboard.type(f"just like x, jk uz {HOSTILE}")  # keys that judge, were it no field
    keyboard.press("ArrowLeft")
    keyboard.press("Enter")
    keyboard.press("Escape")
    until(page, CLOSED)
    assert (tab.shown(), kept(study)) == (first, [])
    keyboard.press("c")  # what was begun is still there
    keyboard.press("Control+Enter")
    until(page, CLOSED)
    tab.saved()
    assert page.inner_text("#marked") == "Note added"
    assert kept(study) == [("ann", "note", f"just like x, jk uz {HOSTILE[:-1]}\n{HOSTILE[-1:]}")]
    tab.context.set_offline(True)
    keyboard.press("x")
    until(page, OPEN)
    keyboard.type("cut off")
    keyboard.press("Enter")
    until(page, f"{CLOSED} && Object.keys(localStorage).some((key) => key.startsWith('lookalike/'))")
    assert page.get_attribute("[data-act=flag]", "aria-pressed") == "true"
    assert len(kept(study)) == 1  # it waits in this browser
    tab.ready()
    tab.press("ArrowRight")  # what is flagged can be judged
    assert page.inner_text("#marked") == ""
    tab.context.set_offline(False)
    tab.saved()
    assert kept(study)[1:] == [("ann", "flag", "cut off")]
    assert of(study.votes(), "ann") == [YES]
    tab.press("u")
    assert "Flagged" in page.inner_text("#marked")
    page.reload()
    tab.ready()
    tab.press("u")
    until(page, "document.querySelector('#marked').textContent === 'Flagged'")  # this browser remembers it
    keyboard.press("x")
    until(page, OPEN)
    page.click("[data-remark=back]")
    until(page, CLOSED)
    tab.saved()
    assert kept(study)[2:] == [("ann", "unflag", "")]
    assert study.notes().flagged == frozenset()
    bob = tabs().judge(server.experts["bob"])
    assert bob.page.inner_text("#marked") == ""
    assert "just like" not in bob.page.content()


def test_notes_and_flags_by_touch(tabs: Any, server: Site, study: Study) -> None:
    tab = tabs(viewport=PHONE, is_mobile=True, has_touch=True, color_scheme="dark").judge(server.experts["eve"])
    page = tab.page
    for act in ("note", "flag"):
        box = page.locator(f"[data-act={act}]").bounding_box()
        assert min(box["width"], box["height"]) >= 44
        assert page.get_attribute(f"[data-act={act}]", "aria-label")
    page.tap("[data-act=note]")
    until(page, OPEN)
    page.fill("#remark-text", "the neck is longer")
    page.tap("[data-remark=send]")
    until(page, CLOSED)
    page.tap("[data-act=flag]")
    until(page, OPEN)
    page.tap("[data-remark=close]")
    until(page, CLOSED)
    page.tap("[data-act=flag]")
    until(page, OPEN)
    page.tap("[data-remark=send]")
    until(page, CLOSED)
    tab.saved()
    assert kept(study) == [("eve", "note", "the neck is longer"), ("eve", "flag", "")]
    tab.tap("later")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def pair_of(tab: Tab) -> str:
    """The pair that the page of verdicts shows, once its images are there."""
    until(
        tab.page, "[...document.querySelectorAll('#stage img')].every((image) => image.complete && image.naturalWidth)"
    )
    return str(tab.page.evaluate("[...document.querySelectorAll('#stage img')].map((image) => image.alt).join(' ')"))


def do(tab: Tab, act: Callable[[], Any]) -> str:
    """Do something, and wait for another pair."""
    before = pair_of(tab)
    act()
    until(tab.page, f"{SHOWN} !== {before!r} && !document.querySelector('.htmx-request')")
    return pair_of(tab)


def test_verdicts_by_keyboard_and_by_touch(tabs: Any, server: Site, study: Study) -> None:
    for name, answer in (("ann", YES), ("bob", NO)):
        keep(study, name, 4, answer, seconds=2.0)
    tab = tabs().open(server.organiser)
    page, keyboard = tab.page, tab.page.keyboard
    page.click(".settle-line .button")
    first = pair_of(tab)
    second = do(tab, lambda: keyboard.press("ArrowRight"))
    third = do(tab, lambda: keyboard.press("l"))  # skipped
    fourth = do(tab, lambda: keyboard.press(" "))
    assert len({first, second, third, fourth}) == 4
    assert "2 open, 1 skipped, 2 settled" in page.inner_text(".far").replace("\n", " ")
    assert do(tab, lambda: keyboard.press("u")) == third
    assert page.get_attribute("[data-act=unsure]", "aria-pressed") == "true"
    assert do(tab, lambda: keyboard.press("j")) == fourth
    keyboard.press("z")
    until(page, "document.querySelector('#stage').classList.contains('zoomed')")
    assert all(word not in page.inner_text("#judge") for word in ("ann", "bob"))
    keyboard.press("Escape")
    until(page, "location.pathname === '/organise'")
    assert "2 open, 2 with a verdict" in page.inner_text(".settle-line")
    with Store.open(None, study) as store:
        assert [row.answer for row in all_verdicts(store)] == [YES, UNSURE, NO]
        assert sorted(all_verdicts(store).by_pair.values()) == [NO, YES]
    phone = tabs(viewport=PHONE, is_mobile=True, has_touch=True).open(server.organiser)
    phone.page.goto(f"{server.address}/organise/verdicts")
    assert pair_of(phone) == second
    assert phone.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert phone.page.evaluate("document.documentElement.scrollHeight <= innerHeight")
    do(phone, lambda: phone.page.tap("[data-act=no]"))
    phone.page.tap("[data-act=yes]")
    until(phone.page, "document.querySelector('#panel')?.innerText.includes('Every disagreement is settled')")
    assert len(study.verdicts()) == 4
    assert len(study.votes()) == 8
