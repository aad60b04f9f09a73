"""The page of a leaderboard holds for hostile names and odd boards, and a browser shows all of it.

A vacuous test would pass on a page that only works with everything there is to show: here pages are made with next to
nothing.
"""

import html
import itertools
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from helpers.leaderboard_pages import (
    BUILDERS,
    QUALITY,
    _room,  # noqa: F401  # makes the folder of the studies
    bare,
    hostile,
    hostile_page,
    odd_pages,
    plain,
    plain_page,
)
from helpers.pages import HOSTILE, Opened, Reader, chromium
from lookalike.metrics.metric import Metric
from lookalike.report.leaderboard import render_leaderboard
from lookalike.report.leaderboard.charts import label_positions

# What may not break it


def test_the_footer_says_where_numbers_come_from() -> None:
    facts = dict(re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>", plain_page().partition('class="facts"')[2]))
    assert facts["rule for votes"] == "majority"
    assert facts["a judgement is about"] == "one image"
    assert (facts["k of the pool"], facts["seed"], facts["ranks looked at"]) == ("4", "0", "4")
    assert facts["made by"].startswith("lookalike ")
    assert facts["charts by"].startswith("Vega ")


def test_hostile_names_stay_text() -> None:
    reader = Reader(hostile_page())
    assert [attrs for tag, attrs in reader.found if tag == "img" or "onerror" in attrs] == []
    assert sum(tag == "script" for tag, _ in reader.found) == 3
    for name in (HOSTILE, f"alpha{HOSTILE}", f"ann{HOSTILE}", hostile().ids[0]):
        assert name in reader.text, name
    assert "{{" not in hostile_page().replace(html.escape("{{data}}"), "").partition('<script type="application')[0]
    policy = next(attrs["content"] for tag, attrs in reader.found if attrs.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "unsafe-eval" not in policy
    harmless, now = (Counter(tag for tag, _ in found) for found in (Reader(plain_page()).found, reader.found))
    assert now == harmless


def test_odd_boards_have_a_page() -> None:
    pages = odd_pages()
    assert "Who built the pool of judged pairs is not known" in pages["two"]
    assert "built the pool</th>" not in pages["two"]
    assert "own out" not in pages["two"].partition("<footer")[0]
    assert "own left out" not in pages["two"].partition("<footer")[0]
    assert not any(f'<section id="{name}"' in pages["two"] for name in ("pool", "changes", "agreement", "disputes"))
    assert 'id="grouping"' not in pages["two"]
    assert "1 model on" in pages["one"]
    assert '<section id="disputes"' not in pages["one"]
    assert "20 models on" in pages["many"]
    assert re.search(r"−0\.\d+ to \+0\.\d+, p [\d.]+; both [^)]*\): too close to call", pages["many"])
    assert pages["many"].count("class='heat'") == 20 * 19
    assert "share the first place by Hit@3" in pages["ranks"]
    assert '<section id="bias"' not in pages["ranks"]
    assert "No model has a value of AUC (macro)" in pages["undefined"]
    for page in pages.values():
        reader = Reader(page)
        assert not re.search(r"\bnan\b", reader.text, re.IGNORECASE)
        assert not any("NaN" in script for script in reader.scripts if script.startswith('{"models"'))
        assert len(page) < 2_500_000


def test_there_must_be_a_model() -> None:
    with pytest.raises(ValueError, match="no model on the leaderboard"):
        render_leaderboard(bare(plain().board, []), title="None")


def test_names_are_put_where_they_cover_nothing() -> None:
    random = np.random.default_rng(2)
    rows = [
        {"model": f"model {n}", "area": x, "hits": y, "without": x} for n, (x, y) in enumerate(random.random((20, 2)))
    ]
    places = label_positions(rows)
    assert 8 <= sum(place is not None for place in places) <= 20
    for row, place in zip(rows, places, strict=True):
        if place is not None:  # a name at the edge stands inside
            assert (place.align == "left") or row["area"] > 0.2
            assert (place.align == "right") or row["area"] < 0.9
    same = [{"model": f"model {n}", "area": 0.5, "hits": 0.5, "without": 0.5} for n in range(9)]
    assert len([place for place in label_positions(same) if place is not None]) <= 6  # each place once


# In a browser


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


def column(page, key: str) -> list[str]:
    place = page.eval_on_selector_all(
        "#comparison thead tr:last-child th", "all => all.map(th => th.dataset.key)"
    ).index(key)
    rows = f"#comparison tr[data-model] > :nth-child({place + 1})"
    return page.eval_on_selector_all(rows, "all => all.map(cell => cell.dataset.v)")


def falling(values: list[str]) -> bool:
    return [float(value) for value in values] == sorted(map(float, values), reverse=True)


def test_a_browser_shows_everything(browser, tmp_path: Path) -> None:
    opened = Opened(browser, tmp_path / "page.html", plain_page())
    page = opened.page
    opened.check()
    assert page.locator("figure[role=group]").count() == 3

    names = column(page, "model")
    assert set(names[:3]) == set(BUILDERS)
    area = page.locator("#comparison th[data-key='On equal terms, Bpref']")
    assert area.get_attribute("aria-sort") == "descending"
    assert falling(column(page, "On equal terms, Bpref")[:3])
    hits = page.locator("#comparison th[data-key='hit rate @4']")
    hits.locator("button").click()
    assert (hits.get_attribute("aria-sort"), area.get_attribute("aria-sort")) == ("descending", "none")
    values = column(page, "hit rate @4")
    assert falling(values[:3])
    assert falling(values[3:])
    hits.locator("button").focus()
    page.keyboard.press("Enter")
    assert hits.get_attribute("aria-sort") == "ascending"
    assert set(column(page, "model")[:3]) == set(BUILDERS)
    area.locator("button").click()
    page.locator("#grouping input[value=all]").check()
    assert falling(column(page, "AUC, macro, own out"))
    assert page.locator("#comparison tr.group:visible").count() == 0
    page.locator("#grouping input[value=groups]").check()
    assert set(column(page, "model")[:3]) == set(BUILDERS)
    assert page.locator("#comparison tr.group:visible").count() == 2

    chosen = str(2 + plain().board.metrics.index(Metric.parse("VSDHR@4")))  # after those without own pairs
    page.locator("#metric").select_option(chosen)
    page.wait_for_selector(f"#bars .chart[data-metric='{chosen}'] svg")
    assert page.locator("#bars .chart:visible").count() == 1
    page.locator("#bars summary").click()
    assert page.locator("#bars details div[data-metric]:visible").count() == 1
    opened.check()

    page.locator(".legend button[data-model='1']").click()
    assert page.locator("#comparison tr.dim").count() == len(QUALITY) - 1
    page.wait_for_function("document.querySelectorAll('#bars .chart:not([hidden]) path[opacity=\"0.12\"]').length > 0")
    page.locator("#metric").select_option("0")
    page.wait_for_function("document.querySelectorAll('#bars .chart:not([hidden]) path[opacity=\"0.12\"]').length > 0")
    page.locator(".legend .everyone").click()
    assert page.locator(".dim").count() == 0
    assert opened.said == []


def test_it_fits_phones_and_darkness(browser, tmp_path: Path) -> None:
    colours = {}
    for scheme in ("light", "dark"):
        path, phone = tmp_path / f"{scheme}.html", {"width": 390, "height": 800}
        opened = Opened(browser, path, plain_page(), viewport=phone, color_scheme=scheme)
        opened.check()
        assert opened.page.evaluate("document.documentElement.scrollWidth") == 390
        style = "e => [getComputedStyle(e).fill, getComputedStyle(document.body).backgroundColor]"
        heat = "e => getComputedStyle(e).backgroundColor"
        colours[scheme] = [*opened.page.eval_on_selector("[data-plot] svg text", style)]
        colours[scheme].append(opened.page.eval_on_selector(".heat", heat))
    assert all(light != dark for light, dark in zip(colours["light"], colours["dark"], strict=True))
    table = "#table .scroll"
    opened.page.eval_on_selector(table, "e => { e.scrollLeft = 300; }")
    assert opened.page.eval_on_selector(table, "e => e.scrollLeft") == 300
    left = "([cell, box]) => cell.getBoundingClientRect().left - box.getBoundingClientRect().left"
    both = [opened.page.query_selector(f"{table} tr[data-model] .stick"), opened.page.query_selector(table)]
    assert 0 <= opened.page.evaluate(left, both) <= 2  # the first column stays
    opened.page.emulate_media(media="print")
    assert opened.page.eval_on_selector("body", "e => getComputedStyle(e).backgroundColor") == "rgb(255, 255, 255)"


@pytest.mark.parametrize("name", ["two", "one", "many", "ranks", "undefined", "hostile"])
def test_a_browser_shows_odd_boards(browser, tmp_path: Path, name: str) -> None:
    phone = {"width": 390, "height": 800}
    opened = Opened(browser, tmp_path / "page.html", odd_pages()[name], viewport=phone)
    assert opened.page.evaluate("document.documentElement.scrollWidth") == 390
    if name == "undefined":
        assert opened.page.locator("#bars .chart:visible").inner_text().endswith("There is no value to draw.")
        opened.page.locator("#metric").select_option(label="hit rate @4")
        opened.page.wait_for_selector("#bars .chart:not([hidden]) svg")
    opened.check()
    names = opened.page.eval_on_selector_all(
        "#bias .mark-text.role-mark text",
        "all => all.map(text => text.getBoundingClientRect()).map(box => [box.left, box.right, box.top, box.bottom])",
    )
    assert len(names) >= {"two": 2, "many": 5, "hostile": 2}.get(name, 0)
    for one, other in itertools.combinations(names, 2):  # no name covers another, by more than the space between lines
        across, down = min(one[1], other[1]) - max(one[0], other[0]), min(one[3], other[3]) - max(one[2], other[2])
        assert across < 1 or down < 3
