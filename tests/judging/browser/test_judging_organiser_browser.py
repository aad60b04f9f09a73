"""The organiser's page in a real browser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from helpers.tabs import NO, PHONE, YES, Site, act, add, keep, until
from lookalike.discovery.votes import Votes
from lookalike.study.study import Study


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
