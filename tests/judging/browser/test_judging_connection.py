"""Judging in a real browser when the connection, the server, an image or a link goes away."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from helpers.panels import serving
from helpers.tabs import ANSWERABLE, N_PAIRS, NO, SEEN, UNSURE, YES, Site, act, free_port, of, until
from lookalike.study.study import Study


def test_ten_seconds_without_a_connection(tabs: Any, server: Site, study: Study) -> None:
    tab = tabs().judge(server.experts["ann"])
    tab.press("k")
    tab.saved()
    tab.loaded()
    tab.context.set_offline(True)
    tab.press("j", "k", " ")
    until(tab.page, "document.querySelector('#state').textContent === '3 answers wait to be sent'")
    assert tab.page.get_attribute("#state", "data-state") == "waiting"
    assert "4 of 60" in tab.page.inner_text("#own")
    tab.page.wait_for_timeout(10_000)
    assert tab.state() == "3 answers wait to be sent"
    assert of(study.votes(), "ann") == [YES]
    tab.page.keyboard.press("k")  # the images of the next pairs were there already
    until(tab.page, "document.querySelector('#state').textContent === '4 answers wait to be sent'")
    tab.context.set_offline(False)
    tab.saved()
    assert of(study.votes(), "ann") == [YES, NO, YES, UNSURE, YES]
    tab.ready()
    tab.press("j")
    tab.saved()
    assert len(study.votes().last()) == 6


def test_answers_outlast_a_closed_tab(tabs: Any, server: Site, study: Study) -> None:
    tab = tabs().judge(server.experts["ann"])
    tab.loaded()
    tab.context.set_offline(True)
    tab.press("j", "k")
    tab.page.close()
    tab.context.set_offline(False)
    assert len(study.votes()) == 0
    again = tab.another(f"{server.address}/judge")
    again.saved()
    assert of(study.votes(), "ann") == [NO, YES]


def test_a_server_that_ends_and_starts_again(tabs: Any, study: Study) -> None:
    port = free_port()
    with serving(study.path, ["ann"], port=port) as first:
        tab = tabs().judge(first.experts["ann"])
        tab.press("k")
        tab.saved()
        tab.loaded()
    tab.press("j", "j")
    until(tab.page, "document.querySelector('#state').textContent === '2 answers wait to be sent'")
    with serving(study.path, ["ann"], port=port):
        tab.saved()
        tab.press("k")
        tab.saved()
        assert of(study.votes(), "ann") == [YES, NO, NO, YES]
        tab.context.close()


def test_an_answer_that_was_kept_but_not_acknowledged_counts_once(tabs: Any, server: Site, study: Study) -> None:
    tab = tabs().judge(server.experts["ann"])
    lost = []

    def lose(route: Any) -> None:
        route.fetch()  # the server has it
        lost.append(route)
        route.abort("connectionreset") if len(lost) < 3 else route.continue_()

    tab.page.route("**/api/votes", lose)
    tab.press("k")
    tab.saved()
    assert len(lost) == 3
    assert of(study.votes(), "ann") == [YES]
    tab.said[:] = [line for line in tab.said if "ERR_CONNECTION_RESET" not in line]


def test_two_tabs_of_one_expert(tabs: Any, server: Site, study: Study) -> None:
    one = tabs().judge(server.experts["ann"])
    two = one.another(f"{server.address}/judge")
    first = one.shown()
    assert two.shown() == first
    one.press("k")
    two.next(first)
    for tab, other in ((two, one), (one, two)) * 2:
        before = other.shown()
        assert tab.shown() == before
        tab.press("j")
        other.next(before)
    one.saved()
    two.saved()
    votes = study.votes()
    assert of(votes, "ann") == [YES, NO, NO, NO, NO]
    assert len(votes.last()) == 5


def test_an_image_that_is_missing_is_said_to_be_and_can_be_skipped(
    tabs: Any, host: Callable[..., Site], study: Study
) -> None:
    photos = study.path.parent / "photos"
    for name in ("vase-001.png", "vase-005.png", "vase-009.png"):
        (photos / name).unlink()
    server = host("ann")
    tab = tabs().open(server.experts["ann"])
    tab.begin()
    page, n_done = tab.page, "Number.parseInt(document.querySelector('#own [data-count]').textContent)"
    for n_before in range(N_PAIRS):  # up to a pair with a missing image
        until(page, f"{n_done} === {n_before} && {ANSWERABLE} && {SEEN}")
        if page.locator(".lost").count():
            break
        page.keyboard.press("k")
    assert "This image cannot be shown" in page.inner_text(".lost >> nth=0")
    assert page.is_disabled("[data-act=yes]")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(n_done) == n_before
    tab.saved()
    assert of(study.votes(), "ann") == [YES] * n_before
    page.keyboard.press("l")
    until(page, ANSWERABLE)
    tab.saved()
    organiser = tabs().open(server.organiser)
    assert not re.search(r"Missing images\s+0", organiser.page.inner_text("#missing"))
    assert "vase-0" in organiser.page.inner_text("#missing table")
    tab.said[:] = [line for line in tab.said if "404" not in line]  # the browser's own words for it


def test_a_revoked_link_ends_the_page_in_words_and_loses_nothing(tabs: Any, server: Site, study: Study) -> None:
    tab, organiser = tabs().judge(server.experts["bob"]), tabs().open(server.organiser)
    tab.press("k")
    tab.saved()
    tab.loaded()
    act(organiser.page, "bob", "Revoke")
    until(organiser.page, "document.querySelector('#links').innerText.includes('revoked')")
    tab.page.keyboard.press("j")
    until(tab.page, "document.querySelector('#panel').innerText.includes('This link no longer works')")
    said = tab.page.inner_text("#panel")
    assert "taken back" in said
    assert "One answer waits in this browser" in said
    assert tab.page.is_disabled("[data-act=yes]")
    assert of(study.votes(), "bob") == [YES]
    refused = tabs()
    refused.open(server.experts["bob"])
    assert "taken back" in refused.page.inner_text("main")
    act(organiser.page, "bob", "New link")
    until(organiser.page, "!document.querySelector('#links').innerText.includes('revoked')")
    tab.judge(organiser.page.input_value('[aria-label="Link of bob"]'))
    tab.saved()
    assert of(study.votes(), "bob") == [YES, NO]
    for one in (tab, refused):
        one.said[:] = [line for line in one.said if "401" not in line]


def test_what_the_server_refuses_is_said_in_words_and_blocks_nothing(tabs: Any, server: Site, study: Study) -> None:
    tab = tabs().judge(server.experts["ann"])
    page = tab.page
    refusals = [(507, "The disk of the server is full."), (503, "The database cannot be reached at this moment.")]

    def refuse(route: Any) -> None:
        if not refusals:
            return route.continue_()  # type: ignore[no-any-return]
        status, words = refusals[0]
        return route.fulfill(status=status, json={"problem": words})  # type: ignore[no-any-return]

    page.route("**/api/votes", refuse)
    for waiting, (_, words) in enumerate(list(refusals), 1):
        tab.press("k")
        until(page, f"document.querySelector('#notice').innerText.includes({json.dumps(words)})")
        until(page, f"document.querySelector('#state').textContent.startsWith('{waiting} answer')")
        if len(refusals) > 1:
            refusals.pop(0)
    refusals.clear()
    tab.press("j")
    tab.saved()
    until(page, "!document.querySelector('#notice').innerText")
    assert of(study.votes(), "ann") == [YES, YES, NO]
    page.unroute("**/api/votes")

    def enough(route: Any) -> None:
        answer = route.fetch().json()
        for vote in answer["votes"]:
            vote |= {"status": "enough", "words": "Enough others had judged the pair meanwhile."}
        route.fulfill(json=answer)

    page.route("**/api/votes", enough)
    tab.press("k")
    until(page, "document.querySelector('#notice').innerText.includes('Enough others had judged the pair')")
    tab.press("k")
    tab.saved()
    tab.said[:] = [line for line in tab.said if not re.search("50[37]", line)]


def test_what_is_damaged_in_the_browser_does_not_hold_up_the_rest(tabs: Any, server: Site, study: Study) -> None:
    tab = tabs().judge(server.experts["ann"])
    tab.loaded()
    tab.context.set_offline(True)
    tab.press("k", "j")
    tab.page.evaluate(
        """() => {
            const key = Object.keys(localStorage).find((name) => name.startsWith("lookalike/"));
            const entry = JSON.parse(localStorage.getItem(key));
            const [folder, box] = key.split("/");
            const wrong = { ...entry, client: "no-uuid", answer: 7 };
            localStorage.setItem(`${folder}/${box}/no-uuid`, JSON.stringify(wrong));
            localStorage.setItem(`${folder}/${box}/torn`, "{");
            localStorage.setItem("of another page", "stays");
        }"""
    )
    tab.context.set_offline(False)
    tab.saved()
    assert of(study.votes(), "ann") == [YES, NO]
    assert tab.page.evaluate("localStorage.getItem('of another page')") == "stays"
    tab.said[:] = [line for line in tab.said if "422" not in line]
